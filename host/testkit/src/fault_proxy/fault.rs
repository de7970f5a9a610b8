//! Faults of an answer, and the draw of a seed among them.

use std::time::Duration;

use hyper::{Response, header};
use rand::{Rng, rngs::StdRng, seq::IndexedRandom};
use serde_json::json;

use super::{Ask, BadEvent, body::Pipe, whole};

/// What goes wrong with one request. Counts of bytes and lines are of the answer's body; the
/// lines are of events, and bookmarks do not count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Nothing.
    None,
    /// The connection is closed without an answer.
    CloseBeforeHead,
    /// The connection is closed after the answer's head.
    CloseAfterHead,
    /// The answer comes late.
    Delay(Duration),
    /// No answer, while the connection stays open.
    StallBeforeHead,
    /// No byte any more after so many, while the connection stays open.
    Stall {
        /// Bytes before that.
        after: usize,
    },
    /// The connection is closed after so many bytes, most likely in the middle of an object.
    Cut {
        /// Bytes before that.
        after: usize,
    },
    /// The API server's own kind of error, with a Status.
    Status {
        /// The HTTP status.
        code: u16,
        /// The header Retry-After, in seconds.
        retry_after: Option<u32>,
    },
    /// A page for people, as some other proxy would answer.
    Html {
        /// The HTTP status.
        code: u16,
    },
    /// A good answer, after which the connection is closed: HTTP/1.1's way to say what GOAWAY says.
    ConnectionClose,
    /// A few bytes at a time.
    Slow {
        /// How many.
        bytes: usize,
        /// How often.
        every: Duration,
    },
    /// The empty list that a list brings comes as `items: null`, as Go writes an empty slice that was never made.
    NullItems,
    /// A watch ends well, as when its time is over.
    End {
        /// Lines before that.
        after: usize,
    },
    /// A watch ends with an ERROR event that says 410 Gone.
    Gone {
        /// Lines before that.
        after: usize,
    },
    /// An event comes twice.
    Duplicate {
        /// Which line, from 0.
        line: usize,
    },
    /// Something comes between the events of a watch, or the items of a list, that should not.
    Bad {
        /// What.
        what: BadEvent,
        /// Lines before that, at least 1; of a list, it is the first item.
        after: usize,
    },
}

impl Fault {
    /// A Status without Retry-After.
    pub fn status(code: u16) -> Self {
        Self::Status { code, retry_after: None }
    }

    /// Which kind of fault it is, in one or two words.
    pub fn label(&self) -> String {
        if let Self::Bad { what, .. } = self {
            return format!("Bad {what:?}");
        }
        let text = format!("{self:?}");
        text.split([' ', '(']).next().unwrap_or_default().to_owned()
    }

    /// The labels of all that seeds bring.
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
            Self::Slow { bytes: 1, every: Duration::ZERO },
            Self::NullItems,
            Self::End { after: 0 },
            Self::Gone { after: 0 },
            Self::Duplicate { line: 0 },
        ];
        let bad = BadEvent::ALL.map(|what| Self::Bad { what, after: 0 });
        one_of_each.iter().chain(&bad).map(Self::label).collect()
    }

    /// One by chance: for half of the lists, and for every watch, which ends soon at least. Few stalls, for each takes as
    /// long as the client is patient.
    pub(super) fn draw(random: &mut StdRng, ask: Ask, is_watch: bool) -> Self {
        let what = *BadEvent::ALL.choose(random).expect("some");
        let lines = random.random_range(0..6);
        let of_answers = [
            Self::CloseBeforeHead,
            Self::CloseAfterHead,
            Self::Delay(Duration::from_millis(random.random_range(10..200))),
            Self::Cut { after: random.random_range(0..3000) },
            Self::Cut { after: random.random_range(0..1500) },
            Self::status(409),
            Self::status(410),
            Self::Status { code: 429, retry_after: Some(1) },
            Self::status(500),
            Self::status(503),
            Self::Html { code: 200 },
            Self::Html { code: 502 },
            Self::ConnectionClose,
            Self::Slow { bytes: random.random_range(16..512), every: Duration::from_millis(2) },
            Self::NullItems,
            Self::Bad { what, after: 1 },
        ];
        let of_events = [
            Self::Gone { after: lines },
            Self::Duplicate { line: lines },
            Self::Duplicate { line: lines / 2 },
            Self::Bad { what, after: lines.max(1) },
            Self::Bad { what, after: (lines / 2).max(1) },
        ];
        let stalls = [Self::StallBeforeHead, Self::Stall { after: random.random_range(0..2000) }];
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
        "message": format!("{reason}: the fault proxy says so"),
    });
    let mut answer = whole(code, "application/json", status.to_string());
    if let Some(seconds) = retry_after {
        answer.headers_mut().insert(header::RETRY_AFTER, seconds.into());
    }
    answer
}

pub(super) fn html(code: u16) -> Response<Pipe> {
    let text = "<html><head><title>Bad Gateway</title></head><body><h1>Bad Gateway</h1></body></html>\n";
    whole(code, "text/html", text.to_owned())
}
