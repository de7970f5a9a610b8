//! HTTP exchanges with the API server under one identity, and the conversion of failures to
//! [`ApiError`]s.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Collected, LengthLimitError, Limited};
use kube::{Client, client::Body};
use operetta_core::{
    authz::access_review::ServiceAccount,
    gate::{
        bytes::charge, in_flight::Seat, permit::RequestPermit, throttle::Throttle, warnings::note,
    },
    ports::WarningSink,
    recorder::{self, OpenCall, SpanContext},
    status::{ApiError, Cause, ErrorKind, Status},
};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;

use crate::{
    authz::impersonation_refusal,
    client::{permitted::send_permitted, warnings::warnings},
};

const IMPERSONATE_USER: HeaderName = HeaderName::from_static("impersonate-user");

/// The header of the extra field `operetta.dev/epoch` of an impersonated user.
const IMPERSONATE_EPOCH: HeaderName =
    HeaderName::from_static("impersonate-extra-operetta.dev%2fepoch");

/// The header of W3C Trace Context.
const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");

/// The header with the [id] under which the API server's audit log has a request.
///
/// [id]: https://github.com/kubernetes/apiserver/blob/v0.36.2/pkg/apis/audit/types.go
const AUDIT_ID: HeaderName = HeaderName::from_static("audit-id");

/// The maximum size of a response that a plugin may make the host read at once, in bytes. Larger
/// lists are read in pages.
const MAX_ANSWER: usize = 64 << 20;

/// The number of copies of a response in memory: its bytes, and the objects decoded from them.
const COPIES: usize = 2;

/// The maximum number of bytes that are read of an error's body.
const MAX_REFUSAL: usize = 1 << 20;

/// The characters that a query value keeps; all others are percent-encoded.
const QUERY: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

/// The identity of a request.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Identity {
    /// The host's own identity.
    Host,
    /// A ServiceAccount, by impersonation. The API server adds the groups of its namespace.
    ServiceAccount(ServiceAccount),
}

/// A client under one identity.
#[derive(Clone)]
pub struct ApiClient {
    client: Client,
    impersonate: Option<(ServiceAccount, HeaderValue)>,
    /// The credentials of a user, for a client that has none.
    authorization: Option<HeaderValue>,
    /// The epoch that impersonated writes carry.
    epoch: Option<HeaderValue>,
    /// The maximum size of a response that is read as a whole, in bytes.
    max_answer: usize,
    /// The quotas of requests in flight and of the bytes of responses.
    throttle: Throttle,
    /// Checked last, before each request.
    permit: Arc<RequestPermit>,
    /// Receives the warnings in responses; None drops them.
    warnings: Option<Arc<dyn WarningSink>>,
    /// Whether the guest whose call sends a request may read the warnings in its response.
    tells_guest: bool,
}

impl ApiClient {
    /// Creates a client that sends requests as `identity`.
    ///
    /// # Errors
    /// `BadRequest` when a name of the identity cannot be part of a header.
    pub fn new(client: Client, identity: &Identity) -> Result<Self, ApiError> {
        let impersonate = match identity {
            Identity::Host => None,
            Identity::ServiceAccount(account) => {
                let header = HeaderValue::from_str(&account.user());
                let refused =
                    |_| bad_request(format!("{:?} is not a ServiceAccount's name", account.name));
                Some((account.clone(), header.map_err(refused)?))
            }
        };

        let max_answer = if impersonate.is_some() {
            MAX_ANSWER
        } else {
            usize::MAX
        };
        let permit = RequestPermit::new();
        let throttle = Throttle::default();

        Ok(Self {
            client,
            impersonate,
            authorization: None,
            epoch: None,
            max_answer,
            throttle,
            permit,
            warnings: None,
            tells_guest: false,
        })
    }

    /// Creates a client that sends requests with the token of a user. The client must have no
    /// credentials of its own
    /// ([`connect_without_credentials`](super::connect::connect_without_credentials)): a client
    /// certificate would come first.
    ///
    /// # Errors
    /// `BadRequest` when the token cannot be part of a header.
    pub fn of_user(client: Client, token: &str) -> Result<Self, ApiError> {
        let header = HeaderValue::from_str(&format!("Bearer {token}"));
        let mut header = header
            .map_err(|_| bad_request("the token has characters that no token has".to_owned()))?;
        header.set_sensitive(true);
        Ok(Self {
            authorization: Some(header),
            max_answer: MAX_ANSWER,
            ..Self::new(client, &Identity::Host)?
        })
    }

