//! The messages of the test server: one JSON document per line, a request and then its response.
//!
//! The first request of a connection is [`Open`]; each later one is a [`Call`].
//! docs/testing-protocol.md describes them for the authors of SDKs.

use operetta_core::{
    gate::operation::{DeleteOptions, ListOptions, Propagation, Read, Selection, WriteOptions},
    object::{ObjectKey, kind::GroupVersionKind},
    status::{ApiError, ErrorKind},
};
use serde::Deserialize;
use serde_json::{Value, json};

/// The first request of a connection.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Open {
    /// Always `open`.
    pub call: String,
    /// The token of the server's address.
    #[serde(default)]
    pub token: String,
    /// The plugin's manifest, as `describe` returns it.
    #[serde(default)]
    pub manifest: Option<String>,
}

/// A later request of a connection.
#[derive(Debug, Deserialize)]
#[serde(
    tag = "call",
    rename_all = "camelCase",
    rename_all_fields = "camelCase",
    deny_unknown_fields
)]
pub enum Call {
    /// `objects.get`.
    Get {
        kind: Kind,
        key: Key,
        #[serde(default)]
        read: Source,
    },
    /// `objects.list`.
    List {
        kind: Kind,
        #[serde(default)]
        options: ListArguments,
    },
    /// `objects.create`.
    Create {
        kind: Kind,
        #[serde(default)]
        namespace: Option<String>,
        #[serde(default)]
        object: Option<Value>,
        #[serde(default)]
        text: Option<String>,
        #[serde(default)]
        options: WriteArguments,
    },
    /// `objects.update`.
    Update {
        kind: Kind,
        key: Key,
        #[serde(default)]
        object: Option<Value>,
        #[serde(default)]
        text: Option<String>,
        #[serde(default)]
        options: WriteArguments,
    },
    /// `objects.update-status`.
    UpdateStatus {
        kind: Kind,
        key: Key,
        #[serde(default)]
        object: Option<Value>,
        #[serde(default)]
        text: Option<String>,
        #[serde(default)]
        options: WriteArguments,
    },
    /// `objects.patch`.
    Patch {
        kind: Kind,
        key: Key,
        #[serde(default)]
        subresource: Option<String>,
        r#type: PatchType,
        #[serde(default)]
        body: Option<Value>,
        #[serde(default)]
        text: Option<String>,
        #[serde(default)]
        force: bool,
        #[serde(default)]
        options: WriteArguments,
    },
    /// `objects.delete`.
    Delete {
        kind: Kind,
        key: Key,
        #[serde(default)]
        options: DeleteArguments,
    },
    /// `raw.send`.
    Send { request: Request },
    /// Creates an object as a test's premise.
    Add { object: Value },
    /// Defines a kind without a schema.
    Define {
        kind: Kind,
        #[serde(default)]
        plural: Option<String>,
        #[serde(default = "yes")]
        namespaced: bool,
        #[serde(default = "yes")]
        status: bool,
    },
    /// Declares the plugin's manifest.
    Manifest { manifest: String },
    /// Describes the cluster and its calls.
    Dump {},
}

fn yes() -> bool {
    true
}

/// A kind, as in the contract.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Kind {
    pub api_version: String,
    pub kind: String,
}

/// A key, as in the contract.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Key {
    #[serde(default)]
    pub namespace: Option<String>,
    pub name: String,
}

/// The source of a read.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Source {
    #[default]
    Cached,
    Live,
}

/// The content type of a patch.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum PatchType {
    Merge,
    Json,
    Apply,
}

/// The options of a list.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct ListArguments {
    namespace: Option<String>,
    labels: Option<String>,
    fields: Option<String>,
    selection: Selected,
    limit: Option<u32>,
    continue_token: Option<String>,
    read: Source,
    projection: Vec<String>,
}

/// The selection of a list.
#[derive(Debug, Default, Deserialize)]
#[serde(tag = "type", rename_all = "kebab-case", deny_unknown_fields)]
enum Selected {
    #[default]
    All,
    ByIndex {
        index: String,
        value: String,
    },
    ByOwner {
        uid: String,
    },
}

/// The options of a write.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct WriteArguments {
    dry_run: bool,
    field_manager: Option<String>,
    strict: bool,
}

/// The options of a deletion.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct DeleteArguments {
    uid: Option<String>,
    resource_version: Option<String>,
    grace_period_seconds: Option<u32>,
    propagation: Option<PropagationPolicy>,
    dry_run: bool,
}

/// The propagation of a deletion.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
enum PropagationPolicy {
    Background,
    Foreground,
    Orphan,
}

/// A raw request, as in the contract.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Request {
    pub method: String,
    pub path: String,
    #[serde(default)]
    pub query: String,
    #[serde(default)]
    pub content_type: Option<String>,
    #[serde(default)]
    pub accept: Option<String>,
    #[serde(default)]
    pub body: Option<String>,
    #[serde(default)]
    pub cached: bool,
}

