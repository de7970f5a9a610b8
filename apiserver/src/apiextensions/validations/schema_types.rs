//! The CEL types of schemas.

use std::sync::Arc;

use crate::{
    apiextensions::schema::Schema,
    cel::{
        types::{Object, Type},
        words,
    },
};

/// Returns the name of a field in expressions; none if the field has no name there.
pub fn escape(name: &str) -> Option<String> {
    if name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    if let Some(escaped) = words::escaped(name) {
        return Some(escaped);
    }

    let mut out = String::with_capacity(name.len());
    let mut rest = name;
    while let Some(c) = rest.chars().next() {
        if let Some(after) = rest.strip_prefix("__") {
            out.push_str("__underscores__");
            rest = after;
            continue;
        }

        match c {
            '.' => out.push_str("__dot__"),
            '-' => out.push_str("__dash__"),
            '/' => out.push_str("__slash__"),
            c if c.is_ascii_alphanumeric() || c == '_' => out.push(c),
            _ => return None,
        }

        rest = &rest[c.len_utf8()..];
    }

    Some(out)
}

/// Returns the schema with the metadata that rules of a resource can use.
pub fn with_metadata(schema: &Schema) -> Schema {
    let is_text = |schema: Option<&Schema>| schema.is_some_and(|schema| schema.kind == "string");
    let metadata = schema.properties.get("metadata");
    let complete = is_text(schema.properties.get("kind"))
        && is_text(schema.properties.get("apiVersion"))
        && metadata.is_some_and(|metadata| {
            metadata.kind == "object"
                && is_text(metadata.properties.get("name"))
                && is_text(metadata.properties.get("generateName"))
        });

    let mut schema = schema.clone();
    if complete {
        return schema;
    }

    let text = || Schema {
        kind: "string".to_owned(),
        ..Schema::default()
    };
    let names = ["name", "generateName"].map(|name| (name.to_owned(), text()));
    let metadata = Schema {
        kind: "object".to_owned(),
        properties: names.into_iter().collect(),
        ..Schema::default()
    };

    schema.properties.insert("kind".to_owned(), text());
    schema.properties.insert("apiVersion".to_owned(), text());
    schema.properties.insert("metadata".to_owned(), metadata);

    schema
}

/// Returns the type of values of a schema; none if rules cannot see them.
pub fn type_of(schema: &Schema, is_resource: bool, name: &str) -> Option<Type> {
    if schema.int_or_string {
        return Some(Type::Dyn);
    }

    match schema.kind.as_str() {
        "array" => {
            let item = schema.item()?;
            let inner = type_of(item, item.embedded_resource, &format!("{name}.@idx"))?;
            Some(Type::List(Arc::new(inner)))
        }
        "object" if schema.additional().is_some() => {
            let value = schema.additional()?;
            let inner = type_of(value, value.embedded_resource, &format!("{name}.@elem"))?;
            Some(Type::Map(Arc::new(Type::String), Arc::new(inner)))
        }
        "object" => {
            let extended = is_resource.then(|| with_metadata(schema));
            let properties = &extended.as_ref().unwrap_or(schema).properties;
            let fields = properties.iter().filter_map(|(field, property)| {
                let escaped = escape(field)?;
                let ty = type_of(
                    property,
                    property.embedded_resource,
                    &format!("{name}.{escaped}"),
                )?;
                Some((escaped, ty))
            });

            Some(Type::Object(Arc::new(Object {
                name: name.to_owned(),
                fields: fields.collect(),
            })))
        }
        "string" => Some(match schema.format.as_str() {
            "byte" => Type::Bytes,
            "duration" => Type::Duration,
            "date" | "date-time" => Type::Timestamp,
            _ => Type::String,
        }),
        "boolean" => Some(Type::Bool),
        "number" => Some(Type::Double),
        "integer" => Some(Type::Int),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_names_as_the_real_server_does() {
        let cases = [
            ("a", Some("a")),
            ("namespace", Some("__namespace__")),
            ("a-b", Some("a__dash__b")),
            ("a.b/c", Some("a__dot__b__slash__c")),
            ("x__y", Some("x__underscores__y")),
            ("_a", Some("_a")),
            ("1a", None),
            ("", None),
            ("a b", None),
            ("é", None),
        ];
        for (name, escaped) in cases {
            assert_eq!(escape(name).as_deref(), escaped, "{name}");
        }
    }
}
