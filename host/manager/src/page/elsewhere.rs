//! Sessions of other replicas. Behind a Service, each request of a browser may reach another
//! replica than the one where its user signed in, which has the token.
//!
//! The cookie has the epoch of that replica. It selects a member of the group and nothing else: the
//! member's address and certificate come from its Lease. This replica asks the member whose session
//! it is, and then forwards the request with the cookie and the secret. The token stays where it
//! is. From there the request goes on as if it had come directly, so a request about a Plugin takes
//! two hops at most, and the token one.
//!
//! Nothing is forwarded for a session that its replica hasn't confirmed. A stranger who makes
//! cookies up costs a question each, of which there are as many at once as reviews of unknown
//! tokens.

use std::time::Duration;

use axum::{
    body::to_bytes,
    extract::Request,
    http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, header},
    response::Response,
};
use operetta_api::reasons;
use operetta_core::replicas::{Epoch, Group};
use serde::Deserialize;
use tokio::time::timeout;

use super::{
    failure::Failure,
    sessions::{self, COOKIE, Cookie, SECRET},
    state::Page,
};
use crate::admin::{
    access::Kept,
    connections::{OfConnection, network_of},
    forward::{Forwarder, TOO_MANY, counted, unreachable_replica},
    headers::{FETCH_SITE, FORWARDED_BY},
    shares::{Shares, owner},
};

/// Timeout for the answer to whose session it is.
const ASK: Duration = Duration::from_secs(5);

/// The questions that other replicas are asked at once, and those of one network.
const AT_ONCE: u32 = 8;
const OF_NETWORK: u32 = 4;

/// The maximum size of such an answer, in bytes.
const MAX_ANSWER: usize = 64 << 10;

/// Which of the replicas has a session.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// This one, if any.
    Here,
    /// The member with this identity.
    Elsewhere(String),
    /// One that is no member any more.
    Gone,
    /// One that joined a moment ago: this replica hasn't heard of it.
    NotYetKnown,
}

impl Place {
    /// Returns where the session of a request's cookie is, for the replica with the epoch `own`.
    pub(super) fn of(headers: &HeaderMap, own: Option<Epoch>, group: &Group) -> Self {
        let epoch = Cookie::of(headers).and_then(|cookie| cookie.epoch);
        let Some(epoch) = epoch.filter(|epoch| Some(*epoch) != own) else {
            return Self::Here;
        };

        // The replica that forwarded it took this one for the one that has the session.
        let is_forwarded = headers.contains_key(FORWARDED_BY);
        match group.get(epoch) {
            Some(member) if !is_forwarded => Self::Elsewhere(member.identity.clone()),
            None if !is_forwarded && epoch > group.last_epoch() => Self::NotYetKnown,
            _ => Self::Gone,
        }
    }
}

/// What this replica knows of the sessions of others.
pub(super) struct Elsewhere {
    /// The users of sessions that their replicas confirmed.
    confirmed: Kept<String>,
    questions: Shares,
}

impl Default for Elsewhere {
    fn default() -> Self {
        Self {
            confirmed: Kept::default(),
            questions: Shares::new(AT_ONCE, OF_NETWORK),
        }
    }
}

/// The failure of a request whose session was lost with its replica.
pub(super) fn gone() -> Failure {
    Failure::new(
        StatusCode::UNAUTHORIZED,
        reasons::TOKEN_MISSING,
        "sign in again: the replica of the host that had your session is gone",
    )
}

/// The failure of a request whose session is at a replica that this one doesn't know yet.
pub(super) fn not_yet_known() -> Failure {
    Failure::new(
        StatusCode::SERVICE_UNAVAILABLE,
        reasons::NO_READY_REPLICA,
        "this replica of the host has not heard yet of the one that has your session: try again",
    )
}

/// Forwards a request to the replica that has its session, and returns the response.
pub(super) async fn forward(
    page: &Page,
    identity: &str,
    request: Request,
) -> Result<Response, Failure> {
    // No endpoint reads a body.
    let (head, _body) = request.into_parts();
    let forwarder = forwarder(page)?;
    let user = user(page, forwarder, identity, &head.headers).await?;
    if let Some(connection) = head.extensions.get::<OfConnection>() {
        connection.authenticated(&user);
    }

    let place = format!("user {}", owner(&user));
    let open = forwarder.streams.open(&place).ok_or_else(|| {
        Failure::new(
            StatusCode::TOO_MANY_REQUESTS,
            reasons::TOO_MANY_STREAMS,
            TOO_MANY,
        )
    })?;
    let mut headers = session_headers(&head.headers);
    if let Some(accepted) = head.headers.get(header::ACCEPT) {
        headers.insert(header::ACCEPT, accepted.clone());
    }

    let response = forwarder
        .send_with(identity, head.method, &head.uri, headers)
        .await
        .map_err(|problem| failed(identity, &problem))?;
    Ok(counted(response, open))
}

/// Ends a session of another replica. If that one can't be reached, the session ends by itself, and
/// until then nobody has its secret.
pub(super) async fn end(page: &Page, identity: &str, headers: &HeaderMap) {
    let ended = async {
        let forwarder = forwarder(page)?;
        user(page, forwarder, identity, headers).await?;

        // It was checked here that the page itself asks for it.
        let mut sent = session_headers(headers);
        sent.insert(FETCH_SITE, HeaderValue::from_static("same-origin"));
        let uri = Uri::from_static("/page/sign-out");
        let answer = forwarder.send_with(identity, Method::POST, &uri, sent);
        answer.await.map_err(|problem| failed(identity, &problem))
    };

    if let Err(failure) = ended.await {
        tracing::debug!(
            identity,
            problem = failure.message,
            "failed to end a session of another replica"
        );
    }
}

