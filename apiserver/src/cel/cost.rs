//! Estimates the greatest cost of an expression before it is evaluated, as cel-go's checker does in
//! <https://github.com/google/cel-go/blob/v0.26.0/checker/cost.go>.
//!
//! Macros cost what their expansions do.

use super::ast::{Comprehension, Expr, MacroKind, Node};
use super::cost_functions::{self, LIST_COST};
pub use super::cost_sizes::Sizes;
use super::cost_sizes::{Estimator, Local};
use super::declarations;
use super::size::Size;
use super::types::Type;

/// Making a map costs this much, besides its entries.
const MAP_COST: u64 = 30;

/// Estimates the greatest cost of a checked expression. `types` has the types of its subexpressions
/// by their numbers.
pub fn estimate(expr: &Expr, types: &[Type], sizes: &dyn Sizes) -> u64 {
    Estimator::new(types, sizes).cost(expr)
}

impl<'a> Estimator<'a> {
    fn cost(&mut self, expr: &'a Expr) -> u64 {
        match &expr.node {
            Node::Literal(_) => 0,

            Node::Ident(name) => {
                let path = self
                    .local(expr)
                    .map_or_else(|| vec![name.clone()], |local| local.path.clone());

                self.paths.insert(expr.id, path);
                1
            }
            Node::Select {
                operand,
                optional: true,
                ..
            } => self.cost(operand).saturating_add(1),
            Node::Select { operand, field, .. } => {
                let cost = self.cost(operand);
                let path = self.path_below(operand, field);
                self.paths.insert(expr.id, path);

                let has_cost = matches!(
                    self.ty(operand),
                    Type::Map(..) | Type::Object(_) | Type::Param(_)
                );

                cost.saturating_add(u64::from(has_cost))
            }
            Node::Has { operand, .. } => self.cost(operand),
            Node::Call {
                function,
                target,
                args,
            } => self.call(expr, function, target.as_deref(), args),
            Node::List(elements) => {
                let cost = self.sum(elements.iter().map(|(element, _)| element));

                let sizes = elements.iter().map(|(element, _)| self.size(element));
                let size = sizes.reduce(Size::union).unwrap_or(Size::of(0));
                self.set_elements(expr, Some(size));

                cost.saturating_add(LIST_COST)
            }
            Node::Map(entries) => {
                let cost = self.sum(entries.iter().flat_map(|(key, value, _)| [key, value]));

                let sizes = entries.iter().map(|(_, value, _)| self.size(value));
                let size = sizes.reduce(Size::union).unwrap_or(Size::of(0));
                self.set_elements(expr, Some(size));

                cost.saturating_add(MAP_COST)
            }
            Node::Macro(comprehension) => self.comprehension(expr, comprehension),
            Node::Message { fields, .. } => self.sum(fields.iter()),
        }
    }

    fn sum(&mut self, exprs: impl Iterator<Item = &'a Expr>) -> u64 {
        exprs.fold(0, |sum: u64, expr| sum.saturating_add(self.cost(expr)))
    }