    /// Lets impersonated writes carry the epoch of this replica, so that the API server refuses
    /// late ones.
    ///
    /// # Errors
    /// `BadRequest` when the epoch cannot be part of a header.
    pub fn in_epoch(self, epoch: Option<&str>) -> Result<Self, ApiError> {
        let refused = |epoch: &str| bad_request(format!("{epoch:?} is not an epoch"));
        let header = epoch
            .map(|epoch| HeaderValue::from_str(epoch).map_err(|_| refused(epoch)))
            .transpose()?;
        Ok(Self {
            epoch: header,
            ..self
        })
    }

    /// Limits the size of responses, except for `Self::open`.
    #[must_use]
    pub fn reading_at_most(self, bytes: usize) -> Self {
        Self {
            max_answer: bytes,
            ..self
        }
    }

    /// Stops sending once this permit is revoked.
    #[must_use]
    pub fn permitted_by(self, permit: Arc<RequestPermit>) -> Self {
        Self { permit, ..self }
    }

    /// Bounds the requests in flight, and charges the bytes of responses, except for `Self::open`.
    /// The rate of requests is for the caller to bound.
    #[must_use]
    pub fn throttled_by(self, throttle: Throttle) -> Self {
        Self { throttle, ..self }
    }

    pub(crate) fn throttle(&self) -> &Throttle {
        &self.throttle
    }

    /// Passes the warnings in responses on.
    #[must_use]
    pub fn warning(self, sink: Option<Arc<dyn WarningSink>>) -> Self {
        Self {
            warnings: sink,
            ..self
        }
    }

    /// Keeps the warnings in responses for the guest whose call sends the request. A call may also
    /// lead to requests of the host's own, by other clients: their warnings are not for the guest.
    #[must_use]
    pub(crate) fn telling_guest(self) -> Self {
        Self {
            tells_guest: true,
            ..self
        }
    }

    /// Returns the permit.
    pub fn permit(&self) -> &Arc<RequestPermit> {
        &self.permit
    }

    /// Sends a request and returns the body of a successful response. Never retries.
    ///
    /// # Errors
    /// The Status that the API server sent, or `Unavailable` when it did not answer.
    pub async fn send(&self, request: Request<Vec<u8>>) -> Result<String, ApiError> {
        self.send_for_status(request).await.map(|(_, text)| text)
    }

    /// Sends a request and returns the status and the body of a successful response. Never retries.
    ///
    /// # Errors
    /// Fails as [`Self::send`] does.
    pub(crate) async fn send_for_status(
        &self,
        request: Request<Vec<u8>>,
    ) -> Result<(StatusCode, String), ApiError> {
        let answer = self.exchange(request).await?;
        if !answer.status.is_success() {
            return Err(from_body(
                answer.status.as_u16(),
                &answer.body,
                answer.retry_after(),
            ));
        }
        Ok((answer.status, answer.text()?))
    }

    /// Sends a request and returns the response, whatever its status. Never retries.
    ///
    /// # Errors
    /// `Forbidden` when the permission to send was revoked, `Unavailable` when the API server did
    /// not answer, code 413 when the response is too large.
    pub(crate) async fn exchange(&self, request: Request<Vec<u8>>) -> Result<Answer, ApiError> {
        // The request is in flight until its response is read.
        let (response, _seat) = self.respond(request).await?;
        let (parts, body) = response.into_parts();

        let mut body = self.read(body).await?;
        if let (StatusCode::FORBIDDEN, Some((account, _))) = (parts.status, &self.impersonate) {
            body = impersonation_refusal::reword(body, account);
        }

        Ok(Answer {
            status: parts.status,
            headers: parts.headers,
            body,
        })
    }

    /// Sends a request and returns the response, whatever its status, once its headers have
    /// arrived, and the request's seat among those in flight. Never retries.
    ///
    /// # Errors
    /// `Forbidden` when the permission to send was revoked, `Unavailable` when the API server did
    /// not answer.
    pub(crate) async fn respond(
        &self,
        mut request: Request<Vec<u8>>,
    ) -> Result<(Response<Body>, Option<Seat>), ApiError> {
        self.identify(&mut request);
        // A call may also lead to requests of the host's own, such as access reviews.
        let call = recorder::current_call().filter(|_| self.impersonate.is_some());

        if let Some(context) = call.as_ref().and_then(OpenCall::context) {
            add_traceparent(&mut request, context);
        }

        let method = request.method().clone();
        let path = request.uri().path().to_owned();
        let seat = self.throttle.begin().await;
        let response = send_permitted(request, &self.permit, |request| self.client.send(request));
        let response = response.await;

        if let Some(call) = call {
            let response = response.as_ref().ok();
            let response =
                response.map(|response| (response.status().as_u16(), audit_id(response.headers())));
            call.responded(method.as_str(), response);
        }

        let response = response?;
        if let Some(seat) = &seat {
            seat.answered(response.status() == StatusCode::TOO_MANY_REQUESTS);
        }
        for text in warnings(response.headers()) {
            if self.tells_guest {
                note(&text);
            }
            if let Some(sink) = &self.warnings {
                sink.warned(&format!("{method} {path}"), &text);
            }
        }
        Ok((response, seat))
    }

