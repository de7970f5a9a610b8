//! Regular expressions in Go's syntax.
//!
//! In Go's syntax, <https://github.com/google/re2/wiki/Syntax>, classes are ASCII only and brackets in
//! a class are literal. A pattern is rewritten for the `regex` crate, which also runs in linear time.

use std::sync::Mutex;

use lru::LruCache;
use regex::Regex;
use std::num::NonZeroUsize;

/// Compiled patterns, so that each is compiled once and not for every value.
#[derive(Debug)]
pub struct Patterns(Mutex<LruCache<String, Result<Regex, String>>>);

impl Default for Patterns {
    fn default() -> Self {
        Self(Mutex::new(LruCache::new(
            NonZeroUsize::new(256).unwrap_or(NonZeroUsize::MIN),
        )))
    }
}

impl Patterns {
    /// Reports whether a text contains a match of a pattern.
    ///
    /// # Errors
    /// Returns Go's message if the pattern is malformed.
    pub fn is_match(&self, pattern: &str, text: &str) -> Result<bool, String> {
        let mut cache = self
            .0
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);

        let compiled = cache.get_or_insert_ref(pattern, || compile(pattern));
        compiled
            .as_ref()
            .map(|regex| regex.is_match(text))
            .map_err(Clone::clone)
    }
}

/// Compiles a pattern, or fails with Go's message about it.
pub fn compile(pattern: &str) -> Result<Regex, String> {
    if let Some(message) = refusal(pattern) {
        return Err(format!("error parsing regexp: {message}"));
    }
    Regex::new(&translate(pattern))
        .map_err(|_| format!("error parsing regexp: invalid pattern: `{pattern}`"))
}

/// Finds the mistakes for which Go has its own words.
fn refusal(pattern: &str) -> Option<String> {
    let chars: Vec<char> = pattern.chars().collect();
    let text = |from: usize, to: usize| chars[from..to.min(chars.len())].iter().collect::<String>();

    let mut depth = 0usize;
    let mut at = 0;
    let mut repeatable = false;
    while at < chars.len() {
        match chars[at] {
            '\\' => {
                let Some(next) = chars.get(at + 1) else {
                    return Some("trailing backslash at end of expression: ``".into());
                };

                if next.is_ascii_alphanumeric() && !"AbBCdDsSwWzpPQExaftnrv01234567".contains(*next)
                {
                    return Some(format!("invalid escape sequence: `\\{next}`"));
                }

                repeatable = true;
                at += 1;
            }
            '[' => {
                let Some(end) = class_end(&chars, at) else {
                    return Some(format!("missing closing ]: `{}`", text(at, chars.len())));
                };

                repeatable = true;
                at = end;
            }
            '(' => {
                let look = ["(?=", "(?!", "(?<=", "(?<!"]
                    .into_iter()
                    .find(|l| text(at, at + l.len()) == *l);

                if let Some(look) = look {
                    let shown = if look.starts_with("(?<") { "(?<" } else { look };
                    return Some(format!("invalid or unsupported Perl syntax: `{shown}`"));
                }

                depth += 1;
                repeatable = false;
            }
            ')' if depth == 0 => return Some(format!("unexpected ): `{pattern}`")),
            ')' => {
                depth -= 1;
                repeatable = true;
            }
            '*' | '+' | '?'
                if !repeatable && (at == 0 || chars[at - 1] != '(' || chars[at] != '?') =>
            {
                return Some(format!(
                    "missing argument to repetition operator: `{}`",
                    chars[at]
                ));
            }
            '|' => repeatable = false,
            _ => repeatable = true,
        }

        at += 1;
    }

    (depth > 0).then(|| format!("missing closing ): `{pattern}`"))
}

/// Finds the bracket that closes a class.
fn class_end(chars: &[char], open: usize) -> Option<usize> {
    let mut at = open + 1;
    if chars.get(at) == Some(&'^') {
        at += 1;
    }

    let first = at;
    while at < chars.len() {
        match chars[at] {
            '\\' => at += 1,
            '[' if chars.get(at + 1) == Some(&':') => {
                let end = (at + 2..chars.len())
                    .find(|i| chars[*i] == ':' && chars.get(*i + 1) == Some(&']'));
                if let Some(end) = end {
                    at = end + 1;
                }
            }
            ']' if at > first => return Some(at),
            _ => {}
        }

        at += 1;
    }

    None
}

