//! The sessions of people who signed in. A token stays in this replica's memory; the browser gets a
//! random id in a cookie and a random secret that only the page itself keeps.
//!
//! A browser sends the cookies of a host to all of its ports, so on 127.0.0.1 any other program that
//! somebody visits sees the id. It never sees the secret: `sessionStorage` belongs to one origin,
//! which has a port. Neither opens anything without the other.
//!
//! The cookie also has the epoch of this replica, so that the others know where the session is
//! ([`super::elsewhere`]).

use std::{
    collections::HashMap,
    fmt::{self, Write},
    time::Duration,
};

use axum::http::{HeaderMap, header};
use operetta_core::replicas::Epoch;
use parking_lot::Mutex;
use tokio::time::Instant;
use zeroize::Zeroizing;

use crate::admin::shares;

/// The name of the cookie.
pub(super) const COOKIE: &str = "operetta-session";

/// The request header with the secret.
pub(super) const SECRET: &str = "x-operetta-session";

/// The maximum number of sessions of one user. One more ends the user's least recently used one.
const OF_USER: usize = 20;

/// The maximum number of sessions of all users together.
const IN_ALL: usize = 1_000;

/// How long a session may be unused. An open stream uses it.
const IDLE: Duration = Duration::from_secs(60 * 60);

/// How long a session lasts.
const LONGEST: Duration = Duration::from_secs(12 * 60 * 60);

/// 256 random bits, written as 64 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Key([u8; 32]);

impl Key {
    /// Creates a key with the operating system's randomness behind it.
    fn random() -> Self {
        Self(rand::random())
    }

    fn parse(text: &str) -> Option<Self> {
        let mut key = [0; 32];
        if text.len() != 2 * key.len() || !text.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return None;
        }
        for (byte, start) in key.iter_mut().zip((0..).step_by(2)) {
            *byte = u8::from_str_radix(text.get(start..start + 2)?, 16).ok()?;
        }
        Some(Self(key))
    }

    /// Compares without telling by the time it takes how many bytes are equal.
    fn is(&self, other: &Self) -> bool {
        let different = self.0.iter().zip(&other.0);
        different.fold(0, |bits, (a, b)| bits | (a ^ b)) == 0
    }

    /// Returns the digits.
    pub(super) fn digits(&self) -> String {
        let mut digits = String::with_capacity(64);
        for byte in self.0 {
            let _never_fails = write!(digits, "{byte:02x}");
        }
        digits
    }
}

/// The value of the cookie: `ID.EPOCH`. A replica that hasn't joined the others has no epoch yet.
#[derive(Clone, Copy)]
pub(super) struct Cookie {
    pub id: Key,
    /// The epoch of the replica that has the session.
    pub epoch: Option<Epoch>,
}

impl Cookie {
    fn parse(text: &str) -> Option<Self> {
        let (id, epoch) = match text.split_once('.') {
            Some((id, epoch)) => (id, Some(Epoch(epoch.parse().ok()?))),
            None => (text, None),
        };
        let id = Key::parse(id)?;
        Some(Self { id, epoch })
    }

    /// Returns the first one of a request.
    pub(super) fn of(headers: &HeaderMap) -> Option<Self> {
        let lines = headers
            .get_all(header::COOKIE)
            .iter()
            .filter_map(|line| line.to_str().ok());
        let mut cookies = lines
            .flat_map(|line| line.split(';'))
            .filter_map(|pair| pair.trim().split_once('='));
        cookies
            .find(|(name, _)| *name == COOKIE)
            .and_then(|(_, value)| Self::parse(value))
    }
}

impl fmt::Display for Cookie {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.id.digits())?;
        match self.epoch {
            Some(Epoch(epoch)) => write!(f, ".{epoch}"),
            None => Ok(()),
        }
    }
}

/// What a browser needs to use a session.
pub(super) struct Opened {
    /// For the cookie.
    pub id: Key,
    /// For the page.
    pub secret: Key,
}

/// A session of a request, with the user's token.
pub(super) struct Used {
    pub id: Key,
    pub token: Zeroizing<String>,
}

