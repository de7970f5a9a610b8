//! The checker of types: finds names that are not declared, and operators on values of the wrong type.
//!
//! It checks the names of functions, but not the types of all their arguments: a call that kube-apiserver would refuse
//! when the policy is created may fail here only when it is evaluated.

use std::collections::BTreeMap;

use kube_cel::cel::{
    IdedExpr,
    common::ast::{CallExpr, EntryExpr, Expr, LiteralValue, SelectExpr, operators},
};

use super::{
    CompileError, calls,
    check_operators::{self, Operator},
    environment::{self, Environment},
    functions::{self, Output},
    macros,
    source::{self, Place, Position},
    types::{self, Type},
};

/// Returns the type of an expression.
pub(super) fn check(source: &str, expression: &IdedExpr, environment: &Environment) -> Result<Type, CompileError> {
    let mut checker = Checker {
        source,
        environment,
        locals: Vec::new(),
        visits: BTreeMap::new(),
        issues: Vec::new(),
        unsupported: None,
    };
    let output = checker.expression(expression);
    if !checker.issues.is_empty() {
        checker.issues.sort();
        let issues = checker.issues.iter();
        let issues: Vec<String> =
            issues.map(|((line, column), message)| source::issue_at(source, *line, *column, message)).collect();
        return Err(CompileError::Invalid(format!("compilation failed: {}", issues.join("\n"))));
    }
    match checker.unsupported {
        Some(what) => Err(CompileError::Unsupported(what)),
        None => Ok(output),
    }
}

pub(super) struct Checker<'a> {
    source: &'a str,
    environment: &'a Environment,
    /// The variables of comprehensions around the expression, the innermost last.
    pub(super) locals: Vec<(String, Type)>,
    /// The times that a name was met, to know which of its occurrences in the text is meant.
    visits: BTreeMap<(String, Place), usize>,
    issues: Vec<(Position, String)>,
    unsupported: Option<String>,
}

