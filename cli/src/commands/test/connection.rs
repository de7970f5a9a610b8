//! One connection: its token, then calls on its cluster until it ends.

use anyhow::{Context, Result};
use operetta_core::{
    gate::{
        operation::{Delete, Get, List, PatchBody, Write, WriteAction},
        raw_request::{RawRequest, Target},
    },
    object::{ObjectKey, kind::GroupVersionKind},
};
use serde_json::{Value, json, value::RawValue};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines},
    net::{
        TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
};

use super::{
    cluster::Cluster,
    dump::{self, Calls},
    premise::Definition,
    protocol::{
        Answer, Call, Key, Kind, ListArguments, Open, PatchType, Request, WriteArguments,
        non_empty, object_text,
    },
    template::Template,
};

/// A connection and its cluster.
struct Connection {
    cluster: Cluster,
    calls: Calls,
    /// The API server's warnings about the current call.
    warnings: Vec<String>,
}

/// Serves a connection until the client closes it. A client without the token gets no answer.
///
/// # Errors
/// Returns an error if the connection breaks, or no cluster can be started.
pub async fn serve(stream: TcpStream, token: &str, template: &Template) -> Result<()> {
    stream
        .set_nodelay(true)
        .context("failed to set TCP_NODELAY")?;

    let (read, mut write) = stream.into_split();
    let mut lines = BufReader::new(read).lines();

    let Some(open) = opened(&mut lines, token).await? else {
        return Ok(());
    };

    let mut cluster = template.cluster()?;
    let declared = open
        .manifest
        .map_or(Ok(()), |manifest| cluster.declare(&manifest));

    let mut connection = Connection {
        cluster,
        calls: Calls::default(),
        warnings: Vec::new(),
    };

    answer(&mut write, &done(declared), &[]).await?;

    while let Some(line) = lines
        .next_line()
        .await
        .context("failed to read a request")?
    {
        let response = connection.answer(&line).await;
        let warnings = std::mem::take(&mut connection.warnings);
        answer(&mut write, &response, &warnings).await?;
    }

    Ok(())
}

/// Reads the first request; None if it does not have the token.
async fn opened(lines: &mut Lines<BufReader<OwnedReadHalf>>, token: &str) -> Result<Option<Open>> {
    let Some(line) = lines
        .next_line()
        .await
        .context("failed to read a request")?
    else {
        return Ok(None);
    };

    let open = serde_json::from_str::<Open>(&line).ok();
    Ok(open.filter(|open| open.call == "open" && open.token == token))
}

async fn answer(write: &mut OwnedWriteHalf, answer: &Answer, warnings: &[String]) -> Result<()> {
    write
        .write_all(answer.line(warnings).as_bytes())
        .await
        .context("failed to write a response")
}

impl Connection {
    /// Answers one request.
    async fn answer(&mut self, line: &str) -> Answer {
        let call: Call = match serde_json::from_str(line) {
            Ok(call) => call,
            Err(error) => {
                return Answer::Failure(format!("this is not a request of the protocol: {error}"));
            }
        };

        if let Call::Dump {} = call {
            return Answer::Ok(json!(dump::describe(&self.cluster, &self.calls)).to_string());
        }

        let name = describe(&call);
        let answer = self.call(call).await.unwrap_or_else(Answer::Failure);
        let answer = match answer {
            Answer::Failure(text) => Answer::Failure(format!("{name}: {text}")),
            answer => answer,
        };

        self.calls.push(match &answer {
            Answer::Ok(_) => name,
            Answer::Refused(error) => format!("{name}: {error}"),
            Answer::Failure(text) => text.clone(),
        });

        answer
    }

