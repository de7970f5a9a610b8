//! The JSONPath of printer columns and selectable fields, as client-go's `jsonpath` evaluates it.

use std::cmp::Ordering;

use serde_json::{Map, Value};

use crate::golang::{self, Decoded};

/// A parsed path.
#[derive(Clone, Debug)]
pub struct JsonPath(Vec<Node>);

#[derive(Clone, Debug)]
enum Node {
    Field(String),
    Wildcard,
    Recursive,
    Slice {
        from: Option<i64>,
        to: Option<i64>,
        step: Option<i64>,
        single: bool,
    },
    Union(Vec<Vec<Node>>),
    Filter {
        left: Vec<Node>,
        operator: String,
        right: Vec<Node>,
    },
    Literal(Value),
    /// A word such as `range`, which has no meaning in one path: evaluating it fails.
    Word,
}

/// A path that cannot be parsed, or does not apply to a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

impl JsonPath {
    /// Parses a path as in `.status.conditions[?(@.type=="Ready")].status`.
    ///
    /// # Errors
    /// Returns an error if the path is malformed.
    pub fn parse(text: &str) -> Result<Self, Malformed> {
        parse_nodes(text).map(Self)
    }

    /// Finds the values at the path. A missing field gives none.
    ///
    /// # Errors
    /// Returns an error if an index is out of bounds, or a value has the wrong type.
    pub fn find(&self, object: &Value) -> Result<Vec<Value>, Malformed> {
        eval_nodes(&self.0, vec![object.clone()])
    }
}

fn is_terminator(c: char) -> bool {
    c.is_whitespace() || ".,[]$@{}".contains(c)
}

fn parse_nodes(text: &str) -> Result<Vec<Node>, Malformed> {
    let mut nodes = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        if let Some(after) = rest.strip_prefix("[?(") {
            let (filter, after) = split_filter(after)?;
            nodes.push(parse_filter(filter)?);
            rest = after;
        } else if let Some(after) = rest.strip_prefix("..") {
            if matches!(nodes.last(), Some(Node::Recursive)) {
                return Err(Malformed);
            }

            nodes.push(Node::Recursive);
            rest = after;
            if rest.starts_with(|c: char| c.is_alphanumeric() || c == '_') {
                rest = parse_field(rest, &mut nodes);
            }
        } else {
            rest = match first {
                ' ' | '@' | '$' => &rest[1..],
                // The end of the path. What follows is the text of a template, which may have more
                // paths in braces.
                '}' => {
                    if let Some((_, next)) = rest.split_once('{') {
                        parse_nodes(next)?;
                    }
                    return Ok(nodes);
                }
                '[' => {
                    let end = rest.find([']', '\n']).ok_or(Malformed)?;
                    if !rest[end..].starts_with(']') {
                        return Err(Malformed);
                    }
                    parse_brackets(&rest[1..end], &mut nodes)?;
                    &rest[end + 1..]
                }
                '.' => parse_field(&rest[1..], &mut nodes),
                '"' | '\'' => parse_quoted(rest, first, &mut nodes)?,
                c if c.is_ascii_digit() || c == '-' || c == '+' => parse_number(rest, &mut nodes)?,
                c if c.is_alphanumeric() || c == '_' => parse_word(rest, &mut nodes),
                _ => return Err(Malformed),
            };
        }
    }

    Ok(nodes)
}

fn parse_field<'t>(text: &'t str, nodes: &mut Vec<Node>) -> &'t str {
    let mut name = String::new();
    let mut chars = text.char_indices();
    let mut end = text.len();

    while let Some((at, c)) = chars.next() {
        if c == '\\' {
            name.extend(chars.next().map(|(_, c)| c));
        } else if is_terminator(c) {
            end = at;
            break;
        } else {
            name.push(c);
        }
    }

    nodes.push(if name == "*" {
        Node::Wildcard
    } else {
        Node::Field(name)
    });

    &text[end..]
}

