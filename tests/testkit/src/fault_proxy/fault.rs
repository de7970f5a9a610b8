//! The faults of a response, and the random choice of one by a seed.

use std::time::Duration;

use hyper::{Response, header};
use rand::{Rng, rngs::StdRng, seq::IndexedRandom};
use serde_json::json;

use super::{Ask, BadEvent, body::Pipe, whole};

/// The fault of one request. Counts of bytes and lines refer to the response's body. Lines are
/// events; bookmarks are not counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// No fault.
    None,
    /// The connection is closed without a response.
    CloseBeforeHead,
    /// The connection is closed after the response's head.
    CloseAfterHead,
    /// The response is delayed.
    Delay(Duration),
    /// The proxy does not answer, and the connection stays open.
    StallBeforeHead,
    /// The body stops after some bytes, and the connection stays open.
    Stall {
        /// The number of bytes before the stall.
        after: usize,
    },
    /// The connection is closed after some bytes, usually within an object.
    Cut {
        /// The number of bytes before the close.
        after: usize,
    },
    /// An error with a Status, as the API server sends it.
    Status {
        /// The HTTP status.
        code: u16,
        /// The value of the Retry-After header, in seconds.
        retry_after: Option<u32>,
    },
    /// An HTML page, as other proxies send it.
    Html {
        /// The HTTP status.
        code: u16,
    },
    /// A correct answer with `Connection: close`, the HTTP/1.1 counterpart of GOAWAY.
    ConnectionClose,
    /// The body arrives a few bytes at a time.
    Slow {
        /// The number of bytes at a time.
        bytes: usize,
        /// The pause after them.
        every: Duration,
    },
    /// An empty list has `items: null`, as Go encodes a nil slice.
    NullItems,
    /// A watch ends without an error, as it does after its timeout.
    End {
        /// The number of lines before the end.
        after: usize,
    },
    /// A watch ends with an ERROR event of 410 Gone.
    Gone {
        /// The number of lines before the error.
        after: usize,
    },
    /// An event is repeated.
    Duplicate {
        /// The index of its line, from 0.
        line: usize,
    },
    /// A [`BadEvent`] is inserted into the events of a watch or the items of a list.
    Bad {
        /// The event to insert.
        what: BadEvent,
        /// The number of lines before it, at least 1. In a list it is the first item.
        after: usize,
    },
}

impl Fault {
    /// Returns a Status without Retry-After.
    pub fn status(code: u16) -> Self {
        Self::Status {
            code,
            retry_after: None,
        }
    }

    /// Returns the kind of the fault, in one or two words.
    pub fn label(&self) -> String {
        if let Self::Bad { what, .. } = self {
            return format!("Bad {what:?}");
        }
        let text = format!("{self:?}");
        text.split([' ', '(']).next().unwrap_or_default().to_owned()
    }

    /// Returns the labels of all faults that a seed can produce.
    pub fn labels() -> Vec<String> {
        let one_of_each = [
            Self::CloseBeforeHead,
            Self::CloseAfterHead,
            Self::Delay(Duration::ZERO),
            Self::StallBeforeHead,
            Self::Stall { after: 0 },
            Self::Cut { after: 0 },
            Self::status(0),
            Self::Html { code: 0 },
            Self::ConnectionClose,
            Self::Slow {
                bytes: 1,
                every: Duration::ZERO,
            },
            Self::NullItems,
            Self::End { after: 0 },
            Self::Gone { after: 0 },
            Self::Duplicate { line: 0 },
        ];

        let bad = BadEvent::ALL.map(|what| Self::Bad { what, after: 0 });
        one_of_each.iter().chain(&bad).map(Self::label).collect()
    }

    /// Draws a fault. Half of the lists get one. Every watch gets one, if only an early end. Stalls
    /// are rare, because each lasts until the client times out.
    pub(super) fn draw(random: &mut StdRng, ask: Ask, is_watch: bool) -> Self {
        let what = *BadEvent::ALL.choose(random).expect("some");
        let lines = random.random_range(0..6);

        let of_answers = [
            Self::CloseBeforeHead,
            Self::CloseAfterHead,
            Self::Delay(Duration::from_millis(random.random_range(10..200))),
            Self::Cut {
                after: random.random_range(0..3000),
            },
            Self::Cut {
                after: random.random_range(0..1500),
            },
            Self::status(409),
            Self::status(410),
            Self::Status {
                code: 429,
                retry_after: Some(1),
            },
            Self::status(500),
            Self::status(503),
            Self::Html { code: 200 },
            Self::Html { code: 502 },
            Self::ConnectionClose,
            Self::Slow {
                bytes: random.random_range(16..512),
                every: Duration::from_millis(2),
            },
            Self::NullItems,
            Self::Bad { what, after: 1 },
        ];

        let of_events = [
            Self::Gone { after: lines },
            Self::Duplicate { line: lines },
            Self::Duplicate { line: lines / 2 },
            Self::Bad {
                what,
                after: lines.max(1),
            },
            Self::Bad {
                what,
                after: (lines / 2).max(1),
            },
        ];

        let stalls = [
            Self::StallBeforeHead,
            Self::Stall {
                after: random.random_range(0..2000),
            },
        ];

        let chance: f64 = random.random();
        let some = match ask {
            Ask::Watch => match chance {
                0.0..0.05 => &stalls[..],
                0.05..0.4 => &of_events[..],
                0.4..0.75 => &of_answers[..],
                _ => return Self::End { after: lines },
            },
            _ => match chance {
                0.0..0.02 => &stalls[..],
                0.02..0.15 if is_watch => &of_events[..],
                0.15..0.5 => &of_answers[..],
                _ if is_watch => return Self::End { after: 12 + lines },
                _ => return Self::None,
            },
        };

        some.choose(random).expect("some").clone()
    }
}

pub(super) fn status(code: u16, retry_after: Option<u32>) -> Response<Pipe> {
    let reason = match code {
        409 => "Conflict",
        410 => "Expired",
        429 => "TooManyRequests",
        503 => "ServiceUnavailable",
        _ => "InternalError",
    };

    let status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "code": code, "reason": reason,
        "message": format!("{reason}: injected by the fault proxy"),
    });

    let mut answer = whole(code, "application/json", status.to_string());
    if let Some(seconds) = retry_after {
        answer
            .headers_mut()
            .insert(header::RETRY_AFTER, seconds.into());
    }

    answer
}

pub(super) fn html(code: u16) -> Response<Pipe> {
    let text =
        "<html><head><title>Bad Gateway</title></head><body><h1>Bad Gateway</h1></body></html>\n";
    whole(code, "text/html", text.to_owned())
}
