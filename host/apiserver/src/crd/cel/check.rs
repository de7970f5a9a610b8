//! Checks the types of expressions, with the messages of cel-go's checker.

use std::sync::Arc;

use super::ast::{Comprehension, Expr, Issue, Literal, MacroKind, Node};
use super::declarations;
use super::literals;
use super::schema_types::reserved;
use super::types::{Bindings, Type};

/// The result of checking an expression.
#[derive(Debug)]
pub struct Checked {
    /// The type of the expression.
    pub ty: Type,
    /// Reports that the expression uses `oldSelf`.
    pub uses_old_self: bool,
}

/// Checks an expression with variables of given types.
///
/// # Errors
/// Returns the mistakes in it.
pub fn check(expr: &Expr, variables: &[(&str, Type)]) -> Result<Checked, Vec<Issue>> {
    let scopes = variables.iter().map(|(name, ty)| ((*name).to_owned(), ty.clone())).collect();
    let globals = variables.len();
    let mut checker =
        Checker { bindings: Bindings::default(), scopes, globals, issues: Vec::new(), uses_old_self: false };
    let ty = checker.check(expr);
    let ty = checker.bindings.resolve(&ty, true);
    if checker.issues.is_empty() {
        literals::check(expr, &mut checker.issues);
    }
    if checker.issues.is_empty() {
        Ok(Checked { ty, uses_old_self: checker.uses_old_self })
    } else {
        Err(checker.issues)
    }
}

struct Checker {
    bindings: Bindings,
    scopes: Vec<(String, Type)>,
    /// The number of variables that no macro declares.
    globals: usize,
    issues: Vec<Issue>,
    uses_old_self: bool,
}

/// Returns the type that a name of a type stands for.
fn type_of_name(name: &str) -> Option<Type> {
    let dynamic = || Arc::new(Type::Dyn);
    Some(match name {
        "bool" => Type::Bool,
        "int" => Type::Int,
        "uint" => Type::Uint,
        "double" => Type::Double,
        "string" => Type::String,
        "bytes" => Type::Bytes,
        "list" => Type::List(dynamic()),
        "map" => Type::Map(dynamic(), dynamic()),
        "null_type" => Type::Null,
        "google.protobuf.Timestamp" => Type::Timestamp,
        "google.protobuf.Duration" => Type::Duration,
        "net.IP" => Type::Opaque("net.IP"),
        "net.CIDR" => Type::Opaque("net.CIDR"),
        "kubernetes.URL" => Type::Opaque("kubernetes.URL"),
        "kubernetes.Quantity" => Type::Opaque("kubernetes.Quantity"),
        _ => return None,
    })
}

/// Returns the name that selects on an identifier spell, as in `a.b`.
pub fn qualified_name(expr: &Expr) -> Option<String> {
    match &expr.node {
        Node::Ident(name) => Some(name.clone()),
        Node::Select { operand, field, optional: false } => Some(format!("{}.{field}", qualified_name(operand)?)),
        _ => None,
    }
}

impl Checker {
    fn report(&mut self, at: usize, message: String) -> Type {
        self.issues.push(Issue { at, message });
        Type::Error
    }

    fn undeclared(&mut self, at: usize, name: &str) -> Type {
        self.report(at, format!("undeclared reference to '{name}' (in container '')"))
    }

    fn show(&self, ty: &Type) -> String {
        self.bindings.resolve(ty, false).to_string()
    }

    fn variable(&mut self, name: &str) -> Option<Type> {
        let at = self.scopes.iter().rposition(|(declared, _)| declared == name)?;
        self.uses_old_self |= at < self.globals && name == "oldSelf";
        Some(self.scopes[at].1.clone())
    }

