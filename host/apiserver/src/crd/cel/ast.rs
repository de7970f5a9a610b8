//! The syntax tree of CEL expressions. Macros stay as they are written.

/// An expression, and the position of its characteristic token in the text, counted in characters.
#[derive(Clone, Debug, PartialEq)]
pub struct Expr {
    /// The position.
    pub at: usize,
    /// The number of expressions from this one down to the deepest one inside.
    pub height: usize,
    /// The expression.
    pub node: Node,
}

impl Expr {
    /// Puts an expression at a position.
    pub fn new(at: usize, node: Node) -> Self {
        let height = 1 + node.children().into_iter().map(|child| child.height).max().unwrap_or(0);
        Self { at, height, node }
    }
}

impl Node {
    /// Lists the expressions directly inside of this one.
    pub fn children(&self) -> Vec<&Expr> {
        match self {
            Self::Literal(_) | Self::Ident(_) => Vec::new(),
            Self::Select { operand, .. } | Self::Has { operand, .. } => vec![operand],
            Self::Call { target, args, .. } => target.as_deref().into_iter().chain(args).collect(),
            Self::List(elements) => elements.iter().map(|(element, _)| element).collect(),
            Self::Map(entries) => entries.iter().flat_map(|(key, value, _)| [key, value]).collect(),
            Self::Macro(comprehension) => std::iter::once(&comprehension.range).chain(&comprehension.args).collect(),
        }
    }
}

/// The kinds of expressions.
#[derive(Clone, Debug, PartialEq)]
pub enum Node {
    /// A constant.
    Literal(Literal),
    /// A name.
    Ident(String),
    /// `operand.field`, or `operand.?field`.
    Select {
        /// The value with the field.
        operand: Box<Expr>,
        /// The name of the field.
        field: String,
        /// Says that the result is an optional.
        optional: bool,
    },
    /// `has(operand.field)`.
    Has {
        /// The value that may have the field.
        operand: Box<Expr>,
        /// The name of the field.
        field: String,
    },
    /// A function or operator; operators have names as in `_+_`.
    Call {
        /// The name.
        function: String,
        /// The value before the dot, for a method.
        target: Option<Box<Expr>>,
        /// The arguments.
        args: Vec<Expr>,
    },
    /// A list; the flags mark optional elements.
    List(Vec<(Expr, bool)>),
    /// A map; the flags mark optional entries.
    Map(Vec<(Expr, Expr, bool)>),
    /// A macro over the elements of a list or the keys of a map.
    Macro(Box<Comprehension>),
}

/// A macro over the elements of a list or the keys of a map, or over the value of an optional.
#[derive(Clone, Debug, PartialEq)]
pub struct Comprehension {
    /// Which one.
    pub kind: MacroKind,
    /// The list, map or optional.
    pub range: Expr,
    /// The variables: the element, or the index or key and the element.
    pub vars: Vec<String>,
    /// The expressions after the variables.
    pub args: Vec<Expr>,
}

/// The macros.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are those of CEL's macros")]
pub enum MacroKind {
    All,
    Exists,
    ExistsOne,
    Map,
    Filter,
    TransformList,
    TransformMap,
    TransformMapEntry,
    OptMap,
    OptFlatMap,
}

/// A constant.
#[derive(Clone, Debug, PartialEq)]
#[expect(missing_docs, reason = "the names are those of CEL's types")]
pub enum Literal {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    String(String),
    Bytes(Vec<u8>),
}

/// A mistake in an expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Issue {
    /// Its position, counted in characters.
    pub at: usize,
    /// The message.
    pub message: String,
}

/// Writes issues as cel-go does: sorted, each with its line and a caret.
pub fn render(source: &str, issues: &[Issue]) -> String {
    let mut sorted: Vec<_> = issues.iter().collect();
    sorted.sort_by_key(|issue| issue.at);
    let texts: Vec<String> = sorted.into_iter().map(|issue| render_one(source, issue)).collect();
    texts.join("\n")
}

fn render_one(source: &str, issue: &Issue) -> String {
    let mut start = 0;
    let lines: Vec<&str> = source.split('\n').collect();
    let mut number = 0;
    for (at, line) in lines.iter().enumerate() {
        number = at;
        let length = line.chars().count();
        if issue.at <= start + length || at + 1 == lines.len() {
            break;
        }
        start += length + 1;
    }
    let column = issue.at.saturating_sub(start);
    let line = lines.get(number).copied().unwrap_or_default();
    let dots = ".".repeat(column);
    format!("ERROR: <input>:{}:{}: {}\n | {line}\n | {dots}^", number + 1, column + 1, issue.message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_at_the_place_of_an_issue() {
        let issue = Issue { at: 6, message: "no".into() };
        assert_eq!(render("a &&\n b", &[issue]), "ERROR: <input>:2:2: no\n |  b\n | .^");
    }
}
