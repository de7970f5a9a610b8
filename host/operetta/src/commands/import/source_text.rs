//! The text of a file in Go or Rust, with positions of imports, calls and expressions. It is not parsed: comments and strings are
//! blanked, and brackets are matched.

use std::ops::Range;

/// The keywords, predeclared types, functions and constants that an expression may have.
const PREDECLARED: &[&str] = &[
    "any",
    "append",
    "bool",
    "byte",
    "cap",
    "chan",
    "copy",
    "error",
    "false",
    "float32",
    "float64",
    "func",
    "int",
    "int32",
    "int64",
    "interface",
    "len",
    "make",
    "map",
    "max",
    "min",
    "new",
    "nil",
    "return",
    "rune",
    "string",
    "struct",
    "true",
    "uint",
    "uint32",
    "uint64",
];

/// A file in Go or Rust.
pub struct SourceText {
    text: String,
    /// The text with spaces in place of comments and of the contents of strings; of the same length.
    pub code: String,
}

/// An imported package.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Import {
    /// The name in the file.
    pub name: String,
    /// The import path.
    pub path: String,
    /// True if the file sets the name.
    pub is_named: bool,
}

impl SourceText {
    /// Reads a file in Go.
    pub fn go(text: String) -> Self {
        let code = blanked(&text, go_literal);
        Self { text, code }
    }

    /// Reads a file in Rust.
    pub fn rust(text: String) -> Self {
        let code = blanked(&text, rust_literal);
        Self { text, code }
    }

    /// Returns a part of the text.
    pub fn part(&self, range: Range<usize>) -> &str {
        &self.text[range]
    }

    /// Returns the number of the line of a position, from 1.
    pub fn line(&self, at: usize) -> usize {
        self.text[..at].bytes().filter(|byte| *byte == b'\n').count() + 1
    }

    /// Returns the imports of a file in Go.
    pub fn imports(&self) -> Vec<Import> {
        let mut imports = Vec::new();
        let mut in_block = false;
        let mut at = 0;
        for line in self.code.split_inclusive('\n') {
            let text = self.text[at..at + line.len()].trim();
            at += line.len();
            let spec = match (in_block, line.trim()) {
                (true, ")") => {
                    in_block = false;
                    continue;
                }
                (true, code) if code.contains('"') => text,
                (false, code) if code.starts_with("import (") => {
                    in_block = true;
                    continue;
                }
                (false, code) if code.starts_with("import ") => text["import ".len()..].trim(),
                _ => continue,
            };
            let Some((name, rest)) = spec.split_once('"') else { continue };
            let path = rest.split('"').next().unwrap_or_default().to_owned();
            let name = name.trim();
            let is_named = !name.is_empty();
            let name = if is_named { name.to_owned() } else { package_name(&path) };
            imports.push(Import { name, path, is_named });
        }
        imports
    }

    /// Returns the positions of a word that is no part of a longer one. After a `*` it may be the end of a longer one.
    pub fn find(&self, word: &str) -> Vec<usize> {
        let (word, is_ending) = word.strip_prefix('*').map_or((word, false), |word| (word, true));
        let is_part = |byte: Option<&u8>| byte.is_some_and(|byte| is_word(*byte));
        let found = self.code.match_indices(word).map(|(at, _)| at);
        let bytes = self.code.as_bytes();
        let begins = |at: usize| is_ending || !is_word(word.as_bytes()[0]) || at == 0 || !is_part(bytes.get(at - 1));
        let ends = |at: usize| !is_word(word.as_bytes()[word.len() - 1]) || !is_part(bytes.get(at + word.len()));
        found.filter(|at| begins(*at) && ends(*at)).collect()
    }

    /// Returns the position after the bracket that closes the one at `open`.
    pub fn closing(&self, open: usize) -> Option<usize> {
        let mut depth = 0_usize;
        for (at, byte) in self.code.bytes().enumerate().skip(open) {
            match byte {
                b'(' | b'[' | b'{' => depth += 1,
                b')' | b']' | b'}' => depth = depth.checked_sub(1)?,
                _ => {}
            }
            if depth == 0 {
                return Some(at + 1);
            }
        }
        None
    }

