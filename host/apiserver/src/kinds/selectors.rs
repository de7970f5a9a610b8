//! Field selectors: their syntax, the fields that each kind supports, and the values of an object.

use serde_json::Value;

use super::{
    errors::KindError,
    object::{at, text},
};

/// A parsed field selector for one kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldSelector {
    terms: Vec<Term>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Term {
    field: String,
    value: String,
    equal: bool,
}

const METADATA: [&str; 2] = ["metadata.name", "metadata.namespace"];
const POD: [&str; 10] = [
    "spec.hostNetwork",
    "spec.nodeName",
    "spec.restartPolicy",
    "spec.schedulerName",
    "spec.serviceAccountName",
    "status.nominatedNodeName",
    "status.phase",
    "status.podIP",
    "status.podIPs",
    "spec.host",
];
const EVENT: [&str; 11] = [
    "involvedObject.kind",
    "involvedObject.namespace",
    "involvedObject.name",
    "involvedObject.uid",
    "involvedObject.apiVersion",
    "involvedObject.resourceVersion",
    "involvedObject.fieldPath",
    "reason",
    "reportingComponent",
    "source",
    "type",
];
const NEW_EVENT: [&str; 10] = [
    "regarding.kind",
    "regarding.namespace",
    "regarding.name",
    "regarding.uid",
    "regarding.apiVersion",
    "regarding.resourceVersion",
    "regarding.fieldPath",
    "reason",
    "reportingController",
    "type",
];

/// Returns the fields that a kind supports besides its name and namespace; `None` for a kind without fields of its own.
fn own_fields(api_version: &str, kind: &str) -> Option<&'static [&'static str]> {
    Some(match (api_version, kind) {
        ("v1", "Pod") => &POD,
        ("v1", "Node") => &["spec.unschedulable"],
        ("v1", "ReplicationController") => &["status.replicas"],
        ("v1", "Event") => &EVENT,
        ("events.k8s.io/v1", "Event") => &NEW_EVENT,
        ("v1", "Namespace") => &["status.phase"],
        ("v1", "Secret") => &["type"],
        ("v1", "Service") => &["spec.clusterIP", "spec.type"],
        ("batch/v1", "Job") => &["status.successful"],
        ("certificates.k8s.io/v1", "CertificateSigningRequest") => &["spec.signerName"],
        ("resource.k8s.io/v1", "ResourceSlice") => &["spec.nodeName", "spec.driver"],
        _ => return None,
    })
}

/// Reports whether a kind with fields of its own has no `metadata.namespace`, as those without a namespace.
fn lacks_namespace(kind: &str) -> bool {
    matches!(kind, "Node" | "Namespace" | "CertificateSigningRequest" | "ResourceSlice")
}

impl FieldSelector {
    /// Parses the selector of a request for objects of a kind.
    ///
    /// # Errors
    /// Returns the real server's 400 for a malformed selector or a field that the kind does not support.
    pub fn parse(api_version: &str, kind: &str, selector: &str) -> Result<Self, KindError> {
        let mut parts = split(selector);
        parts.sort_unstable();
        let mut terms = Vec::new();
        for part in parts.into_iter().filter(|part| !part.is_empty()) {
            let Some(term) = term(part).map_err(KindError::BadRequest)? else {
                let message = format!("invalid selector: '{selector}'; can't understand '{part}'");
                return Err(KindError::BadRequest(message));
            };
            terms.push(term);
        }
        for term in &terms {
            check(api_version, kind, &term.field).map_err(KindError::BadRequest)?;
        }
        Ok(Self { terms })
    }

    /// Reports whether the selector has no terms.
    pub fn is_empty(&self) -> bool {
        self.terms.is_empty()
    }

    /// Reports whether an object matches.
    pub fn matches(&self, object: &Value) -> bool {
        self.terms.iter().all(|term| (value_of(object, &term.field) == term.value) == term.equal)
    }

    /// Returns the value that a field must have, if the selector demands one: to read a single object.
    pub fn required_value(&self, field: &str) -> Option<&str> {
        self.terms.iter().find(|term| term.equal && term.field == field).map(|term| term.value.as_str())
    }
}

/// Splits a selector at commas without a backslash.
fn split(selector: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut start = 0;
    let mut escaped = false;
    for (index, character) in selector.char_indices() {
        match character {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            ',' => {
                parts.push(&selector[start..index]);
                start = index + 1;
            }
            _ => {}
        }
    }
    parts.push(&selector[start..]);
    parts
}

