//! Texts that are nearly well-formed, made of what readers of JSON and YAML tend to see in
//! different ways.

use arbitrary::Unstructured;
use rand::{RngCore, SeedableRng, rngs::StdRng};

use super::process::Language;

/// How many bytes choose a text, at most.
const CHOICES: usize = 2048;
const MAX_LENGTH: usize = 16 * 1024;
const MAX_NESTED: usize = 5;

/// Numbers at limits, and what is nearly one.
const NUMBERS: &[&str] = &[
    "0",
    "-0",
    "1",
    "-1",
    "0.0",
    "-0.0",
    "1.0",
    "1E2",
    "1e2",
    "1e+2",
    "1e-7",
    "1e20",
    "1e21",
    "1e400",
    "-1e400",
    "1e-400",
    "5e-324",
    "2.2250738585072011e-308",
    "1.7976931348623157e308",
    "1.7976931348623159e308",
    "9007199254740993",
    "9223372036854775807",
    "9223372036854775808",
    "-9223372036854775808",
    "-9223372036854775809",
    "18446744073709551615",
    "18446744073709551616",
    "12345678901234567890",
    "123456789012345678901",
    "0.1",
    "0.30000000000000004",
    "100000000000000000000.0",
    "1.5e3",
    "4611686018427387904.0",
    "1e0",
    "00",
    "01",
    "-",
    "+1",
    ".5",
    "1.",
    "1e",
    "1e+",
    "0x1F",
    "1_000",
    "--1",
    "0e0",
    "1.0e+01",
];
/// What YAML 1.1 takes for something else than a string, and what it doesn't.
const WORDS: &[&str] = &[
    "yes",
    "Yes",
    "YES",
    "yEs",
    "no",
    "No",
    "on",
    "On",
    "off",
    "OFF",
    "y",
    "Y",
    "n",
    "N",
    "true",
    "True",
    "tRUE",
    "false",
    "null",
    "Null",
    "NULL",
    "nULL",
    "~",
    "0o17",
    "0O17",
    "017",
    "-017",
    "08",
    "0x1F",
    "0X1f",
    "-0x1F",
    "0x",
    "0b11",
    "-0b11",
    "0b",
    "0b2",
    "0b+1",
    "1_000",
    "1__0",
    "_1",
    "1_",
    "0x_1F",
    "0_7",
    ".inf",
    ".Inf",
    "-.INF",
    "+.inf",
    ".iNF",
    ".nan",
    ".NaN",
    ".NAN",
    ".5",
    ".5_0",
    "._5",
    "+.5",
    "-.5e3",
    ".",
    "..",
    "...",
    "---",
    "--- a",
    "1:30",
    "190:20:30",
    "2001-01-01",
    "2001-1-1",
    "2001-13-01",
    "2001-02-30",
    "2001-01-01T10:00:00Z",
    "2001-01-01t1:2:3.5+02:00",
    "2001-01-01 10:00:00",
    "2001-01-01 10:00:00 +1",
    "0001-01-01",
    "<<",
    "=",
    "a b",
    "a#b",
    "a #b",
    "a:b",
    "a: b",
    ":a",
    "?a",
    "-a",
    "- a",
    "@a",
    "%a",
    "`a",
    "|",
    ">",
    "é",
    "😀",
    "\u{a0}",
    "\u{85}",
    "\u{2028}",
    "\u{feff}",
    "",
];
const KEYS: &[&str] = &[
    "a",
    "b",
    "A",
    "aB",
    "name",
    "Name",
    "1",
    "01",
    "1.0",
    "0.5",
    "1e3",
    "-0.0",
    "true",
    "yes",
    "y",
    "null",
    "~",
    "\"1\"",
    "'true'",
    "\"\"",
    "a b",
    "<<",
    "!!str 1",
    "!!binary YQ==",
    "é",
    "? a",
    "[a]",
    "{a: b}",
    "&k a",
    "*x",
    "18446744073709551615",
    ".nan",
    "2001-01-01",
    "a.b",
    "\"a\\tb\"",
];
const STRINGS: &[&str] = &[
    "a",
    "A",
    "é",
    "😀",
    " ",
    "",
    "\\\"",
    "\\\\",
    "\\/",
    "\\b",
    "\\f",
    "\\n",
    "\\r",
    "\\t",
    "\\u0000",
    "\\u001f",
    "\\u0061",
    "\\u00e9",
    "\\u2028",
    "\\ud800",
    "\\udc00",
    "\\ud83d\\ude00",
    "\\ud83d\\u0061",
    "\\ud83dx",
    "\\uD83D\\uDE0",
    "\\ufeff",
    "\\uffff",
    "\u{fffe}",
    "\u{ffff}",
    "\u{7f}",
    "\u{80}",
    "\u{85}",
    "\u{2028}",
    "\u{feff}",
    "<",
    ">",
    "&",
    "'",
    "\\x41",
    "\\U0001F600",
    "\\N",
    "\\_",
    "\\e",
    "\\ ",
    "#",
    ": ",
    " #",
    "yes",
    "1",
    "\\u12",
    "\\",
];
const TAGS: &[&str] = &[
    "!!str ",
    "!!int ",
    "!!float ",
    "!!bool ",
    "!!null ",
    "!!binary ",
    "!!timestamp ",
    "!!merge ",
    "!!map ",
    "!!seq ",
    "!!omap ",
    "! ",
    "!a ",
    "!a!b ",
    "!<tag:yaml.org,2002:str> ",
    "!<!> ",
    "!<a ",
    "!<> ",
    "!! ",
    "!%41 ",
    "!a%zz ",
    "!!str,",
];
/// Invalid UTF-8, and characters in the wrong place.
const NOISE: &[&[u8]] = &[
    b"\xff",
    b"\xc3",
    b"\xe2\x82",
    b"\xed\xa0\x80",
    b"\xf0\x9f\x98",
    b"\xc0\x80",
    b"\xf4\x90\x80\x80",
    b"\x00",
    b"\x01",
    b"\x1f",
    b"\x7f",
    b"\xc2\x85",
    b"\xe2\x80\xa8",
    b"\xef\xbb\xbf",
    b"\t",
    b"\r",
    b"\r\n",
    b"\n",
    b" ",
    b",",
    b":",
    b"?",
    b"-",
    b"#",
    b"[",
    b"]",
    b"{",
    b"}",
    b"\"",
    b"'",
    b"|",
    b">",
    b"&",
    b"*",
    b"!",
    b"%",
    b"@",
    b"`",
    b"\\",
    b"---\n",
    b"...\n",
    b"0",
    b"e",
    b"_",
];

