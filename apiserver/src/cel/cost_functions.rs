//! The costs of functions, as cel-go and the Kubernetes libraries estimate them in
//! <https://github.com/kubernetes/kubernetes/blob/v1.36.2/staging/src/k8s.io/apiserver/pkg/cel/library/cost.go>.

use super::ast::{Expr, Literal, Node};
use super::cost_sizes::Estimator;
use super::size::{Size, multiply};
use super::types::Type;

/// Making a list costs this much, besides its elements.
pub(super) const LIST_COST: u64 = 10;
/// The cost of reading one character of a string.
const TRAVERSAL: f64 = 0.1;
/// The cost of each character of a regular expression.
const PATTERN: f64 = 0.25;
/// The longest pattern of a named format, and the longest name.
const FORMAT_PATTERN: f64 = 128.0;
const FORMAT_NAME: u64 = 64;

type Cost = (u64, Option<Size>);

/// The greatest cost of a function without its arguments, and the size of its result where that is
/// known.
pub(super) fn cost(of: &Estimator<'_>, name: &str, target: Option<&Expr>, args: &[Expr]) -> Cost {
    operators(of, name, args)
        .or_else(|| strings(of, name, target, args))
        .or_else(|| lists(of, name, target, args))
        .or_else(|| libraries(of, name, target, args))
        .unwrap_or((1, None))
}

/// Reports whether every expression may be of a type that satisfies `is`.
fn may_be(of: &Estimator<'_>, exprs: &[Expr], is: fn(&Type) -> bool) -> bool {
    exprs
        .iter()
        .all(|expr| matches!(of.ty(expr), Type::Dyn | Type::Param(_)) || is(of.ty(expr)))
}

fn is_text(ty: &Type) -> bool {
    matches!(ty, Type::String | Type::Bytes)
}

fn operators(of: &Estimator<'_>, name: &str, args: &[Expr]) -> Option<Cost> {
    let [left, right] = args else { return None };

    let texts = may_be(of, args, is_text);
    let only_texts = args.iter().any(|arg| is_text(of.ty(arg)));

    let smaller = || {
        Size {
            min: 0,
            max: of.size(left).max.min(of.size(right).max),
        }
        .cost(TRAVERSAL)
    };

    Some(match name {
        "_+_" => {
            let size = of.size(left).plus(of.size(right));
            let has_size = texts || may_be(of, args, |ty| matches!(ty, Type::List(_)));
            let traversal = if texts { size.cost(TRAVERSAL) } else { 1 };

            let cost = if only_texts {
                traversal
            } else {
                traversal.max(1)
            };

            (cost, has_size.then_some(size))
        }
        "_<_" | "_<=_" | "_>_" | "_>=_" if texts => (
            if only_texts {
                smaller()
            } else {
                smaller().max(1)
            },
            None,
        ),
        "_==_" => (
            opaque_equality(of, left, right).unwrap_or_else(smaller),
            None,
        ),
        "_!=_" => (smaller(), None),
        "@in" if !matches!(of.ty(right), Type::Map(..)) => (of.size(right).max, None),
        _ => return None,
    })
}

/// The cost of comparing two values of the Kubernetes libraries.
fn opaque_equality(of: &Estimator<'_>, left: &Expr, right: &Expr) -> Option<u64> {
    match (of.ty(left), of.ty(right)) {
        (Type::Opaque(first), Type::Opaque(second)) if first == second => Some(match *first {
            "kubernetes.NamedFormat" => multiply(FORMAT_NAME, TRAVERSAL),
            "kubernetes.URL" => of.known_size(right).unwrap_or(Size::of(1)).cost(TRAVERSAL),
            _ => 1,
        }),
        _ => None,
    }
}