    /// Returns the beginning of the expression that ends at a position: names, dots and pairs of brackets.
    pub fn expression_before(&self, end: usize) -> usize {
        let bytes = self.code.as_bytes();
        let mut start = end;
        while start > 0 {
            match bytes[start - 1] {
                b')' | b']' | b'}' => match self.opening(start - 1) {
                    Some(open) => start = open,
                    None => return start,
                },
                byte if is_word(byte) || byte == b'.' => start -= 1,
                _ => return start,
            }
        }
        start
    }

    fn opening(&self, close: usize) -> Option<usize> {
        let mut depth = 0_usize;
        for (at, byte) in self.code.bytes().enumerate().take(close + 1).collect::<Vec<_>>().into_iter().rev() {
            match byte {
                b')' | b']' | b'}' => depth += 1,
                b'(' | b'[' | b'{' => depth = depth.checked_sub(1)?,
                _ => {}
            }
            if depth == 0 {
                return Some(at);
            }
        }
        None
    }

    /// Returns the names that an expression uses, without fields, methods and predeclared names.
    pub fn names(&self, range: Range<usize>) -> Vec<&str> {
        let code = &self.code[range];
        let mut names = Vec::new();
        let mut rest = code;
        while let Some(begin) = rest.find(|c: char| c.is_ascii_alphabetic() || c == '_') {
            let at = code.len() - rest.len() + begin;
            let word = &rest[begin..];
            let end = word.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(word.len());
            let (word, after) = word.split_at(end);
            let before = code[..at].trim_end();
            let is_number = code[..at].ends_with(|c: char| c.is_ascii_digit());
            let is_field =
                before.ends_with('.') || (after.trim_start().starts_with(':') && !after.trim_start().starts_with(":="));
            if !is_number && !is_field && !PREDECLARED.contains(&word) && !names.contains(&word) {
                names.push(word);
            }
            rest = after;
        }
        names
    }
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// Guesses the name of a package from its path.
fn package_name(path: &str) -> String {
    let is_version = |part: &&str| {
        part.strip_prefix('v').is_some_and(|digits| !digits.is_empty() && digits.bytes().all(|c| c.is_ascii_digit()))
    };
    let last = path.rsplit('/').find(|part| !is_version(part)).unwrap_or(path);
    let last = last.split('.').next().unwrap_or(last);
    last.strip_prefix("go-").unwrap_or(last).replace('-', "")
}

/// The bytes of a literal that are blanked, and its length; None if no literal begins here.
type Literal = fn(&[u8]) -> Option<(Range<usize>, usize)>;

/// Returns the text with spaces in place of comments and of the contents of literals.
fn blanked(text: &str, literal: Literal) -> String {
    let bytes = text.as_bytes();
    let mut code = bytes.to_vec();
    let mut at = 0;
    while at < bytes.len() {
        let rest = &bytes[at..];
        let (blank, length) = if rest.starts_with(b"//") {
            let end = position(rest, b"\n", 0);
            (0..end, end)
        } else if rest.starts_with(b"/*") {
            let end = (position(rest, b"*/", 2) + 2).min(rest.len());
            (0..end, end)
        } else {
            literal(rest).unwrap_or((0..0, 1))
        };
        let blank = &mut code[at + blank.start..(at + blank.end).min(bytes.len())];
        blank.iter_mut().filter(|byte| **byte != b'\n').for_each(|byte| *byte = b' ');
        at += length.max(1);
    }
    // Only whole characters were replaced, by spaces.
    String::from_utf8_lossy(&code).into_owned()
}

/// Returns the position of a pattern, or the length of the text.
fn position(text: &[u8], pattern: &[u8], from: usize) -> usize {
    let rest = text.get(from..).unwrap_or_default();
    rest.windows(pattern.len()).position(|window| window == pattern).map_or(text.len(), |found| from + found)
}

/// Returns the position of the quote that ends a literal, from the one that begins it.
fn closing_quote(text: &[u8]) -> usize {
    let mut at = 1;
    while at < text.len() && text[at] != text[0] {
        at += if text[at] == b'\\' { 2 } else { 1 };
    }
    at.min(text.len())
}

fn go_literal(text: &[u8]) -> Option<(Range<usize>, usize)> {
    let end = match text[0] {
        b'`' => position(text, b"`", 1),
        b'"' | b'\'' => closing_quote(text),
        _ => return None,
    };
    Some((1..end, end + 1))
}

fn rust_literal(text: &[u8]) -> Option<(Range<usize>, usize)> {
    let hashes = text.iter().skip(1).take_while(|byte| **byte == b'#').count();
    match text[0] {
        b'"' => {
            let end = closing_quote(text);
            Some((1..end, end + 1))
        }
        b'r' if text.get(1 + hashes) == Some(&b'"') => {
            let pattern = [b"\"".as_slice(), &vec![b'#'; hashes]].concat();
            let end = position(text, &pattern, hashes + 2);
            Some((hashes + 2..end, end + pattern.len()))
        }
        // A lifetime has no second quote.
        b'\'' if text.get(1) == Some(&b'\\') => {
            let end = closing_quote(text);
            Some((1..end, end + 1))
        }
        b'\'' => {
            let end = 1 + std::str::from_utf8(&text[1..]).ok()?.chars().next()?.len_utf8();
            (text.get(end) == Some(&b'\'')).then_some((1..end, end + 1))
        }
        // The rest of a name, so that the `r` at its end begins no literal.
        byte if is_word(byte) => Some((0..0, text.iter().take_while(|byte| is_word(**byte)).count())),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_code_but_no_comments_and_strings() {
        let text = SourceText::go("a(\"b(\") // b(\n/* b( */ c('\\'', `b(\n`, \"\\\"b(\") xb() b()\n".to_owned());
        let [at] = text.find("b(")[..] else { panic!("{:?}", text.find("b(")) };
        assert_eq!((text.part(at..at + 3), text.line(at)), ("b()", 3));
        assert_eq!(text.find("*b(").len(), 2);
        assert_eq!(text.code.len(), text.text.len());
    }

    #[test]
    fn reads_imports_with_their_names() {
        let text = "package main\n\nimport \"fmt\"\nimport (\n\tctrl \"sigs.k8s.io/controller-runtime\" // x \"y\"\n\t_ \"embed\"\n\n\t\"github.com/go-logr/logr/v2\"\n)\n";
        let imports = SourceText::go(text.to_owned()).imports();
        let names: Vec<_> = imports.iter().map(|import| (import.name.as_str(), import.path.as_str())).collect();
        let wanted = [
            ("fmt", "fmt"),
            ("ctrl", "sigs.k8s.io/controller-runtime"),
            ("_", "embed"),
            ("logr", "github.com/go-logr/logr/v2"),
        ];
        assert_eq!(names, wanted);
    }

    #[test]
    fn expression_before_a_method_is_whole() {
        for (line, wanted) in [
            ("if err := (&c.R{A: mgr.B(\"}\"), C: 1}).Setup(mgr); err != nil {", "(&c.R{A: mgr.B(\"}\"), C: 1})"),
            ("err = c.New(a[1]).With(x).Setup(mgr)", "c.New(a[1]).With(x)"),
            ("return r.Setup(mgr)", "r"),
        ] {
            let text = SourceText::go(line.to_owned());
            let dot = line.find(".Setup").expect("a dot");
            assert_eq!(text.part(text.expression_before(dot)..dot), wanted);
        }
    }

    #[test]
    fn names_are_without_fields_and_literals() {
        let line = "&c.R{Client: mgr.GetClient(), N: max(0x1f, burst), S: \"text\", T: time.Second, F: nil}";
        let text = SourceText::go(line.to_owned());
        assert_eq!(text.names(0..line.len()), ["c", "mgr", "burst", "time"]);
    }

    #[test]
    fn rust_has_lifetimes_characters_and_raw_strings() {
        let text =
            "fn f<'a>(x: &'a str) -> char { a(r#\"\"b(\"#); c(\"\\\"b(\n\"); ['\"', '\\'', 'é']; var\"b(\"; b() }\n";
        let text = SourceText::rust(text.to_owned());
        let [at] = text.find("b(")[..] else { panic!("{:?}", text.code) };
        assert_eq!(text.part(at..at + 3), "b()");
        assert_eq!(text.closing(text.find("{")[0]), Some(text.text.len() - 1));
    }
}
