//! The functions of CEL: the standard ones, and the libraries of Kubernetes 1.36.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use super::types::Type;

/// One signature of a function.
#[derive(Debug)]
pub struct Overload {
    /// Whether the first argument stands before the dot.
    pub is_method: bool,
    pub args: Vec<Type>,
    pub result: Type,
}

/// The declarations, one per line: `name(arguments) result`, and `type.name(arguments) result` for
/// methods.
const DECLARATIONS: &str = include_str!("declarations.txt");

/// What stands before a dot and is part of the function's name, not a receiver.
const NAMESPACES: [&str; 6] = ["strings", "lists", "sets", "format", "optional", "ip"];
const OPAQUE: [&str; 11] = [
    "kubernetes.NamedFormat",
    "kubernetes.Quantity",
    "kubernetes.Semver",
    "kubernetes.URL",
    "net.CIDR",
    "net.IP",
    "kubernetes.authorization.Authorizer",
    "kubernetes.authorization.Decision",
    "kubernetes.authorization.GroupCheck",
    "kubernetes.authorization.PathCheck",
    "kubernetes.authorization.ResourceCheck",
];

static TABLE: LazyLock<HashMap<String, Vec<Overload>>> = LazyLock::new(|| {
    let mut table: HashMap<String, Vec<Overload>> = HashMap::new();

    for line in DECLARATIONS.lines().filter(|line| !line.is_empty()) {
        let (name, overload) = parse_line(line);
        table.entry(name).or_default().push(overload);
    }

    add_comparisons(&mut table);
    table
});

/// Numbers of different types can be ordered; any other pair must have the same type.
fn add_comparisons(table: &mut HashMap<String, Vec<Overload>>) {
    let numbers = [Type::Int, Type::Uint, Type::Double];
    let others = [
        Type::Bool,
        Type::String,
        Type::Bytes,
        Type::Timestamp,
        Type::Duration,
    ];

    for name in ["_<_", "_<=_", "_>_", "_>=_"] {
        let pairs = numbers
            .iter()
            .flat_map(|left| numbers.iter().map(move |right| (left, right)));

        for (left, right) in pairs.chain(others.iter().map(|ty| (ty, ty))) {
            let overload = Overload {
                is_method: false,
                args: vec![left.clone(), right.clone()],
                result: Type::Bool,
            };
            table.entry(name.to_owned()).or_default().push(overload);
        }
    }
}

/// All signatures of a function.
pub fn overloads(name: &str) -> Option<&'static [Overload]> {
    TABLE.get(name).map(Vec::as_slice)
}

fn parse_line(line: &str) -> (String, Overload) {
    let open = line.rfind('(').unwrap_or(line.len());
    let (head, rest) = line.split_at(open);

    let (inside, result) = rest
        .trim_start_matches('(')
        .split_once(')')
        .unwrap_or((rest, ""));

    let mut args: Vec<Type> = split(inside).into_iter().map(parse_type).collect();
    let receiver = head.rsplit_once('.').filter(|(before, name)| {
        let is_function =
            NAMESPACES.contains(before) && !(*before == "ip" && *name != "isCanonical");
        !is_function && !before.is_empty()
    });

    let (is_method, name) = match receiver {
        Some((before, name)) => {
            args.insert(0, parse_type(before));
            (true, name)
        }
        None => (false, head),
    };

    (
        name.to_owned(),
        Overload {
            is_method,
            args,
            result: parse_type(result.trim()),
        },
    )
}

/// Splits a list of types at its commas, except those within brackets.
fn split(text: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut depth = 0;
    let mut start = 0;

    for (at, c) in text.char_indices() {
        match c {
            '<' => depth += 1,
            '>' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(text[start..at].trim());
                start = at + 1;
            }
            _ => {}
        }
    }

    if !text[start..].trim().is_empty() {
        parts.push(text[start..].trim());
    }

    parts
}

fn parse_type(text: &str) -> Type {
    if let Some((name, inner)) = text.strip_suffix('>').and_then(|text| text.split_once('<')) {
        let mut inner = split(inner)
            .into_iter()
            .map(|part| Arc::new(parse_type(part)));

        let mut next = || inner.next().unwrap_or_else(|| Arc::new(Type::Dyn));
        return match name {
            "list" => Type::List(next()),
            "map" => Type::Map(next(), next()),
            "type" => Type::Type(next()),
            _ => Type::Optional(next()),
        };
    }

    match text {
        "A" => Type::Param(0),
        "B" => Type::Param(1),
        "bool" => Type::Bool,
        "int" => Type::Int,
        "uint" => Type::Uint,
        "double" => Type::Double,
        "string" => Type::String,
        "bytes" => Type::Bytes,
        "timestamp" => Type::Timestamp,
        "duration" => Type::Duration,
        other => OPAQUE
            .iter()
            .find(|name| **name == other)
            .map_or(Type::Dyn, |name| Type::Opaque(name)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_each_declaration() {
        for line in DECLARATIONS.lines().filter(|line| !line.is_empty()) {
            let (name, overload) = parse_line(line);
            let mut shown = overload
                .args
                .iter()
                .map(ToString::to_string)
                .collect::<Vec<_>>()
                .join(" ");
            shown.push_str(&overload.result.to_string());

            let dynamic = line.contains("dyn");
            assert_eq!(shown.contains("dyn"), dynamic, "{line}: {name} {shown}");
        }

        let size = overloads("size").expect("size");
        assert_eq!(size.iter().filter(|overload| overload.is_method).count(), 4);
        assert_eq!(overloads("_<_").expect("less").len(), 14);
        assert!(overloads("strings.quote").is_some() && overloads("quote").is_none());
    }
}