impl From<Kind> for GroupVersionKind {
    fn from(kind: Kind) -> Self {
        Self::new(&kind.api_version, &kind.kind)
    }
}

impl From<Key> for ObjectKey {
    fn from(key: Key) -> Self {
        Self {
            namespace: non_empty(key.namespace),
            name: key.name,
        }
    }
}

impl From<Source> for Read {
    fn from(source: Source) -> Self {
        match source {
            Source::Cached => Self::Cached,
            Source::Live => Self::Live,
        }
    }
}

impl From<ListArguments> for ListOptions {
    fn from(given: ListArguments) -> Self {
        Self {
            namespace: non_empty(given.namespace),
            labels: non_empty(given.labels),
            fields: non_empty(given.fields),
            selection: match given.selection {
                Selected::All => Selection::All,
                Selected::ByIndex { index, value } => Selection::ByIndex { name: index, value },
                Selected::ByOwner { uid } => Selection::ByOwner(uid),
            },
            limit: given.limit,
            continue_token: non_empty(given.continue_token),
            read: given.read.into(),
            projection: given.projection,
        }
    }
}

impl From<WriteArguments> for WriteOptions {
    fn from(given: WriteArguments) -> Self {
        Self {
            dry_run: given.dry_run,
            field_manager: non_empty(given.field_manager),
            strict: given.strict,
        }
    }
}

impl From<DeleteArguments> for DeleteOptions {
    fn from(given: DeleteArguments) -> Self {
        Self {
            uid: non_empty(given.uid),
            resource_version: non_empty(given.resource_version),
            grace_period_seconds: given.grace_period_seconds,
            propagation: given.propagation.map(|policy| match policy {
                PropagationPolicy::Background => Propagation::Background,
                PropagationPolicy::Foreground => Propagation::Foreground,
                PropagationPolicy::Orphan => Propagation::Orphan,
            }),
            dry_run: given.dry_run,
        }
    }
}

/// None if the text is empty, as in the contract.
pub fn non_empty(text: Option<String>) -> Option<String> {
    text.filter(|text| !text.is_empty())
}

/// The text of an object that is given as a value or as text.
///
/// # Errors
/// Returns a message if neither or both are given.
pub fn object_text(
    name: &str,
    value: Option<Value>,
    text: Option<String>,
) -> Result<String, String> {
    match (value, text) {
        (Some(value), None) => Ok(value.to_string()),
        (None, Some(text)) => Ok(text),
        _ => Err(format!("one of {name:?} and \"text\" is needed")),
    }
}

/// The outcome of a call.
#[derive(Debug)]
pub enum Answer {
    /// The value, as JSON text.
    Ok(String),
    /// The API server or the host has refused the call.
    Refused(ApiError),
    /// The call is invalid, or the server failed.
    Failure(String),
}

impl Answer {
    /// Returns the line of the response, with the API server's warnings about the call.
    pub fn line(&self, warnings: &[String]) -> String {
        let (name, value) = match self {
            Self::Ok(value) => ("ok", value.replace(['\n', '\r'], " ")),
            Self::Refused(error) => ("error", refusal(error).to_string()),
            Self::Failure(text) => ("failure", json!(text).to_string()),
        };

        if warnings.is_empty() {
            format!("{{\"{name}\":{value}}}\n")
        } else {
            let warnings = json!(warnings);
            format!("{{\"{name}\":{value},\"warnings\":{warnings}}}\n")
        }
    }
}

impl From<Result<String, ApiError>> for Answer {
    fn from(result: Result<String, ApiError>) -> Self {
        result.map_or_else(Self::Refused, Self::Ok)
    }
}

fn refusal(error: &ApiError) -> Value {
    let status = &error.status;
    let causes: Vec<Value> = status
        .causes
        .iter()
        .map(
            |cause| json!({"reason": cause.reason, "message": cause.message, "field": cause.field}),
        )
        .collect();

    json!({
        "type": case(error.kind),
        "status": {
            "code": status.code, "reason": status.reason, "message": status.message, "causes": causes,
            "retryAfterSeconds": status.retry_after_seconds,
        },
    })
}

/// The case of the contract's variant `error`.
fn case(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::NotFound => "not-found",
        ErrorKind::AlreadyExists => "already-exists",
        ErrorKind::Conflict => "conflict",
        ErrorKind::Invalid => "invalid",
        ErrorKind::BadRequest => "bad-request",
        ErrorKind::Forbidden => "forbidden",
        ErrorKind::Expired => "expired",
        ErrorKind::TooManyRequests => "too-many-requests",
        ErrorKind::Unavailable => "unavailable",
        ErrorKind::TimedOut => "timed-out",
        ErrorKind::Other => "other",
    }
}