    fn call(
        &mut self,
        expr: &'a Expr,
        function: &str,
        target: Option<&'a Expr>,
        args: &'a [Expr],
    ) -> u64 {
        let qualified = target
            .and_then(Expr::qualified_name)
            .map(|prefix| format!("{prefix}.{function}"))
            .filter(|name| declarations::overloads(name).is_some());
        let target = target.filter(|_| qualified.is_none());
        let name = qualified.as_deref().unwrap_or(function);

        let costs: Vec<u64> = args.iter().map(|arg| self.cost(arg)).collect();
        let inside = costs
            .iter()
            .fold(0, |sum: u64, cost| sum.saturating_add(*cost));

        match (name, args, costs.as_slice()) {
            ("dyn", [arg], _) => {
                self.set_size(expr, self.known_size(arg));
                self.set_elements(expr, self.known_elements(arg));
                return inside.saturating_add(1);
            }
            ("_&&_" | "_||_", ..) => return inside,
            ("_?_:_", [_, then, otherwise], [condition, first, second]) => {
                self.set_size(expr, Some(self.size(then).union(self.size(otherwise))));
                self.set_elements(expr, self.joined_elements(then, otherwise));
                return condition.saturating_add(*first.max(second));
            }
            ("_+_", [left, right], _) => self.set_elements(expr, self.joined_elements(left, right)),
            _ => {}
        }

        let outer = target.map_or(0, |target| self.cost(target));
        let (own, mut size) = cost_functions::cost(self, name, target, args);

        if let ("_[_]", [container, _]) = (name, args)
            && !matches!(self.ty(container), Type::Optional(_))
        {
            let part = if matches!(self.ty(container), Type::List(_)) {
                "@items"
            } else {
                "@values"
            };

            size = self.known_elements(container);
            let path = self.path_below(container, part);
            self.paths.insert(expr.id, path);
        }

        self.set_size(expr, size.or_else(|| self.known_size(expr)));
        outer.saturating_add(inside).saturating_add(own)
    }

    fn joined_elements(&self, left: &Expr, right: &Expr) -> Option<Size> {
        Some(
            self.known_elements(left)?
                .union(self.known_elements(right)?),
        )
    }

    fn comprehension(&mut self, expr: &'a Expr, comprehension: &'a Comprehension) -> u64 {
        let range = &comprehension.range;
        let range_cost = self.cost(range);

        let outer = self.locals.len();
        let is_optional = matches!(
            comprehension.kind,
            MacroKind::OptMap | MacroKind::OptFlatMap
        );
        if is_optional {
            let locals = comprehension.vars.iter().map(|name| Local {
                name,
                path: Vec::new(),
                size: None,
                elements: None,
            });
            self.locals.extend(locals);
        } else {
            self.push_elements(comprehension);
        }

        let condition = (comprehension.args.len() == 2).then(|| self.cost(&comprehension.args[0]));
        let body = comprehension.args.last();
        let body_cost = body.map_or(0, |body| self.cost(body));
        let body_size = body.map_or(Size::UNKNOWN, |body| self.size(body));

        let count = self.size(range);
        let (before, step) = loop_costs(comprehension.kind, body_cost);
        let step = condition.map_or(step, |condition| condition.saturating_add(step.max(1)));
        let element = self
            .locals
            .last()
            .and_then(|local| self.size_at(&local.path).or(local.size));
        self.locals.truncate(outer);

        match comprehension.kind {
            // `range.hasValue() ? optional.of(cel.bind(name, range.value(), body)) :
            // optional.none()`
            MacroKind::OptMap | MacroKind::OptFlatMap => {
                return before
                    .saturating_add(range_cost.saturating_mul(2))
                    .saturating_add(body_cost);
            }
            MacroKind::All | MacroKind::Exists | MacroKind::ExistsOne => {
                self.set_size(expr, Some(Size::of(1)));
            }
            MacroKind::Filter => {
                self.set_size(expr, Some(count));
                self.set_elements(
                    expr,
                    Some(element.unwrap_or(Size::UNKNOWN).union(Size::of(0))),
                );
            }
            MacroKind::Map | MacroKind::TransformList => {
                self.set_size(expr, Some(count));
                self.set_elements(expr, Some(body_size.union(Size::of(0))));
            }
            MacroKind::TransformMap | MacroKind::TransformMapEntry => {
                self.set_size(expr, Some(count));
            }
            // A list is bound, its keys are made as by `map`, and it is sorted by them.
            MacroKind::SortBy => {
                self.set_size(expr, Some(count.times(count)));

                let keys = body.map_or(&Type::Dyn, |body| self.ty(body));
                let sorting = cost_functions::sort_cost(count, keys);

                return range_cost
                    .saturating_add(before)
                    .saturating_add(count.max.saturating_mul(step))
                    .saturating_add(sorting);
            }
        }

        range_cost
            .saturating_add(before)
            .saturating_add(count.max.saturating_mul(step))
    }

