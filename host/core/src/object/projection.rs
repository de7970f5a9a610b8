//! Field projection of lists: reduces a JSON text to some paths without building a tree.

use crate::object::fields::Fields;

/// Always kept, because they identify the object and its version.
const ALWAYS: [&str; 6] = [
    ".apiVersion",
    ".kind",
    ".metadata.name",
    ".metadata.namespace",
    ".metadata.uid",
    ".metadata.resourceVersion",
];

/// Keeps only the fields at `paths` and the object's identity. Missing fields are omitted. A path
/// is a sequence of object fields, like `.spec.replicas`; lists are kept in full.
pub fn project(json: &str, paths: &[String]) -> Box<str> {
    let paths: Vec<&str> = ALWAYS
        .into_iter()
        .chain(paths.iter().map(String::as_str))
        .map(|path| path.trim_start_matches('.'))
        .collect();
    cut(json, &paths)
        .unwrap_or_else(|| json.to_owned())
        .into_boxed_str()
}

/// Returns None if `json` is not an object; it is then kept as it is.
fn cut(json: &str, paths: &[&str]) -> Option<String> {
    let mut kept = String::from("{");
    for (field, value) in Fields::of(json)? {
        let mut deeper = Vec::new();
        let mut keeps_all = false;
        for path in paths {
            match path.strip_prefix(field.as_ref()) {
                Some("") => keeps_all = true,
                Some(rest) => deeper.extend(rest.strip_prefix('.')),
                None => {}
            }
        }

        if keeps_all {
            push_field(&mut kept, &field, value);
        } else if !deeper.is_empty()
            && let Some(part) = cut(value, &deeper)
        {
            push_field(&mut kept, &field, &part);
        }
    }

    kept.push('}');
    Some(kept)
}

fn push_field(json: &mut String, name: &str, value: &str) {
    if !json.ends_with('{') {
        json.push(',');
    }

    if name
        .bytes()
        .any(|byte| byte < 0x20 || byte == b'"' || byte == b'\\')
    {
        json.push_str(&serde_json::Value::from(name).to_string());
    } else {
        json.push('"');
        json.push_str(name);
        json.push('"');
    }

    json.push(':');
    json.push_str(value);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_requested_fields_and_identity_only() {
        let json = r#"{"kind":"Pod","metadata":{"name":"a","labels":{"x":"1","y":"2"},"uid":"u"},"spec":{"a":{"b":[1],"c":2},"aa":3},"status":{}}"#;
        let paths = [
            ".spec.a.b".to_owned(),
            ".metadata.labels.x".to_owned(),
            ".spec.none".to_owned(),
        ];
        assert_eq!(
            &*project(json, &paths),
            r#"{"kind":"Pod","metadata":{"name":"a","labels":{"x":"1"},"uid":"u"},"spec":{"a":{"b":[1]}}}"#
        );
    }

    #[test]
    fn drops_scalar_in_the_middle_of_a_path() {
        let json = r#"{"metadata":{"name":"a"},"spec":1}"#;
        assert_eq!(
            &*project(json, &[".spec.a".to_owned()]),
            r#"{"metadata":{"name":"a"}}"#
        );
    }
}
