//! Checks of numbers: ranges of formats, bounds, and `multipleOf`.

use super::{
    schema::Schema,
    violation::{Outcome, Violation},
};
use crate::{
    apimachinery::field::Shown,
    golang::{self, Decoded},
};

/// Reports whether a float64 is a whole number that JSON carries without loss.
#[expect(clippy::float_cmp, reason = "whole numbers are exact here")]
pub fn is_whole(value: f64) -> bool {
    const LARGEST: f64 = 9_007_199_254_740_991.0;
    value.is_finite()
        && value.abs() <= LARGEST
        && (value == value.trunc() || is_nearly_whole(value))
}

/// Accepts tiny errors of a division, as the real server does.
fn is_nearly_whole(value: f64) -> bool {
    let whole = value.trunc();
    whole != 0.0 && value > 0.0 && (value - whole).abs() / (value.abs() + whole.abs()) < 1e-9
}

/// Checks a number against the rules of its schema.
pub fn check(schema: &Schema, kinds: &[&str], format: &str, value: Decoded, path: &str) -> Outcome {
    let kind = match kinds {
        ["integer"] => "integer",
        ["number"] => "number",
        _ => "",
    };
    let format = if kind.is_empty() { "" } else { format };
    let number = Number {
        kind,
        format,
        value,
        path,
    };

    let mut outcome = Outcome::default();
    outcome.merge(number.check_range(value, "Checked"));
    if let Some(factor) = schema.multiple_of {
        outcome.merge(number.check_multiple(factor));
    }
    if let Some(min) = schema.minimum {
        outcome.merge(number.check_bound(min, schema.exclusive_minimum, false));
    }
    if let Some(max) = schema.maximum {
        outcome.merge(number.check_bound(max, schema.exclusive_maximum, true));
    }

    outcome.matched += 1;
    outcome
}

struct Number<'a> {
    kind: &'a str,
    format: &'a str,
    value: Decoded,
    path: &'a str,
}

impl Number<'_> {
    /// Checks that a number fits the type and format.
    fn check_range(&self, value: Decoded, what: &str) -> Outcome {
        let fits = match (self.kind, self.format) {
            ("integer", "int32") => as_integer(value).is_some_and(|int| i32::try_from(int).is_ok()),
            ("integer", _) => as_integer(value).is_some(),
            ("number", "float") => value.as_f64().abs() <= f64::from(f32::MAX),
            _ => true,
        };
        if fits {
            return Outcome::default();
        }

        let kind = self.kind;
        let path = self.path;
        let format = if self.format.is_empty() {
            "(default format)".to_owned()
        } else {
            format!("with format {}", self.format)
        };

        Outcome::failure(Violation::unnamed(format!(
            "{what} value must be of type {kind} {format} in {path}"
        )))
    }

    fn shown(&self) -> Shown {
        Shown::raw(match self.value {
            Decoded::Int(int) => int.to_string(),
            Decoded::Float(float) => golang::float(float),
        })
    }

    #[expect(
        clippy::cast_possible_truncation,
        reason = "the real server truncates bounds of integers"
    )]
    fn check_bound(&self, bound: f64, exclusive: bool, upper: bool) -> Outcome {
        let what = if upper {
            "Maximum boundary"
        } else {
            "Minimum boundary"
        };
        let mut outcome = self.check_range(Decoded::Float(bound), what);
        let order = match self.value {
            Decoded::Int(int) if outcome.is_valid() => int.partial_cmp(&(bound as i64)),
            value => value.as_f64().partial_cmp(&bound),
        };

        let text = match self.value {
            Decoded::Int(_) if outcome.is_valid() => (bound as i64).to_string(),
            _ => golang::float(bound),
        };
        let beyond = order.is_some_and(|order| {
            (if upper { order.is_gt() } else { order.is_lt() }) || (exclusive && order.is_eq())
        });

        if beyond {
            let relation = match (upper, exclusive) {
                (true, false) => "less than or equal to",
                (true, true) => "less than",
                (false, false) => "greater than or equal to",
                (false, true) => "greater than",
            };
            let message = format!("{} in body should be {relation} {text}", self.path);

            outcome.add(Violation::invalid(self.path, self.shown(), message));
        }

        outcome
    }

    #[expect(
        clippy::cast_possible_truncation,
        reason = "the real server truncates the factor for integers"
    )]
    fn check_multiple(&self, factor: f64) -> Outcome {
        let mut outcome = self.check_range(Decoded::Float(factor), "MultipleOf");
        let (positive, divides, text) = match self.value {
            Decoded::Int(int) if outcome.is_valid() => {
                let whole = factor as i64;
                (whole > 0, whole > 0 && int % whole == 0, whole.to_string())
            }
            value => {
                let value = value.as_f64();
                let times = if factor < 1.0 {
                    1.0 / factor * value
                } else {
                    value / factor
                };
                (factor > 0.0, is_whole(times), golang::float(factor))
            }
        };

        if !positive {
            let message = format!(
                "factor MultipleOf declared for {} must be positive: {text}",
                self.path
            );
            outcome.add(Violation::invalid(self.path, Shown::raw(text), message));
        } else if !divides {
            let message = format!("{} in body should be a multiple of {text}", self.path);
            outcome.add(Violation::invalid(self.path, self.shown(), message));
        }

        outcome
    }
}

/// Returns a number as an int64 if its digits are those of one.
#[expect(
    clippy::cast_possible_truncation,
    clippy::float_cmp,
    reason = "checked to be whole and in range"
)]
fn as_integer(value: Decoded) -> Option<i64> {
    match value {
        Decoded::Int(int) => Some(int),
        Decoded::Float(float) => (float == float.trunc()
            && float.abs() < 9_223_372_036_854_775_807.0)
            .then_some(float as i64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tells_whole_numbers() {
        assert!(
            is_whole(3.0) && is_whole(-3.0) && is_whole(0.0) && is_whole(1.0 / 0.1 * 0.3 * 10.0)
        );
        assert!(!is_whole(0.5) && !is_whole(1e300) && !is_whole(f64::NAN));
    }
}
