//! A JSONPath from an untrusted author, parsed once and with bounded cost per evaluation.
//!
//! The language is RFC 9535, as in the crate `serde_json_path`, with limits on operators that
//! multiply the cost: see [`Bounds`]. An expression takes at most a fixed number of steps per value
//! it reads. The number of values is bounded as well: if the part of the object it needs is too
//! large for a [`tree()`], the expression is not evaluated and the event passes. An additional
//! reconcile is always correct.
//!
//! The plain names at the start of an expression, such as `.status.conditions` in
//! `$.status.conditions[?@.type=='Ready']`, are followed in the object's text. Only the part below
//! them is parsed, once per event and source. If an update left the text of that part unchanged,
//! nothing in it has changed.

use std::{cell::RefCell, collections::HashMap, rc::Rc};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json_path::JsonPath;

use super::bounds::{Bounds, leading_names};
use crate::object::{Object, tree::tree};

/// The maximum length of an expression, in bytes.
const MAX_BYTES: usize = 512;

/// A checked JSONPath.
#[derive(Clone, Serialize, Deserialize)]
#[serde(try_from = "Text", into = "String")]
pub struct Expression {
    text: String,
    /// The names at the start of the expression.
    steps: Vec<String>,
    /// The remainder, evaluated on the value below `steps`.
    rest: JsonPath,
}

/// An invalid expression. Its author must change it.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExpressionError {
    /// The text is not valid under RFC 9535.
    #[error("{text:?} is not a JSONPath (RFC 9535): {message}")]
    Syntax {
        /// The text.
        text: String,
        /// The parser's message, with the position.
        message: String,
    },
    /// The expression could cost too much.
    #[error("{text:?} is too expensive for a predicate: {message}")]
    TooMuch {
        /// The text, or its beginning.
        text: String,
        /// The limit exceeded.
        message: String,
    },
}

impl Expression {
    /// Parses and checks an expression.
    ///
    /// # Errors
    /// Returns an [`ExpressionError`] if the text is not a JSONPath, or could cost too much.
    pub fn parse(text: &str) -> Result<Self, ExpressionError> {
        if text.len() > MAX_BYTES {
            let message = format!("{} bytes, over the limit of {MAX_BYTES}", text.len());
            let text = text[..text.floor_char_boundary(32)].to_owned() + "…";
            return Err(ExpressionError::TooMuch { text, message });
        }

        // Check the bounds first, because the parser recurses at each parenthesis.
        let bounds = Bounds::of(text);
        bounds.check().map_err(|message| ExpressionError::TooMuch {
            text: text.to_owned(),
            message,
        })?;
        let syntax = |error: serde_json_path::ParseError| ExpressionError::Syntax {
            text: text.to_owned(),
            message: error.to_string(),
        };
        let path = JsonPath::parse(text).map_err(syntax)?;
        let (steps, rest) = if bounds.roots > 1 {
            (Vec::new(), "")
        } else {
            leading_names(text)
        };

        let rest = match JsonPath::parse(&format!("${rest}")) {
            Ok(rest) if !steps.is_empty() => rest,
            _ => {
                return Ok(Self {
                    text: text.to_owned(),
                    steps: Vec::new(),
                    rest: path,
                });
            }
        };

        Ok(Self {
            text: text.to_owned(),
            steps,
            rest,
        })
    }

    /// Path of the field with everything the expression reads; `.` for the whole object.
    pub(super) fn field(&self) -> String {
        format!(".{}", self.steps.join("."))
    }

