//! The tokens of a label selector.

/// A token. Keywords are known where the grammar has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Token {
    /// The end of the text.
    End,
    /// `!`.
    Not,
    /// `,`.
    Comma,
    /// `(`.
    Open,
    /// `)`.
    Close,
    /// `=`.
    Equals,
    /// `==`.
    DoubleEquals,
    /// `!=`.
    NotEquals,
    /// `>`.
    Greater,
    /// `<`.
    Less,
    /// `in`.
    In,
    /// `notin`.
    NotIn,
    /// A key or a value.
    Identifier,
    /// Characters that are no operator, such as `=!`.
    Error,
}

/// The text of a selector as tokens.
pub(super) struct Lexer<'a> {
    text: &'a str,
    position: usize,
}

impl<'a> Lexer<'a> {
    pub fn new(text: &'a str) -> Self {
        Self { text, position: 0 }
    }

    /// Takes the next token. After the end it is [`Token::End`] again and again.
    pub fn next(&mut self) -> (Token, String) {
        let rest = self.text[self.position..].trim_start_matches([' ', '\t', '\r', '\n']);
        self.position = self.text.len() - rest.len();
        let Some(first) = rest.chars().next() else {
            return (Token::End, String::new());
        };
        if is_special(first) {
            self.special(rest)
        } else {
            self.identifier(rest)
        }
    }

    fn identifier(&mut self, rest: &str) -> (Token, String) {
        let end = rest
            .find(|character| is_special(character) || is_space(character))
            .unwrap_or(rest.len());
        self.position += end;
        let token = match &rest[..end] {
            "in" => Token::In,
            "notin" => Token::NotIn,
            _ => Token::Identifier,
        };
        (token, rest[..end].to_owned())
    }

    /// Takes the longest operator. Special characters that are none together are an error together.
    fn special(&mut self, rest: &str) -> (Token, String) {
        let end = rest
            .find(|character| !is_special(character))
            .unwrap_or(rest.len());
        let longest = (1..=end.min(2))
            .rev()
            .find_map(|length| Some((operator(rest.get(..length)?)?, length)));
        let (token, length) = longest.unwrap_or((Token::Error, end));
        self.position += length;
        (token, rest[..length].to_owned())
    }
}

fn operator(text: &str) -> Option<Token> {
    Some(match text {
        ")" => Token::Close,
        "," => Token::Comma,
        "!" => Token::Not,
        "==" => Token::DoubleEquals,
        "=" => Token::Equals,
        ">" => Token::Greater,
        "<" => Token::Less,
        "!=" => Token::NotEquals,
        "(" => Token::Open,
        _ => return None,
    })
}

fn is_special(character: char) -> bool {
    matches!(character, '=' | '!' | '(' | ')' | ',' | '>' | '<')
}

fn is_space(character: char) -> bool {
    matches!(character, ' ' | '\t' | '\r' | '\n')
}