/// The open sessions of this replica.
#[derive(Default)]
pub(super) struct Sessions(Mutex<HashMap<Key, Kept>>);

struct Kept {
    secret: Key,
    /// Zeroed when the session ends.
    token: Zeroizing<String>,
    /// The user; all ServiceAccounts of a namespace are one.
    owner: String,
    opened: Instant,
    used: Instant,
}

impl Kept {
    fn is_over(&self) -> bool {
        self.used.elapsed() >= IDLE || self.opened.elapsed() >= LONGEST
    }
}

impl Sessions {
    /// Opens a session for a token of this user.
    pub(super) fn open(&self, user: &str, token: &str) -> Opened {
        let owner = shares::owner(user);
        let mut kept = self.0.lock();
        kept.retain(|_, session| !session.is_over());

        let of_owner = kept
            .values()
            .filter(|session| session.owner == owner)
            .count();
        if of_owner >= OF_USER {
            end_oldest(&mut kept, |session| session.owner == owner);
        } else if kept.len() >= IN_ALL {
            end_oldest(&mut kept, |_| true);
        }

        let opened = Opened {
            id: Key::random(),
            secret: Key::random(),
        };
        let now = Instant::now();
        let session = Kept {
            secret: opened.secret,
            token: Zeroizing::new(token.to_owned()),
            owner: owner.to_owned(),
            opened: now,
            used: now,
        };
        kept.insert(opened.id, session);
        opened
    }

    /// Returns the session that a request's cookie and secret name.
    pub(super) fn of(&self, headers: &HeaderMap) -> Option<Used> {
        let (id, secret) = (Cookie::of(headers)?.id, secret(headers)?);
        let mut kept = self.0.lock();
        let session = kept
            .get_mut(&id)
            .filter(|session| !session.is_over() && session.secret.is(&secret))?;
        session.used = Instant::now();
        Some(Used {
            id,
            token: session.token.clone(),
        })
    }

    /// Reports whether a request's cookie names an open session. This proves nothing about who sent
    /// the request.
    pub(super) fn knows_cookie(&self, headers: &HeaderMap) -> bool {
        let kept = self.0.lock();
        Cookie::of(headers)
            .and_then(|cookie| kept.get(&cookie.id))
            .is_some_and(|session| !session.is_over())
    }

    /// Notes that an open stream uses the session. False if the session has ended.
    pub(super) fn still_used(&self, id: Key) -> bool {
        let mut kept = self.0.lock();
        let Some(session) = kept.get_mut(&id).filter(|session| !session.is_over()) else {
            return false;
        };
        session.used = Instant::now();
        true
    }

    /// Ends the session that a request's cookie and secret name.
    pub(super) fn end(&self, headers: &HeaderMap) {
        if let Some(Used { id, .. }) = self.of(headers) {
            self.0.lock().remove(&id);
        }
    }

    /// Forgets the sessions that are over.
    pub(super) fn sweep(&self) {
        self.0.lock().retain(|_, session| !session.is_over());
    }
}

/// Ends the least recently used of these sessions.
fn end_oldest(kept: &mut HashMap<Key, Kept>, is_candidate: impl Fn(&Kept) -> bool) {
    let candidates = kept.iter().filter(|(_, session)| is_candidate(session));
    let oldest = candidates.min_by_key(|(_, session)| session.used);
    if let Some(id) = oldest.map(|(id, _)| *id) {
        kept.remove(&id);
    }
}