/// Parses a term; `None` if it has no operator.
fn term(part: &str) -> Result<Option<Term>, String> {
    let found = part.char_indices().find_map(|(index, _)| {
        let operators = [("!=", false), ("==", true), ("=", true)];
        let found = operators.into_iter().find(|(operator, _)| part[index..].starts_with(operator));
        found.map(|(operator, equal)| (index, index + operator.len(), equal))
    });
    let Some((end, start, equal)) = found else { return Ok(None) };
    Ok(Some(Term { field: part[..end].to_owned(), value: unescape(&part[start..])?, equal }))
}

fn unescape(value: &str) -> Result<String, String> {
    let mut plain = String::with_capacity(value.len());
    let mut characters = value.chars();
    while let Some(character) = characters.next() {
        match character {
            '\\' => match characters.next() {
                Some(escaped @ ('\\' | ',' | '=')) => plain.push(escaped),
                other => {
                    let rest = other.map_or(String::new(), String::from);
                    return Err(format!("invalid field selector: invalid escape sequence: \\{rest}"));
                }
            },
            ',' | '=' => {
                let code = character as u32;
                return Err(format!("invalid field selector: unescaped character in value: {code}"));
            }
            other => plain.push(other),
        }
    }
    Ok(plain)
}

/// Checks that a kind supports a field.
fn check(api_version: &str, kind: &str, field: &str) -> Result<(), String> {
    let Some(own) = own_fields(api_version, kind) else {
        if METADATA.contains(&field) {
            return Ok(());
        }
        return Err(format!(
            "\"{field}\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\""
        ));
    };
    let metadata = field == METADATA[0] || field == METADATA[1] && !lacks_namespace(kind);
    if metadata || own.contains(&field) {
        return Ok(());
    }
    Err(format!("field label not supported: {field}"))
}

/// Returns the value of a field as a selector sees it.
fn value_of(object: &Value, field: &str) -> String {
    match field {
        "spec.host" => text(object, "spec.nodeName").to_owned(),
        "spec.hostNetwork" | "spec.unschedulable" => (at(object, field) == &Value::Bool(true)).to_string(),
        "status.successful" => at(object, "status.succeeded").as_i64().unwrap_or(0).to_string(),
        "status.replicas" => at(object, field).as_i64().unwrap_or(0).to_string(),
        "status.podIP" | "status.podIPs" => {
            let first = at(object, "status.podIPs").get(0).map_or("", |first| text(first, "ip"));
            if first.is_empty() { text(object, "status.podIP") } else { first }.to_owned()
        }
        "source" => match text(object, "source.component") {
            "" => text(object, "reportingComponent").to_owned(),
            component => component.to_owned(),
        },
        field => text(object, field).to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::FieldSelector;

    #[test]
    fn pods_are_selected_by_node_and_phase() {
        let pod = json!({"metadata": {"name": "a"}, "spec": {"nodeName": "n"}, "status": {"phase": "Running"}});
        let matches = |selector: &str| FieldSelector::parse("v1", "Pod", selector).map(|parsed| parsed.matches(&pod));
        let table = [
            ("", true),
            ("spec.nodeName=n", true),
            ("spec.nodeName!=n", false),
            ("spec.nodeName==n,status.phase=Running", true),
            ("metadata.name=b", false),
            ("spec.hostNetwork=false", true),
            ("metadata.name=a\\,b", false),
        ];
        for (selector, expected) in table {
            assert_eq!(matches(selector), Ok(expected), "{selector}");
        }
    }

    #[test]
    fn selector_names_its_object() {
        let selector = FieldSelector::parse("v1", "ConfigMap", "metadata.name=a").unwrap_or_default();
        assert_eq!(selector.required_value("metadata.name"), Some("a"));
        assert!(!selector.is_empty());
    }

    #[test]
    fn malformed_and_unsupported_selectors_are_rejected() {
        let message = |kind: &str, selector: &str| {
            FieldSelector::parse("v1", kind, selector).err().map(|error| error.to_string()).unwrap_or_default()
        };
        assert_eq!(message("Pod", "spec.foo=x"), "field label not supported: spec.foo");
        assert_eq!(message("Node", "metadata.namespace=x"), "field label not supported: metadata.namespace");
        assert!(message("ConfigMap", "data=x").starts_with("\"data\" is not a known field selector"));
        assert_eq!(message("Pod", "x"), "invalid selector: 'x'; can't understand 'x'");
        assert_eq!(message("Pod", "a=\\b"), "invalid field selector: invalid escape sequence: \\b");
        assert_eq!(message("Pod", "a=b\\"), "invalid field selector: invalid escape sequence: \\");
    }
}