fn parse_quoted<'t>(
    text: &'t str,
    quote: char,
    nodes: &mut Vec<Node>,
) -> Result<&'t str, Malformed> {
    let bytes = text.as_bytes();
    let end = (1..bytes.len())
        .find(|at| bytes[*at] == quote as u8 && bytes[at - 1] != b'\\')
        .ok_or(Malformed)?;
    let inner = text[1..end]
        .replace(&format!("\\{quote}"), &quote.to_string())
        .replace("\\\\", "\\");

    nodes.push(Node::Literal(Value::String(inner)));

    Ok(&text[end + 1..])
}

fn parse_number<'t>(text: &'t str, nodes: &mut Vec<Node>) -> Result<&'t str, Malformed> {
    let begin = usize::from(text.starts_with(['+', '-']));
    let end = text[begin..]
        .find(|c: char| c != '.' && !c.is_ascii_digit())
        .map_or(text.len(), |at| at + begin);
    let digits = text[..end].trim_start_matches('+');
    let number = match digits.parse::<i64>() {
        Ok(int) => Value::from(int),
        Err(_) => Value::from(digits.parse::<f64>().map_err(|_| Malformed)?),
    };

    nodes.push(Node::Literal(number));

    Ok(&text[end..])
}

fn parse_word<'t>(text: &'t str, nodes: &mut Vec<Node>) -> &'t str {
    let end = text.find(is_terminator).unwrap_or(text.len());
    match &text[..end] {
        "true" => nodes.push(Node::Literal(Value::Bool(true))),
        "false" => nodes.push(Node::Literal(Value::Bool(false))),
        _ => nodes.push(Node::Word),
    }

    &text[end..]
}

fn parse_brackets(text: &str, nodes: &mut Vec<Node>) -> Result<(), Malformed> {
    if text.contains(',') {
        let parts = text
            .split(',')
            .map(|part| parse_nodes(&format!("[{}]", part.trim())));
        nodes.push(Node::Union(parts.collect::<Result<_, _>>()?));
        return Ok(());
    }

    if let Some(name) = text
        .strip_prefix('\'')
        .and_then(|rest| rest.strip_suffix('\''))
        .filter(|name| !name.contains('\''))
    {
        nodes.extend(parse_nodes(&format!(".{name}"))?);
        return Ok(());
    }

    let text = if text == "*" { ":" } else { text };
    let number = |part: &str| match part {
        "" => Ok(None),
        part if part.starts_with('+') => Err(Malformed),
        digits => digits.parse::<i64>().map(Some).map_err(|_| Malformed),
    };
    let parts: Vec<_> = text.split(':').map(number).collect::<Result<_, _>>()?;

    nodes.push(match parts[..] {
        // Without a number it's the first item, as in `[0]`.
        [at] => Node::Slice {
            from: at,
            to: at.unwrap_or(0).checked_add(1),
            step: None,
            single: true,
        },
        [from, to] => Node::Slice {
            from,
            to,
            step: None,
            single: false,
        },
        [from, to, step] => Node::Slice {
            from,
            to,
            step,
            single: false,
        },
        _ => return Err(Malformed),
    });

    Ok(())
}

/// Splits a filter from what follows its closing `)]`. Brackets in one quoted text do not count.
fn split_filter(text: &str) -> Result<(&str, &str), Malformed> {
    let mut quote = None;
    let mut closed = false;
    let mut previous = ' ';

    for (at, c) in text.char_indices() {
        match (c, quote) {
            ('"' | '\'', None) => quote = Some(c),
            (c, Some(open)) if c == open && previous != '\\' => closed = true,
            (')', _) if quote.is_some() == closed => {
                let after = text[at + 1..].strip_prefix(']').ok_or(Malformed)?;
                return Ok((&text[..at], after));
            }
            _ => {}
        }

        previous = c;
    }

    Err(Malformed)
}

