//! Checks the types of expressions, with the messages of cel-go's checker.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::ast::{Expr, Issue, Literal, Node};
use super::declarations;
use super::literals;
use super::types::{Bindings, Type};
use super::words;

#[derive(Debug)]
pub struct Checked {
    pub ty: Type,
    /// The types of its subexpressions, by their numbers.
    pub types: Vec<Type>,
    /// The variables that the expression uses.
    pub used: BTreeSet<String>,
}

/// Checks an expression with variables of given types. Variables may have dotted names.
pub fn check(expr: &Expr, variables: &[(&str, Type)]) -> Result<Checked, Vec<Issue>> {
    let scopes = variables
        .iter()
        .map(|(name, ty)| ((*name).to_owned(), ty.clone()))
        .collect();
    let globals = variables.len();

    let mut checker = Checker {
        bindings: Bindings::default(),
        scopes,
        globals,
        issues: Vec::new(),
        types: Vec::new(),
        used: BTreeSet::new(),
    };

    let ty = checker.check(expr);
    let Checker {
        bindings,
        mut issues,
        types,
        used,
        ..
    } = checker;

    let types: Vec<Type> = types.iter().map(|ty| bindings.resolve(ty, true)).collect();
    if issues.is_empty() {
        literals::check(expr, &types, &mut issues);
    }

    if issues.is_empty() {
        Ok(Checked {
            ty: bindings.resolve(&ty, true),
            types,
            used,
        })
    } else {
        Err(issues)
    }
}

pub(super) struct Checker {
    pub(super) bindings: Bindings,
    /// The variables; those that macros declare come last.
    pub(super) scopes: Vec<(String, Type)>,
    /// How many of them no macro declares.
    globals: usize,
    issues: Vec<Issue>,
    types: Vec<Type>,
    used: BTreeSet<String>,
}

impl Checker {
    pub(super) fn report(&mut self, at: usize, message: String) -> Type {
        self.issues.push(Issue { at, message });
        Type::Error
    }

    fn undeclared(&mut self, at: usize, name: &str) -> Type {
        self.report(
            at,
            format!("undeclared reference to '{name}' (in container '')"),
        )
    }

    fn show(&self, ty: &Type) -> String {
        self.bindings.resolve(ty, false).to_string()
    }

    fn variable(&mut self, name: &str) -> Option<Type> {
        let at = self
            .scopes
            .iter()
            .rposition(|(declared, _)| declared == name)?;

        if at < self.globals {
            self.used.insert(name.to_owned());
        }

        Some(self.scopes[at].1.clone())
    }

    /// The type of a variable with a dotted name, unless a macro's variable shadows its first part.
    fn dotted_variable(&mut self, expr: &Expr) -> Option<Type> {
        let root = expr.root_name()?;
        if self.scopes[self.globals..]
            .iter()
            .any(|(declared, _)| declared == root)
        {
            return None;
        }

        let (name, ty) = self.scopes[..self.globals]
            .iter()
            .find(|(declared, _)| expr.spells(declared))?;

        self.used.insert(name.clone());
        Some(ty.clone())
    }

    pub(super) fn check(&mut self, expr: &Expr) -> Type {
        let ty = self.check_node(expr);
        if self.types.len() <= expr.id {
            self.types.resize(expr.id + 1, Type::Dyn);
        }
        self.types[expr.id] = ty.clone();
        ty
    }

    fn check_node(&mut self, expr: &Expr) -> Type {
        match &expr.node {
            Node::Literal(literal) => match literal {
                Literal::Null => Type::Null,
                Literal::Bool(_) => Type::Bool,
                Literal::Int(_) => Type::Int,
                Literal::Uint(_) => Type::Uint,
                Literal::Double(_) => Type::Double,
                Literal::String(_) => Type::String,
                Literal::Bytes(_) => Type::Bytes,
            },
            Node::Ident(name) => match self.variable(name) {
                Some(ty) => ty,
                None => match Type::of_name(name) {
                    Some(ty) => Type::Type(Arc::new(ty)),
                    None => self.undeclared(expr.at, name),
                },
            },
            Node::Select {
                operand,
                field,
                optional,
            } => self.check_select(expr, operand, field, *optional),
            Node::Has { operand, field } => {
                let operand = self.check(operand);
                self.field_type(expr.at, &operand, field);
                Type::Bool
            }
            Node::Call {
                function,
                target,
                args,
            } => self.check_call(expr.at, function, target.as_deref(), args),
            Node::List(elements) => {
                let types: Vec<_> = elements
                    .iter()
                    .map(|(element, optional)| self.element(element, *optional))
                    .collect();

                Type::List(Arc::new(self.join_all(types)))
            }
            Node::Map(entries) => {
                let keys: Vec<_> = entries.iter().map(|(key, _, _)| self.check(key)).collect();
                let values: Vec<_> = entries
                    .iter()
                    .map(|(_, value, optional)| self.element(value, *optional))
                    .collect();

                Type::Map(
                    Arc::new(self.join_all(keys)),
                    Arc::new(self.join_all(values)),
                )
            }
            Node::Macro(comprehension) => self.check_macro(expr.at, comprehension),
            Node::Message { name, .. } => self.undeclared(expr.at, name),
        }
    }