/// Rewrites a pattern for the `regex` crate.
fn translate(pattern: &str) -> String {
    let chars: Vec<char> = pattern.chars().collect();
    let mut out = String::with_capacity(pattern.len() * 2);
    let mut at = 0;

    while at < chars.len() {
        match chars[at] {
            '\\' if at + 1 < chars.len() => {
                push_escape(chars[at + 1], false, &mut out);
                at += 1;
            }
            '[' => {
                let end = class_end(&chars, at).unwrap_or(chars.len() - 1);
                translate_class(&chars[at..=end], &mut out);
                at = end;
            }
            c => out.push(c),
        }

        at += 1;
    }

    out
}

fn push_escape(c: char, in_class: bool, out: &mut String) {
    let ascii = match c {
        'd' => "0-9",
        'w' => "0-9A-Za-z_",
        's' => "\\t\\n\\f\\r ",
        _ => "",
    };

    let negated = match c {
        'D' => "[^0-9]",
        'W' => "[^0-9A-Za-z_]",
        'S' => "[^\\t\\n\\f\\r ]",
        'b' if !in_class => "(?-u:\\b)",
        _ => "",
    };

    match (ascii, negated) {
        ("", "") => {
            out.push('\\');
            out.push(c);
        }
        ("", negated) => out.push_str(negated),
        (ascii, _) if in_class => out.push_str(ascii),
        (ascii, _) => {
            out.push('[');
            out.push_str(ascii);
            out.push(']');
        }
    }
}

fn translate_class(class: &[char], out: &mut String) {
    out.push('[');

    let mut at = 1;
    if class.get(at) == Some(&'^') {
        out.push('^');
        at += 1;
    }

    let first = at;
    while at + 1 < class.len() {
        match class[at] {
            '\\' => {
                push_escape(class[at + 1], true, out);
                at += 1;
            }
            '[' if class.get(at + 1) == Some(&':') => out.push('['),
            ']' if at > first && class[at - 1] == ':' => out.push(']'),
            c @ ('[' | ']' | '&' | '~') => {
                out.push('\\');
                out.push(c);
            }
            '-' if class.get(at + 1) == Some(&'-') || at == first || at + 2 == class.len() => {
                out.push_str("\\-");
            }
            c => out.push(c),
        }

        at += 1;
    }

    out.push(']');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matches_as_go_does() {
        let cases = [
            (r"^\d+$", "٣", false),
            (r"^\w+$", "é", false),
            (r"^[\w.-]+$", "a.b-c", true),
            (r"[[]", "[", true),
            (r"^[a&&b]+$", "&&", true),
            (r"^[[:alpha:]]+$", "ab", true),
            (r"\bfoo\b", "a foo b", true),
            (r"^a\/b$", "a/b", true),
            (r"^[^]]$", "x", true),
            (r"^[a-]+$", "-a", true),
            (r"^\S+$", "a b", false),
            (r"^[\D]$", "x", true),
            (r"^(?:a|b)?$", "", true),
            (r"^[]a]+$", "]a", true),
        ];

        for (pattern, text, expected) in cases {
            let found = compile(pattern).expect(pattern).is_match(text);
            assert_eq!(found, expected, "{pattern} {text}");
        }
    }

    #[test]
    fn names_mistakes_as_go_does() {
        let cases = [
            ("(?!a)", "invalid or unsupported Perl syntax: `(?!`"),
            ("[a", "missing closing ]: `[a`"),
            ("(a", "missing closing ): `(a`"),
            ("a)", "unexpected ): `a)`"),
            ("*a", "missing argument to repetition operator: `*`"),
            (r"a\y", r"invalid escape sequence: `\y`"),
        ];

        for (pattern, message) in cases {
            assert_eq!(
                compile(pattern).expect_err(pattern),
                format!("error parsing regexp: {message}")
            );
        }
    }

    #[test]
    fn caches_compiled_patterns_and_mistakes() {
        let patterns = Patterns::default();
        for _ in 0..2 {
            assert_eq!(patterns.is_match("^a$", "a"), Ok(true));
            assert!(patterns.is_match("(", "a").is_err());
        }
    }
}
