//! How the host looks after a running process: `Probe` of a container, and its metrics.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    port::{Port, port},
    refused_object,
};

/// A check of a process, over a connection that exists in the host's memory only. Exactly one of
/// `httpGet`, `tcpSocket` and `grpc` is set.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    {
        "rule": "!has(self.exec)",
        "message": "a process has no other program that exec could run: use httpGet, tcpSocket or grpc",
    },
    {
        "rule": "has(self.exec) || [has(self.httpGet), has(self.tcpSocket), has(self.grpc)].filter(given, given).size() == 1",
        "message": "set exactly one of httpGet, tcpSocket and grpc",
    },
]))]
pub struct Probe {
    /// Succeeds if the process answers with a status from 200 to 399.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub http_get: Option<HttpGetAction>,
    /// Succeeds if the process listens on the port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tcp_socket: Option<TcpSocketAction>,
    /// Succeeds if the process's `grpc.health.v1.Health` says SERVING.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grpc: Option<GrpcAction>,
    /// Not supported: a process has no other program to run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "refused_object")]
    pub exec: Option<serde_json::Value>,
    /// How many seconds after its start the process is first checked; 0 if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = 86_400))]
    pub initial_delay_seconds: Option<u32>,
    /// How many seconds are between two checks; 10 if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 86_400))]
    pub period_seconds: Option<u32>,
    /// After how many seconds a check without an answer has failed; 1 if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 3600))]
    pub timeout_seconds: Option<u32>,
    /// After how many successes in a row the probe succeeds; 1 if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1000))]
    pub success_threshold: Option<u32>,
    /// After how many failures in a row the probe fails; 3 if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1000))]
    pub failure_threshold: Option<u32>,
    /// How many seconds the process has to end after SIGTERM if this probe has failed; as
    /// otherwise, if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 600))]
    pub termination_grace_period_seconds: Option<u32>,
}

/// A GET request to the process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HttpGetAction {
    /// The path, and a query if there is one; `/` if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 2048))]
    pub path: Option<String>,
    /// The port, by its number or by its name in `ports`.
    #[schemars(schema_with = "port")]
    pub port: Port,
    /// `HTTP` or `HTTPS`; no certificate is verified. `HTTP` if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheme: Option<Scheme>,
    /// Headers of the request.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    pub http_headers: Vec<HttpHeader>,
}

/// A header of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HttpHeader {
    /// The header's name.
    #[schemars(length(min = 1, max = 256), regex(pattern = r"^[-A-Za-z0-9]+$"))]
    pub name: String,
    /// Its value.
    #[schemars(length(max = 4096))]
    pub value: String,
}

/// `HTTP` or `HTTPS`; no certificate is verified. `HTTP` if left out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub enum Scheme {
    /// Plain.
    #[default]
    #[serde(rename = "HTTP")]
    Http,
    /// With TLS. No certificate is verified.
    #[serde(rename = "HTTPS")]
    Https,
}

/// A connection to the process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TcpSocketAction {
    /// The port, by its number or by its name in `ports`.
    #[schemars(schema_with = "port")]
    pub port: Port,
}

/// A call of `grpc.health.v1.Health/Check`, without TLS.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GrpcAction {
    /// The port, by its number.
    #[schemars(range(min = 1, max = 65535))]
    pub port: u16,
    /// The service that is asked for; the whole server if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub service: Option<String>,
}

/// Where a process serves its metrics, in Prometheus' text format. The names are those of a
/// PodMonitor's endpoint.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Metrics {
    /// The port, by its number or by its name in `ports`.
    #[schemars(schema_with = "port")]
    pub port: Port,
    /// The path; `/metrics` if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 2048))]
    pub path: Option<String>,
    /// `HTTP` or `HTTPS`; no certificate is verified. `HTTP` if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheme: Option<Scheme>,
}
