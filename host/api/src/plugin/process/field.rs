//! Fields of a process, as the downward API has those of a Pod.

use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

/// A field of the process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FieldRef {
    /// The field, under its name in a Pod: `metadata.name`, `metadata.namespace`, `metadata.uid`,
    /// `metadata.labels['KEY']`, `metadata.annotations['KEY']`, `spec.serviceAccountName`,
    /// `status.podIP` or `status.podIPs`. `metadata` is the Plugin's. A label or annotation that does
    /// not exist is empty.
    #[schemars(schema_with = "field_path")]
    pub field_path: FieldPath,
}

/// The fields that a variable or a file may have.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(try_from = "String", into = "String")]
pub enum FieldPath {
    /// The Plugin's name.
    #[default]
    Name,
    /// The Plugin's namespace.
    Namespace,
    /// The Plugin's uid.
    Uid,
    /// A label of the Plugin, by its key.
    Label(String),
    /// An annotation of the Plugin, by its key.
    Annotation(String),
    /// The ServiceAccount that it acts as.
    ServiceAccountName,
    /// The address on which its own servers listen.
    PodIp,
    /// All of its addresses, separated by commas. There is one.
    PodIps,
}

/// The fields without a key.
static PLAIN: [(&str, FieldPath); 6] = [
    ("metadata.name", FieldPath::Name),
    ("metadata.namespace", FieldPath::Namespace),
    ("metadata.uid", FieldPath::Uid),
    ("spec.serviceAccountName", FieldPath::ServiceAccountName),
    ("status.podIP", FieldPath::PodIp),
    ("status.podIPs", FieldPath::PodIps),
];

/// A text isn't the name of a field that a process has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownField(String);

impl fmt::Display for UnknownField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plain: Vec<_> = PLAIN.iter().map(|(name, _)| *name).collect();
        write!(
            f,
            "a process has no field {:?}, but {}, metadata.labels['KEY'] and metadata.annotations['KEY']",
            self.0,
            plain.join(", ")
        )
    }
}

impl std::error::Error for UnknownField {}

impl TryFrom<String> for FieldPath {
    type Error = UnknownField;

    fn try_from(path: String) -> Result<Self, UnknownField> {
        if let Some((_, field)) = PLAIN.iter().find(|(name, _)| *name == path) {
            return Ok(field.clone());
        }

        let key = |kind: &str| {
            let key = path.strip_prefix(kind)?.strip_prefix("['")?;
            key.strip_suffix("']").map(str::to_owned)
        };
        key("metadata.labels")
            .map(Self::Label)
            .or_else(|| key("metadata.annotations").map(Self::Annotation))
            .ok_or(UnknownField(path))
    }
}

impl From<FieldPath> for String {
    fn from(field: FieldPath) -> Self {
        match &field {
            FieldPath::Label(key) => format!("metadata.labels['{key}']"),
            FieldPath::Annotation(key) => format!("metadata.annotations['{key}']"),
            plain => {
                let found = PLAIN.iter().find(|(_, field)| field == plain);
                found.map_or("", |(name, _)| *name).to_owned()
            }
        }
    }
}

fn field_path(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "string",
        "maxLength": 400,
        "pattern": r"^(metadata\.(name|namespace|uid|labels\['[^']+'\]|annotations\['[^']+'\])|spec\.serviceAccountName|status\.podIPs?)$",
    })
}

/// A limit of the process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResourceFieldRef {
    /// The resource. The request of memory is its limit, and a process has one processor.
    pub resource: ResourceField,
    /// The unit of the value, which is rounded up; `1` if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub divisor: Option<Divisor>,
}

/// The limits that a variable may have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub enum ResourceField {
    /// The most memory of the process.
    #[default]
    #[serde(rename = "limits.memory")]
    MemoryLimit,
    /// The same.
    #[serde(rename = "requests.memory")]
    MemoryRequest,
    /// One processor.
    #[serde(rename = "limits.cpu")]
    CpuLimit,
    /// The same.
    #[serde(rename = "requests.cpu")]
    CpuRequest,
}

/// A unit of a resource.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub enum Divisor {
    /// A byte, or a processor.
    #[default]
    #[serde(rename = "1")]
    One,
    /// A thousandth of a processor.
    #[serde(rename = "1m")]
    Milli,
    /// 10³.
    #[serde(rename = "1k")]
    Kilo,
    /// 10⁶.
    #[serde(rename = "1M")]
    Mega,
    /// 10⁹.
    #[serde(rename = "1G")]
    Giga,
    /// 2¹⁰.
    #[serde(rename = "1Ki")]
    Kibi,
    /// 2²⁰.
    #[serde(rename = "1Mi")]
    Mebi,
    /// 2³⁰.
    #[serde(rename = "1Gi")]
    Gibi,
}

impl ResourceFieldRef {
    /// Returns the value for a process with this much memory.
    pub fn value(&self, memory_bytes: u64) -> u64 {
        let milli = match self.resource {
            ResourceField::MemoryLimit | ResourceField::MemoryRequest => {
                memory_bytes.saturating_mul(1000)
            }
            ResourceField::CpuLimit | ResourceField::CpuRequest => 1000,
        };
        let divisor = match self.divisor.unwrap_or_default() {
            Divisor::Milli => 1,
            Divisor::One => 1000,
            Divisor::Kilo => 1000 * 1000,
            Divisor::Mega => 1000 * 1_000_000,
            Divisor::Giga => 1000 * 1_000_000_000,
            Divisor::Kibi => 1000 << 10,
            Divisor::Mebi => 1000 << 20,
            Divisor::Gibi => 1000 << 30,
        };
        milli.div_ceil(divisor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_texts_on_the_wire() {
        for (path, field) in &PLAIN {
            let read = FieldPath::try_from((*path).to_owned());
            assert_eq!(read.as_ref(), Ok(field));
            assert_eq!(String::from(field.clone()), *path);
        }

        let path = "metadata.labels['app.kubernetes.io/name']";
        let label = FieldPath::Label("app.kubernetes.io/name".to_owned());
        assert_eq!(FieldPath::try_from(path.to_owned()), Ok(label.clone()));
        assert_eq!(String::from(label), path);
        let path = "metadata.annotations['a']";
        let annotation = FieldPath::Annotation("a".to_owned());
        assert_eq!(FieldPath::try_from(path.to_owned()), Ok(annotation));

        for path in ["", "spec.nodeName", "metadata.labels", "metadata.labels[a]"] {
            let error = FieldPath::try_from(path.to_owned()).expect_err(path);
            let text = error.to_string();
            assert!(
                text.contains(path) && text.contains("status.podIP"),
                "{text}"
            );
        }
    }

    #[test]
    fn resources_are_rounded_up_to_their_unit() {
        let value = |text: &str| {
            let reference: ResourceFieldRef = serde_json::from_str(text).expect("a reference");
            reference.value((100 << 20) + 1)
        };
        assert_eq!(value(r#"{"resource": "limits.memory"}"#), (100 << 20) + 1);
        assert_eq!(
            value(r#"{"resource": "requests.memory", "divisor": "1Mi"}"#),
            101
        );
        assert_eq!(value(r#"{"resource": "limits.cpu"}"#), 1);
        assert_eq!(
            value(r#"{"resource": "requests.cpu", "divisor": "1m"}"#),
            1000
        );
        assert_eq!(value(r#"{"resource": "limits.cpu", "divisor": "1k"}"#), 1);
    }
}