    fn check(&mut self, expr: &Expr) -> Type {
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
                None => match type_of_name(name) {
                    Some(ty) => Type::Type(Arc::new(ty)),
                    None => self.undeclared(expr.at, name),
                },
            },
            Node::Select { operand, field, optional } => self.check_select(expr, operand, field, *optional),
            Node::Has { operand, field } => {
                let operand = self.check(operand);
                self.field_type(expr.at, &operand, field);
                Type::Bool
            }
            Node::Call { function, target, args } => self.check_call(expr.at, function, target.as_deref(), args),
            Node::List(elements) => {
                let types: Vec<_> =
                    elements.iter().map(|(element, optional)| self.element(element, *optional)).collect();
                Type::List(Arc::new(self.join_all(types)))
            }
            Node::Map(entries) => {
                let keys: Vec<_> = entries.iter().map(|(key, _, _)| self.check(key)).collect();
                let values: Vec<_> =
                    entries.iter().map(|(_, value, optional)| self.element(value, *optional)).collect();
                Type::Map(Arc::new(self.join_all(keys)), Arc::new(self.join_all(values)))
            }
            Node::Macro(comprehension) => self.check_macro(expr.at, comprehension),
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
        let joined = types.into_iter().reduce(|left, right| self.bindings.join(&left, &right));
        joined.unwrap_or_else(|| self.bindings.fresh())
    }

    fn check_select(&mut self, expr: &Expr, operand: &Expr, field: &str, optional: bool) -> Type {
        if let Some(name) = qualified_name(expr)
            && let Some(ty) = type_of_name(&name)
        {
            return Type::Type(Arc::new(ty));
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

    /// Returns the type of a field; the field of an optional is an optional.
    fn field_type(&mut self, at: usize, operand: &Type, field: &str) -> Type {
        match self.bindings.resolve(operand, false) {
            Type::Optional(inner) => match self.field_type(at, &inner, field) {
                Type::Error => Type::Error,
                found @ Type::Optional(_) => found,
                found => Type::Optional(Arc::new(found)),
            },
            Type::Map(_, value) => (*value).clone(),
            Type::Object(object) => match object.fields.get(field).or_else(|| object.fields.get(&reserved(field)?)) {
                Some(ty) => ty.clone(),
                None => self.report(at, format!("undefined field '{field}'")),
            },
            Type::Dyn | Type::Param(_) => Type::Dyn,
            Type::Error => Type::Error,
            other => {
                let message = format!("type '{}' does not support field selection", self.show(&other));
                self.report(at, message)
            }
        }
    }

    fn check_call(&mut self, at: usize, function: &str, target: Option<&Expr>, args: &[Expr]) -> Type {
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
        if let Some(prefix) = qualified_name(target) {
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

    fn expect_bool(&mut self, expr: &Expr) {
        let ty = self.check(expr);
        if !self.bindings.assign(&ty, &Type::Bool) {
            let message = format!("expected type 'bool' but found '{}'", self.show(&ty));
            self.report(expr.at, message);
        }
    }

    fn resolve_call(&mut self, at: usize, function: &str, args: &[Type], is_method: bool) -> Type {
        if args.iter().any(|ty| matches!(self.bindings.resolve(ty, false), Type::Error)) {
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
        self.report(at, format!("found no matching overload for '{function}' applied to '{applied}'"))
    }

    /// Returns the result of a call whose arguments have mistakes, without reporting more of them.
    fn resolve_with_mistakes(&mut self, function: &str, args: &[Type], is_method: bool) -> Type {
        self.overload_result(function, args, is_method).unwrap_or(Type::Error)
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
            let fits = args.iter().zip(&declared).all(|(arg, declared)| self.bindings.assign(arg, declared));
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

    fn check_macro(&mut self, at: usize, comprehension: &Comprehension) -> Type {
        let range = self.check(&comprehension.range);
        let range = self.bindings.resolve(&range, false);
        let variables = match self.variables(&range, comprehension) {
            Some(variables) => variables,
            None => {
                let message = if matches!(comprehension.kind, MacroKind::OptMap | MacroKind::OptFlatMap) {
                    format!("found no matching overload for 'hasValue' applied to '{range}.()'")
                } else {
                    let needed = "(must be list, map, or dynamic)";
                    format!("expression of type '{range}' cannot be range of a comprehension {needed}")
                };
                self.report(comprehension.range.at, message);
                vec![Type::Error; comprehension.vars.len()]
            }
        };
        let outer = self.scopes.len();
        self.scopes.extend(comprehension.vars.iter().cloned().zip(variables.iter().cloned()));
        let result = self.macro_result(at, comprehension, variables.last().unwrap_or(&Type::Dyn));
        self.scopes.truncate(outer);
        result
    }

    fn variables(&self, range: &Type, comprehension: &Comprehension) -> Option<Vec<Type>> {
        let two = comprehension.vars.len() == 2;
        if matches!(comprehension.kind, MacroKind::OptMap | MacroKind::OptFlatMap) {
            return match range {
                Type::Optional(inner) => Some(vec![(**inner).clone()]),
                Type::Dyn | Type::Param(_) => Some(vec![Type::Dyn]),
                Type::Error => Some(vec![Type::Error]),
                _ => None,
            };
        }
        Some(match range {
            Type::List(element) if two => vec![Type::Int, (**element).clone()],
            Type::List(element) => vec![(**element).clone()],
            Type::Map(key, value) if two => vec![(**key).clone(), (**value).clone()],
            Type::Map(key, _) => vec![(**key).clone()],
            Type::Dyn | Type::Param(_) => vec![Type::Dyn; comprehension.vars.len()],
            Type::Error => vec![Type::Error; comprehension.vars.len()],
            _ => return None,
        })
    }

    fn macro_result(&mut self, at: usize, comprehension: &Comprehension, element: &Type) -> Type {
        let args = &comprehension.args;
        let Some(last) = args.last() else { return Type::Error };
        match comprehension.kind {
            MacroKind::All | MacroKind::Exists => {
                self.expect_bool(last);
                Type::Bool
            }
            MacroKind::ExistsOne => {
                self.check_condition(at, last, &Type::Int);
                Type::Bool
            }
            MacroKind::Filter => {
                let list = Type::List(Arc::new(element.clone()));
                self.check_condition(at, last, &list);
                list
            }
            MacroKind::Map | MacroKind::TransformList => {
                let list = Type::List(Arc::new(self.check(last)));
                if args.len() == 2 {
                    self.check_condition(at, &args[0], &list);
                }
                list
            }
            MacroKind::TransformMap => {
                let key = self.scopes.len().checked_sub(2).map_or(Type::Dyn, |key| self.scopes[key].1.clone());
                let map = Type::Map(Arc::new(key), Arc::new(self.check(last)));
                if args.len() == 2 {
                    self.check_condition(at, &args[0], &map);
                }
                map
            }
            MacroKind::TransformMapEntry => {
                let map = self.check(last);
                if args.len() == 2 {
                    self.check_condition(at, &args[0], &map);
                }
                map
            }
            MacroKind::OptMap => Type::Optional(Arc::new(self.check(last))),
            MacroKind::OptFlatMap => self.check(last),
        }
    }

    /// Checks the condition that a macro expands to: `condition ? next : before`.
    fn check_condition(&mut self, at: usize, condition: &Expr, accumulator: &Type) {
        let ty = self.check(condition);
        self.resolve_call(at, "_?_:_", &[ty, accumulator.clone(), accumulator.clone()], false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crd::cel::parse::parse;

    fn types(text: &str) -> Result<String, String> {
        let list = Type::List(Arc::new(Type::String));
        let expr = parse(text).expect(text);
        let checked = check(&expr, &[("self", list.clone()), ("oldSelf", list)]);
        checked.map(|checked| checked.ty.to_string()).map_err(|issues| issues[0].message.clone())
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
            ("dyn(1) + 'a' == 'x'", "bool"),
            ("optional.of(1).optMap(x, string(x)).orValue('')", "string"),
            ("[] + [1]", "list(int)"),
            ("self[?0].orValue('a')", "string"),
            ("self.transformMap(i, x, x)", "map(int, string)"),
            ("ip('::1').family()", "int"),
            ("[1, dyn('a')]", "list(dyn)"),
            ("google.protobuf.Timestamp == type(1)", "bool"),
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
            ("self + 1", "found no matching overload for '_+_' applied to '(list(string), int)'"),
            ("self.foo", "type 'list(string)' does not support field selection"),
        ];
        for (text, message) in cases {
            assert_eq!(types(text), Err(message.to_owned()));
        }
    }

    #[test]
    fn tells_whether_the_old_value_is_used() {
        let uses = |text: &str| {
            let expr = parse(text).expect(text);
            let list = Type::List(Arc::new(Type::String));
            check(&expr, &[("self", list.clone()), ("oldSelf", list)]).expect(text).uses_old_self
        };
        assert!(uses("self == oldSelf") && !uses("self.all(oldSelf, oldSelf == '')"));
    }
}