    async fn call(&mut self, call: Call) -> Result<Answer, String> {
        Ok(match call {
            Call::Get { kind, key, read } => {
                let get = Get {
                    kind: kind.into(),
                    key: key.into(),
                    read: read.into(),
                };
                let mut session = self.cluster.session().await?;
                let object = session.get(get).await;
                self.warnings = session.take_warnings();
                object.map(|object| object.json().to_owned()).into()
            }
            Call::List { kind, options } => self.list(kind, options).await?,
            Call::Create {
                kind,
                namespace,
                object,
                text,
                options,
            } => {
                let object = object_text("object", object, text)?;
                let action = WriteAction::Create {
                    namespace: non_empty(namespace),
                    object,
                };
                self.write(kind, action, options).await?
            }
            Call::Update {
                kind,
                key,
                object,
                text,
                options,
            } => {
                let object = object_text("object", object, text)?;
                self.write(
                    kind,
                    WriteAction::Update {
                        key: key.into(),
                        status: false,
                        object,
                    },
                    options,
                )
                .await?
            }
            Call::UpdateStatus {
                kind,
                key,
                object,
                text,
                options,
            } => {
                let object = object_text("object", object, text)?;
                self.write(
                    kind,
                    WriteAction::Update {
                        key: key.into(),
                        status: true,
                        object,
                    },
                    options,
                )
                .await?
            }
            Call::Patch {
                kind,
                key,
                subresource,
                r#type,
                body,
                text,
                force,
                options,
            } => {
                let text = object_text("body", body, text)?;

                let body = match r#type {
                    PatchType::Merge => PatchBody::Merge(text),
                    PatchType::Json => PatchBody::Json(text),
                    PatchType::Apply => PatchBody::Apply(text),
                };

                let action = WriteAction::Patch {
                    key: key.into(),
                    subresource: non_empty(subresource),
                    body,
                    force,
                };
                self.write(kind, action, options).await?
            }
            Call::Delete { kind, key, options } => {
                let delete = Delete {
                    kind: kind.into(),
                    key: key.into(),
                    options: options.into(),
                };
                let mut session = self.cluster.session().await?;
                let deleted = session.delete(delete).await;
                self.warnings = session.take_warnings();
                deleted.map(|()| "null".to_owned()).into()
            }
            Call::Send { request } => self.send(request).await?,
            Call::Add { object } => Answer::Ok(self.cluster.add(object).await?.to_string()),
            Call::Define {
                kind,
                plural,
                namespaced,
                status,
            } => {
                let guess = Definition::guess(kind.into(), namespaced);

                let plural = non_empty(plural).unwrap_or_else(|| guess.plural.clone());
                done(
                    self.cluster
                        .define(&Definition {
                            plural,
                            has_status: status,
                            ..guess
                        })
                        .await,
                )
            }
            Call::Manifest { manifest } => done(self.cluster.declare(&manifest)),
            // It is answered before, because it is no call of its own list.
            Call::Dump {} => done(Ok(())),
        })
    }

    async fn list(&mut self, kind: Kind, options: ListArguments) -> Result<Answer, String> {
        let list = List {
            kind: kind.into(),
            options: options.into(),
        };

        let mut session = self.cluster.session().await?;
        let page = session.list(list).await;
        self.warnings = session.take_warnings();

        let page = match page {
            Ok(page) => page,
            Err(error) => return Ok(Answer::Refused(error)),
        };

        let items = page
            .items
            .iter()
            .map(|item| RawValue::from_string(item.json().to_owned()));
        let items: Vec<_> = items
            .collect::<Result<_, _>>()
            .map_err(|error| error.to_string())?;
        let items = serde_json::to_string(&items).map_err(|error| error.to_string())?;

        let version = json!(page.resource_version);
        let token = json!(page.continue_token);
        Ok(Answer::Ok(format!(
            "{{\"items\":{items},\"resourceVersion\":{version},\"continueToken\":{token}}}"
        )))
    }

    /// Performs a write. Creations first add what is missing: the namespace, and the definition of
    /// the kind.
    async fn write(
        &mut self,
        kind: Kind,
        action: WriteAction,
        options: WriteArguments,
    ) -> Result<Answer, String> {
        let kind = GroupVersionKind::from(kind);

        let namespace = match &action {
            WriteAction::Create { namespace, .. } => Some(namespace.clone()),
            WriteAction::Patch {
                key,
                body: PatchBody::Apply(_),
                ..
            } => Some(key.namespace.clone()),
            _ => None,
        };

        if let Some(namespace) = namespace {
            self.prepare(&kind, namespace.as_deref()).await?;
        }

        let write = Write {
            kind,
            action,
            options: options.into(),
        };

        let mut session = self.cluster.session().await?;
        let written = session.write(write).await;
        self.warnings = session.take_warnings();
        Ok(written.map(|object| object.json().to_owned()).into())
    }

    async fn prepare(
        &mut self,
        kind: &GroupVersionKind,
        namespace: Option<&str>,
    ) -> Result<(), String> {
        self.cluster.ensure_kind(kind, namespace.is_some()).await?;

        let Some(namespace) = namespace else {
            return Ok(());
        };
        match self.cluster.resolve(kind).await {
            Ok(resource) if resource.namespaced => self.cluster.ensure_namespace(namespace).await,
            // The call itself gets the error.
            _ => Ok(()),
        }
    }

    async fn send(&mut self, request: Request) -> Result<Answer, String> {
        let Request {
            method,
            path,
            query,
            content_type,
            accept,
            body,
            cached,
        } = request;

        let request = RawRequest {
            method,
            path,
            query,
            content_type,
            accept,
            body,
            cached,
        };

        let creates = matches!(request.method.as_str(), "POST" | "PATCH");
        if let Ok(Target::Resource(target)) = request.target()
            && let Some(namespace) = target.namespace.filter(|_| creates)
        {
            self.cluster.ensure_namespace(&namespace).await?;
        }

        let mut session = self.cluster.session().await?;
        let response = session.raw(request).await;
        self.warnings = session.take_warnings();
        let response = json!({
            "status": response.status, "contentType": response.content_type,
            "retryAfterSeconds": response.retry_after_seconds, "body": response.body,
        });

        Ok(Answer::Ok(response.to_string()))
    }
}

