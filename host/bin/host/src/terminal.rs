//! Text for people on a terminal.
//!
//! Names, messages and logs come from tenants. A terminal obeys control characters, and some
//! characters hide or reorder what stands beside them, so whatever is printed for people passes
//! here and has them escaped.

use std::fmt::Display;

/// Returns one line: tabs and line breaks are escaped too.
pub fn line(text: &str) -> String {
    escaped(text, |letter| (letter == '\t').then_some(" "))
}

/// Returns text whose line breaks and tabs are kept.
pub fn lines(text: &str) -> String {
    escaped(text, |letter| match letter {
        '\n' => Some("\n"),
        '\t' => Some("\t"),
        _ => None,
    })
}

/// Prints a line to stderr.
pub fn note(text: impl Display) {
    eprintln!("{}", lines(&text.to_string()));
}

fn escaped(text: &str, kept: impl Fn(char) -> Option<&'static str>) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match kept(letter) {
            Some(kept) => escaped.push_str(kept),
            None if is_obeyed(letter) => escaped.extend(letter.escape_unicode()),
            None => escaped.push(letter),
        }
    }
    escaped
}

/// Reports whether a terminal obeys a character instead of drawing it: control characters, and
/// those that change the direction or the width of their neighbours.
fn is_obeyed(letter: char) -> bool {
    letter.is_control()
        || matches!(letter,
            '\u{061c}'
            | '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{feff}'
            | '\u{e0000}'..='\u{e007f}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_obeys_is_escaped() {
        for (text, shown) in [
            ("ordinary – ä 日本", "ordinary – ä 日本"),
            ("\u{1b}[2J", r"\u{1b}[2J"),
            ("\u{9b}31m", r"\u{9b}31m"),
            ("\u{1b}]0;title\u{7}", r"\u{1b}]0;title\u{7}"),
            ("over\rwritten\u{8}", r"over\u{d}written\u{8}"),
            ("user\u{202e}txt.exe", r"user\u{202e}txt.exe"),
            ("\u{2066}a\u{2069}", r"\u{2066}a\u{2069}"),
            ("zero\u{200b}width", r"zero\u{200b}width"),
            ("\u{7f}", r"\u{7f}"),
        ] {
            assert_eq!(line(text), shown);
            assert_eq!(lines(text), shown);
        }
    }

    #[test]
    fn line_has_no_line_break() {
        assert_eq!(line("a\nerror: b\tc"), r"a\u{a}error: b c");
        assert_eq!(lines("a\n\tb"), "a\n\tb");
    }
}