    /// Whether the expression selects something; None if the object is too large to search.
    pub(super) fn selects<'e>(&'e self, look: &Look<'e>) -> Option<bool> {
        match &*look.part(&self.steps) {
            Part::Missing => Some(false),
            Part::Value(value) => Some(!self.rest.query(value).is_empty()),
            Part::TooLarge => None,
        }
    }

    /// Whether the expression selects different values in the two objects; None if one is too large
    /// to search.
    pub(super) fn differs<'e>(&'e self, old: &Look<'e>, now: &Look<'e>) -> Option<bool> {
        if old.text(&self.steps) == now.text(&self.steps) {
            return Some(false);
        }
        let old = old.part(&self.steps);
        let now = now.part(&self.steps);
        Some(self.nodes(&old)? != self.nodes(&now)?)
    }

    fn nodes<'v>(&self, part: &'v Part) -> Option<Vec<&'v Value>> {
        match part {
            Part::Missing => Some(Vec::new()),
            Part::Value(value) => Some(self.rest.query(value).all()),
            Part::TooLarge => None,
        }
    }
}

/// An object, and the parts of it that predicates have read so far.
pub(super) struct Look<'e> {
    object: &'e Object,
    parts: RefCell<HashMap<&'e [String], Rc<Part>>>,
}

/// The part of an object at a path of names.
enum Part {
    Missing,
    Value(Value),
    /// Too many values, or nested deeper than the parser allows.
    TooLarge,
}

impl<'e> Look<'e> {
    pub(super) fn at(object: &'e Object) -> Self {
        Self {
            object,
            parts: RefCell::default(),
        }
    }

    pub(super) fn object(&self) -> &'e Object {
        self.object
    }

    fn text(&self, steps: &[String]) -> Option<&'e str> {
        if steps.is_empty() {
            Some(self.object.json())
        } else {
            self.object.along(steps.iter().map(String::as_str))
        }
    }

    fn part(&self, steps: &'e [String]) -> Rc<Part> {
        if let Some(known) = self.parts.borrow().get(steps) {
            return known.clone();
        }
        let part = match self.text(steps) {
            None => Part::Missing,
            Some(text) => tree(text).map_or(Part::TooLarge, Part::Value),
        };
        let part = Rc::new(part);
        self.parts.borrow_mut().insert(steps, part.clone());
        part
    }
}

/// An expression's text. The error for any other type names the expected form.
#[derive(Deserialize)]
#[serde(
    untagged,
    expecting = "expected a JSONPath, a string like \"$.spec.replicas\""
)]
enum Text {
    Text(String),
}

impl TryFrom<Text> for Expression {
    type Error = ExpressionError;

    fn try_from(Text::Text(text): Text) -> Result<Self, ExpressionError> {
        Self::parse(&text)
    }
}

impl From<Expression> for String {
    fn from(expression: Expression) -> Self {
        expression.text
    }
}

impl PartialEq for Expression {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for Expression {}

impl std::fmt::Debug for Expression {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Expression").field(&self.text).finish()
    }
}

impl JsonSchema for Expression {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "JSONPath".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string", "maxLength": MAX_BYTES, "pattern": "^\\$"})
    }
}

#[cfg(test)]
mod tests {
    use std::{
        fmt::Write,
        time::{Duration, Instant},
    };

    use super::*;
    use crate::object::{ManagedFields, kind::GroupVersionKind, tree::MAX_VALUES};

