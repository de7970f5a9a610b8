//! Checks after type checking: constant timestamps, durations and patterns must be valid, and the
//! elements of a list or map must have one type.

use super::ast::{Expr, Issue, Literal, Node};
use super::types::Type;
use crate::golang::duration;
use crate::golang::pattern;
use crate::golang::time::is_rfc3339;

/// Reports constants that no evaluation could use. `types` has the types of subexpressions by their
/// numbers.
pub fn check(expr: &Expr, types: &[Type], issues: &mut Vec<Issue>) {
    check_inside(expr, types, false, issues);
}

fn check_inside(expr: &Expr, types: &[Type], in_format: bool, issues: &mut Vec<Issue>) {
    if let Node::Call {
        function,
        target,
        args,
    } = &expr.node
    {
        let is_method = target.is_some();

        let argument = match (function.as_str(), is_method, args.len()) {
            ("timestamp" | "duration", false, 1) | ("matches", true, 1) => args.first(),
            ("matches", false, 2) => args.get(1),
            _ => None,
        };

        if let Some((argument, text)) =
            argument.and_then(|argument| Some((argument, literal_text(argument)?)))
        {
            let is_valid = match function.as_str() {
                "timestamp" => is_rfc3339(text),
                "duration" => duration::is_valid(text),
                _ => pattern::compile(text).is_ok(),
            };

            if !is_valid {
                issues.push(Issue {
                    at: argument.at,
                    message: format!("invalid {function} argument"),
                });
            }
        }
    }

    match &expr.node {
        _ if in_format => {}
        Node::List(elements) => {
            check_same(
                elements
                    .iter()
                    .map(|(element, optional)| (element, *optional)),
                types,
                true,
                issues,
            );
        }
        Node::Map(entries) => {
            check_same(
                entries.iter().map(|(key, _, _)| (key, false)),
                types,
                false,
                issues,
            );
            check_same(
                entries
                    .iter()
                    .map(|(_, value, optional)| (value, *optional)),
                types,
                false,
                issues,
            );
        }
        _ => {}
    }

    // The arguments of `format` may be of several types.
    let in_format =
        in_format || matches!(&expr.node, Node::Call { function, .. } if function == "format");

    expr.node
        .children()
        .into_iter()
        .for_each(|child| check_inside(child, types, in_format, issues));
}

fn literal_text(expr: &Expr) -> Option<&str> {
    match &expr.node {
        Node::Literal(Literal::String(text)) => Some(text),
        _ => None,
    }
}

/// Reports elements whose type differs from the first one's. As in cel-go, `dyn` differs from every
/// other type, and only the first such element of a list is reported.
fn check_same<'e>(
    elements: impl Iterator<Item = (&'e Expr, bool)>,
    types: &[Type],
    is_list: bool,
    issues: &mut Vec<Issue>,
) {
    let mut first: Option<&Type> = None;

    for (element, optional) in elements {
        let found = match types.get(element.id) {
            Some(Type::Optional(inner)) if optional => &**inner,
            Some(found) => found,
            None => continue,
        };

        let expected = *first.get_or_insert(found);
        if expected != found {
            let message = format!("expected type '{expected}' but found '{found}'");
            issues.push(Issue {
                at: element.at,
                message,
            });

            if is_list {
                return;
            }
        }
    }
}