    fn element(&mut self, expr: &Expr, optional: bool) -> Type {
        let ty = self.check(expr);
        match self.bindings.resolve(&ty, false) {
            Type::Optional(inner) if optional => (*inner).clone(),
            ty => ty,
        }
    }

    fn join_all(&mut self, types: Vec<Type>) -> Type {
        let joined = types
            .into_iter()
            .reduce(|left, right| self.bindings.join(&left, &right));
        joined.unwrap_or_else(|| self.bindings.fresh())
    }

    fn check_select(&mut self, expr: &Expr, operand: &Expr, field: &str, optional: bool) -> Type {
        if let Some(name) = expr.qualified_name()
            && let Some(ty) = Type::of_name(&name)
        {
            return Type::Type(Arc::new(ty));
        }

        if let Some(ty) = self.dotted_variable(expr) {
            return ty;
        }

        let operand = self.check(operand);
        let found = self.field_type(expr.at, &operand, field);

        match found {
            Type::Error => Type::Error,
            Type::Optional(_) => found,
            found if optional => Type::Optional(Arc::new(found)),
            found => found,
        }
    }

    /// Selecting from an optional gives an optional.
    fn field_type(&mut self, at: usize, operand: &Type, field: &str) -> Type {
        match self.bindings.resolve(operand, false) {
            Type::Optional(inner) => match self.field_type(at, &inner, field) {
                Type::Error => Type::Error,
                found @ Type::Optional(_) => found,
                found => Type::Optional(Arc::new(found)),
            },
            Type::Map(_, value) => (*value).clone(),
            Type::Object(object) => {
                match object
                    .fields
                    .get(field)
                    .or_else(|| object.fields.get(&words::escaped(field)?))
                {
                    Some(ty) => ty.clone(),
                    None => self.report(at, format!("undefined field '{field}'")),
                }
            }
            Type::Dyn | Type::Param(_) => Type::Dyn,
            Type::Error => Type::Error,
            Type::Opaque(name) if name.starts_with("kubernetes.authorization.") => {
                self.report(at, format!("unexpected failed resolution of '{name}'"))
            }
            other => {
                let message = format!(
                    "type '{}' does not support field selection",
                    self.show(&other)
                );
                self.report(at, message)
            }
        }
    }

    fn check_call(
        &mut self,
        at: usize,
        function: &str,
        target: Option<&Expr>,
        args: &[Expr],
    ) -> Type {
        if matches!(function, "_&&_" | "_||_") {
            for arg in args {
                self.expect_bool(arg);
            }
            return Type::Bool;
        }

        let types: Vec<_> = args.iter().map(|arg| self.check(arg)).collect();
        let Some(target) = target else {
            if declarations::overloads(function).is_none() {
                return self.undeclared(at, function);
            }
            return self.resolve_call(at, function, &types, false);
        };

        if let Some(prefix) = target.qualified_name() {
            let name = format!("{prefix}.{function}");
            if declarations::overloads(&name).is_some() {
                return self.resolve_call(at, &name, &types, false);
            }
        }

        let mut all = vec![self.check(target)];
        all.extend(types);

        if declarations::overloads(function).is_none() {
            return self.undeclared(at, function);
        }

        self.resolve_call(at, function, &all, true)
    }

    pub(super) fn expect_bool(&mut self, expr: &Expr) {
        let ty = self.check(expr);
        if !self.bindings.assign(&ty, &Type::Bool) {
            let message = format!("expected type 'bool' but found '{}'", self.show(&ty));
            self.report(expr.at, message);
        }
    }

    pub(super) fn resolve_call(
        &mut self,
        at: usize,
        function: &str,
        args: &[Type],
        is_method: bool,
    ) -> Type {
        if args
            .iter()
            .any(|ty| matches!(self.bindings.resolve(ty, false), Type::Error))
        {
            return self.resolve_with_mistakes(function, args, is_method);
        }

        if let Some(result) = self.overload_result(function, args, is_method) {
            return result;
        }

        let shown: Vec<_> = args.iter().map(|ty| self.show(ty)).collect();
        let applied = match shown.split_first() {
            Some((target, rest)) if is_method => format!("{target}.({})", rest.join(", ")),
            _ => format!("({})", shown.join(", ")),
        };

        self.report(
            at,
            format!("found no matching overload for '{function}' applied to '{applied}'"),
        )
    }