fn strings(of: &Estimator<'_>, name: &str, target: Option<&Expr>, args: &[Expr]) -> Option<Cost> {
    let text = target.map(|target| of.size(target));
    let first = args.first().map(|arg| of.size(arg));

    Some(match (name, text, first) {
        ("startsWith" | "endsWith", _, Some(part)) => (part.cost(TRAVERSAL), None),
        ("contains", Some(text), Some(part)) => (
            text.cost(TRAVERSAL).saturating_mul(part.cost(TRAVERSAL)),
            None,
        ),
        ("matches", Some(text), Some(pattern)) => (matching(text, pattern), None),
        ("find" | "findAll", Some(text), Some(pattern)) => (
            matching(text, pattern),
            Some(Size {
                min: 0,
                max: text.max,
            }),
        ),
        ("format", Some(text), _) => (text.cost(TRAVERSAL), None),
        ("lowerAscii" | "upperAscii" | "substring" | "trim", Some(text), _) => {
            (text.cost(TRAVERSAL), Some(text))
        }
        ("replace", Some(text), Some(part)) => {
            let by = args.get(1).map_or(Size::UNKNOWN, |arg| of.size(arg));
            (text.cost(2.0 * TRAVERSAL), Some(replaced(text, part, by)))
        }
        ("split", Some(text), _) => {
            let max = args
                .get(1)
                .and_then(literal_int)
                .map_or(text.max, |limit| limit as u64);

            (text.cost(2.0 * TRAVERSAL), Some(Size { min: 0, max }))
        }
        ("strings.quote", None, Some(text)) => {
            let max = text.max.wrapping_mul(2).wrapping_add(2);

            (
                text.cost(TRAVERSAL),
                Some(Size {
                    min: text.min + 2,
                    max,
                }),
            )
        }
        ("bytes", None, Some(text)) if may_be(of, args, |ty| *ty == Type::String) => (
            text.cost(TRAVERSAL),
            Some(Size {
                min: text.min,
                max: text.max.wrapping_mul(4),
            }),
        ),
        ("string", None, Some(bytes)) if may_be(of, args, |ty| *ty == Type::Bytes) => {
            let cost = bytes.cost(TRAVERSAL);

            let is_certain = args.iter().any(|arg| *of.ty(arg) == Type::Bytes);
            let size = Size {
                min: bytes.min / 4,
                max: bytes.max,
            };

            (if is_certain { cost } else { cost.max(1) }, Some(size))
        }
        _ => return None,
    })
}

/// The cost of a match. The text counts one character more, so that a pattern costs something even
/// for an empty text.
fn matching(text: Size, pattern: Size) -> u64 {
    text.plus(Size::of(1))
        .cost(TRAVERSAL)
        .saturating_mul(pattern.cost(PATTERN))
}

/// The size of a text after `replace`.
fn replaced(text: Size, part: Size, by: Size) -> Size {
    let rounds = |size: u64, part: u64| size.div_ceil(part.max(1));

    let (most, kept) = match part.min {
        0 => (text.max.saturating_add(1), text.max),
        shortest if by.max <= shortest => (0, text.max),
        shortest => (rounds(text.max, shortest), 0),
    };

    let (least, kept_least) = match part.max {
        0 => (text.min.saturating_add(1), text.min),
        longest if longest <= by.min => (0, text.min),
        longest => (rounds(text.min, longest), 0),
    };

    Size {
        min: least,
        max: most,
    }
    .times(by)
    .plus(Size {
        min: kept_least,
        max: kept,
    })
}

fn literal_int(expr: &Expr) -> Option<i64> {
    match &expr.node {
        Node::Literal(Literal::Int(int)) => Some(*int),
        _ => None,
    }
}