    /// Returns the ServiceAccount that requests impersonate.
    pub(crate) fn account(&self) -> Option<&ServiceAccount> {
        self.impersonate.as_ref().map(|(account, _)| account)
    }

    /// Adds the headers of the identity.
    fn identify(&self, request: &mut Request<Vec<u8>>) {
        if let Some(authorization) = &self.authorization {
            request
                .headers_mut()
                .insert(http::header::AUTHORIZATION, authorization.clone());
        }

        let Some((_, user)) = &self.impersonate else {
            return;
        };

        let is_write = request.method() != Method::GET && request.method() != Method::HEAD;
        let headers = request.headers_mut();
        headers.insert(IMPERSONATE_USER, user.clone());

        if let Some(epoch) = self.epoch.as_ref().filter(|_| is_write) {
            headers.insert(IMPERSONATE_EPOCH, epoch.clone());
        }
    }

    /// Reads a response. Its bytes are charged to the plugin's call before they are read,
    /// [`COPIES`] times, because the objects decoded from them are as large. They also count
    /// against the quota of requests.
    async fn read(&self, body: Body) -> Result<Bytes, ApiError> {
        let mut whole = BytesMut::new();
        let read = self.read_into(&mut whole, body).await;
        self.throttle.charge_answer(whole.len());
        read.map(|()| whole.freeze())
    }

    async fn read_into(&self, whole: &mut BytesMut, body: Body) -> Result<(), ApiError> {
        let mut body = Limited::new(body, self.max_answer);
        while let Some(frame) = body.frame().await {
            let Ok(data) = frame.map_err(|error| self.unread(error))?.into_data() else {
                continue;
            };
            charge(data.len().saturating_mul(COPIES))?;
            whole.extend_from_slice(&data);
        }
        Ok(())
    }

    /// Returns the error of a response that could not be read to its end.
    fn unread(&self, error: Box<dyn std::error::Error + Send + Sync>) -> ApiError {
        if error.is::<LengthLimitError>() {
            return ApiError::too_large(format!(
                "the API server's response has more than {} bytes: set a limit, or use a selector",
                self.max_answer
            ));
        }

        match error.downcast::<kube::Error>() {
            Ok(error) => from_kube(*error),
            Err(error) => ApiError::new(
                ErrorKind::Unavailable,
                format!("no response from the API server: {}", chain(&*error)),
            ),
        }
    }

    /// Sends a request for JSON and returns the body of a successful response as a stream. Never
    /// retries.
    ///
    /// # Errors
    /// Fails as [`Self::send`] does, and with `Unavailable` for a response that is not JSON, such
    /// as a proxy's.
    pub(crate) async fn open(&self, mut request: Request<Vec<u8>>) -> Result<Body, ApiError> {
        self.identify(&mut request);
        let response = send_permitted(request, &self.permit, |request| self.client.send(request));
        let (parts, body) = response.await?.into_parts();
        let answer = Answer {
            status: parts.status,
            headers: parts.headers,
            body: Bytes::new(),
        };
        let content_type = answer.content_type();
        if answer.status.is_success() && content_type.starts_with("application/json") {
            return Ok(body);
        }

        let words = Limited::new(body, MAX_REFUSAL)
            .collect()
            .await
            .map(Collected::to_bytes)
            .unwrap_or_default();

        if answer.status.is_success() {
            let shown: String = String::from_utf8_lossy(&words)
                .trim()
                .chars()
                .take(64)
                .collect();
            let message =
                format!("the API server's response is {content_type:?} and not JSON: {shown:?}");
            return Err(ApiError::new(ErrorKind::Unavailable, message));
        }

        Err(from_body(
            answer.status.as_u16(),
            &words,
            answer.retry_after(),
        ))
    }
}

/// The id of a response's request in the API server's audit log.
fn audit_id(headers: &HeaderMap) -> Option<&str> {
    headers.get(AUDIT_ID)?.to_str().ok()
}

