//! The results of a run.

use std::collections::BTreeMap;

use crate::{differences::Difference, exchange::Request, rules::RULES};

/// How many differences are printed per answer.
const SHOWN: usize = 6;
/// The longest text of a printed value.
const WIDTH: usize = 400;

/// The figures of a run, and the differences that no rule allows.
#[derive(Default)]
pub struct Report {
    pub requests: usize,
    pub equal: usize,
    /// How many answers differ only in allowed ways.
    pub allowed: usize,
    pub by_rule: BTreeMap<&'static str, usize>,
    /// The number of requests and of different answers, by source.
    pub by_source: BTreeMap<String, (usize, usize)>,
    pub others: Vec<String>,
}

impl Report {
    /// Counts a pair of answers, with the differences that no rule allows and the rules that allowed
    /// others.
    pub fn add(
        &mut self,
        source: &str,
        request: &Request,
        rules: &[&'static str],
        differences: &[Difference],
    ) {
        self.requests += 1;
        let counts = self.by_source.entry(source.to_owned()).or_default();
        counts.0 += 1;

        if !differences.is_empty() {
            counts.1 += 1;
            self.others.push(text(source, request, differences));
            return;
        }

        if rules.is_empty() {
            self.equal += 1;
        } else {
            self.allowed += 1;
        }

        for rule in rules {
            *self.by_rule.entry(rule).or_default() += 1;
        }
    }

    /// Prints the figures and all differences.
    pub fn print(&self) {
        for other in &self.others {
            println!("{other}\n");
        }

        for (source, (requests, different)) in &self.by_source {
            println!("{source}: {requests} requests, {different} different");
        }

        println!(
            "{} requests: {} equal, {} with allowed differences only",
            self.requests, self.equal, self.allowed
        );

        for rule in RULES {
            println!(
                "  {}: {}",
                rule.name,
                self.by_rule.get(rule.name).copied().unwrap_or_default()
            );
        }

        println!("{} others", self.others.len());
    }
}

fn text(source: &str, request: &Request, differences: &[Difference]) -> String {
    let mut lines = vec![format!("{source}: {} {}", request.method, request.path)];
    for (name, value) in &request.headers {
        lines.push(format!("  {name}: {}", cut(value)));
    }

    if !request.body.is_empty() {
        lines.push(format!("  body {}", cut(&request.body.text())));
    }

    for difference in differences.iter().take(SHOWN) {
        lines.push(format!(
            "  {}\n    real {}\n    own  {}",
            difference.at,
            cut(&difference.real.to_string()),
            cut(&difference.own.to_string())
        ));
    }

    if differences.len() > SHOWN {
        lines.push(format!("  and {} more", differences.len() - SHOWN));
    }

    lines.join("\n")
}

fn cut(text: &str) -> String {
    let end: String = text.chars().take(WIDTH).collect();
    if end.len() < text.len() {
        format!("{end}…")
    } else {
        end
    }
}
