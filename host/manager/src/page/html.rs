//! HTML that escapes: only this program's own text becomes markup.

use operetta_kube::client::user_api::segment;

/// A piece of HTML. [`Self::markup`] takes only constants, so nothing an object or a plugin says
/// can become markup.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Html(String);

/// A cell of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cell {
    /// Text.
    Text(String),
    /// A link to a path of the page.
    Link {
        /// The text.
        text: String,
        /// The path, from [`path`].
        href: String,
    },
}

impl<T: ToString> From<T> for Cell {
    fn from(text: T) -> Self {
        Self::Text(text.to_string())
    }
}

impl Cell {
    /// Returns a cell with a number, or an empty one if it is unknown.
    pub fn number(number: Option<f64>) -> Self {
        Self::Text(
            number
                .map(|number| format!("{number:.1}"))
                .unwrap_or_default(),
        )
    }
}

impl Html {
    /// Appends markup.
    #[must_use]
    pub fn markup(mut self, markup: &'static str) -> Self {
        self.0.push_str(markup);
        self
    }

    /// Appends text, for the content of an element or a quoted attribute.
    #[must_use]
    pub fn text(mut self, text: &str) -> Self {
        for letter in text.chars() {
            match letter {
                '&' => self.0.push_str("&amp;"),
                '<' => self.0.push_str("&lt;"),
                '>' => self.0.push_str("&gt;"),
                '"' => self.0.push_str("&quot;"),
                '\'' => self.0.push_str("&#39;"),
                other => self.0.push(other),
            }
        }
        self
    }

    /// Appends other HTML.
    #[must_use]
    pub fn html(mut self, other: Self) -> Self {
        self.0.push_str(&other.0);
        self
    }

    /// Appends a link.
    #[must_use]
    pub fn link(self, href: &str, text: &str) -> Self {
        self.markup("<a href=\"")
            .text(href)
            .markup("\">")
            .text(text)
            .markup("</a>")
    }

    /// Appends a heading and a table.
    #[must_use]
    pub fn table(mut self, heading: &str, columns: &[&str], rows: Vec<Vec<Cell>>) -> Self {
        self = self.markup("<h2>").text(heading).markup("</h2>");
        if rows.is_empty() {
            return self.markup("<p>None.</p>");
        }

        self = self.markup("<table><thead><tr>");
        for column in columns {
            self = self
                .markup("<th scope=\"col\">")
                .text(column)
                .markup("</th>");
        }

        self = self.markup("</tr></thead><tbody>");
        for row in rows {
            self = self.markup("<tr>");
            for cell in row {
                self = self.markup("<td>");
                self = match cell {
                    Cell::Text(text) => self.text(&text),
                    Cell::Link { text, href } => self.link(&href, &text),
                };
                self = self.markup("</td>");
            }
            self = self.markup("</tr>");
        }

        self.markup("</tbody></table>")
    }

    /// Appends a paragraph, unless the text is empty.
    #[must_use]
    pub fn paragraph(self, text: &str) -> Self {
        if text.is_empty() {
            self
        } else {
            self.markup("<p>").text(text).markup("</p>")
        }
    }

    /// Returns the HTML.
    pub fn into_string(self) -> String {
        self.0
    }
}

/// Returns the path of a page. The segments may be any text.
pub(super) fn path(segments: &[&str]) -> String {
    segments.iter().fold("/page".to_owned(), |path, name| {
        path + "/" + &segment(name).unwrap_or_else(|| "_".to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_never_becomes_markup() {
        const ATTACK: &str = "<img src=x onerror=alert(1)>\"'&";
        const ESCAPED: &str = "&lt;img src=x onerror=alert(1)&gt;&quot;&#39;&amp;";
        assert_eq!(Html::default().text(ATTACK).into_string(), ESCAPED);

        let link = Cell::Link {
            text: ATTACK.to_owned(),
            href: ATTACK.to_owned(),
        };
        let html = Html::default()
            .table(ATTACK, &[ATTACK], vec![vec![ATTACK.into(), link]])
            .into_string();
        assert!(
            !html.contains("<img") && html.matches(ESCAPED).count() == 5,
            "{html}"
        );
    }
}
