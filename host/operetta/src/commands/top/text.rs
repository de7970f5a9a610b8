//! Text for a terminal: without control characters, and of a given width in columns.
//!
//! Names, messages and logs come from tenants. Nothing of them reaches the terminal but characters that it draws.

use ratatui::text::Span;

/// Returns a text in one line, with an escape for each character that a terminal does not draw: control characters, and
/// those that change the direction or the width of what follows.
pub fn printable(text: &str) -> String {
    let mut printable = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '\t' => printable.push(' '),
            letter if letter.is_control() || is_invisible(letter) => printable.extend(letter.escape_unicode()),
            letter => printable.push(letter),
        }
    }
    printable
}

/// Returns the lines of a text, each as [`printable`] does.
pub fn printable_lines(text: &str) -> Vec<String> {
    text.lines().map(printable).collect()
}

fn is_invisible(letter: char) -> bool {
    matches!(letter, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{e0000}'..='\u{e007f}')
}

/// Returns the number of columns that a text takes.
pub fn width(text: &str) -> usize {
    if text.is_ascii() { text.len() } else { Span::raw(text).width() }
}

/// Cuts a text to a number of columns, with `…` at the end of one that was cut.
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
    if is_right { blanks + &cut } else { cut + &blanks }
}

/// Breaks a text between words into lines of a width. A longer word is broken.
pub fn wrapped(text: &str, columns: usize) -> Vec<String> {
    let columns = columns.max(1);
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let line = lines.last_mut().map_or(0, |line| if line.is_empty() { 0 } else { width(line) + 1 });
        if line > 0 && line + width(word) > columns {
            lines.push(String::new());
        } else if line > 0 {
            lines.last_mut().into_iter().for_each(|line| line.push(' '));
        }
        for letter in word.chars() {
            if lines.last().is_some_and(|line| width(line) >= columns) {
                lines.push(String::new());
            }
            lines.last_mut().into_iter().for_each(|line| line.push(letter));
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escape_sequences_are_never_printed_raw() {
        let name = "a\u{1b}[31m\u{9b}1m\u{7}\u{202e}b\tc\nd\u{200b}";
        let shown = printable(name);
        assert_eq!(shown, r"a\u{1b}[31m\u{9b}1m\u{7}\u{202e}b c\u{a}d\u{200b}");
        assert!(!shown.chars().any(char::is_control));
        assert_eq!(printable_lines("a\nb\u{1b}c"), ["a", r"b\u{1b}c"]);
    }

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
