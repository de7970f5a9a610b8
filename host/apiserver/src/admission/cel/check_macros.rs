//! The types of macros.

use kube_cel::cel::{
    IdedExpr,
    common::ast::{ComprehensionExpr, Expr, operators},
};

use super::{
    check::Checker,
    macros::{Kind, Macro},
    types::Type,
};

impl Checker<'_> {
    /// Returns the type of a macro that the parser expanded.
    pub(super) fn comprehension(&mut self, comprehension: &ComprehensionExpr) -> Type {
        let element = match self.expression(&comprehension.iter_range) {
            Type::List(element) => *element,
            Type::Map(key, _) => *key,
            open if open.is_open() => open,
            other => {
                let message = format!(
                    "expression of type '{other}' cannot be range of a comprehension (must be list, map, or dynamic)"
                );
                let position = self.literal_position(&comprehension.iter_range);
                self.issue(position, message)
            }
        };
        let init = self.expression(&comprehension.accu_init);
        self.locals.push((comprehension.accu_var.clone(), init.clone()));
        self.locals.push((comprehension.iter_var.clone(), element));
        let step = self.step(&comprehension.loop_step, &comprehension.accu_var);
        self.locals.truncate(self.locals.len() - 2);
        // `exists_one` counts, all others result in what they collect.
        if init == Type::Int { Type::Bool } else { step }
    }

    /// Returns the type of what a step of a comprehension collects.
    fn step(&mut self, step: &IdedExpr, accumulator: &str) -> Type {
        let is_accumulator =
            |expression: &IdedExpr| matches!(&expression.expr, Expr::Ident(name) if name == accumulator);
        if let Expr::Call(call) = &step.expr {
            match (call.func_name.as_str(), call.args.as_slice()) {
                (operators::CONDITIONAL, [condition, then, otherwise]) if is_accumulator(otherwise) => {
                    let condition = self.expression(condition);
                    self.must_be_bool(operators::CONDITIONAL, &[condition]);
                    return self.step(then, accumulator);
                }
                (operators::ADD, [first, second]) if is_accumulator(first) => return self.expression(second),
                _ => {}
            }
        }
        self.expression(step)
    }

    /// Returns the type of a macro that the parser did not expand.
    pub(super) fn unexpanded(&mut self, call: &Macro<'_>, target: &Type) -> Type {
        let locals = match (call.kind, target) {
            (Kind::OptMap | Kind::OptFlatMap, Type::Optional(inner)) => vec![(**inner).clone()],
            (_, Type::List(element)) => vec![Type::Int, (**element).clone()],
            (_, Type::Map(key, value)) => vec![(**key).clone(), (**value).clone()],
            (_, other) => vec![Type::Unknown.join(other.clone()); 2],
        };
        let key = locals[0].clone();
        let depth = self.locals.len();
        self.locals.extend(call.variables.iter().map(|name| (*name).to_owned()).zip(locals));
        if let Some(filter) = call.filter {
            self.expression(filter);
        }
        let body = self.expression(call.body);
        self.locals.truncate(depth);
        match call.kind {
            Kind::All | Kind::Exists | Kind::ExistsOne => Type::Bool,
            Kind::TransformList => Type::list(body),
            Kind::TransformMap => Type::map(key, body),
            Kind::OptMap => Type::Optional(Box::new(body)),
            Kind::OptFlatMap => body,
        }
    }
}