    fn object(fields: &str) -> Object {
        let text =
            format!(r#"{{"metadata":{{"name":"a","annotations":{{"a.b/c":"1"}}}},{fields}}}"#);
        Object::from_json(
            &text,
            &GroupVersionKind::new("v1", "Pod"),
            ManagedFields::Drop,
        )
        .expect("object")
    }

    fn expression(text: &str) -> Expression {
        Expression::parse(text).unwrap_or_else(|error| panic!("{error}"))
    }

    #[test]
    fn follows_leading_names_in_the_text() {
        for (text, steps, selects) in [
            ("$", &[][..], true),
            ("$.spec", &["spec"], true),
            ("$['spec'][\"list\"]", &["spec", "list"], true),
            (
                "$.metadata.annotations['a.b/c']",
                &["metadata", "annotations", "a.b/c"],
                true,
            ),
            (
                "$.metadata.annotations['a.b/d']",
                &["metadata", "annotations", "a.b/d"],
                false,
            ),
            ("$.spec.null", &["spec", "null"], true),
            ("$.spec.list[1]", &["spec", "list"], true),
            ("$.spec.list[2]", &["spec", "list"], false),
            ("$.spec.list[-1:]", &["spec", "list"], true),
            ("$.spec.list.name", &["spec", "list", "name"], false),
            ("$.spec.list[?@.n == 2 && !@.gone]", &["spec", "list"], true),
            (
                "$.spec.list[?@.n == 3 || (@.s >= 'b')]",
                &["spec", "list"],
                true,
            ),
            ("$.spec.list[?@.n == $.spec.wanted]", &[], true),
            ("$.spec.list[?@.n == $['spec']['list'][0].n]", &[], true),
            ("$.spec.list[?@[?@ == 'b']]", &["spec", "list"], true),
            ("$.spec..n", &["spec"], true),
            ("$..['nowhere']", &[], false),
            ("$.é", &["é"], false),
            ("$ .spec", &[], true),
            ("$['it\\'s']", &[], false),
        ] {
            let object =
                object(r#""spec":{"list":[{"n":1},{"n":2,"s":"b"}],"null":null,"wanted":2}"#);
            let parsed = expression(text);
            assert_eq!(parsed.steps, steps, "{text}");
            assert_eq!(parsed.selects(&Look::at(&object)), Some(selects), "{text}");
            // The shortened path selects the same values.
            let whole = JsonPath::parse(text).expect("a path");
            let value: Value = serde_json::from_str(object.json()).expect("JSON");
            assert_eq!(!whole.query(&value).is_empty(), selects, "{text}");
        }
    }

    #[test]
    fn detects_changes_of_selected_values_only() {
        let old = object(r#""spec":{"a":[1,2],"b":{"c":1}}"#);
        let new = object(r#""spec":{"b":{"c":1.0},"a":[1,3]}"#);
        let differs = |text: &str| expression(text).differs(&Look::at(&old), &Look::at(&new));
        for (text, differs_) in [
            ("$.spec.a", true),
            ("$.spec.a[0]", false),
            ("$.spec.a[1]", true),
            ("$.spec.a[?@ > 2]", true),
        ] {
            assert_eq!(differs(text), Some(differs_), "{text}");
        }
        let gone = object(r#""spec":{"b":{"c":1}}"#);
        assert_eq!(
            expression("$.spec.a").differs(&Look::at(&old), &Look::at(&gone)),
            Some(true)
        );
        assert_eq!(
            expression("$.spec.d").differs(&Look::at(&old), &Look::at(&gone)),
            Some(false)
        );
    }

    #[test]
    fn refuses_invalid_jsonpath_with_position() {
        for text in [
            "",
            "spec",
            ".spec",
            "$.",
            "$.spec[",
            "$[?@.a=]",
            "$[?@.a == 'b]",
            "$.a b",
            "{.spec}",
            "$[?@.* == 1]",
        ] {
            let error = Expression::parse(text).expect_err(text);
            assert!(
                matches!(error, ExpressionError::Syntax { .. }),
                "{text}: {error}"
            );
            assert!(error.to_string().contains("at position"), "{error}");
        }
    }

    #[test]
    fn refuses_costly_expressions_with_the_limit() {
        let long = format!("$.{}", "a".repeat(MAX_BYTES));
        let parentheses = format!("$[?{}@.a{}]", "(".repeat(9), ")".repeat(9));
        let joins = format!("$[?@.a{}]", "||@.b".repeat(9));
        for (text, words) in [
            (long.as_str(), "514 bytes"),
            (&parentheses, "9 parentheses"),
            (&joins, "9 `&&` and `||`"),
            ("$..a..b", "2 `..`"),
            ("$.*.*.*.*.*", "5 `..`, `*`, `?` and `:`"),
            ("$[?@[?@[?@.a]]]", "3 filters within each other"),
            ("$[0,0,0,0,0]", "4 `,`"),
            ("$[?@..a]", "`..` in a filter"),
            ("$[?count(@.*) > 1]", "a function"),
            ("$[?match(@.a, '(a+)+')]", "a function"),
            ("$[?$.a == $.b]", "3 `$`"),
            ("$[?$.a[*].b]", "`$` in a filter"),
            ("$[?$ ['a', 'b']]", "`$` in a filter"),
            ("$[?$['a'][0:1]]", "`$` in a filter"),
        ] {
            let error = Expression::parse(text).expect_err(text);
            assert!(
                matches!(error, ExpressionError::TooMuch { .. }),
                "{text}: {error}"
            );
            assert!(
                error.to_string().contains(words),
                "{words:?} is not in: {error}"
            );
        }
        // Names that only look like limited constructs are allowed.
        for text in [
            "$['..*?$(a,b)']",
            "$.a[?@.b == '$..*,:(' || @[\"a(\"] == \"?\"]",
        ] {
            expression(text);
        }
    }

    /// Evaluates each of the worst expressions on objects of 3 MiB and on objects with the maximum
    /// number of values. The time limit is no measurement: it detects a mistake of an order of
    /// magnitude.
    #[test]
    fn worst_expressions_on_worst_objects_end_soon() {
        const SIZE: usize = 3 << 20;
        let list = |values: usize| format!("[0{}]", ",0".repeat(values - 1));
        let nested = |width: usize, depth: usize| {
            (0..depth).fold("{\"a\":1,\"b\":1}".to_owned(), |inner, _| {
                format!(
                    "{{\"a\":{inner},\"b\":[{}]}}",
                    vec!["{\"a\":1}"; width].join(",")
                )
            })
        };
        let mut fields = String::from("{");
        while fields.len() < SIZE {
            let _infallible = write!(
                fields,
                "{}\"f{}\":{{\"a\":\"b\"}}",
                if fields.len() > 1 { "," } else { "" },
                fields.len()
            );
        }
        fields.push('}');
        let objects = [
            ("one string", format!("\"{}\"", "[,".repeat(SIZE / 2))),
            ("a long list", list(SIZE / 2)),
            ("many fields", fields),
            ("the longest list", list(MAX_VALUES - 100)),
            ("a tree too deep", nested(150, 100)),
            ("the deepest tree", nested(100, 45)),
        ];
        let expressions = [
            "$..*",
            "$..[*,*,*]",
            "$..*.*.*",
            "$..[?@.a||@.b||@.c||@.d||@.e||@.f||@.g||@.h||@.i]",
            "$..[?@ == $.spec||@.a == @.b||@.b == @.a||@.c == @||@ == @.a.a||@.a.a == @||@ < @.a||@.b > @]",
            "$..[?@[?@.a||@.b||@.c||@.d||@.e||@.f||@.g||@.h]]",
            "$.spec[*,0][*,0][*,0]",
            "$.spec[?@.a == $.spec]",
        ];
        let started = Instant::now();
        for (what, spec) in objects {
            let old = object(&format!("\"spec\":{spec}"));
            let new = object(&format!("\"spec\":{spec},\"status\":1"));
            for text in expressions {
                let expression = expression(text);
                let old = Look::at(&old);
                let new = Look::at(&new);
                let started = Instant::now();
                let answers = (expression.selects(&new), expression.differs(&old, &new));
                println!("{what}, {text}: {answers:?} after {:?}", started.elapsed());
                if ["a long list", "many fields", "a tree too deep"].contains(&what) {
                    assert_eq!(answers.0, None, "{what}, {text}");
                } else {
                    assert!(answers.0.is_some(), "{what}, {text}");
                }
            }
        }
        assert!(
            started.elapsed() < Duration::from_secs(60),
            "{:?}",
            started.elapsed()
        );
    }
}
