//! Splits the text of an expression into tokens.

use super::ast::{Issue, Literal};

/// A token and its position, counted in characters.
#[derive(Clone, Debug, PartialEq)]
pub struct Token {
    pub at: usize,
    pub kind: Kind,
    pub text: String,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Kind {
    /// A constant, except words like `true`.
    Literal(Literal),
    /// An identifier or a word; true if it was written in backquotes.
    Ident(bool),
    /// An operator or bracket.
    Symbol(&'static str),
    /// The end of the text.
    End,
}

const SYMBOLS: [&str; 24] = [
    "==", "!=", "<=", ">=", "&&", "||", "[", "]", "{", "}", "(", ")", ".", ",", "-", "!", "?", ":",
    "+", "*", "/", "%", "<", ">",
];

/// Splits a text into tokens, ending with [`Kind::End`]. Invalid characters are skipped and reported.
pub fn tokenize(text: &str) -> (Vec<Token>, Vec<Issue>) {
    let chars: Vec<char> = text.chars().collect();
    let mut tokens = Vec::new();
    let mut issues = Vec::new();
    let mut at = 0;

    while at < chars.len() {
        let start = at;
        let c = chars[at];

        if matches!(c, ' ' | '\t' | '\r' | '\n' | '\u{c}') {
            at += 1;
            continue;
        }

        if c == '/' && chars.get(at + 1) == Some(&'/') {
            at = (at..chars.len())
                .find(|i| chars[*i] == '\n')
                .unwrap_or(chars.len());
            continue;
        }

        match token(&chars, at) {
            Ok((kind, end)) => {
                tokens.push(Token {
                    at: start,
                    text: chars[start..end].iter().collect(),
                    kind,
                });
                at = end;
            }
            Err(issue) => {
                at = skip(&chars, at);
                issues.push(issue);
            }
        }
    }

    tokens.push(Token {
        at: chars.len(),
        kind: Kind::End,
        text: String::new(),
    });

    (tokens, issues)
}

/// Where to continue after characters that form no token.
fn skip(chars: &[char], at: usize) -> usize {
    match chars[at] {
        '=' if chars.get(at + 1).is_some_and(|c| c.is_whitespace()) => at + 2,
        '"' | '\'' => chars.len(),
        _ => at + 1,
    }
}

fn token(chars: &[char], at: usize) -> Result<(Kind, usize), Issue> {
    let c = chars[at];
    if let Some(found) = quoted(chars, at)? {
        return Ok(found);
    }

    if c.is_ascii_digit() || (c == '.' && chars.get(at + 1).is_some_and(char::is_ascii_digit)) {
        return number(chars, at);
    }

    if c.is_ascii_alphabetic() || c == '_' {
        let end =
            (at..chars.len()).find(|i| !(chars[*i].is_ascii_alphanumeric() || chars[*i] == '_'));
        return Ok((Kind::Ident(false), end.unwrap_or(chars.len())));
    }

    if c == '`' {
        let close = (at + 1..chars.len())
            .find(|i| chars[*i] == '`')
            .ok_or_else(|| unknown(chars, at))?;
        return Ok((Kind::Ident(true), close + 1));
    }

    let rest: String = chars[at..chars.len().min(at + 2)].iter().collect();
    let symbol = SYMBOLS
        .iter()
        .find(|symbol| rest.starts_with(**symbol))
        .ok_or_else(|| unknown(chars, at))?;

    Ok((Kind::Symbol(symbol), at + symbol.len()))
}

fn unknown(chars: &[char], at: usize) -> Issue {
    let shown: String = chars[at..].iter().take(2).collect();
    Issue {
        at,
        message: format!("Syntax error: token recognition error at: '{shown}'"),
    }
}

fn number(chars: &[char], at: usize) -> Result<(Kind, usize), Issue> {
    let digits = |from: usize, test: fn(&char) -> bool| {
        (from..chars.len())
            .find(|i| !test(&chars[*i]))
            .unwrap_or(chars.len())
    };

    let invalid = |what: &str| Issue {
        at,
        message: format!("invalid {what} literal"),
    };

    let is_unsigned = |end: usize| matches!(chars.get(end), Some('u' | 'U'));
    if chars[at] == '0' && matches!(chars.get(at + 1), Some('x' | 'X')) {
        let end = digits(at + 2, char::is_ascii_hexdigit);
        let text: String = chars[at + 2..end].iter().collect();
        let value = u64::from_str_radix(&text, 16).map_err(|_| invalid("int"))?;

        if is_unsigned(end) {
            return Ok((Kind::Literal(Literal::Uint(value)), end + 1));
        }

        let value = i64::try_from(value).map_err(|_| invalid("int"))?;
        return Ok((Kind::Literal(Literal::Int(value)), end));
    }

    let mut end = digits(at, char::is_ascii_digit);
    let mut is_double = false;

    if chars.get(end) == Some(&'.') && chars.get(end + 1).is_some_and(char::is_ascii_digit) {
        is_double = true;
        end = digits(end + 1, char::is_ascii_digit);
    }

    if matches!(chars.get(end), Some('e' | 'E')) {
        let sign = usize::from(matches!(chars.get(end + 1), Some('+' | '-')));
        if chars.get(end + 1 + sign).is_some_and(char::is_ascii_digit) {
            is_double = true;
            end = digits(end + 1 + sign, char::is_ascii_digit);
        }
    }

    let text: String = chars[at..end].iter().collect();
    let literal = if is_double {
        Literal::Double(text.parse().map_err(|_| invalid("double"))?)
    } else if is_unsigned(end) {
        end += 1;
        Literal::Uint(text.parse().map_err(|_| invalid("uint"))?)
    } else if text == "9223372036854775808" && at > 0 && chars[at - 1] == '-' {
        // The parser folds the sign into the constant.
        Literal::Int(i64::MIN)
    } else {
        Literal::Int(text.parse().map_err(|_| invalid("int"))?)
    };

    Ok((Kind::Literal(literal), end))
}

/// Reads a string or bytes literal, if one starts here.
fn quoted(chars: &[char], start: usize) -> Result<Option<(Kind, usize)>, Issue> {
    let mut raw = false;
    let mut bytes = false;
    let mut at = start;

    while let Some(c) = chars.get(at) {
        match c {
            'r' | 'R' if !raw => raw = true,
            'b' | 'B' if !bytes => bytes = true,
            _ => break,
        }
        at += 1;
    }

    let Some(quote) = chars.get(at).filter(|c| matches!(c, '"' | '\'')) else {
        return Ok(None);
    };

    let triple = chars.get(at + 1) == Some(quote) && chars.get(at + 2) == Some(quote);
    let width = if triple { 3 } else { 1 };
    let begin = at + width;
    let mut end = begin;

    loop {
        let closes = (0..width).all(|offset| chars.get(end + offset) == Some(quote));

        match chars.get(end) {
            _ if closes => break,
            None => return Err(unterminated(chars, start)),
            Some('\n' | '\r') if !triple => return Err(unterminated(chars, start)),
            Some('\\') if !raw => end += 2,
            Some(_) => end += 1,
        }
    }

    let inner = &chars[begin..end.min(chars.len())];
    let issue = || Issue {
        at: start,
        message: "invalid string literal".to_owned(),
    };

    let literal = match (raw, bytes) {
        (true, false) => Literal::String(inner.iter().collect()),
        (true, true) => Literal::Bytes(inner.iter().collect::<String>().into_bytes()),
        (false, false) => Literal::String(
            String::from_utf8(unescape(inner, false).ok_or_else(issue)?).map_err(|_| issue())?,
        ),
        (false, true) => Literal::Bytes(unescape(inner, true).ok_or_else(issue)?),
    };

    Ok(Some((Kind::Literal(literal), end + width)))
}

fn unterminated(chars: &[char], at: usize) -> Issue {
    let shown: String = chars[at..].iter().collect();
    Issue {
        at,
        message: format!("Syntax error: token recognition error at: '{shown}'"),
    }
}

fn unescape(chars: &[char], bytes: bool) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    let push = |out: &mut Vec<u8>, c: char| out.extend(c.encode_utf8(&mut [0; 4]).as_bytes());

    let mut at = 0;
    while at < chars.len() {
        if chars[at] != '\\' {
            push(&mut out, chars[at]);
            at += 1;
            continue;
        }

        let c = *chars.get(at + 1)?;
        at += 2;

        let (length, radix) = match c {
            'x' | 'X' => (2, 16),
            'u' => (4, 16),
            'U' => (8, 16),
            '0'..='3' => (3, 8),
            _ => {
                out.push(match c {
                    'a' => 7,
                    'b' => 8,
                    'f' => 12,
                    'n' => b'\n',
                    'r' => b'\r',
                    't' => b'\t',
                    'v' => 11,
                    '\\' | '\'' | '"' | '`' | '?' => c as u8,
                    _ => return None,
                });
                continue;
            }
        };

        let from = if radix == 8 { at - 1 } else { at };
        let digits: String = chars.get(from..from + length)?.iter().collect();
        let code = u32::from_str_radix(&digits, radix).ok()?;

        at = from + length;
        if bytes && length <= 3 {
            out.push(u8::try_from(code).ok()?);
        } else {
            push(&mut out, char::from_u32(code)?);
        }
    }

    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn literal(text: &str) -> Option<Literal> {
        let (tokens, issues) = tokenize(text);
        if !issues.is_empty() {
            return None;
        }

        match tokens.into_iter().next()?.kind {
            Kind::Literal(literal) => Some(literal),
            _ => None,
        }
    }

    #[test]
    fn reads_constants() {
        let cases = [
            ("12", Literal::Int(12)),
            ("0x1f", Literal::Int(31)),
            ("7u", Literal::Uint(7)),
            ("1.5e3", Literal::Double(1500.0)),
            (".5", Literal::Double(0.5)),
            (r#""a\n\x41\u00e9""#, Literal::String("a\nAé".into())),
            (r"r'\d'", Literal::String(r"\d".into())),
            ("'''a'b'''", Literal::String("a'b".into())),
            (r"b'\377a'", Literal::Bytes(vec![255, b'a'])),
        ];

        for (text, expected) in cases {
            assert_eq!(literal(text), Some(expected), "{text}");
        }

        for text in ["'a", "\"\\q\"", "99999999999999999999", "#", "'a\nb'"] {
            assert!(!tokenize(text).1.is_empty(), "{text}");
        }
    }

    #[test]
    fn skips_comments_and_keeps_positions() {
        let (tokens, _) = tokenize("a // c\n<= b");

        let found: Vec<_> = tokens
            .iter()
            .map(|token| (token.at, token.text.as_str()))
            .collect();

        assert_eq!(found, [(0, "a"), (7, "<="), (10, "b"), (11, "")]);
    }
}
