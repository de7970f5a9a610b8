//! The ports of a process: `ContainerPort` of a container, and references to them.

use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

/// A port with a name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProcessPort {
    /// The name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(
        length(min = 1, max = 15),
        regex(pattern = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")
    )]
    pub name: Option<String>,
    /// The number.
    #[schemars(range(min = 1, max = 65535))]
    pub container_port: u16,
    /// `TCP`, which is all that a process has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = r"^TCP$"))]
    pub protocol: Option<String>,
}

/// A port by its number, or by its name in `ports`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(untagged)]
pub enum Port {
    /// By its number.
    Number(u16),
    /// By its name.
    Name(String),
}

impl Default for Port {
    fn default() -> Self {
        Self::Number(0)
    }
}

impl fmt::Display for Port {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => number.fmt(f),
            Self::Name(name) => write!(f, "{name:?}"),
        }
    }
}

/// The schema of a [`Port`].
pub(super) fn port(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "x-kubernetes-int-or-string": true,
        "minimum": 1,
        "maximum": 65535,
        "minLength": 1,
        "maxLength": 15,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plugin::ProcessSpec;

    #[test]
    fn names_lead_to_numbers() {
        let spec: ProcessSpec = serde_json::from_str(
            r#"{"ports": [
                {"containerPort": 8080},
                {"name": "health", "containerPort": 8081, "protocol": "TCP"}
            ]}"#,
        )
        .expect("a spec");
        let number = |json: &str| {
            let port: Port = serde_json::from_str(json).expect("a port");
            spec.port_number(&port)
        };
        assert_eq!(number("9000"), Some(9000));
        assert_eq!(number("\"health\""), Some(8081));
        assert_eq!(number("\"8082\""), Some(8082));
        for unknown in ["\"metrics\"", "\"0\"", "\"70000\""] {
            assert_eq!(number(unknown), None, "{unknown}");
        }
    }
}
