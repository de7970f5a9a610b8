//! Checks of constants in expressions: times, durations, patterns, and lists of one type.

use std::mem::discriminant;

use super::ast::{Expr, Issue, Literal, Node};
use crate::crd::formats;
use crate::crd::pattern;

/// Reports constants that no evaluation could use.
pub fn check(expr: &Expr, issues: &mut Vec<Issue>) {
    if let Node::Call { function, target, args } = &expr.node {
        let is_method = target.is_some();
        let argument = match (function.as_str(), is_method, args.len()) {
            ("timestamp" | "duration", false, 1) | ("matches", true, 1) => args.first(),
            ("matches", false, 2) => args.get(1),
            _ => None,
        };
        if let Some((argument, text)) = argument.and_then(|argument| Some((argument, literal_text(argument)?))) {
            let is_valid = match function.as_str() {
                "timestamp" => formats::is_rfc3339(text),
                "duration" => formats::is_go_duration(text),
                _ => pattern::compile(text).is_ok(),
            };
            if !is_valid {
                issues.push(Issue { at: argument.at, message: format!("invalid {function} argument") });
            }
        }
    }
    match &expr.node {
        Node::List(elements) => check_same(elements.iter().map(|(element, _)| element), issues),
        Node::Map(entries) => {
            check_same(entries.iter().map(|(key, _, _)| key), issues);
            check_same(entries.iter().map(|(_, value, _)| value), issues);
        }
        _ => {}
    }
    expr.node.children().into_iter().for_each(|child| check(child, issues));
}

fn literal_text(expr: &Expr) -> Option<&str> {
    match &expr.node {
        Node::Literal(Literal::String(text)) => Some(text),
        _ => None,
    }
}

fn name(literal: &Literal) -> &'static str {
    match literal {
        Literal::Null => "null",
        Literal::Bool(_) => "bool",
        Literal::Int(_) => "int",
        Literal::Uint(_) => "uint",
        Literal::Double(_) => "double",
        Literal::String(_) => "string",
        Literal::Bytes(_) => "bytes",
    }
}

/// Reports the first constant that has another type than the one before it.
fn check_same<'e>(elements: impl Iterator<Item = &'e Expr>, issues: &mut Vec<Issue>) {
    let mut first: Option<&Literal> = None;
    for element in elements {
        let Node::Literal(literal) = &element.node else { continue };
        match first {
            Some(expected) if discriminant(expected) != discriminant(literal) => {
                let message = format!("expected type '{}' but found '{}'", name(expected), name(literal));
                issues.push(Issue { at: element.at, message });
                return;
            }
            _ => first = Some(literal),
        }
    }
}
