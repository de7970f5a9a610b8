//! The estimated costs of rules: how often a rule runs, and the limits for a rule and for a schema.

use crate::crd::field::{FieldError, Path};
use crate::crd::schema::{Additional, Schema};

/// The largest estimated cost of one rule.
pub const RULE_LIMIT: u64 = 10_000_000;
/// The largest estimated cost of all rules of a schema.
pub const SCHEMA_LIMIT: u64 = 100_000_000;

/// How often values of a schema can occur in an object, if that is bounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cardinality(Option<u64>);

impl Cardinality {
    /// Returns the cardinality of the object itself.
    pub fn one() -> Self {
        Self(Some(1))
    }

    /// Returns the cardinality of the elements of a schema with this cardinality.
    pub fn times_elements_of(self, schema: &Schema) -> Self {
        let bound = |max: Option<i64>| max.map(|max| u64::try_from(max).unwrap_or(0));
        let elements = match schema.kind.as_str() {
            "object" => match &schema.additional_properties {
                None => Some(1),
                Some(Additional::Allowed(_) | Additional::Schema(_)) => bound(schema.max_properties),
            },
            "array" => bound(schema.max_items),
            _ => Some(1),
        };
        Self(self.0.zip(elements).map(|(own, elements)| own.saturating_mul(elements)))
    }

    /// Returns the cost of a rule for all values; `worst` is the cardinality where none is declared.
    pub fn cost_of_all(self, cost: u64, worst: u64) -> u64 {
        cost.saturating_mul(self.0.unwrap_or(worst))
    }
}

/// The costs of the rules of a schema.
#[derive(Debug, Default)]
pub struct Costs {
    total: u64,
    most_expensive: Vec<(u64, Path)>,
}

impl Costs {
    /// Adds the cost of an expression.
    pub fn observe(&mut self, path: &Path, cost: u64) {
        self.total = self.total.saturating_add(cost);
        if cost >= SCHEMA_LIMIT / 100 {
            self.most_expensive.push((cost, path.clone()));
            self.most_expensive.sort_by_key(|(cost, _)| std::cmp::Reverse(*cost));
            self.most_expensive.truncate(4);
        }
    }

    /// Reports the most expensive rules if all together cost too much.
    pub fn into_errors(self, schema: &Path) -> Vec<FieldError> {
        if self.total <= SCHEMA_LIMIT {
            return Vec::new();
        }
        let detail = "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema";
        let mut errors: Vec<_> =
            self.most_expensive.iter().map(|(_, path)| FieldError::forbidden(path, detail)).collect();
        let name = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema";
        errors.push(FieldError::forbidden(schema, message(name, self.total, SCHEMA_LIMIT)));
        errors
    }
}

/// Returns the message of a cost beyond its limit.
#[expect(clippy::cast_precision_loss, reason = "the factor is shown with few digits")]
pub fn message(name: &str, cost: u64, limit: u64) -> String {
    let factor = cost as f64 / limit as f64;
    let factor = if factor > 100.0 {
        "more than 100x".to_owned()
    } else if factor < 1.5 {
        format!("{factor:.6}x")
    } else {
        format!("{factor:.1}x")
    };
    format!(
        "{name} exceeds budget by factor of {factor} (try simplifying the rule, or adding maxItems, maxProperties, and \
         maxLength where arrays, maps, and strings are declared)"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn multiplies_the_bounds_of_nested_lists() {
        let schema: Schema = serde_json::from_value(json!({"type": "array", "maxItems": 5})).expect("schema");
        let twice = Cardinality::one().times_elements_of(&schema).times_elements_of(&schema);
        assert_eq!(twice.cost_of_all(2, 99), 50);
        let unbounded: Schema = serde_json::from_value(json!({"type": "array"})).expect("schema");
        assert_eq!(twice.times_elements_of(&unbounded).cost_of_all(2, 99), 198);
    }

    #[test]
    fn says_by_which_factor_a_cost_is_too_high() {
        assert!(message("c", 11, 10).contains("factor of 1.100000x"));
        assert!(message("c", 25, 10).contains("factor of 2.5x"));
        assert!(message("c", 2000, 10).contains("factor of more than 100x"));
    }
}
