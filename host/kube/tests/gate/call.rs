//! A tenant's call, both as an operation for its gate and as the HTTP request that the oracle
//! sends.

use operetta_core::{
    gate::{
        Session,
        operation::{
            Delete, DeleteOptions, Get, List, ListOptions, PatchBody, Read, Write, WriteAction,
            WriteOptions,
        },
        raw_request::{RawRequest, RawResponse},
    },
    object::ObjectKey,
    status::ApiError,
};
use rand::{Rng, rngs::StdRng, seq::IndexedRandom};
use serde_json::{Value, json};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    ConfigMap,
    Secret,
    Node,
}

impl Kind {
    pub const ALL: [Self; 3] = [Self::ConfigMap, Self::Secret, Self::Node];

    pub fn name(self) -> &'static str {
        match self {
            Self::ConfigMap => "ConfigMap",
            Self::Secret => "Secret",
            Self::Node => "Node",
        }
    }

    pub fn plural(self) -> &'static str {
        match self {
            Self::ConfigMap => "configmaps",
            Self::Secret => "secrets",
            Self::Node => "nodes",
        }
    }
}

/// The interface of the gate that a call uses: typed operations or raw requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    Typed,
    Raw,
    /// A raw request whose path has the object's name with an escape, which means the same name.
    Escaped,
}

/// The operation of a call, with the content that it would store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Act {
    Get,
    List,
    Create(String),
    Update(String),
    Merge(String),
    Apply(String),
    Delete,
}

/// One call.
#[derive(Clone, Debug)]
pub struct Call {
    pub way: Way,
    /// Whether a read uses the cache; ignored for writes.
    pub cached: bool,
    pub act: Act,
    pub kind: Kind,
    /// None for cluster-scoped kinds, and for lists of all namespaces.
    pub namespace: Option<String>,
    pub name: String,
}

/// The response to a call, from the gate or from the oracle.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The HTTP status code; 200 for each success.
    pub code: u16,
    /// The text that the caller received, or the message of the error.
    pub text: String,
}

impl Answer {
    pub fn is_ok(&self) -> bool {
        self.code == 200
    }

    pub fn of(result: Result<String, ApiError>) -> Self {
        match result {
            Ok(text) => Self { code: 200, text },
            Err(error) => Self {
                code: error.status.code,
                text: error.to_string(),
            },
        }
    }

    pub fn of_raw(response: RawResponse) -> Self {
        let code = if response.status < 300 {
            200
        } else {
            response.status
        };
        Self {
            code,
            text: response.body,
        }
    }
}

impl Call {
    /// Chooses a random call. `content` returns the content of an object in one of three versions.
    pub fn choose(
        random: &mut StdRng,
        namespaces: &[String; 2],
        node: &str,
        content: impl Fn(Kind, &str, &str, u32) -> String,
    ) -> Self {
        let way = *[Way::Typed, Way::Typed, Way::Raw, Way::Escaped]
            .choose(random)
            .expect("ways");
        let cached = random.random_bool(0.5);
        let kind = *[Kind::ConfigMap, Kind::Secret, Kind::Secret, Kind::Node]
            .choose(random)
            .expect("kinds");
        if kind == Kind::Node {
            let act = if random.random_bool(0.5) {
                Act::Get
            } else {
                Act::List
            };
            return Self {
                way,
                cached,
                act,
                kind,
                namespace: None,
                name: node.to_owned(),
            };
        }
        let namespace = namespaces.choose(random).expect("namespaces").clone();
        let name = (*["one", "two", "three"].choose(random).expect("names")).to_owned();
        // There are only three versions, so that the content is often the same as the stored one.
        let text = content(kind, &namespace, &name, random.random_range(0..3));
        let act = match random.random_range(0..12) {
            0..=2 => Act::Get,
            3..=4 => Act::List,
            5 => Act::Create(text),
            6 => Act::Update(text),
            7..=9 => Act::Merge(text),
            10 => Act::Apply(text),
            _ => Act::Delete,
        };
        let everywhere = act == Act::List && random.random_bool(0.4);
        Self {
            way,
            cached,
            act,
            kind,
            namespace: (!everywhere).then_some(namespace),
            name,
        }
    }

    pub fn is_write(&self) -> bool {
        !matches!(self.act, Act::Get | Act::List)
    }