/// Lets the API server's own spans of a request be in the trace of the call.
fn add_traceparent(request: &mut Request<Vec<u8>>, context: SpanContext) {
    if let Ok(value) = HeaderValue::from_str(&context.traceparent()) {
        request.headers_mut().insert(TRACEPARENT, value);
    }
}

/// A response of the API server.
pub(crate) struct Answer {
    pub status: StatusCode,
    headers: HeaderMap,
    body: Bytes,
}

impl Answer {
    /// Returns the Retry-After header, in seconds.
    pub fn retry_after(&self) -> Option<u32> {
        self.headers
            .get(http::header::RETRY_AFTER)?
            .to_str()
            .ok()?
            .parse()
            .ok()
    }

    /// Returns the Content-Type header; empty if there is none.
    pub fn content_type(&self) -> String {
        let value = self
            .headers
            .get(http::header::CONTENT_TYPE)
            .and_then(|value| value.to_str().ok());
        value.unwrap_or_default().to_owned()
    }

    /// Returns the body.
    ///
    /// # Errors
    /// `Other` when it is not UTF-8.
    pub fn text(self) -> Result<String, ApiError> {
        String::from_utf8(self.body.into())
            .map_err(|_| ApiError::new(ErrorKind::Other, "the API server's response is not UTF-8"))
    }
}

fn bad_request(message: String) -> ApiError {
    ApiError::new(ErrorKind::BadRequest, message)
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WireStatus {
    #[serde(default)]
    reason: String,
    #[serde(default)]
    message: String,
    details: Option<WireDetails>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct WireDetails {
    causes: Vec<Cause>,
    retry_after_seconds: Option<u32>,
}

pub(crate) fn from_body(code: u16, body: &[u8], retry_after: Option<u32>) -> ApiError {
    let status = match serde_json::from_slice::<WireStatus>(body) {
        Ok(WireStatus {
            reason,
            message,
            details,
        }) => {
            let details = details.unwrap_or_default();
            let retry_after_seconds = details
                .retry_after_seconds
                .filter(|seconds| *seconds > 0)
                .or(retry_after);
            Status {
                code,
                reason,
                message,
                causes: details.causes,
                retry_after_seconds,
            }
        }
        // Plain text, from a proxy or for a path that is not served.
        Err(_) => {
            let message = String::from_utf8_lossy(body)
                .trim()
                .chars()
                .take(512)
                .collect();
            Status {
                code,
                reason: String::new(),
                message,
                causes: Vec::new(),
                retry_after_seconds: retry_after,
            }
        }
    };

    ApiError::from_status(status)
}

/// Converts an error of the kube client.
pub fn from_kube(error: kube::Error) -> ApiError {
    match error {
        kube::Error::Api(status) => {
            let cause = |cause: kube::core::response::StatusCause| Cause {
                reason: cause.reason,
                message: cause.message,
                field: cause.field,
            };
            let (causes, seconds) = status.details.map_or((Vec::new(), 0), |details| {
                (
                    details.causes.into_iter().map(cause).collect(),
                    details.retry_after_seconds,
                )
            });
            ApiError::from_status(Status {
                code: status.code,
                reason: status.reason,
                message: status.message,
                causes,
                retry_after_seconds: Some(seconds).filter(|seconds| *seconds > 0),
            })
        }
        other => ApiError::new(
            ErrorKind::Unavailable,
            format!("no response from the API server: {}", chain(&other)),
        ),
    }
}

/// Formats an error and its causes in one line.
pub fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        next = cause.source();
    }
    text
}

/// Builds a query string with its `?` from pairs; empty if there are none.
pub(crate) fn query(pairs: &[(&str, &str)]) -> String {
    let mut text = String::new();
    for (name, value) in pairs {
        text.push(if text.is_empty() { '?' } else { '&' });
        text.push_str(name);
        text.push('=');
        text.extend(utf8_percent_encode(value, QUERY));
    }
    text
}

#[cfg(test)]
mod tests {
    use operetta_core::{
        controller::request::ReconcileRequest,
        gate::{
            call::Call,
            operation::{List, ListOptions, Read},
        },
        object::{ObjectKey, kind::GroupVersionKind},
        recorder::{
            Limits, OpenReconcile, Recorder, Trace, TraceSink, Triggers,
            record::{Reconcile, Source},
            recorded,
        },
    };
    use parking_lot::Mutex;
    use tower::{BoxError, service_fn};

    use super::*;

    /// Keeps the reconciles that are exported.
    #[derive(Default)]
    struct Exported(Mutex<Vec<Reconcile>>);