fn parse_filter(text: &str) -> Result<Node, Malformed> {
    let is_operator = |c: char| "!<>=".contains(c);
    let (left, rest) = match text.find(is_operator) {
        Some(at) if at > 0 => text.split_at(at),
        _ => (text, ""),
    };
    let end = rest.find(|c| !is_operator(c)).unwrap_or(rest.len());
    let (operator, right) = rest.split_at(end);

    if right.is_empty() {
        return Ok(Node::Filter {
            left: parse_nodes(text)?,
            operator: "exists".to_owned(),
            right: Vec::new(),
        });
    }

    Ok(Node::Filter {
        left: parse_nodes(left)?,
        operator: operator.to_owned(),
        right: parse_nodes(right)?,
    })
}

fn eval_nodes(nodes: &[Node], input: Vec<Value>) -> Result<Vec<Value>, Malformed> {
    nodes
        .iter()
        .try_fold(input, |input, node| eval(node, input))
}

fn eval(node: &Node, input: Vec<Value>) -> Result<Vec<Value>, Malformed> {
    match node {
        Node::Field(name) => Ok(input
            .iter()
            .filter_map(|value| value.get(name.as_str()))
            .cloned()
            .collect()),
        Node::Wildcard => Ok(input.iter().flat_map(children).collect()),
        Node::Recursive => Ok(input
            .into_iter()
            .flat_map(|value| descend(&value))
            .collect()),
        Node::Word => Err(Malformed),
        Node::Literal(literal) => Ok(input.iter().map(|_| literal.clone()).collect()),
        Node::Union(parts) => {
            let mut out = Vec::new();
            for part in parts {
                out.extend(eval_nodes(part, input.clone())?);
            }
            Ok(out)
        }
        Node::Slice {
            from,
            to,
            step,
            single,
        } => {
            let mut out = Vec::new();
            for value in input.iter().filter(|value| !value.is_null()) {
                let items = value.as_array().ok_or(Malformed)?;
                out.extend(slice(items, (*from, *to, *step), *single)?);
            }
            Ok(out)
        }
        Node::Filter {
            left,
            operator,
            right,
        } => {
            let mut out = Vec::new();
            for value in &input {
                for item in value.as_array().ok_or(Malformed)? {
                    if passes(item, left, operator, right)? {
                        out.push(item.clone());
                    }
                }
            }

            Ok(out)
        }
    }
}

fn children(value: &Value) -> Vec<Value> {
    match value {
        Value::Array(items) => items.clone(),
        Value::Object(fields) => sorted(fields),
        _ => Vec::new(),
    }
}

fn sorted(fields: &Map<String, Value>) -> Vec<Value> {
    let mut entries: Vec<_> = fields.iter().collect();
    entries.sort_unstable_by_key(|(key, _)| *key);
    entries
        .into_iter()
        .map(|(_, value)| value.clone())
        .collect()
}

fn descend(value: &Value) -> Vec<Value> {
    let inner = children(value);
    if inner.is_empty() {
        return Vec::new();
    }

    let mut out = vec![value.clone()];
    out.extend(inner.iter().flat_map(descend));
    out
}

fn slice(
    items: &[Value],
    (from, to, step): (Option<i64>, Option<i64>, Option<i64>),
    single: bool,
) -> Result<Vec<Value>, Malformed> {
    let length = i64::try_from(items.len()).map_err(|_| Malformed)?;
    let mut from = from.unwrap_or(0);
    let mut to = to.unwrap_or(length);

    if from < 0 {
        from = from.saturating_add(length);
    }
    if to < 0 || (to == 0 && single) {
        to = to.saturating_add(length);
    }
    if from == to {
        return Ok(Vec::new());
    }
    if from < 0 || from >= length || to < 0 || to > length || from > to {
        return Err(Malformed);
    }

    let step = usize::try_from(step.unwrap_or(1))
        .ok()
        .filter(|step| *step > 0)
        .ok_or(Malformed)?;
    let bounds = usize::try_from(from).map_err(|_| Malformed)?
        ..usize::try_from(to).map_err(|_| Malformed)?;

    Ok(items[bounds].iter().step_by(step).cloned().collect())
}