/// Returns a request's secret.
pub(super) fn secret(headers: &HeaderMap) -> Option<Key> {
    Key::parse(headers.get(SECRET)?.to_str().ok()?)
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn headers(id: &str, secret: Option<&Key>) -> HeaderMap {
        let mut headers = HeaderMap::new();
        let line = format!("theme=dark; {COOKIE}={id}; other={COOKIE}");
        let line = HeaderValue::from_str(&line).expect("a value");
        headers.insert(header::COOKIE, line);
        if let Some(secret) = secret {
            let value = HeaderValue::from_str(&secret.digits()).expect("a value");
            headers.insert(SECRET, value);
        }
        headers
    }

    fn both(opened: &Opened) -> HeaderMap {
        headers(&opened.id.digits(), Some(&opened.secret))
    }

    fn token(sessions: &Sessions, headers: &HeaderMap) -> Option<String> {
        sessions.of(headers).map(|used| used.token.to_string())
    }

    #[tokio::test(start_paused = true)]
    async fn cookie_opens_nothing_without_the_secret_of_its_session() {
        let sessions = Sessions::default();
        let jane = sessions.open("jane", "token-of-jane");
        let other = sessions.open("jane", "other-token");
        assert_eq!(
            token(&sessions, &both(&jane)).as_deref(),
            Some("token-of-jane")
        );

        let id = jane.id.digits();
        for (id, secret) in [
            (id.as_str(), None),
            (&id, Some(&jane.id)),
            (&id, Some(&other.secret)),
            (&id[1..], Some(&jane.secret)),
            ("", Some(&jane.secret)),
            (&"g".repeat(64), Some(&jane.secret)),
            (&"é".repeat(32), Some(&jane.secret)),
            (&format!("{id}."), Some(&jane.secret)),
            (&format!("{id}.a"), Some(&jane.secret)),
        ] {
            assert_eq!(token(&sessions, &headers(id, secret)), None, "{id}");
        }
        assert!(sessions.knows_cookie(&headers(&id, None)));

        // Which replica has the session is no part of its name.
        let cookie = Cookie {
            id: jane.id,
            epoch: Some(Epoch(7)),
        };
        let with_epoch = headers(&cookie.to_string(), Some(&jane.secret));
        assert_eq!(
            token(&sessions, &with_epoch).as_deref(),
            Some("token-of-jane")
        );
        let read = Cookie::of(&with_epoch).and_then(|cookie| cookie.epoch);
        assert_eq!(read, Some(Epoch(7)));

        // The cookie alone ends nothing either.
        sessions.end(&headers(&id, None));
        assert!(sessions.of(&both(&jane)).is_some());
        sessions.end(&both(&jane));
        assert!(sessions.of(&both(&jane)).is_none() && !sessions.still_used(jane.id));
        assert!(!sessions.knows_cookie(&headers(&id, None)));
        assert!(sessions.of(&both(&other)).is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn unused_and_old_sessions_end() {
        let sessions = Sessions::default();
        let (used, unused) = (sessions.open("a", "1"), sessions.open("a", "2"));
        let half = IDLE / 2;
        for _ in 0..3 {
            tokio::time::advance(half).await;
            assert!(sessions.still_used(used.id));
        }
        assert!(sessions.of(&both(&unused)).is_none());

        sessions.sweep();
        assert_eq!(sessions.0.lock().len(), 1, "its token is forgotten");

        let mut left = LONGEST - 3 * half;
        while left > half {
            tokio::time::advance(half).await;
            assert!(sessions.of(&both(&used)).is_some());
            left -= half;
        }
        tokio::time::advance(left).await;
        assert!(sessions.of(&both(&used)).is_none() && !sessions.still_used(used.id));
    }

    #[tokio::test(start_paused = true)]
    async fn user_has_a_bounded_number_of_sessions() {
        let sessions = Sessions::default();
        let other = sessions.open("system:serviceaccount:other:a", "1");
        let mut opened = Vec::new();
        for number in 0..OF_USER {
            let user = format!("system:serviceaccount:team:{number}");
            opened.push(sessions.open(&user, "2"));
            tokio::time::advance(Duration::from_secs(1)).await;
        }
        assert!(sessions.still_used(opened[0].id));

        sessions.open("system:serviceaccount:team:late", "3");
        assert!(sessions.still_used(opened[0].id), "it was used");
        assert!(!sessions.still_used(opened[1].id), "the oldest one");
        assert!(sessions.still_used(opened[2].id) && sessions.still_used(other.id));
        assert_eq!(sessions.0.lock().len(), 1 + OF_USER);

        for number in 0..IN_ALL + 10 {
            sessions.open(&format!("user-{number}"), "4");
        }
        assert_eq!(sessions.0.lock().len(), IN_ALL);
    }
}