impl Checker<'_> {
    /// Returns the position of the next occurrence of a name.
    fn position(&mut self, name: &str, place: Place) -> Position {
        let nth = self.visits.entry((name.to_owned(), place)).or_default();
        *nth += 1;
        source::position(self.source, name, place, *nth - 1)
    }

    pub(super) fn expression(&mut self, expression: &IdedExpr) -> Type {
        match &expression.expr {
            Expr::Literal(literal) => types::literal(literal),
            Expr::Ident(name) => self.ident(name),
            Expr::Select(select) => self.select(select),
            Expr::Call(call) => self.call(call),
            Expr::List(list) => self.list(&list.elements),
            Expr::Map(map) => self.map(map.entries.iter().map(|entry| &entry.expr)),
            Expr::Comprehension(comprehension) => self.comprehension(comprehension),
            Expr::Struct(message) => {
                let position = self.position(&message.type_name, Place::Message);
                self.undeclared(&message.type_name, position)
            }
            Expr::Unspecified => Type::Unknown,
        }
    }

    fn local(&self, name: &str) -> Option<Type> {
        self.locals.iter().rev().find(|(local, _)| local == name).map(|(_, of)| of.clone())
    }

    fn ident(&mut self, name: &str) -> Type {
        let position = self.position(name, Place::Variable);
        if let Some(known) = self.local(name).or_else(|| self.environment.name(name)) {
            return known;
        }
        if functions::is_type_name(name) {
            self.unsupported.get_or_insert_with(|| "types as values".to_owned());
            return Type::Unknown;
        }
        self.undeclared(name, position)
    }

    fn undeclared(&mut self, name: &str, position: Position) -> Type {
        self.issue(position, format!("undeclared reference to '{name}' (in container '')"))
    }

    pub(super) fn issue(&mut self, position: Position, message: String) -> Type {
        self.issues.push((position, message));
        Type::Unknown
    }

    /// Returns the type of a list, whose elements must be of one type.
    fn list(&mut self, elements: &[IdedExpr]) -> Type {
        let mut of: Option<Type> = None;
        for element in elements {
            let found = self.expression(element);
            if let Some(first) = of.as_ref().filter(|first| first.excludes(&found)) {
                let message = format!("expected type '{first}' but found '{found}'");
                let position = self.literal_position(element);
                self.issue(position, message);
            }
            of = Some(of.map_or(found.clone(), |first| first.join(found)));
        }
        Type::list(of.unwrap_or(Type::Unknown))
    }

    /// Returns the position of an expression that is a literal; of others the beginning.
    pub(super) fn literal_position(&self, expression: &IdedExpr) -> Position {
        let text = match &expression.expr {
            Expr::Literal(LiteralValue::String(text)) => {
                let quoted = |quote: char| format!("{quote}{}{quote}", text.inner());
                let single = quoted('\'');
                if self.source.contains(&single) { single } else { quoted('"') }
            }
            Expr::Literal(LiteralValue::Int(value)) => value.inner().to_string(),
            Expr::Ident(name) => name.clone(),
            _ => return (1, 1),
        };
        source::position(self.source, &text, Place::Text, 0)
    }

    fn select(&mut self, select: &SelectExpr) -> Type {
        if environment::is_request_resource(select) && self.local("authorizer").is_none() {
            return self.ident("authorizer.requestResource");
        }
        let operand = self.expression(&select.operand);
        let field = self.field(&operand, &select.field);
        if select.test { Type::Bool } else { field }
    }

    fn field(&mut self, operand: &Type, name: &str) -> Type {
        match operand {
            Type::Dyn => Type::Dyn,
            Type::Unknown => Type::Unknown,
            Type::Map(_, value) => (**value).clone(),
            Type::Optional(value) => match self.field(&value.clone(), name) {
                already @ Type::Optional(_) => already,
                field => Type::Optional(Box::new(field)),
            },
            Type::Object(object) => {
                let known = if *operand == types::VARIABLES {
                    self.environment.variable(name)
                } else {
                    types::field(object, name)
                };
                known.unwrap_or_else(|| {
                    let position = source::position(self.source, name, Place::Field, 0);
                    let message = match types::has_fields(object) {
                        true => format!("undefined field '{name}'"),
                        false => format!("unexpected failed resolution of '{object}'"),
                    };
                    self.issue(position, message)
                })
            }
            other => {
                let position = source::position(self.source, name, Place::Field, 0);
                self.issue(position, format!("type '{other}' does not support field selection"))
            }
        }
    }

    fn map<'e>(&mut self, entries: impl Iterator<Item = &'e EntryExpr>) -> Type {
        let mut keys = Type::Unknown;
        let mut values = Type::Unknown;
        for (index, entry) in entries.enumerate() {
            let EntryExpr::MapEntry(entry) = entry else { continue };
            let key = self.expression(&entry.key);
            let value = self.expression(&entry.value);
            keys = if index == 0 { key } else { keys.join(key) };
            values = if index == 0 { value } else { values.join(value) };
        }
        Type::map(keys, values)
    }

    fn call(&mut self, call: &CallExpr) -> Type {
        let Some(target) = &call.target else { return self.global_call(call) };
        let name = call.func_name.as_str();
        if let Expr::Ident(prefix) = &target.expr
            && functions::is_namespace(prefix)
            && self.local(prefix).is_none()
        {
            let qualified = format!("{prefix}.{name}");
            if functions::output(&qualified, false).is_none() {
                self.ident(prefix);
            }
            return self.named_call(&qualified, None, &call.args);
        }
        let of = self.expression(target);
        if let Some(call) = macros::of_call(call) {
            return self.unexpanded(&call, &of);
        }
        if !functions::is_authorizer_function(name) || of == Type::Dyn {
            return self.named_call(name, Some(of), &call.args);
        }
        let position = self.position(name, Place::Function);
        let arguments: Vec<String> = call.args.iter().map(|argument| self.expression(argument).in_overload()).collect();
        functions::authorizer_output(&of, name).unwrap_or_else(|| {
            if of == Type::Unknown {
                return Type::Unknown;
            }
            let applied = format!("{}.({})", of.in_overload(), arguments.join(", "));
            self.issue(position, format!("found no matching overload for '{name}' applied to '{applied}'"))
        })
    }

    fn named_call(&mut self, name: &str, target: Option<Type>, arguments: &[IdedExpr]) -> Type {
        let plain = name.rsplit('.').next().unwrap_or(name);
        let position = self.position(plain, Place::Function);
        let Some(output) = functions::output(name, target.is_some()) else {
            // Arguments of an unknown macro may name its variables.
            if functions::is_known_elsewhere(name) {
                self.unsupported.get_or_insert_with(|| format!("the function {name}"));
                return Type::Unknown;
            }
            arguments.iter().for_each(|argument| {
                self.expression(argument);
            });
            return self.undeclared(plain, position);
        };
        self.literal_arguments(name, arguments);
        if let ("format", [IdedExpr { expr: Expr::List(list), .. }]) = (name, arguments) {
            // Only what is formatted may be of several types.
            list.elements.iter().for_each(|element| {
                self.expression(element);
            });
            return Type::String;
        }
        let arguments: Vec<Type> = arguments.iter().map(|argument| self.expression(argument)).collect();
        let subject = target.or_else(|| arguments.first().cloned()).unwrap_or(Type::Unknown);
        if name == "size" && matches!(subject, Type::Int | Type::Uint | Type::Double | Type::Bool | Type::Null) {
            let message = format!("found no matching overload for 'size' applied to '({})'", subject.in_overload());
            return self.issue(position, message);
        }
        match output {
            Output::Is(output) => output,
            Output::Same => subject,
            Output::OptionalOfArgument => Type::Optional(Box::new(subject)),
            Output::Element => match subject {
                Type::List(element) => *element,
                other if other.is_open() => other,
                _ => Type::Unknown,
            },
            Output::Unwrapped => match subject {
                Type::Optional(value) => *value,
                other if other.is_open() => other,
                _ => Type::Unknown,
            },
        }
    }

    /// Checks the literals that functions parse.
    fn literal_arguments(&mut self, name: &str, arguments: &[IdedExpr]) {
        let Some(last) = arguments.last() else { return };
        let Expr::Literal(LiteralValue::String(text)) = &last.expr else { return };
        if calls::accepts_literal(name, text.inner()) {
            return;
        }
        let position = self.literal_position(last);
        self.issue(position, format!("invalid {name} argument"));
    }

    fn global_call(&mut self, call: &CallExpr) -> Type {
        let name = call.func_name.as_str();
        let Some(kind) = check_operators::operator(name) else { return self.named_call(name, None, &call.args) };
        if name == operators::OPT_SELECT {
            let operand = self.expression(&call.args[0]);
            let Expr::Literal(LiteralValue::String(field)) = &call.args[1].expr else { return Type::Unknown };
            let field = match self.field(&operand, field.inner()) {
                Type::Optional(value) => *value,
                field => field,
            };
            return Type::Optional(Box::new(field));
        }
        let arguments: Vec<Type> = call.args.iter().map(|argument| self.expression(argument)).collect();
        match (kind, arguments.as_slice()) {
            (Operator::Logic, [_]) => {
                self.must_be_bool(name, &arguments);
                Type::Bool
            }
            (Operator::Logic, _) => {
                for (argument, of) in call.args.iter().zip(&arguments) {
                    if of.excludes(&Type::Bool) {
                        let position = self.literal_position(argument);
                        self.issue(position, format!("expected type 'bool' but found '{of}'"));
                    }
                }
                Type::Bool
            }
            (Operator::Compare, _) => {
                self.comparable(name, &arguments);
                Type::Bool
            }
            (Operator::Choose, [condition, then, otherwise]) => {
                if condition.excludes(&Type::Bool) || then.excludes(otherwise) {
                    self.no_overload(name, &arguments);
                    return Type::Unknown;
                }
                then.clone().join(otherwise.clone())
            }
            (Operator::Index, [container, _]) => check_operators::index(container, name == operators::OPT_INDEX),
            (Operator::Arithmetic, [first, second]) => self.arithmetic(name, first, second),
            (Operator::Arithmetic, [only]) => {
                if !only.is_open() && !matches!(only, Type::Int | Type::Double) {
                    self.no_overload(name, &arguments);
                }
                only.clone()
            }
            _ => Type::Unknown,
        }
    }

    pub(super) fn must_be_bool(&mut self, name: &str, types: &[Type]) {
        if types.iter().any(|of| of.excludes(&Type::Bool)) {
            self.no_overload(name, types);
        }
    }

    /// Reports operands that can never be compared.
    fn comparable(&mut self, name: &str, types: &[Type]) {
        if let [first, second] = types
            && check_operators::is_wrong_comparison(name, first, second)
        {
            self.no_overload(name, types);
        }
    }

    fn no_overload(&mut self, name: &str, types: &[Type]) {
        let types: Vec<String> = types.iter().map(Type::in_overload).collect();
        let message = format!("found no matching overload for '{name}' applied to '({})'", types.join(", "));
        let sign = match name {
            operators::CONDITIONAL => "?",
            operators::IN => "in ",
            name => name.trim_matches('_'),
        };
        let position = source::position(self.source, sign, Place::Operator, 0);
        self.issue(position, message);
    }

    fn arithmetic(&mut self, name: &str, first: &Type, second: &Type) -> Type {
        check_operators::arithmetic(first, second).unwrap_or_else(|| {
            self.no_overload(name, &[first.clone(), second.clone()]);
            Type::Unknown
        })
    }
}