    /// Returns the content that the call would store.
    pub fn content(&self) -> Option<&str> {
        match &self.act {
            Act::Create(text) | Act::Update(text) | Act::Merge(text) | Act::Apply(text) => {
                Some(text)
            }
            Act::Get | Act::List | Act::Delete => None,
        }
    }

    /// Returns the call as a request, with method, path, content type and body.
    pub fn request(&self) -> RawRequest {
        let location = self
            .namespace
            .as_ref()
            .map_or_else(String::new, |name| format!("namespaces/{name}/"));
        let collection = format!("/api/v1/{location}{}", self.kind.plural());
        let name = match (self.way, self.name.as_bytes()) {
            (Way::Escaped, [first, ..]) => format!("%{first:02x}{}", &self.name[1..]),
            _ => self.name.clone(),
        };
        let object = format!("{collection}/{name}");
        let (method, path, content_type) = match self.act {
            Act::Get => ("GET", object, None),
            Act::List => ("GET", collection, None),
            Act::Create(_) => ("POST", collection, Some("application/json")),
            Act::Update(_) => ("PUT", object, Some("application/json")),
            Act::Merge(_) => ("PATCH", object, Some("application/merge-patch+json")),
            Act::Apply(_) => ("PATCH", object, Some("application/apply-patch+yaml")),
            Act::Delete => ("DELETE", object, None),
        };
        let query = if matches!(self.act, Act::Apply(_)) {
            "fieldManager=fuzz&force=true"
        } else {
            ""
        };
        RawRequest {
            method: method.to_owned(),
            path,
            query: query.to_owned(),
            content_type: content_type.map(str::to_owned),
            accept: None,
            body: self.body(),
            cached: self.cached && !self.is_write(),
        }
    }

    fn body(&self) -> Option<String> {
        let data = json!({"canary": self.content()?});
        let body = match self.act {
            Act::Merge(_) => json!({"data": data}),
            _ => object(self.kind, self.namespace.as_deref(), &self.name, data),
        };
        Some(body.to_string())
    }

    /// Makes the call through a session of a gate.
    pub async fn through(&self, session: &mut Session) -> Answer {
        if self.way != Way::Typed {
            return Answer::of_raw(session.raw(self.request()).await);
        }
        let kind = self.kind.gvk();
        let key = ObjectKey {
            namespace: self.namespace.clone(),
            name: self.name.clone(),
        };
        let read = if self.cached {
            Read::Cached
        } else {
            Read::Live
        };
        let body = self.body().unwrap_or_default();
        let action = match &self.act {
            Act::Get => {
                let got = session.get(Get { kind, key, read }).await;
                return Answer::of(got.map(|object| object.json().to_owned()));
            }
            Act::List => {
                let options = ListOptions::all(self.namespace.clone(), read);
                let page = session.list(List { kind, options }).await;
                let text = |page: operetta_core::gate::operation::Page| {
                    page.items
                        .iter()
                        .map(|item| item.json().to_owned())
                        .collect::<Vec<_>>()
                        .join("\n")
                };
                return Answer::of(page.map(text));
            }
            Act::Delete => {
                let deleted = session
                    .delete(Delete {
                        kind,
                        key,
                        options: DeleteOptions::default(),
                    })
                    .await;
                return Answer::of(deleted.map(|()| String::new()));
            }
            Act::Create(_) => WriteAction::Create {
                namespace: self.namespace.clone(),
                object: body,
            },
            Act::Update(_) => WriteAction::Update {
                key,
                status: false,
                object: body,
            },
            Act::Merge(_) => WriteAction::Patch {
                key,
                subresource: None,
                body: PatchBody::Merge(body),
                force: false,
            },
            Act::Apply(_) => WriteAction::Patch {
                key,
                subresource: None,
                body: PatchBody::Apply(body),
                force: true,
            },
        };
        let options = WriteOptions {
            field_manager: Some("fuzz".to_owned()),
            ..WriteOptions::default()
        };
        let written = session
            .write(Write {
                kind,
                action,
                options,
            })
            .await;
        Answer::of(written.map(|object| object.json().to_owned()))
    }
}

/// Returns an object of a kind with this data.
pub fn object(kind: Kind, namespace: Option<&str>, name: &str, data: Value) -> Value {
    json!({"apiVersion": "v1", "kind": kind.name(), "metadata": {"name": name, "namespace": namespace}, "data": data})
}
