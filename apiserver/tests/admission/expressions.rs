//! Expressions that nobody would write on purpose.

use std::collections::BTreeMap;

use operetta_apiserver::admission::cel::{Environment, Patterns, Program, Scope, Val};
use serde_json::json;

const WORDS: [&str; 56] = [
    "object",
    "oldObject",
    "request",
    "namespaceObject",
    "params",
    "variables",
    "authorizer",
    ".",
    ".?",
    "[",
    "]",
    "[?",
    "(",
    ")",
    "{",
    "}",
    ",",
    ":",
    "?",
    "&&",
    "||",
    "!",
    "==",
    "!=",
    "<",
    ">=",
    "+",
    "-",
    "*",
    "/",
    "%",
    "in",
    "0",
    "1",
    "-9223372036854775808",
    "18446744073709551615u",
    "1.5e308",
    "'a'",
    "\"ü\"",
    "b'x'",
    "true",
    "null",
    "name",
    "size",
    "all",
    "exists",
    "map",
    "filter",
    "has",
    "x",
    "substring",
    "matches",
    "quantity",
    "format",
    "sets.contains",
    "optional.of",
];

/// Calls with odd arguments, which random words seldom form.
const CALLS: [&str; 24] = [
    "'ü'.substring(1, 0)",
    "'aü'.charAt(5)",
    "'abc'.substring(-1)",
    "'x'.replace('', 'y', -1)",
    "'a'.split('', 9223372036854775807)",
    "'%s'.format([])",
    "'%d%'.format([1])",
    "'%.999999999f'.format([1.0])",
    "[].min()",
    "[1, 2].slice(5, 1)",
    "[1].slice(-1, 9223372036854775807)",
    "lists.range(-1)",
    "timestamp('9999-12-31T23:59:59Z') + duration('999999h')",
    "duration('9223372036854775807s')",
    "quantity('9223372036854775807E').add(quantity('1E')).asInteger()",
    "ip('::ffff:1.2.3.4').isLoopback()",
    "cidr('0.0.0.0/0').masked().containsCIDR('::/0')",
    "semver('999999999999999999999.0.0').major()",
    "url('https://[::1]:99999').getPort()",
    "'('.matches(')')",
    "'a'.find('(a*)*b', 1)",
    "9223372036854775807 * int('2')",
    "-9223372036854775808 / -1",
    "dyn(1) % 0",
];

/// Compiles and evaluates an expression. Returns whether it is valid.
fn run(expression: &str) -> bool {
    let environment = Environment::of_policy(true, true).with_variables(BTreeMap::new());
    let Ok(program) = Program::compile_any(expression, &environment) else {
        return false;
    };

    let object = json!({"name": "a", "x": [1, 2.5, null, {"a": "ü"}], "size": {"1": true}});
    let names =
        ["object", "oldObject", "request", "params"].map(|name| (name, Val::from_json(&object)));

    // An error is as good as a value here; only a panic is not.
    let _ = program.evaluate(&Scope::new(BTreeMap::from(names), &Patterns::default()));
    true
}

#[test]
fn random_expressions_end_without_panic() {
    let mut seed: u64 = 0x5eed;
    let mut next = |limit: usize| {
        seed = seed
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) as usize % limit
    };

    let mut valid = 0;
    for _ in 0..4000 {
        let words: Vec<&str> = (0..1 + next(7)).map(|_| WORDS[next(WORDS.len())]).collect();
        let separator = if next(2) == 0 { "" } else { " " };
        valid += usize::from(run(&words.join(separator)));
    }

    assert!(valid >= 40, "{valid} valid expressions");
}

#[test]
fn odd_arguments_end_without_panic() {
    for expression in CALLS {
        run(expression);
    }
}

#[test]
fn deep_and_long_expressions_are_refused() {
    for expression in [
        "(".repeat(5_000),
        "!".repeat(5_000),
        "[".repeat(5_000),
        "a.".repeat(60_000),
        "-".repeat(5_000),
    ] {
        assert!(!run(&expression), "{}", &expression[..10]);
    }

    run(&format!("object{}", ".a".repeat(500)));
    run(&vec!["true"; 2_000].join(" && "));
}
