//! Text of a given width in columns.

use operetta_host::terminal;
use ratatui::text::Span;

/// The lines of a text, each with escapes.
pub fn printable_lines(text: &str) -> Vec<String> {
    text.lines().map(terminal::line).collect()
}

/// The number of columns that a text takes.
pub fn width(text: &str) -> usize {
    if text.is_ascii() {
        text.len()
    } else {
        Span::raw(text).width()
    }
}

/// Cuts a text to a number of columns, and ends it with `…` if it was too long.
pub fn cut(text: &str, columns: usize) -> String {
    if width(text) <= columns {
        return text.to_owned();
    }

    let mut cut = String::new();
    for letter in text.chars() {
        cut.push(letter);
        if width(&cut) + 1 > columns {
            cut.pop();
            break;
        }
    }

    if columns > 0 {
        cut.push('…');
    }

    cut
}

/// Cuts or pads a text to a number of columns.
pub fn fit(text: &str, columns: usize, is_right: bool) -> String {
    let cut = cut(text, columns);
    let blanks = " ".repeat(columns.saturating_sub(width(&cut)));

    if is_right {
        blanks + &cut
    } else {
        cut + &blanks
    }
}

/// Breaks a text between words into lines of a width. A word that is too long is broken.
pub fn wrapped(text: &str, columns: usize) -> Vec<String> {
    let columns = columns.max(1);
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let line = lines
            .last_mut()
            .map_or(0, |line| if line.is_empty() { 0 } else { width(line) + 1 });

        if line > 0 && line + width(word) > columns {
            lines.push(String::new());
        } else if line > 0 {
            lines.last_mut().into_iter().for_each(|line| line.push(' '));
        }

        for letter in word.chars() {
            if lines.last().is_some_and(|line| width(line) >= columns) {
                lines.push(String::new());
            }
            lines
                .last_mut()
                .into_iter()
                .for_each(|line| line.push(letter));
        }
    }

    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_fits_by_columns_not_by_bytes() {
        assert_eq!(fit("abc", 5, false), "abc  ");
        assert_eq!(fit("abc", 5, true), "  abc");
        assert_eq!(fit("abcdef", 4, false), "abc…");

        // Each of these letters takes two columns.
        assert_eq!(fit("日本語", 5, false), "日本…");
        assert_eq!(fit("日本語", 4, false), "日… ");
        assert_eq!(fit("abc", 0, false), "");
    }

    #[test]
    fn long_text_is_wrapped_between_words() {
        assert_eq!(wrapped("one two three", 7), ["one two", "three"]);
        assert_eq!(wrapped("abcdefgh ij", 4), ["abcd", "efgh", "ij"]);
        assert_eq!(wrapped("", 4), [""]);
    }
}