fn done(result: Result<(), String>) -> Answer {
    result.map_or_else(Answer::Failure, |()| Answer::Ok("null".to_owned()))
}

/// Describes a call in one line, for the dump.
fn describe(call: &Call) -> String {
    let of = |verb: &str, kind: &Kind, rest: &str| {
        let kind = GroupVersionKind::new(kind.api_version.as_str(), kind.kind.as_str());
        format!("{verb} {kind} {rest}").trim_end().to_owned()
    };
    let key = |key: &Key| ObjectKey::from(key.clone()).to_string();

    match call {
        Call::Get {
            kind,
            key: of_object,
            ..
        } => of("get", kind, &key(of_object)),
        Call::List { kind, .. } => of("list", kind, ""),
        Call::Create {
            kind,
            namespace,
            object,
            text,
            ..
        } => {
            let parsed = || serde_json::from_str(text.as_deref()?).ok();
            let object: Value = object.clone().or_else(parsed).unwrap_or_default();

            let name = object["metadata"]["name"]
                .as_str()
                .unwrap_or_default()
                .to_owned();

            of(
                "create",
                kind,
                &key(&Key {
                    namespace: namespace.clone(),
                    name,
                }),
            )
        }
        Call::Update {
            kind,
            key: of_object,
            ..
        } => of("update", kind, &key(of_object)),
        Call::UpdateStatus {
            kind,
            key: of_object,
            ..
        } => of("update-status", kind, &key(of_object)),
        Call::Patch {
            kind,
            key: of_object,
            r#type,
            ..
        } => {
            let verb = match r#type {
                PatchType::Merge => "patch (merge)",
                PatchType::Json => "patch (json)",
                PatchType::Apply => "patch (apply)",
            };

            of(verb, kind, &key(of_object))
        }
        Call::Delete {
            kind,
            key: of_object,
            ..
        } => of("delete", kind, &key(of_object)),
        Call::Send { request } => format!("{} {}", request.method, request.path),
        Call::Add { object } => {
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let kind = Kind {
                api_version: text(&object["apiVersion"]),
                kind: text(&object["kind"]),
            };

            let metadata = &object["metadata"];
            let name = Key {
                namespace: Some(text(&metadata["namespace"])),
                name: text(&metadata["name"]),
            };

            of("add", &kind, &key(&name))
        }
        Call::Define { kind, .. } => of("define", kind, ""),
        Call::Manifest { .. } => "manifest".to_owned(),
        Call::Dump {} => "dump".to_owned(),
    }
}
