//! The words of CEL that are no names.

/// The literals, and the words that the language reserves, `in` among them.
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

/// Reports whether a word is no name.
pub fn is_word(name: &str) -> bool {
    WORDS.contains(&name)
}

/// Returns the name that a schema's field has in types if its own name is a word, which expressions may use without the
/// underscores.
pub fn escaped(name: &str) -> Option<String> {
    is_word(name).then(|| format!("__{name}__"))
}

/// Reports whether a word is reserved, and no literal.
pub fn is_reserved(name: &str) -> bool {
    is_word(name) && !["true", "false", "null"].contains(&name)
}
