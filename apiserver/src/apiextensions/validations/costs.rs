//! The limits of the estimated costs of rules.

use crate::apimachinery::field::{FieldError, Path};

/// The greatest estimated cost of one expression.
const EXPRESSION_LIMIT: u64 = 10_000_000;
/// The greatest estimated cost of all expressions of a schema.
const SCHEMA_LIMIT: u64 = 100_000_000;
/// The most expensive rules that are named if a schema exceeds its limit.
const NAMED: usize = 4;

/// The estimated costs of the rules of a schema.
#[derive(Debug, Default)]
pub struct Costs {
    total: u64,
    most_expensive: Vec<(Path, u64)>,
}

impl Costs {
    /// Adds the cost of an expression, and reports it if it exceeds the limit of one expression.
    pub fn add(
        &mut self,
        path: &Path,
        name: &str,
        cost: u64,
        is_limited: bool,
        errors: &mut Vec<FieldError>,
    ) {
        if is_limited && cost > EXPRESSION_LIMIT {
            errors.push(FieldError::forbidden(
                path,
                message(&format!("estimated {name} cost"), cost, EXPRESSION_LIMIT),
            ));
        }

        self.total = self.total.saturating_add(cost);
        if cost >= SCHEMA_LIMIT / 100 {
            self.most_expensive.push((path.clone(), cost));
            self.most_expensive
                .sort_by_key(|(_, cost)| std::cmp::Reverse(*cost));
            self.most_expensive.truncate(NAMED);
        }
    }

    /// Reports the most expensive rules, if all together exceed the limit of a schema.
    pub fn check_total(&self, path: &Path, errors: &mut Vec<FieldError>) {
        if self.total <= SCHEMA_LIMIT {
            return;
        }

        for (path, _) in &self.most_expensive {
            let detail = "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema";
            errors.push(FieldError::forbidden(path, detail));
        }

        let name = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema";
        errors.push(FieldError::forbidden(
            path,
            message(name, self.total, SCHEMA_LIMIT),
        ));
    }
}

#[expect(
    clippy::cast_precision_loss,
    reason = "as the real server computes the factor"
)]
fn message(name: &str, cost: u64, limit: u64) -> String {
    let factor = cost as f64 / limit as f64;
    let factor = match factor {
        factor if factor > 100.0 => "more than 100x".to_owned(),
        factor if factor < 1.5 => format!("{factor:.6}x"),
        factor => format!("{factor:.1}x"),
    };

    format!(
        "{name} exceeds budget by factor of {factor} (try simplifying the rule, or adding maxItems, maxProperties, and \
         maxLength where arrays, maps, and strings are declared)"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn errors(costs: &[u64], is_limited: bool) -> Vec<String> {
        let mut sum = Costs::default();
        let mut errors = Vec::new();
        for (at, cost) in costs.iter().enumerate() {
            sum.add(
                &Path::new("rules").index(at),
                "rule",
                *cost,
                is_limited,
                &mut errors,
            );
        }
        sum.check_total(&Path::new("schema"), &mut errors);
        let shown = errors.iter().map(|error| {
            error
                .to_string()
                .split(" (try")
                .next()
                .unwrap_or_default()
                .to_owned()
        });
        shown.collect()
    }

    #[test]
    fn each_expression_has_a_limit() {
        assert_eq!(errors(&[10_000_000], true), Vec::<String>::new());
        let exceeds = "rules[0]: Forbidden: estimated rule cost exceeds budget by factor of";
        assert_eq!(
            errors(&[12_000_000], true),
            [format!("{exceeds} 1.200000x")]
        );
        assert_eq!(errors(&[25_000_000], true), [format!("{exceeds} 2.5x")]);
        assert_eq!(errors(&[25_000_000], false), Vec::<String>::new());
    }

    #[test]
    fn total_has_a_limit_and_names_the_most_expensive() {
        let found = errors(
            &[
                1, 20_000_000, 30_000_000, 40_000_000, 10_000_000, 15_000_000,
            ],
            false,
        );
        let names: Vec<&str> = found
            .iter()
            .filter_map(|error| error.split(':').next())
            .collect();
        assert_eq!(
            names,
            ["rules[3]", "rules[2]", "rules[1]", "rules[5]", "schema"]
        );
        assert!(
            found[4].ends_with("exceeds budget by factor of 1.150000x"),
            "{found:?}"
        );
        assert!(errors(&[u64::MAX, u64::MAX], false)[2].ends_with("more than 100x"));
    }
}
