//! A request of a process: its form is checked, it passes the gate, and it is sent.

use std::{convert::Infallible, sync::Arc};

use bytes::Bytes;
use http::{
    Method, Request, Response, Version,
    header::{UPGRADE, USER_AGENT},
    request::Parts,
};
use http_body::Body as _;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use operetta_core::{
    gate::{
        bytes::Bytes as Charge,
        proxied_request::{ProxiedRequest, needs_upgrade},
    },
    status::{ApiError, ErrorKind},
};
use tokio::time::timeout;

use super::{
    Place, State, bad_request,
    connection::Active,
    headers::passed_on,
    response::{Content, EndpointBody, Held, of_error, of_response},
    watch_cache,
};
use crate::client::proxied::Proxied;

/// Answers a request, with a Status in JSON if it fails here.
pub(super) async fn answer(
    state: Arc<State>,
    active: Active,
    request: Request<Incoming>,
) -> Result<Response<EndpointBody>, Infallible> {
    let answered = match state.begin() {
        Ok((place, charge)) => pass(&state, place, charge, request).await,
        Err(error) => Err(error),
    };
    let (place, response) = match answered {
        Ok((place, response)) => (Some(place), response),
        Err(error) => (None, of_error(&error)),
    };
    Ok(response.map(|content| EndpointBody::new(content, Held { active, place })))
}

/// Passes a request through the gate. Also returns its place, which it keeps until its response has
/// ended.
async fn pass(
    state: &Arc<State>,
    place: Place,
    mut charge: Option<Charge>,
    request: Request<Incoming>,
) -> Result<(Place, Response<Content>), ApiError> {
    let (head, body) = request.into_parts();
    check_form(&head)?;
    let headers = passed_on(&head.headers)?;
    let proxied = ProxiedRequest {
        method: head.method.as_str().to_owned(),
        path: head.uri.path().to_owned(),
        query: head.uri.query().unwrap_or_default().to_owned(),
        user_agent: head
            .headers
            .get(USER_AGENT)
            .and_then(|agent| agent.to_str().ok())
            .unwrap_or_default()
            .to_owned(),
    };
    let info = state.gate.admit(proxied)?;

    let body = read(state, body, &mut charge).await?;
    let call = info.call(&body);
    let is_long_running = info.is_long_running();

    // Without scheme and authority: the client knows the API server.
    let uri = head.uri.path_and_query().map_or("/", |it| it.as_str());
    let mut request = Request::builder()
        .method(head.method)
        .uri(uri)
        .body(body.into())
        .map_err(|error| bad_request(error.to_string()))?;
    *request.headers_mut() = headers;

    // Subscribe before the API server decides about the request, so that no change after that is
    // missed.
    let changes = state
        .api
        .grants()
        .filter(|_| is_long_running)
        .map(|grants| grants.changes());
    let is_write = call.verb.is_write();
    let (gate, api) = (state.gate.clone(), state.api.clone());
    let sending = async move {
        let send = async |call| {
            let requested = api.requested(&info.target, &call).await?;
            let cached =
                watch_cache::answer(&api, &info, &requested, request.headers(), &mut charge);
            if let Some(answer) = cached.await? {
                return Ok(answer);
            }
            let passed = api.send_proxied(Proxied {
                request,
                requested,
                call,
                is_long_running,
                charge,
            });
            passed.await
        };
        let response = gate.proxy(call, send).await?;
        Ok((place, response))
    };

    // A write runs to its end even if its client goes away: the caches and the audit must learn
    // what it did.
    let (place, response) = if is_write {
        tokio::spawn(sending).await.unwrap_or_else(|_| {
            let message = "the host is shutting down: the write may have been stored";
            Err(ApiError::new(ErrorKind::Unavailable, message))
        })?
    } else {
        sending.await?
    };
    let response = of_response(state, response, is_long_running, changes);
    Ok((place, response))
}

/// Checks that a request is meant for a server and not for a proxy, and doesn't take over the
/// connection.
fn check_form(head: &Parts) -> Result<(), ApiError> {
    if head.method == Method::CONNECT {
        return Err(bad_request(
            "CONNECT is for a proxy, and this is the API server",
        ));
    }

    // Over HTTP/2, every request names its authority.
    if head.version < Version::HTTP_2 && head.uri.authority().is_some() {
        let message = "the request has a URL in place of a path, which is for a proxy, and this is the API server";
        return Err(bad_request(message));
    }

    // A server may ignore an upgrade that it doesn't offer, such as h2c. But without its upgrade, a
    // request for WebSocket or SPDY would get another kind of stream.
    let upgrades = head.headers.get_all(UPGRADE).iter();
    let takes_over = |upgrade: &str| {
        let protocol = upgrade.trim().to_ascii_lowercase();
        protocol.starts_with("websocket") || protocol.starts_with("spdy")
    };
    if upgrades
        .filter_map(|upgrade| upgrade.to_str().ok())
        .flat_map(|upgrade| upgrade.split(','))
        .any(takes_over)
    {
        return Err(needs_upgrade(head.uri.path()));
    }

    Ok(())
}

/// Reads and charges a request's body, up to the size that the gate allows.
async fn read(
    state: &State,
    mut body: Incoming,
    charge: &mut Option<Charge>,
) -> Result<Bytes, ApiError> {
    let limit = state.gate.payload_bytes();
    let too_large = || {
        let message = format!("the body is over the limit of {limit} bytes");
        ApiError::too_large(message)
    };
    if body.size_hint().lower() > limit as u64 {
        return Err(too_large());
    }

    let reading = async {
        let mut bytes = Vec::new();
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|error| {
                bad_request(format!(
                    "the body of the request could not be read: {error}"
                ))
            })?;
            let Ok(data) = frame.into_data() else {
                continue;
            };

            if data.len() > limit - bytes.len() {
                return Err(too_large());
            }
            if let Some(charge) = charge {
                charge.take(data.len() as u64)?;
            }
            bytes.extend_from_slice(&data);
        }
        Ok(bytes.into())
    };

    let within = state.limits.body;
    timeout(within, reading).await.unwrap_or_else(|_| {
        let message = format!("the body of the request took longer than {within:?}");
        Err(bad_request(message))
    })
}
