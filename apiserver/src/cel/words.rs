//! Words of CEL that cannot be identifiers.

/// The literals and the reserved words, `in` among them.
const WORDS: [&str; 21] = [
    "true",
    "false",
    "null",
    "in",
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
];

/// Reports whether a word cannot be an identifier.
pub fn is_word(name: &str) -> bool {
    WORDS.contains(&name)
}

/// The name a schema's field is declared under if its own name is a word. Expressions may use either.
pub fn escaped(name: &str) -> Option<String> {
    is_word(name).then(|| format!("__{name}__"))
}

/// Reports whether a word is reserved without being a literal.
pub fn is_reserved(name: &str) -> bool {
    is_word(name) && !["true", "false", "null"].contains(&name)
}