fn lists(of: &Estimator<'_>, name: &str, target: Option<&Expr>, args: &[Expr]) -> Option<Cost> {
    let size = target.map(|target| of.size(target));

    let number = |at: usize| {
        args.get(at)
            .and_then(literal_int)
            .map(|int| u64::try_from(int).unwrap_or(0))
    };

    Some(match (name, target, size) {
        (
            "isSorted" | "sum" | "max" | "min" | "indexOf" | "lastIndexOf",
            Some(target),
            Some(size),
        ) => {
            let cost = match of.ty(target) {
                Type::List(element) if is_text(element) => {
                    let each = of.element_size(target).cost(TRAVERSAL).saturating_add(1);
                    size.max.saturating_mul(each)
                }
                Type::List(_) => size.max,
                _ => size.cost(TRAVERSAL),
            };

            (cost, None)
        }
        ("join", Some(target), Some(size)) => {
            let mut joined = size.times(of.element_size(target));

            if let Some(separator) = args.first() {
                let gaps = Size {
                    min: size.min.saturating_sub(1),
                    max: size.max.saturating_sub(1),
                };
                joined = joined.plus(of.size(separator).times(gaps));
            }

            (joined.cost(TRAVERSAL), Some(joined))
        }
        ("slice", Some(_), Some(size)) => {
            let length = number(1)
                .unwrap_or(size.max)
                .wrapping_sub(number(0).unwrap_or(0));

            allocating(
                1.0,
                Size {
                    min: length,
                    max: length,
                },
            )
        }
        ("flatten", Some(_), Some(size)) => {
            #[expect(clippy::cast_precision_loss, reason = "depths are small")]
            let depth = if args.is_empty() {
                1.0
            } else {
                number(0).unwrap_or(u64::MAX) as f64
            };

            allocating(depth, size)
        }
        ("lists.range", None, _) => {
            let length = number(0).unwrap_or(u64::MAX);

            allocating(
                1.0,
                Size {
                    min: length,
                    max: length,
                },
            )
        }
        ("reverse", Some(_), Some(size)) => allocating(1.0, size),
        ("distinct", Some(_), Some(size)) => allocating(2.0, size.times(size)),
        ("sort", Some(target), Some(size)) => {
            let element = match of.ty(target) {
                Type::List(element) => element,
                _ => &Type::Dyn,
            };

            (sort_cost(size, element), Some(size.times(size)))
        }
        ("sets.contains" | "sets.intersects" | "sets.equivalent", None, _) => {
            let [left, right] = args else { return None };

            let factor = if name == "sets.equivalent" { 2.0 } else { 1.0 };
            (
                of.size(left)
                    .times(of.size(right))
                    .cost(factor)
                    .saturating_add(1),
                None,
            )
        }
        _ => return None,
    })
}

/// The cost of sorting a list by keys of a type.
pub(super) fn sort_cost(size: Size, keys: &Type) -> u64 {
    let factor = if is_text(keys) { 2.0 + TRAVERSAL } else { 2.0 };
    allocating(factor, size.times(size)).0
}

fn allocating(factor: f64, size: Size) -> Cost {
    (
        size.cost(factor)
            .saturating_add(1)
            .saturating_add(LIST_COST),
        Some(size),
    )
}

/// The costs of the Kubernetes functions that parse texts.
fn libraries(of: &Estimator<'_>, name: &str, target: Option<&Expr>, args: &[Expr]) -> Option<Cost> {
    let text = of.size(args.first()?);

    // Comparing two addresses reads up to 16 bytes of each; one given as text is parsed first.
    let parsed = if may_be(of, &args[..1], |ty| *ty == Type::String) {
        text.cost(TRAVERSAL)
    } else {
        0
    };

    let addresses = Size::of(32).cost(TRAVERSAL);
    Some(match (name, target) {
        ("url", None) => (text.cost(TRAVERSAL), Some(text)),
        (
            "cidr" | "isIP" | "isCIDR" | "ip" | "quantity" | "isQuantity" | "semver" | "isSemver",
            None,
        ) => (text.cost(TRAVERSAL), None),
        ("ip.isCanonical", None) => (text.cost(2.0 * TRAVERSAL), None),
        ("containsIP", Some(_)) => (addresses.saturating_add(parsed), None),
        ("containsCIDR", Some(_)) => (
            addresses
                .saturating_add(Size::of(16).cost(TRAVERSAL) + 1)
                .saturating_add(parsed),
            None,
        ),
        ("validate", Some(_)) => (
            multiply(text.cost(TRAVERSAL), FORMAT_PATTERN * PATTERN),
            None,
        ),
        _ => return None,
    })
}