    /// Declares the variables of a macro over a list or map, with the sizes of its elements.
    fn push_elements(&mut self, comprehension: &'a Comprehension) {
        let range = &comprehension.range;
        let is_list = matches!(self.ty(range), Type::List(_));

        let (key, value) = if is_list {
            ("@indices", "@items")
        } else {
            ("@keys", "@values")
        };

        let values = self.known_elements(range);
        let keys = values.filter(|_| is_list).map(|_| Size::of(1));

        let parts: Vec<(&str, Option<Size>)> = match comprehension.vars.len() {
            2 => vec![(key, keys), (value, values)],
            _ if is_list => vec![(value, values)],
            _ => vec![(key, keys)],
        };

        for (name, (part, size)) in comprehension.vars.iter().zip(parts) {
            let path = self.path_below(range, part);
            self.locals.push(Local {
                name,
                path,
                size,
                elements: None,
            });
        }
    }
}

/// The cost of a macro outside of its loop, and of each round with a body of the given cost.
fn loop_costs(kind: MacroKind, body: u64) -> (u64, u64) {
    let (before, round) = match kind {
        MacroKind::All => (1, 3),
        MacroKind::Exists => (1, 4),
        MacroKind::ExistsOne => (2, 2),
        MacroKind::Map | MacroKind::TransformList => (LIST_COST + 1, LIST_COST + 2),
        MacroKind::Filter => (LIST_COST + 1, LIST_COST + 3),
        MacroKind::TransformMap => (MAP_COST + 1, 3),
        MacroKind::TransformMapEntry => (MAP_COST + 1, 2),
        MacroKind::OptMap => (LIST_COST + 3, 0),
        MacroKind::OptFlatMap => (LIST_COST + 2, 0),
        MacroKind::SortBy => (2 * LIST_COST + 3, LIST_COST + 2),
    };

    (before, body.saturating_add(round))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cel::compile;
    use std::sync::Arc;

    /// Strings of up to ten characters, and lists and maps of up to five elements.
    struct Schema;

    impl Sizes for Schema {
        fn greatest(&self, path: &[String]) -> Option<u64> {
            Some(if path.len() == 1 { 5 } else { 10 })
        }
    }

    fn cost(text: &str) -> u64 {
        let list = Type::List(Arc::new(Type::String));
        let (expr, checked) = compile(text, &[("self", list)]).expect(text);
        estimate(&expr, &checked.types, &Schema)
    }

    #[test]
    fn costs_are_those_of_cel_go() {
        let cases = [
            ("true", 0),
            ("1 + 2 == 3", 2),
            ("self.size() == 5", 3),
            ("self[0] == 'a'", 3),
            ("self.all(x, x == 'a')", 1 + 1 + 5 * (3 + 2)),
            ("self.exists(x, true)", 1 + 1 + 5 * 4),
            ("self.exists_one(x, true)", 1 + 2 + 5 * 2),
            ("self.map(x, x).size() == 1", 1 + 11 + 5 * 13 + 1 + 1),
            ("self.filter(x, true).size() == 1", 1 + 11 + 5 * 13 + 1 + 1),
            (
                "self.map(x, x + 'abcdefghij').all(y, y.contains('aaaaaaaaaa'))",
                1 + 11 + 5 * (12 + 3) + 1 + 5 * (3 + 2),
            ),
            ("'a' in self", 1 + 5),
            ("self[0].matches('^ab$')", 2 + 2),
            (
                "optional.of(1).optMap(x, x).orValue(1) == 1",
                2 + 13 + 1 + 1 + 1,
            ),
            (
                "self.all(x, self.all(y, true))",
                1 + 1 + 5 * (3 + 1 + 1 + 5 * 3),
            ),
        ];

        for (text, expected) in cases {
            assert_eq!(cost(text), expected, "{text}");
        }
    }

    #[test]
    fn costs_without_bound_are_great() {
        assert!(cost("quantity('1') != quantity('2')") > 1_000_000_000_000);
        assert!(cost("self.map(x, [x]).flatten().all(x, true)") < 1000);
    }
}
