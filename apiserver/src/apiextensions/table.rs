//! Tables of custom resources, as `kubectl get` shows them.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{
    jsonpath::JsonPath,
    model::{Column, Version},
};
use crate::{
    apimachinery::{duration, json},
    golang::{self, Decoded},
};

const NAME: &str = "Name must be unique within a namespace. Is required when creating resources, although some resources may \
allow a client to request the generation of an appropriate name automatically. Name is primarily intended for creation \
idempotence and configuration definition. Cannot be updated. More info: \
https://kubernetes.io/docs/concepts/overview/working-with-objects/names#names";
const CREATED: &str = "CreationTimestamp is a timestamp representing the server time when this object was created. It is not \
guaranteed to be set in happens-before order across separate operations. Clients may not set this value. It is represented in \
RFC3339 form and is in UTC.\n\nPopulated by the system. Read-only. Null for lists. More info: \
https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#metadata";

/// The columns of a version.
#[derive(Clone, Debug)]
pub struct Columns(Vec<(Column, JsonPath)>);

fn age() -> Column {
    Column {
        name: "Age".into(),
        kind: "date".into(),
        description: CREATED.into(),
        json_path: ".metadata.creationTimestamp".into(),
        ..Column::default()
    }
}

impl Columns {
    /// Returns the columns of a version: its own, or the age if it has none.
    pub fn of(version: &Version) -> Self {
        if version.additional_printer_columns.is_empty() {
            return Self::parse(vec![age()]);
        }
        Self::parse(version.additional_printer_columns.clone())
    }

    /// Parses the paths of columns. A malformed one ends the table: it and the columns after it are
    /// left out.
    fn parse(columns: Vec<Column>) -> Self {
        let parsed = columns.into_iter().map_while(|column| {
            let path = JsonPath::parse(&column.json_path).ok()?;
            Some((column, path))
        });
        Self(parsed.collect())
    }

    /// Returns the `columnDefinitions` of a table.
    pub fn definitions(&self) -> Value {
        let name = json!({"name": "Name", "type": "string", "format": "name", "description": NAME, "priority": 0});
        let others = self.0.iter().map(|(column, _)| {
            let description = if column.description.is_empty() {
                format!("Custom resource definition column (in JSONPath format): {}", column.json_path)
            } else {
                column.description.clone()
            };
            json!({"name": column.name, "type": column.kind, "format": column.format, "description": description,
                "priority": column.priority})
        });

        Value::Array(std::iter::once(name).chain(others).collect())
    }

    /// Returns the `cells` of an object; ages are counted up to a time.
    pub fn cells(&self, object: &Value, now: Timestamp) -> Value {
        let name = object
            .pointer("/metadata/name")
            .cloned()
            .unwrap_or_else(|| json!(""));
        let others = self.0.iter().map(|(column, path)| {
            let found = path.find(object).unwrap_or_default();
            found
                .first()
                .map_or(Value::Null, |value| cell(&column.kind, value, now))
        });

        Value::Array(std::iter::once(name).chain(others).collect())
    }
}

fn cell(kind: &str, value: &Value, now: Timestamp) -> Value {
    match (kind, value) {
        ("string", Value::Array(_) | Value::Object(_)) => Value::String(json::to_string(value)),
        ("string", Value::Null) => json!("<no value>"),
        ("string", value) => Value::String(golang::plain(value)),
        ("integer", Value::Number(number)) => json!(match golang::decode_number(number) {
            Decoded::Int(int) => int,
            Decoded::Float(float) => truncate(float),
        }),
        ("number", Value::Number(number)) => {
            golang::normalize(golang::decode_number(number).as_f64().into())
        }
        ("boolean", Value::Bool(flag)) => Value::Bool(*flag),
        ("date", Value::String(text)) => Value::String(age_of(text, now)),
        _ => Value::Null,
    }
}

#[expect(clippy::cast_possible_truncation, reason = "Go truncates the same way")]
fn truncate(float: f64) -> i64 {
    float as i64
}

