//! The syntax tree of CEL expressions. Macros stay as they are written.

/// An expression, and the position of its characteristic token in the text, counted in characters.
#[derive(Clone, Debug, PartialEq)]
pub struct Expr {
    /// The number of the expression in the whole one, which the parser assigns from 0 on.
    pub id: usize,
    pub at: usize,
    /// The number of expressions from this one down to the deepest one inside.
    pub height: usize,
    pub node: Node,
}

impl Expr {
    /// Computes the height from the children; the parser numbers the whole tree at its end.
    pub fn new(at: usize, node: Node) -> Self {
        let height = 1 + node
            .children()
            .into_iter()
            .map(|child| child.height)
            .max()
            .unwrap_or(0);

        Self {
            id: 0,
            at,
            height,
            node,
        }
    }

    /// The leftmost identifier of a chain of selections, as `a` in `a.b.c`.
    pub fn root_name(&self) -> Option<&str> {
        match &self.node {
            Node::Ident(name) => Some(name),
            Node::Select {
                operand,
                optional: false,
                ..
            } => operand.root_name(),
            _ => None,
        }
    }

    /// The dotted name that a chain of selections spells, as `a.b`.
    pub fn qualified_name(&self) -> Option<String> {
        match &self.node {
            Node::Ident(name) => Some(name.clone()),
            Node::Select {
                operand,
                field,
                optional: false,
            } => Some(format!("{}.{field}", operand.qualified_name()?)),
            _ => None,
        }
    }

    /// Reports whether a chain of selections spells the dotted `name`, without building the string.
    pub fn spells(&self, name: &str) -> bool {
        match &self.node {
            Node::Ident(found) => found == name,
            Node::Select {
                operand,
                field,
                optional: false,
            } => name
                .rsplit_once('.')
                .is_some_and(|(before, last)| last == field && operand.spells(before)),
            _ => false,
        }
    }

    /// Numbers this expression and its descendants in preorder from `next` on, and returns the next
    /// free number.
    pub fn number(&mut self, next: usize) -> usize {
        self.id = next;
        self.node
            .children_mut()
            .into_iter()
            .fold(next + 1, |next, child| child.number(next))
    }
}

impl Node {
    /// The direct subexpressions.
    pub fn children(&self) -> Vec<&Expr> {
        match self {
            Self::Literal(_) | Self::Ident(_) => Vec::new(),
            Self::Select { operand, .. } | Self::Has { operand, .. } => vec![operand],
            Self::Call { target, args, .. } => target.as_deref().into_iter().chain(args).collect(),
            Self::List(elements) => elements.iter().map(|(element, _)| element).collect(),
            Self::Map(entries) => entries
                .iter()
                .flat_map(|(key, value, _)| [key, value])
                .collect(),
            Self::Macro(comprehension) => std::iter::once(&comprehension.range)
                .chain(&comprehension.args)
                .collect(),
            Self::Message { fields, .. } => fields.iter().collect(),
        }
    }

    fn children_mut(&mut self) -> Vec<&mut Expr> {
        match self {
            Self::Literal(_) | Self::Ident(_) => Vec::new(),
            Self::Select { operand, .. } | Self::Has { operand, .. } => vec![operand],
            Self::Call { target, args, .. } => {
                target.as_deref_mut().into_iter().chain(args).collect()
            }
            Self::List(elements) => elements.iter_mut().map(|(element, _)| element).collect(),
            Self::Map(entries) => entries
                .iter_mut()
                .flat_map(|(key, value, _)| [key, value])
                .collect(),
            Self::Macro(comprehension) => {
                let Comprehension { range, args, .. } = &mut **comprehension;
                std::iter::once(range).chain(args).collect()
            }
            Self::Message { fields, .. } => fields.iter_mut().collect(),
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub enum Node {
    /// A constant.
    Literal(Literal),
    /// A name.
    Ident(String),
    /// `operand.field`, or `operand.?field`.
    Select {
        operand: Box<Expr>,
        field: String,
        /// Whether it was written `.?`, which makes the result an optional.
        optional: bool,
    },
    /// `has(operand.field)`.
    Has { operand: Box<Expr>, field: String },
    /// A function or operator; operators have names as in `_+_`.
    Call {
        function: String,
        /// The value before the dot, for a method.
        target: Option<Box<Expr>>,
        args: Vec<Expr>,
    },
    /// A list; the flags mark optional elements.
    List(Vec<(Expr, bool)>),
    /// A map; the flags mark optional entries.
    Map(Vec<(Expr, Expr, bool)>),
    /// A macro over the elements of a list or the keys of a map.
    Macro(Box<Comprehension>),
    /// A message of protocol buffers, as in `Name{field: value}`. No environment has such types.
    Message { name: String, fields: Vec<Expr> },
}

/// A macro over the elements of a list or the keys of a map, or over the value of an optional.
#[derive(Clone, Debug, PartialEq)]
pub struct Comprehension {
    pub kind: MacroKind,
    /// The list, map or optional.
    pub range: Expr,
    /// The variables: the element, or the index or key and the element.
    pub vars: Vec<String>,
    /// The expressions after the variables.
    pub args: Vec<Expr>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
    SortBy,
}

#[derive(Clone, Debug, PartialEq)]
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
    pub message: String,
}

/// Formats issues as cel-go does: sorted by position, each with its line and a caret.
///
/// See <https://github.com/google/cel-go/blob/v0.26.0/common/error.go>.
pub fn render(source: &str, issues: &[Issue]) -> String {
    let mut sorted: Vec<_> = issues.iter().collect();
    sorted.sort_by_key(|issue| issue.at);

    let texts: Vec<String> = sorted
        .into_iter()
        .map(|issue| render_one(source, issue))
        .collect();
    texts.join("\n")
}

fn render_one(source: &str, issue: &Issue) -> String {
    let lines: Vec<&str> = source.split('\n').collect();
    let mut start = 0;
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

    format!(
        "ERROR: <input>:{}:{}: {}\n | {line}\n | {dots}^",
        number + 1,
        column + 1,
        issue.message
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_at_the_place_of_an_issue() {
        let issue = Issue {
            at: 6,
            message: "no".into(),
        };

        assert_eq!(
            render("a &&\n b", &[issue]),
            "ERROR: <input>:2:2: no\n |  b\n | .^"
        );
    }
}
