//! The requests of an operator's process, under the plugin's identity like every other call. Their
//! responses are handed on as they are, except that two are read first: the answer to a write, which
//! is added to the overlay before the process can see it, and a refusal, for the record of denials.
//!
//! The body of a request is sent as a whole. The API server reads it as a whole anyway, at most 3 MiB
//! of it, and so a request that was late for its Lease can be sent again ([`super::permitted`]).

use std::{sync::Arc, time::Duration};

use bytes::{Bytes, BytesMut};
use http::{
    HeaderMap, HeaderValue, Request, StatusCode,
    header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE},
    response,
};
use http_body_util::{BodyExt, combinators::UnsyncBoxBody};
use kube::client::Body;
use operetta_core::{
    authz::{
        access_review::{Access, ReadVerb},
        recorded_permissions::Need,
    },
    gate::{
        bytes::Bytes as Charge,
        call::{Call, Resource},
        in_flight::Seat,
        operation::Verb,
        proxied_request::{ProxiedAnswer, are_read},
        raw_request::{RawResponse, Target},
        throttle::within,
    },
    status::{ApiError, ErrorKind, Status},
};
use tower::BoxError;

use crate::{
    authz::{
        impersonation_refusal,
        required_permissions::{RequiredPermission, of_call},
    },
    client::{
        api_client::{chain, from_body},
        object_api::PluginApi,
        own_writes::Sent,
        protobuf::{self, Envelope},
    },
    discovery::ApiResource,
};

/// How long the API server may take until a response begins. It ends a request itself after 60 s
/// (`--request-timeout`), except for a long-running one.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(70);

/// How much is read of an answer, in bytes. A longer one, such as the objects of a deleted
/// collection, is handed on unread.
const MAX_READ: usize = 16 << 20;

/// A request to send.
pub(crate) struct Proxied {
    /// The request, without credentials.
    pub request: Request<Vec<u8>>,
    pub requested: Requested,
    pub call: Call,
    /// Whether the response may take as long as both sides want.
    pub is_long_running: bool,
    /// Charged for what is read of the response.
    pub charge: Option<Charge>,
}

/// What a request is about in the terms of the API server.
pub(crate) struct Requested {
    /// Its resource; None for a path outside of resources, or if the API server does not serve it.
    pub resource: Option<Arc<ApiResource>>,
    /// The permission that it needs; None if its resource is not known.
    pub permission: Option<RequiredPermission>,
}

/// A body that arrives piece by piece.
pub(crate) type StreamBody = UnsyncBoxBody<Bytes, BoxError>;

/// The response to a request.
pub(crate) struct ProxiedResponse {
    pub head: response::Parts,
    /// The beginning of the body, which was read.
    pub read: Bytes,
    /// The rest of the body; None if it was read to its end.
    pub rest: Option<StreamBody>,
    /// The request is in flight until this is dropped.
    pub seat: Option<Seat>,
    /// What the plugin must be allowed to do for the response to go on.
    pub access: Option<Access>,
    pub charge: Option<Charge>,
}

impl PluginApi {
    /// Sends a request and returns the response, whatever its status, once its headers have arrived.
    ///
    /// # Errors
    /// `Forbidden` when the permission to send was revoked, `Unavailable` when the API server did
    /// not answer, `TimedOut` when it took too long.
    pub(crate) async fn send_proxied(
        self: Arc<Self>,
        proxied: Proxied,
    ) -> Result<ProxiedAnswer<ProxiedResponse>, ApiError> {
        let Proxied {
            request,
            requested:
                Requested {
                    resource,
                    permission,
                },
            call,
            is_long_running,
            mut charge,
        } = proxied;

        if let Some(permission) = &permission {
            self.note(permission);
        }

        // Options of a deletion that were not read may ask for a dry run.
        let is_readable = call.verb != Verb::Delete || are_read(request.body());
        let sent = resource.as_ref().map(|resource| {
            Sent::new(&self.registry, resource, &call, request.body(), self.author)
        });

        let answer = self.begin(request, is_long_running, call.verb.is_write(), &mut charge);
        let (mut head, seat, read, rest) = match answer.await {
            Ok(answer) => answer,
            Err(error) => {
                sent.into_iter().for_each(|sent| sent.failed(&error));
                return Err(error);
            }
        };

        if let Some(sent) = sent {
            note_answer(sent, &head, &read, rest.is_some(), is_readable);
        }
        if let (Some(permission), Some(_)) = (&permission, &resource) {
            let error = || error_of(&head, &read);
            self.note_response(permission, call.verb, head.status.as_u16(), error);
        }
        let read = self.reworded(&mut head, read, rest.is_none());

        let text = (call.verb.is_write() && rest.is_none())
            .then(|| text_of(&head.headers, &read))
            .flatten();
        let access = resource
            .as_ref()
            .zip(permission.as_ref())
            .filter(|_| is_long_running)
            .and_then(|(resource, permission)| access(resource, permission));

        Ok(ProxiedAnswer {
            status: head.status.as_u16(),
            text,
            response: ProxiedResponse {
                head,
                read,
                rest: rest.map(|rest| rest.map_err(Into::into).boxed_unsync()),
                // A watch that has begun is no longer in flight, as for the API server.
                seat: seat.filter(|_| !is_long_running),
                access,
                charge,
            },
        })
    }

