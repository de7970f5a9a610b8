//! Macros that the parser does not expand: those with two variables, and those of optionals.

use kube_cel::cel::{
    IdedExpr,
    common::ast::{CallExpr, Expr},
};

/// A call of a macro.
pub(super) struct Macro<'e> {
    pub kind: Kind,
    /// The variables: one for optionals, else the index or key, and the value.
    pub variables: Vec<&'e str>,
    /// The condition on elements that are transformed.
    pub filter: Option<&'e IdedExpr>,
    /// The predicate or the transformation.
    pub body: &'e IdedExpr,
}

/// A kind of macros.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// True if the predicate holds for all elements.
    All,
    /// True if it holds for any.
    Exists,
    /// True if it holds for exactly one.
    ExistsOne,
    /// A list of transformed elements.
    TransformList,
    /// A map with transformed values.
    TransformMap,
    /// An optional with a transformed value.
    OptMap,
    /// An optional that a transformation makes.
    OptFlatMap,
}

/// Returns the macro that a member call is; None if it is none.
pub(super) fn of_call(call: &CallExpr) -> Option<Macro<'_>> {
    let (kind, count) = match (call.func_name.as_str(), call.args.len()) {
        ("all", 3) => (Kind::All, 2),
        ("exists", 3) => (Kind::Exists, 2),
        ("existsOne", 3) => (Kind::ExistsOne, 2),
        ("transformList", 3 | 4) => (Kind::TransformList, 2),
        ("transformMap", 3 | 4) => (Kind::TransformMap, 2),
        ("optMap", 2) => (Kind::OptMap, 1),
        ("optFlatMap", 2) => (Kind::OptFlatMap, 1),
        _ => return None,
    };
    let (variables, rest) = call.args.split_at(count);
    let names = variables.iter().map(|variable| match &variable.expr {
        Expr::Ident(name) => Some(name.as_str()),
        _ => None,
    });
    let variables = names.collect::<Option<Vec<&str>>>()?;
    let (filter, body) = match rest {
        [body] => (None, body),
        [filter, body] => (Some(filter), body),
        _ => return None,
    };
    Some(Macro { kind, variables, filter, body })
}