fn passes(item: &Value, left: &[Node], operator: &str, right: &[Node]) -> Result<bool, Malformed> {
    let found = eval_nodes(left, vec![item.clone()]);
    if operator == "exists" {
        return Ok(found.is_ok_and(|found| !found.is_empty()));
    }

    let lefts = found?;
    let rights = eval_nodes(right, vec![item.clone()])?;
    if lefts.len() > 1 || rights.len() > 1 {
        return Err(Malformed);
    }
    let (Some(left), Some(right)) = (lefts.first(), rights.first()) else {
        return Ok(false);
    };
    let order = compare(left, right).ok_or(Malformed)?;

    match operator {
        "==" => Ok(order.is_eq()),
        "!=" => Ok(order.is_ne()),
        "<" => Ok(order.is_lt()),
        "<=" => Ok(order.is_le()),
        ">" => Ok(order.is_gt()),
        ">=" => Ok(order.is_ge()),
        _ => Err(Malformed),
    }
}

/// Compares values of the same basic type; others do not compare.
fn compare(left: &Value, right: &Value) -> Option<Ordering> {
    match (left, right) {
        (Value::String(left), Value::String(right)) => Some(left.cmp(right)),
        (Value::Bool(left), Value::Bool(right)) => Some(left.cmp(right)),
        (Value::Number(left), Value::Number(right)) => {
            match (golang::decode_number(left), golang::decode_number(right)) {
                (Decoded::Int(left), Decoded::Int(right)) => Some(left.cmp(&right)),
                (Decoded::Float(left), Decoded::Float(right)) => left.partial_cmp(&right),
                _ => None,
            }
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn finds_values_as_client_go_does() {
        let object = json!({"spec": {"a.b": 1, "list": [{"t": "x", "n": 1}, {"t": "y"}, {"t": "z", "n": 3}]}});
        let cases = [
            (r".spec.a\.b", json!([1])),
            (".spec['a\\.b']", json!([1])),
            (".spec.none", json!([])),
            (".spec.list[0].t", json!(["x"])),
            (".spec.list[].t", json!(["x"])),
            (".spec.list[-1].t", json!(["z"])),
            (".spec.list[*].n", json!([1, 3])),
            (".spec.list[0:2].t", json!(["x", "y"])),
            (".spec.list[::2].t", json!(["x", "z"])),
            (".spec.list[?(@.t==\"y\")].t", json!(["y"])),
            (".spec.list[?(@.n)].t", json!(["x", "z"])),
            (".spec.list[?(@.n>1)].t", json!(["z"])),
            (".spec.list[0,2].t", json!(["x", "z"])),
            ("..t", json!(["x", "y", "z"])),
            (".spec.list[?(@.t!='x')].n", json!([3])),
        ];
        for (path, expected) in cases {
            let found = JsonPath::parse(path).and_then(|parsed| parsed.find(&object));
            assert_eq!(
                found,
                Ok(expected.as_array().cloned().expect("list")),
                "{path}"
            );
        }
        for path in [
            ".spec.list[9].t",
            ".spec[0]",
            ".spec[]",
            ".spec.list[?(@.t==1)]",
            "range",
            ".spec.list end",
        ] {
            assert!(
                JsonPath::parse(path)
                    .and_then(|parsed| parsed.find(&object))
                    .is_err(),
                "{path}"
            );
        }
        for path in [
            ".a[",
            ".a[x]",
            ".a[ 0]",
            ".a[+1]",
            ".a['b'c']",
            ".a[0:1:2:3]",
            ".a[?(@.b]",
            "\"a",
            "#",
        ] {
            assert!(JsonPath::parse(path).is_err(), "{path}");
        }
    }
}