    /// Finds the resource of a request, and the permission that it needs.
    ///
    /// # Errors
    /// The API server's error if it has to be asked and does not respond.
    pub(crate) async fn requested(
        &self,
        target: &Target,
        call: &Call,
    ) -> Result<Requested, ApiError> {
        let Target::Resource(path) = target else {
            let permission = match &call.resource {
                Resource::Path { path, .. } => Some((Need::path(path), None)),
                Resource::Kind(_) => None,
            };
            return Ok(Requested {
                resource: None,
                permission,
            });
        };

        let resource = self
            .discovery
            .resolve_plural(&path.api_version, &path.plural)
            .await?;
        let permission = resource
            .as_ref()
            .map(|resource| of_call(resource, call, false));
        Ok(Requested {
            resource,
            permission,
        })
    }

    /// Sends a request, and reads the answer to a write and a refusal.
    async fn begin(
        &self,
        request: Request<Vec<u8>>,
        is_long_running: bool,
        is_write: bool,
        charge: &mut Option<Charge>,
    ) -> Result<(response::Parts, Option<Seat>, Bytes, Option<Body>), ApiError> {
        let what = format!("{} {}", request.method(), request.uri().path());
        let begin = async {
            let (response, seat) = self.api_client.respond(request).await?;
            let (head, body) = response.into_parts();
            if !is_write && head.status != StatusCode::FORBIDDEN {
                return Ok((head, seat, Bytes::new(), Some(body)));
            }
            let (read, rest) = read(body, charge).await?;
            Ok((head, seat, read, rest))
        };

        if is_long_running {
            return begin.await;
        }
        within(RESPONSE_TIMEOUT, what, begin).await
    }

    /// Words a denial of the host's impersonation as one of the ServiceAccount. Every client of
    /// Kubernetes reads a Status in JSON, whatever it asked for.
    fn reworded(&self, head: &mut response::Parts, read: Bytes, is_whole: bool) -> Bytes {
        let Some(account) = self
            .api_client
            .account()
            .filter(|_| is_whole && head.status == StatusCode::FORBIDDEN)
        else {
            return read;
        };

        let before = match Envelope::read(&read) {
            Some(_) => RawResponse::of_error(&error_of(head, &read)).body.into(),
            None => read.clone(),
        };
        let after = impersonation_refusal::reword(before.clone(), account);
        if after == before {
            return read;
        }

        head.headers.remove(CONTENT_LENGTH);
        let json = HeaderValue::from_static("application/json");
        head.headers.insert(CONTENT_TYPE, json);
        after
    }
}

/// Reads a body, up to a limit and as far as there is room for it. Returns what it read, and the
/// rest of a longer body.
async fn read(
    mut body: Body,
    charge: &mut Option<Charge>,
) -> Result<(Bytes, Option<Body>), ApiError> {
    let mut read = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| {
            let message = format!("no response from the API server: {}", chain(&error));
            ApiError::new(ErrorKind::Unavailable, message)
        })?;
        let Ok(data) = frame.into_data() else {
            continue;
        };

        read.extend_from_slice(&data);
        let has_room = charge
            .as_mut()
            .is_none_or(|charge| charge.take(data.len() as u64).is_ok());
        if !has_room || read.len() > MAX_READ {
            return Ok((read.freeze(), Some(body)));
        }
    }
    Ok((read.freeze(), None))
}

/// Notes the answer to a write for the caches.
fn note_answer(
    sent: Sent<'_>,
    head: &response::Parts,
    read: &[u8],
    has_rest: bool,
    is_readable: bool,
) {
    if !head.status.is_success() {
        return sent.failed(&error_of(head, read));
    }

    let text = std::str::from_utf8(read).ok();
    match text.filter(|_| is_json(&head.headers)) {
        _ if has_rest || !is_readable => sent.answered_unread(),
        Some(text) => sent.answered(text),
        None if is_protobuf(&head.headers) => sent.answered_in_protobuf(read),
        None => sent.answered_unread(),
    }
}

/// The error of a response that was read, in JSON or in Protobuf.
fn error_of(head: &response::Parts, read: &[u8]) -> ApiError {
    let code = head.status.as_u16();
    match Envelope::read(read).and_then(|envelope| envelope.status()) {
        Some(status) => ApiError::from_status(Status {
            code,
            reason: status.reason.to_owned(),
            message: status.message.to_owned(),
            ..Status::default()
        }),
        None => from_body(code, read, None),
    }
}

/// The text of an answer, for the gate's records: the body if it is JSON, and of one in Protobuf who
/// has set the object's finalizers.
fn text_of(headers: &HeaderMap, read: &Bytes) -> Option<String> {
    if is_json(headers) {
        return String::from_utf8(read.to_vec()).ok();
    }
    Envelope::read(read)
        .filter(|_| is_protobuf(headers))?
        .finalizers()
}

/// What the plugin must be allowed to do for a read to go on.
pub(crate) fn access(resource: &ApiResource, (need, name): &RequiredPermission) -> Option<Access> {
    let verb = match need.verb.as_str() {
        "get" => ReadVerb::Get,
        "list" => ReadVerb::List,
        "watch" => ReadVerb::Watch,
        _ => return None,
    };
    Some(Access {
        verb: verb.into(),
        group: need.group.clone(),
        version: resource.kind.version().to_owned(),
        resource: need.resource.clone(),
        namespace: need.namespace.clone(),
        name: name.clone(),
    })
}

fn is_json(headers: &HeaderMap) -> bool {
    media_type(headers) == Some("application/json")
}

fn is_protobuf(headers: &HeaderMap) -> bool {
    media_type(headers) == Some(protobuf::MEDIA_TYPE)
}

/// The media type of a body, without its parameters; None if there is none, or if it is compressed.
fn media_type(headers: &HeaderMap) -> Option<&str> {
    let is_plain = headers
        .get(CONTENT_ENCODING)
        .is_none_or(|encoding| encoding == "identity");
    let given = headers.get(CONTENT_TYPE).filter(|_| is_plain)?;
    given.to_str().ok()?.split(';').next().map(str::trim)
}