/// Returns the time since a timestamp, as in `5m` or `2d3h`.
fn age_of(text: &str, now: Timestamp) -> String {
    match text.parse::<Timestamp>() {
        Ok(time) if golang::time::is_rfc3339(text) => duration::human(now.duration_since(time)),
        _ if text.is_empty() || text == "null" => "<unknown>".to_owned(),
        _ => "<invalid>".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn columns(list: Value) -> Columns {
        Columns::of(&Version {
            additional_printer_columns: serde_json::from_value(list).expect("columns"),
            ..Version::default()
        })
    }

    #[test]
    fn shows_cells_by_the_type_of_their_column() {
        let column = |kind: &str, path: &str| json!({"name": "c", "type": kind, "jsonPath": path});
        let kinds = ["string", "integer", "number", "boolean", "date"];
        let object = json!({"metadata": {"name": "n"}, "i": 3, "f": 2.5, "b": true, "null": null, "l": [1, "x"],
            "t": "2024-01-01T00:00:00Z"});
        let now: Timestamp = "2024-01-01T00:05:30Z".parse().expect("time");
        let cells = |path: &str| {
            let list = kinds.iter().map(|kind| column(kind, path)).collect();
            columns(Value::Array(list)).cells(&object, now)
        };
        assert_eq!(cells(".i"), json!(["n", "3", 3, 3, null, null]));
        assert_eq!(cells(".f"), json!(["n", "2.5", 2, 2.5, null, null]));
        assert_eq!(cells(".b"), json!(["n", "true", null, null, true, null]));
        assert_eq!(
            cells(".l"),
            json!(["n", "[1,\"x\"]", null, null, null, null])
        );
        assert_eq!(
            cells(".t"),
            json!(["n", "2024-01-01T00:00:00Z", null, null, null, "5m30s"])
        );
        assert_eq!(cells(".none"), json!(["n", null, null, null, null, null]));
        assert_eq!(
            cells(".null"),
            json!(["n", "<no value>", null, null, null, null])
        );
    }

    #[test]
    fn brackets_without_a_number_end_no_table() {
        let column =
            |name: &str, path: &str| json!({"name": name, "type": "string", "jsonPath": path});
        let columns = columns(json!([
            column("match", ".spec.http[].match"),
            column("word", ".spec range"),
            column("last", ".spec.last"),
            column("malformed", ".spec[x]"),
            column("left-out", ".spec.last"),
        ]));

        let definitions = columns.definitions();
        let names = definitions.as_array().into_iter().flatten();
        let names: Vec<&Value> = names.map(|definition| &definition["name"]).collect();
        assert_eq!(names, ["Name", "match", "word", "last"]);

        let object = json!({"metadata": {"name": "n"}, "spec": {
            "http": [{"match": "a"}, {"match": "b"}], "last": "z",
        }});
        let cells = columns.cells(&object, Timestamp::UNIX_EPOCH);
        assert_eq!(cells, json!(["n", "a", null, "z"]));
    }

    /// What a cell of the type `string` has.
    enum Cell {
        /// The path ends the table.
        Malformed,
        Nothing,
        Text(&'static str),
    }

    /// The answers are those of client-go 0.36.2's `jsonpath`, used as in the table convertor of
    /// apiextensions.
    #[test]
    fn paths_are_read_as_client_go_reads_them() {
        use Cell::{Malformed, Nothing, Text};

        let object = json!({"spec": {
            "a.b": 1, "n": null, "http": [{"match": "a"}, {"match": "b"}], "e": [], "last": "z",
            "m": {"y": [1, {"z": 2}], "x": {"q": "t"}},
        }});
        for (path, expected) in [
            (".spec.http[].match", Text("a")),
            (".spec.e[].match", Nothing),
            (".spec range", Nothing),
            (".spec.last foo", Nothing),
            (".spec[]", Nothing),
            (".spec.n", Text("<no value>")),
            (".spec.http[ 0].match", Malformed),
            (".spec.http[+1].match", Malformed),
            (".spec.http[-1:].match", Text("b")),
            (".spec.http[:].match", Text("a")),
            (".spec.http[::2].match", Text("a")),
            (".spec.http[0:].match", Text("a")),
            (".spec.http[,].match", Text("a")),
            (".spec.http[0, 1].match", Text("a")),
            (".spec['last']", Text("z")),
            (".spec['a.b']", Nothing),
            (".spec['a\\.b']", Text("1")),
            (".spec[\"last\"]", Malformed),
            ("..z", Text("2")),
            (".spec..q", Text("t")),
            ("..*", Malformed),
            ("$.spec.last", Text("z")),
            ("spec.last", Nothing),
            (
                "",
                Text(
                    "{\"spec\":{\"a.b\":1,\"e\":[],\"http\":[{\"match\":\"a\"},{\"match\":\"b\"}],\"last\":\"z\",\"m\":{\"x\":{\"q\":\"t\"},\"y\":[1,{\"z\":2}]},\"n\":null}}",
                ),
            ),
            (".", Nothing),
            (".spec.", Nothing),
            (".spec.last.", Nothing),
            (
                ".spec..",
                Text(
                    "{\"a.b\":1,\"e\":[],\"http\":[{\"match\":\"a\"},{\"match\":\"b\"}],\"last\":\"z\",\"m\":{\"x\":{\"q\":\"t\"},\"y\":[1,{\"z\":2}]},\"n\":null}",
                ),
            ),
            ("'x'", Text("x")),
            ("\"x\"", Text("x")),
            ("5", Text("5")),
            ("-", Malformed),
            ("1.5", Text("1.5")),
            ("1.2.3", Malformed),
            ("true", Text("true")),
            (
                "@",
                Text(
                    "{\"spec\":{\"a.b\":1,\"e\":[],\"http\":[{\"match\":\"a\"},{\"match\":\"b\"}],\"last\":\"z\",\"m\":{\"x\":{\"q\":\"t\"},\"y\":[1,{\"z\":2}]},\"n\":null}}",
                ),
            ),
            (".spec.http[?(@.match=='b')].match", Text("b")),
            (".spec.http[?(@.match==\"b\")].match", Text("b")),
            (".spec.http[?(@.match)]", Text("{\"match\":\"a\"}")),
            (".spec.http[*].match", Text("a")),
            (".spec.last}", Text("z")),
            (".spec.last}x", Text("z")),
            (".spec.last} {.spec.n", Text("z")),
            (".sp\\ec.last", Text("z")),
            (".spec.\tlast", Malformed),
            (".spec.last\n", Malformed),
            (".spec.http[0\n]", Malformed),
            ("é", Nothing),
            (".é", Nothing),
            (".spec.http[1:0]", Nothing),
            (".spec.http[0:5]", Nothing),
            (".spec.http[::-1]", Nothing),
            (".spec.http[::0]", Nothing),
            (".spec.http[9]", Nothing),
            ("[]", Nothing),
            ("['spec'].last", Text("z")),
            (".spec.http.[0].match", Nothing),
            (".spec.http[0][1]", Nothing),
            (".spec-x", Nothing),
            (".spec/x", Nothing),
            (".spec.last#", Nothing),
            ("#", Malformed),
        ] {
            let column = json!({"name": "c", "type": "string", "jsonPath": path});
            let cells = columns(json!([column])).cells(&object, Timestamp::UNIX_EPOCH);
            let found = cells.get(1).cloned();
            let expected = match expected {
                Malformed => None,
                Nothing => Some(Value::Null),
                Text(text) => Some(text.into()),
            };
            assert_eq!(found, expected, "{path}");
        }
    }

    #[test]
    fn shows_the_age_where_a_version_has_no_columns() {
        let definitions = columns(json!([])).definitions();
        assert_eq!(definitions[1]["name"], "Age");
        assert_eq!(
            columns(json!([])).definitions().as_array().map(Vec::len),
            Some(2)
        );
    }
}