    /// The result of a call whose arguments already have mistakes; reports no further ones.
    fn resolve_with_mistakes(&mut self, function: &str, args: &[Type], is_method: bool) -> Type {
        self.overload_result(function, args, is_method)
            .unwrap_or(Type::Error)
    }

    fn overload_result(&mut self, function: &str, args: &[Type], is_method: bool) -> Option<Type> {
        let mut result: Option<Type> = None;
        for overload in declarations::overloads(function)? {
            if overload.is_method != is_method || overload.args.len() != args.len() {
                continue;
            }

            let mut types: Vec<&Type> = overload.args.iter().collect();
            types.push(&overload.result);
            let mut declared = self.bindings.instantiate(&types);
            let declared_result = declared.pop()?;

            let before = self.bindings.clone();
            let fits = args
                .iter()
                .zip(&declared)
                .all(|(arg, declared)| self.bindings.assign(arg, declared));

            if !fits {
                self.bindings = before;
                continue;
            }

            let found = self.bindings.resolve(&declared_result, false);
            result = match result {
                None => Some(found),
                Some(first) if first == found => Some(first),
                Some(_) => Some(Type::Dyn),
            };
        }

        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cel::parse::parse;

    fn types(text: &str) -> Result<String, String> {
        let list = Type::List(Arc::new(Type::String));
        let expr = parse(text).expect(text);
        let checked = check(&expr, &[("self", list.clone()), ("oldSelf", list)]);
        checked
            .map(|checked| checked.ty.to_string())
            .map_err(|issues| issues[0].message.clone())
    }

    #[test]
    fn finds_the_type_of_expressions() {
        let cases = [
            ("self[0] + 'a'", "string"),
            ("self.map(x, size(x))", "list(int)"),
            ("self.filter(x, x == 'a')", "list(string)"),
            ("[1, 2].sum() + 1", "int"),
            ("{'a': 1}['a']", "int"),
            ("self.all(i, x, i > 0 && x != '')", "bool"),
            ("type(1) == int", "bool"),
            ("type(optional.of(1)) == optional_type", "bool"),
            ("type(type(1)) == type", "bool"),
            ("dyn(1) + 'a' == 'x'", "bool"),
            ("optional.of(1).optMap(x, string(x)).orValue('')", "string"),
            ("[] + [1]", "list(int)"),
            ("self[?0].orValue('a')", "string"),
            ("self.transformMap(i, x, x)", "map(int, string)"),
            ("ip('::1').family()", "int"),
            ("[dyn(1), dyn('a')]", "list(dyn)"),
            ("google.protobuf.Timestamp == type(1)", "bool"),
            ("self.sortBy(x, size(x))", "list(string)"),
            ("'%s %d'.format(['a', 1])", "string"),
        ];

        for (text, expected) in cases {
            assert_eq!(types(text), Ok(expected.to_owned()), "{text}");
        }
    }

    #[test]
    fn reports_mistakes_in_the_words_of_cel_go() {
        let cases = [
            (
                "1.all(x, x)",
                "expression of type 'int' cannot be range of a comprehension (must be list, map, or dynamic)",
            ),
            (
                "self + 1",
                "found no matching overload for '_+_' applied to '(list(string), int)'",
            ),
            (
                "self.foo",
                "type 'list(string)' does not support field selection",
            ),
            (
                "Foo{a: 1} == null",
                "undeclared reference to 'Foo' (in container '')",
            ),
            (
                "[1, 1 + 1, self[0]]",
                "expected type 'int' but found 'string'",
            ),
            ("[1, dyn('a')]", "expected type 'int' but found 'dyn'"),
        ];

        for (text, message) in cases {
            assert_eq!(types(text), Err(message.to_owned()));
        }
    }

    #[test]
    fn lists_the_variables_that_are_used() {
        let uses = |text: &str| {
            let expr = parse(text).expect(text);

            let list = Type::List(Arc::new(Type::String));
            check(&expr, &[("self", list.clone()), ("oldSelf", list)])
                .expect(text)
                .used
                .contains("oldSelf")
        };

        assert!(uses("self == oldSelf") && !uses("self.all(oldSelf, oldSelf == '')"));
    }

    #[test]
    fn finds_variables_with_dots() {
        let kind = |text: &str| {
            let expr = parse(text).expect(text);
            check(&expr, &[("a", Type::Int), ("a.b", Type::String)]).map(|checked| checked.ty)
        };

        assert_eq!(kind("a.b + 'x'"), Ok(Type::String));
        assert_eq!(
            kind("[{'b': 1}].map(a, a.b)"),
            Ok(Type::List(Arc::new(Type::Int)))
        );

        assert!(kind("a.c").is_err());
    }
}
