//! Checks the types of macros.

use std::sync::Arc;

use super::ast::{Comprehension, Expr, MacroKind};
use super::check::Checker;
use super::types::Type;

impl Checker {
    pub(super) fn check_macro(&mut self, at: usize, comprehension: &Comprehension) -> Type {
        let range = self.check(&comprehension.range);
        let range = self.bindings.resolve(&range, false);

        let variables = match self.variables(&range, comprehension) {
            Some(variables) => variables,
            None => {
                let message = if matches!(
                    comprehension.kind,
                    MacroKind::OptMap | MacroKind::OptFlatMap
                ) {
                    format!("found no matching overload for 'hasValue' applied to '{range}.()'")
                } else {
                    let needed = "(must be list, map, or dynamic)";
                    format!(
                        "expression of type '{range}' cannot be range of a comprehension {needed}"
                    )
                };
                self.report(comprehension.range.at, message);
                vec![Type::Error; comprehension.vars.len()]
            }
        };

        let outer = self.scopes.len();
        self.scopes.extend(
            comprehension
                .vars
                .iter()
                .cloned()
                .zip(variables.iter().cloned()),
        );

        let result = self.macro_result(at, comprehension, variables.last().unwrap_or(&Type::Dyn));
        self.scopes.truncate(outer);
        result
    }

    fn variables(&self, range: &Type, comprehension: &Comprehension) -> Option<Vec<Type>> {
        let two = comprehension.vars.len() == 2;
        if matches!(
            comprehension.kind,
            MacroKind::OptMap | MacroKind::OptFlatMap
        ) {
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
        let Some(last) = args.last() else {
            return Type::Error;
        };

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
                let key = self
                    .scopes
                    .len()
                    .checked_sub(2)
                    .map_or(Type::Dyn, |key| self.scopes[key].1.clone());

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
            MacroKind::SortBy => {
                let list = Type::List(Arc::new(element.clone()));
                let keys = Type::List(Arc::new(self.check(last)));
                self.resolve_call(at, "@sortByAssociatedKeys", &[list, keys], true)
            }
        }
    }

    /// Checks a condition through the ternary that the macro expands to: `condition ? next : before`.
    fn check_condition(&mut self, at: usize, condition: &Expr, accumulator: &Type) {
        let ty = self.check(condition);

        self.resolve_call(
            at,
            "_?_:_",
            &[ty, accumulator.clone(), accumulator.clone()],
            false,
        );
    }
}