/// Returns the text that bytes choose.
pub fn text(language: Language, chooses: &[u8]) -> Vec<u8> {
    // What the bytes don't choose follows from their sum, so that a small change makes a different
    // text.
    let seed = chooses
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |sum: u64, byte| {
            (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
        });
    let mut choices = vec![0; CHOICES];
    StdRng::seed_from_u64(seed).fill_bytes(&mut choices);
    let chosen = chooses.len().min(CHOICES);
    choices[..chosen].copy_from_slice(&chooses[..chosen]);

    let mut writer = Writer {
        choices: Unstructured::new(&choices),
        out: Vec::new(),
        depth: 0,
    };
    match language {
        Language::Json => writer.json(),
        Language::Yaml => writer.yaml(),
    }
    writer.damage();
    writer.out
}

struct Writer<'a> {
    choices: Unstructured<'a>,
    out: Vec<u8>,
    depth: usize,
}

impl Writer<'_> {
    /// A number below a limit.
    fn below(&mut self, limit: usize) -> usize {
        let last = limit.saturating_sub(1);
        self.choices.int_in_range(0..=last).unwrap_or_default()
    }

    /// Reports a chance of one in so many.
    fn chance(&mut self, of: usize) -> bool {
        self.below(of) == 1
    }

    fn pick<'t, T: ?Sized>(&mut self, from: &[&'t T]) -> &'t T {
        from[self.below(from.len())]
    }

    fn push(&mut self, text: &str) {
        self.out.extend_from_slice(text.as_bytes());
    }

    fn is_full(&self) -> bool {
        self.depth >= MAX_NESTED || self.out.len() > MAX_LENGTH
    }

    /// A depth about a limit.
    fn deep(&mut self) -> usize {
        let limits: [usize; 5] = [64, 127, 200, 1000, 10_000];
        let limit = limits[self.below(limits.len())];
        limit + self.below(4) - 1
    }

    // --- JSON -----------------------------------------------------------------------------------

    fn space(&mut self) {
        if self.chance(4) {
            let space = self.pick(&[" ", "\n", "\t", "\r\n", "  "]);
            self.push(space);
        }
    }

    fn json(&mut self) {
        self.space();
        if self.chance(60) {
            let depth = self.deep();
            let is_list = self.chance(2);
            let (begin, end) = if is_list {
                ("[", "]")
            } else {
                ("{\"a\":", "}")
            };
            self.push(&begin.repeat(depth));
            self.push("0");
            let ends = depth - self.below(2);
            self.push(&end.repeat(ends));
        } else {
            self.json_value();
        }
        self.space();
    }

    fn json_value(&mut self) {
        self.space();
        let kinds = if self.is_full() { 5 } else { 9 };
        match self.below(kinds) {
            0 | 1 => {
                let number = self.pick(NUMBERS);
                self.push(number);
            }
            2 => {
                let digits = self.below(24);
                for _ in 0..digits {
                    let digit = self.pick(&["0", "1", "9", "5", "8"]);
                    self.push(digit);
                }
                if digits == 0 || self.chance(3) {
                    self.push("7.25");
                }
            }
            3 => {
                let word = self.pick(&["true", "false", "null", "null", "True", "nul", "NaN"]);
                self.push(word);
            }
            4 => self.json_string(),
            5 | 6 => {
                self.depth += 1;
                self.push("[");
                let items = self.below(5);
                for at in 0..items {
                    if at > 0 {
                        self.push(",");
                    }
                    self.json_value();
                }
                self.push("]");
                self.depth -= 1;
            }
            _ => {
                self.depth += 1;
                self.push("{");
                let fields = self.below(6);
                for at in 0..fields {
                    if at > 0 {
                        self.push(",");
                    }
                    self.json_field();
                }
                self.push("}");
                self.depth -= 1;
            }
        }
        self.space();
    }

    fn json_field(&mut self) {
        self.space();
        if self.chance(5) {
            self.json_string();
        } else {
            let name = self.pick(&[
                "a", "b", "A", "name", "Name", "", "é", "a.b", "\\u0061", "<",
            ]);
            self.push(&format!("\"{name}\""));
        }
        self.space();
        self.push(":");
        self.json_value();
    }

    fn json_string(&mut self) {
        self.push("\"");
        let parts = self.below(4);
        for _ in 0..parts {
            let part = self.pick(STRINGS);
            self.push(part);
            if self.chance(20) {
                let noise = self.pick(NOISE);
                self.out.extend_from_slice(noise);
            }
        }
        if self.chance(100) {
            self.push(&"k".repeat(1100));
        }
        self.push("\"");
    }

    // --- YAML -----------------------------------------------------------------------------------

    fn yaml(&mut self) {
        if self.chance(12) {
            let head = self.pick(&[
                "%YAML 1.1\n---\n",
                "%YAML 1.2\n---\n",
                "%TAG !a! tag:a,\n---\n",
                "%TAG !! !\n---\n",
                "---\n",
                "--- ",
                "---\t",
                "# c\n",
                "\u{feff}",
                "...\n",
                "\n\n",
                "%FOO\n---\n",
                "\t",
                " ",
            ]);
            self.push(head);
        }
        if self.chance(80) {
            let depth = self.deep();
            let (begin, end) = match self.below(4) {
                0 => ("[", "]"),
                1 => ("{a: ", "}"),
                2 => ("- ", ""),
                _ => ("? ", ""),
            };
            self.push(&begin.repeat(depth));
            self.push("0");
            self.push(&end.repeat(depth));
        } else {
            self.block(0, true);
        }
        if self.chance(8) {
            let tail = self.pick(&[
                "---\n",
                "---\na: 1\n",
                "...\n",
                "...\n%YAML 1.2\n",
                "b",
                "\n\t",
                "\n \t#c",
                " ]",
                "--- |\n a",
            ]);
            self.push(tail);
        }
        if self.chance(25) {
            let units: Vec<u16> = String::from_utf8_lossy(&self.out).encode_utf16().collect();
            let is_little = self.chance(2);
            self.out = if is_little {
                vec![0xff, 0xfe]
            } else {
                vec![0xfe, 0xff]
            };
            for unit in units {
                let pair = if is_little {
                    unit.to_le_bytes()
                } else {
                    unit.to_be_bytes()
                };
                self.out.extend_from_slice(&pair);
            }
        }
    }

    /// Writes the end of a line.
    fn line_end(&mut self) {
        if self.chance(12) {
            let end = self.pick(&[
                " # c\n", "\r\n", "\r", "\t\n", " \n", "\n\n", "\u{85}", "\u{2028}", "#c\n",
                "\n\t\n", "\n  \n",
            ]);
            self.push(end);
        } else {
            self.push("\n");
        }
    }

    fn indent(&mut self, indent: usize) {
        let indent = match self.below(40) {
            0 => indent + 1,
            1 => indent.saturating_sub(1),
            2 => {
                self.push("\t");
                indent
            }
            _ => indent,
        };
        self.push(&" ".repeat(indent));
    }

    fn properties(&mut self) {
        if self.chance(12) {
            let tag = self.pick(TAGS);
            self.push(tag);
        }
        if self.chance(12) {
            let anchor = self.pick(&["&x ", "&y ", "&x-1_ ", "&é ", "& ", "&x\n  "]);
            self.push(anchor);
        }
        if self.chance(60) {
            let tag = self.pick(TAGS);
            self.push(tag);
        }
    }

    /// Writes a block at an indent, which begins where the text ends if it `is_begun`.
    fn block(&mut self, indent: usize, is_begun: bool) {
        self.depth += 1;
        let count = 1 + self.below(4);
        let is_list = self.chance(3);
        for at in 0..count {
            if at > 0 || !is_begun {
                self.indent(indent);
            }
            if is_list {
                self.push("-");
                self.push_gap();
                self.block_value(indent + 2, true);
                continue;
            }

            if self.chance(15) {
                self.push("? ");
                self.block_value(indent + 2, true);
                self.indent(indent);
                self.push(":");
            } else if self.chance(15) {
                let merged = self.pick(&[
                    "<<: *x",
                    "<<: [*x, *y]",
                    "<<: {a: 1, b: 2}",
                    "<<: [{a: 1}, {a: 2}]",
                    "<<: 1",
                    "!!merge a: *x",
                    "\"<<\": *x",
                    "! <<: *x",
                ]);
                self.push(merged);
                self.line_end();
                continue;
            } else {
                let key = self.pick(KEYS);
                self.push(key);
                if self.chance(200) {
                    self.push(&"k".repeat(1024 - key.len().min(5)));
                }
                if self.chance(20) {
                    self.push(" ");
                }
                self.push(":");
            }
            self.push_gap();
            self.block_value(indent + 2, false);
        }
        self.depth -= 1;
    }

    /// Writes what separates an indicator from what follows.
    fn push_gap(&mut self) {
        let gap = match self.below(25) {
            0 => "",
            1 => "\t",
            2 => "  ",
            3 => " \t",
            _ => " ",
        };
        self.push(gap);
    }

    /// Writes a value and the end of its line. A block may begin on the same line if it `is_item`.
    fn block_value(&mut self, indent: usize, is_item: bool) {
        self.properties();
        let kinds = if self.is_full() { 8 } else { 11 };
        match self.below(kinds) {
            0 => {
                let scalar = self.pick(&[
                    "|", ">", "|-", ">+", "|2", ">1-", "|+1", "|0", "| # c", ">x", "|9",
                ]);
                self.push(scalar);
                self.line_end();
                let lines = self.below(4);
                for _ in 0..lines {
                    self.indent(indent);
                    let line = self.pick(&["a", "  b", "", "\tc", "d ", "# e", "- f", "g: h", "é"]);
                    self.push(line);
                    self.line_end();
                }
                return;
            }
            1 => self.flow(),
            2 => {
                let lines = self.pick(&[
                    "a\n  b",
                    "a\n\n   b",
                    "a\n  # c\n  b",
                    "'a\n  b'",
                    "\"a\n\n  b\\\n  c\"",
                    "\"a\n--- b\"",
                    "a\n\tb",
                    "'it''s'",
                    "\"\\\n a\"",
                ]);
                self.push(lines);
            }
            3..=7 => self.scalar(),
            8 if is_item => {
                self.block(indent, true);
                return;
            }
            _ => {
                self.line_end();
                // A list needs no further indent than the key before it.
                let indent = if self.chance(4) { indent - 2 } else { indent };
                self.block(indent, false);
                return;
            }
        }
        self.line_end();
    }

    fn scalar(&mut self) {
        match self.below(8) {
            0 => self.json_string(),
            1 => {
                let word = self.pick(WORDS);
                self.push(&format!("'{word}'"));
            }
            2 => {
                let number = self.pick(NUMBERS);
                self.push(number);
            }
            3 if self.chance(3) => {
                let alias = self.pick(&["*x", "*y", "*z", "*", "*x-1_"]);
                self.push(alias);
            }
            4 if self.chance(4) => {
                let binary = self.pick(&[
                    "!!binary YQ==",
                    "!!binary /w==",
                    "!!binary YR==",
                    "!!binary Y",
                    "!!binary \"Y\\nQ==\"",
                    "!!binary",
                ]);
                self.push(binary);
            }
            _ => {
                let word = self.pick(WORDS);
                self.push(word);
            }
        }
    }

    fn flow(&mut self) {
        self.depth += 1;
        let is_list = self.chance(2);
        self.push(if is_list { "[" } else { "{" });
        let count = self.below(4);
        for at in 0..count {
            if at > 0 {
                let comma = self.pick(&[", ", ",", ",\n   ", " , ", ",\t", " # c\n  , "]);
                self.push(comma);
            }
            if !is_list || self.chance(8) {
                if self.chance(12) {
                    self.push("? ");
                }
                let key = self.pick(KEYS);
                self.push(key);
                let colon = self.pick(&[": ", ": ", ": ", ":", " :", " : ", "", ":\n  "]);
                self.push(colon);
            }
            self.properties();
            if self.is_full() || !self.chance(4) {
                self.scalar();
            } else {
                self.flow();
            }
        }
        if self.chance(15) {
            self.push(",");
        }
        self.push(if is_list { "]" } else { "}" });
        self.depth -= 1;
    }

    // --- Damage ---------------------------------------------------------------------------------

    /// Changes a few bytes of some texts.
    fn damage(&mut self) {
        let is_whole = !self.chance(3);
        if is_whole || self.out.is_empty() {
            return;
        }
        let changes = 1 + self.below(2);
        for _ in 0..changes {
            let at = self.below(self.out.len() + 1);
            let end = (at + self.below(4)).min(self.out.len());
            let with: &[u8] = if self.chance(3) {
                b""
            } else {
                self.pick(NOISE)
            };
            self.out.splice(at..end, with.iter().copied());
        }
    }
}