    impl TraceSink for Exported {
        fn export(&self, _: &ObjectKey, reconcile: &Reconcile, _: &Trace) {
            self.0.lock().push(reconcile.clone());
        }
    }

    /// Begins a reconcile of this trace.
    fn reconcile(exported: &Arc<Exported>, trace_id: u128) -> OpenReconcile {
        let recorder = Recorder::new(Limits::default(), Some(exported.clone()));
        let request = ReconcileRequest {
            controller: "c".to_owned(),
            key: ObjectKey::namespaced("n", "a"),
            retries: 0,
            reconcile_id: "r".to_owned(),
            record: None,
        };
        let plugin = recorder.of_plugin(&ObjectKey::namespaced("n", "p"), Source::default());
        let trace = Trace {
            context: SpanContext {
                trace_id,
                span_id: 1,
            },
            link: None,
        };
        let kind = GroupVersionKind::new("v1", "Pod");
        request.begin_record(plugin, &kind, Triggers::default(), None, Some(trace))
    }

    fn call() -> Call {
        Call::of(&List {
            kind: GroupVersionKind::new("v1", "Pod"),
            options: ListOptions::all(None, Read::Live),
        })
    }

    #[tokio::test]
    async fn requests_of_a_traced_call_carry_its_context() {
        let client = Client::new(
            service_fn(async |request: Request<Body>| {
                let traceparent = request.headers().get(TRACEPARENT).cloned();
                let status = traceparent.map_or(StatusCode::OK, |value| {
                    let value = value.to_str().expect("text").to_owned();
                    assert!(
                        value.starts_with("00-0000000000000000000000000000000a-"),
                        "{value}"
                    );
                    StatusCode::NOT_FOUND
                });
                Ok::<_, BoxError>(
                    Response::builder()
                        .status(status)
                        .header(AUDIT_ID, "1b4e")
                        .body(Body::empty())
                        .expect("a response"),
                )
            }),
            "default",
        );
        let account = ServiceAccount {
            namespace: "n".to_owned(),
            name: "a".to_owned(),
        };
        let api_client =
            ApiClient::new(client.clone(), &Identity::ServiceAccount(account)).expect("a client");
        let request = || {
            Request::get("/api/v1/pods")
                .body(Vec::new())
                .expect("a request")
        };
        api_client
            .send(request())
            .await
            .expect("no header outside of a call");
        let exported = Arc::new(Exported::default());
        let reconcile = reconcile(&exported, 0xa);
        let of_host = ApiClient::new(client, &Identity::Host).expect("a client");
        let own = recorded(
            reconcile.begin_call(&call()),
            of_host.send(request()),
            |_| None,
        )
        .await;
        own.expect("no header in the host's own requests");
        recorded(
            reconcile.begin_call(&call()),
            api_client.send(request()),
            |_| None,
        )
        .await
        .expect_err("not found");
        assert_eq!(reconcile.audit_id().as_deref(), Some("1b4e"));
        drop(reconcile);
        let record = exported.0.lock().pop().expect("exported");
        let [own, of_plugin] = record.calls.as_slice() else {
            panic!("{record:?}")
        };
        assert_eq!((&own.response, &own.error), (&None, &None));
        assert_eq!(of_plugin.response, Some(("GET".to_owned(), 404)));
        assert_eq!(of_plugin.error.as_deref(), Some("NotFound"));
        assert_eq!((&*own.audit_id, &*of_plugin.audit_id), ("", "1b4e"));
    }

    #[test]
    fn query_values_are_encoded() {
        assert_eq!(
            query(&[("labelSelector", "a=b,c in (d)"), ("limit", "5")]),
            "?labelSelector=a%3Db%2Cc%20in%20%28d%29&limit=5"
        );
        assert_eq!(query(&[]), "");
    }

    #[test]
    fn status_keeps_causes_and_plain_text() {
        let body = br#"{"kind":"Status","reason":"Invalid","message":"m","details":{"causes":[{"reason":"FieldValueInvalid","message":"too few","field":"spec.replicas"}]}}"#;
        let error = from_body(422, body, None);
        assert_eq!(error.kind, ErrorKind::Invalid);
        assert_eq!(error.status.causes[0].field, "spec.replicas");
        let error = from_body(429, b"slow down", Some(3));
        assert_eq!(
            (error.kind, error.status.retry_after_seconds),
            (ErrorKind::TooManyRequests, Some(3))
        );
        assert_eq!(error.status.message, "slow down");
    }
}
