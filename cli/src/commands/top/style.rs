//! The colors of the screen. If the variable `NO_COLOR` is set (<https://no-color.org>), only bold,
//! dim and reverse are used.

use ratatui::style::{Color, Modifier, Style};

use super::table::Health;

/// The meaning of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tone {
    /// A text.
    Plain,
    /// A heading.
    Title,
    /// Less important.
    Faint,
    /// Healthy.
    Good,
    /// Worth a look.
    Warning,
    /// Wrong.
    Bad,
}

/// A line with its meaning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Styled {
    /// The text, printable.
    pub text: String,
    /// The meaning.
    pub tone: Tone,
}

impl Styled {
    /// Creates a line.
    pub fn new(text: String, tone: Tone) -> Self {
        Self { text, tone }
    }
}

/// The colors.
#[derive(Clone, Copy, Debug)]
pub struct Palette {
    /// False for bold, dim and reverse only.
    pub has_colors: bool,
}

impl Palette {
    /// Returns the style of a text.
    pub fn style(self, tone: Tone) -> Style {
        let style = Style::new();
        let colored = |color: Color| {
            if self.has_colors {
                style.fg(color)
            } else {
                style
            }
        };

        match tone {
            Tone::Plain => style,
            Tone::Title => style.add_modifier(Modifier::BOLD),
            // Not dark gray: palettes such as Solarized put the background color in its place.
            Tone::Faint => style.add_modifier(Modifier::DIM),
            Tone::Good => colored(Color::Green),
            Tone::Warning => colored(Color::Yellow),
            Tone::Bad => colored(Color::Red).add_modifier(Modifier::BOLD),
        }
    }

    /// Returns the style of a row.
    pub fn row(self, health: Health, is_selected: bool) -> Style {
        let style = self.style(match health {
            Health::Ready | Health::Unknown => Tone::Plain,
            Health::Degraded => Tone::Warning,
            Health::NotReady => Tone::Bad,
        });

        if is_selected {
            style.add_modifier(Modifier::REVERSED)
        } else {
            style
        }
    }
}