fn forwarder(page: &Page) -> Result<&Forwarder, Failure> {
    page.forwarder.as_deref().ok_or_else(|| {
        Failure::new(
            StatusCode::UNAUTHORIZED,
            reasons::TOKEN_MISSING,
            "sign in again: another replica of the host has your session, and without secureEndpoints this one can't reach it",
        )
    })
}

#[derive(Deserialize)]
struct Me {
    user: String,
}

/// Returns the user of a session, as the replica says that has it.
async fn user(
    page: &Page,
    forwarder: &Forwarder,
    identity: &str,
    headers: &HeaderMap,
) -> Result<String, Failure> {
    let Elsewhere {
        confirmed,
        questions,
    } = &page.elsewhere;
    let both = Cookie::of(headers).map(|cookie| (cookie.id, sessions::secret(headers)));
    let about = confirmed.key(&both);
    if let Some(user) = confirmed.get(about) {
        return Ok(user);
    }

    let stranger = format!("network {}", network_of(headers));
    let _seat = questions.begin(&stranger).await;
    // An earlier request may have been waiting with the same question.
    if let Some(user) = confirmed.get(about) {
        return Ok(user);
    }

    let mut sent = session_headers(headers);
    sent.insert(header::ACCEPT, HeaderValue::from_static("application/json"));
    let asked = async {
        let uri = Uri::from_static("/page/api/me");
        let answer = forwarder
            .send_with(identity, Method::GET, &uri, sent)
            .await?;
        let status = answer.status();
        let body = to_bytes(answer.into_body(), MAX_ANSWER).await;
        Ok((status, body.map_err(|error| error.to_string())?))
    };
    let (status, body) = timeout(ASK, asked)
        .await
        .unwrap_or_else(|_| Err("it does not respond".to_owned()))
        .map_err(|problem: String| failed(identity, &problem))?;

    if !status.is_success() {
        let failure = serde_json::from_slice(&body);
        return Err(failure.unwrap_or_else(|_| failed(identity, &status.to_string())));
    }
    let Me { user } = serde_json::from_slice(&body).map_err(|error| {
        failed(
            identity,
            &format!("its answer is not that of a host: {error}"),
        )
    })?;
    confirmed.keep(about, user.clone());
    Ok(user)
}

/// Returns the headers that open a session, and no other of the request.
fn session_headers(from: &HeaderMap) -> HeaderMap {
    let mut headers = HeaderMap::new();
    let cookie = Cookie::of(from).map(|cookie| format!("{COOKIE}={cookie}"));
    if let Some(mut cookie) = cookie.and_then(|cookie| HeaderValue::from_str(&cookie).ok()) {
        cookie.set_sensitive(true);
        headers.insert(header::COOKIE, cookie);
    }
    if let Some(secret) = from.get(SECRET) {
        let mut secret = secret.clone();
        secret.set_sensitive(true);
        headers.insert(SECRET, secret);
    }
    headers
}

fn failed(identity: &str, problem: &str) -> Failure {
    Failure::new(
        StatusCode::BAD_GATEWAY,
        reasons::REPLICA_UNREACHABLE,
        unreachable_replica(identity, problem),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(cookie: &str, is_forwarded: bool) -> HeaderMap {
        let mut headers = HeaderMap::new();
        let line = format!("theme=dark; {COOKIE}={cookie}; other=a");
        headers.insert(header::COOKIE, line.parse().expect("a value"));
        headers.insert(SECRET, "5".repeat(64).parse().expect("a value"));
        headers.insert(
            header::AUTHORIZATION,
            HeaderValue::from_static("Bearer token"),
        );
        if is_forwarded {
            headers.insert(FORWARDED_BY, HeaderValue::from_static("two"));
        }
        headers
    }

    #[test]
    fn cookie_selects_a_member_and_no_address() {
        let mut group = Group::default();
        let first = group.join("one");
        let second = group.join("two");
        group.join("three");
        group.remove(second);

        let id = "a".repeat(64);
        let place = |epoch: &str, is_forwarded| {
            let headers = headers(&format!("{id}{epoch}"), is_forwarded);
            Place::of(&headers, Some(first), &group)
        };
        let elsewhere = Place::Elsewhere("three".to_owned());
        for (epoch, expected) in [
            ("", Place::Here),
            (".1", Place::Here),
            (".2", Place::Gone),
            (".3", elsewhere),
            (".4", Place::NotYetKnown),
            (".0", Place::Gone),
            // These are no cookies of a host.
            (".three", Place::Here),
            (".-1", Place::Here),
            (".203.0.113.7:8443", Place::Here),
        ] {
            assert_eq!(place(epoch, false), expected, "{epoch}");
        }

        // A request goes one hop for its session.
        assert_eq!(place(".1", true), Place::Here);
        assert_eq!(place(".3", true), Place::Gone);
        assert_eq!(place(".4", true), Place::Gone);
    }

    #[test]
    fn nothing_but_the_session_goes_to_its_replica() {
        let id = "a".repeat(64);
        let sent = session_headers(&headers(&format!("{id}.7"), false));
        assert_eq!(sent.len(), 2, "{sent:?}");
        assert_eq!(sent[header::COOKIE], format!("{COOKIE}={id}.7"));
        assert!(sent[header::COOKIE].is_sensitive() && sent[SECRET].is_sensitive());
    }
}
