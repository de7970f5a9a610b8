//! Sends requests to both servers and compares the answers.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;

use crate::{
    exchange::{Answer, Request, Step},
    live::ControlPlane,
    normalize::normalize,
    own::OwnServer,
    report::Report,
    rules,
    values::Values,
};

/// The longest wait for a state.
const LONGEST_WAIT: Duration = Duration::from_secs(20);

/// What is known about both servers, and the results.
#[derive(Default)]
pub struct Comparison {
    values: Values,
    pub report: Report,
}

impl Comparison {
    /// Translates a request for the embedded server.
    pub fn to_own(&self, request: &Request) -> Request {
        self.values.to_own(request)
    }

    /// Compares the answers that both servers gave to a request, at a time.
    pub fn check(
        &mut self,
        source: &str,
        request: &Request,
        real: &Answer,
        own: &Answer,
        now: Timestamp,
    ) {
        self.values
            .learn(request.method != "GET", &real.body, &own.body);
        self.values.note_refusal(request, real, own);

        let (mut real, mut own) = (real.clone(), own.clone());
        self.values.to_real(&mut own.body);
        normalize(&mut real, now);
        normalize(&mut own, now);

        let (used, left) = rules::apply(&self.values, request, &real, &own);
        self.report.add(source, request, &used, &left);
    }
}

/// Both servers of a run.
pub struct Runner {
    pub real: ControlPlane,
    pub own: OwnServer,
    pub comparison: Comparison,
    pub steps: Vec<Step>,
    pub source: &'static str,
    /// Whether the answers become part of a recording.
    pub is_recording: bool,
    /// The time of the last request.
    at: i64,
}

impl Runner {
    pub fn start() -> Self {
        let (real, own) = (ControlPlane::start(), OwnServer::start(Timestamp::now));

        Self {
            real,
            own,
            comparison: Comparison::default(),
            steps: Vec::new(),
            source: "",
            is_recording: true,
            at: 0,
        }
    }

    /// Sends a request to both servers, and returns the real one's answer.
    pub async fn send(&mut self, request: Request) -> Answer {
        let own_request = self.comparison.to_own(&request);
        self.at = Timestamp::now().as_millisecond();
        let (real, own) = tokio::join!(self.real.send(&request), self.own.send(&own_request));
        self.compared(request, real.clone(), &own);
        real
    }

    /// Compares two answers, and records the real one.
    pub fn compared(&mut self, request: Request, real: Answer, own: &Answer) {
        self.comparison
            .check(self.source, &request, &real, own, Timestamp::now());
        self.record(Step::Exchange {
            source: self.source.into(),
            at: self.at,
            q: request,
            a: real,
        });
    }

    /// Waits until both servers answer a GET with a code and, at a JSON pointer, a value.
    pub async fn wait(&mut self, path: &str, code: u16, pointer: &str, value: &Value) {
        let request = Request::get(path);
        let until = tokio::time::Instant::now() + LONGEST_WAIT;

        while !has(&self.real.send(&request).await, code, pointer, value)
            && tokio::time::Instant::now() < until
        {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }

        wait_own(&self.own, &self.comparison, path, code, pointer, value).await;

        self.record(Step::Wait {
            wait: path.into(),
            code,
            pointer: pointer.into(),
            value: value.clone(),
        });
    }

    fn record(&mut self, step: Step) {
        if self.is_recording {
            self.steps.push(step);
        }
    }

    /// Gives the real server's informers some time.
    pub async fn settle(&self, milliseconds: u64) {
        tokio::time::sleep(Duration::from_millis(milliseconds)).await;
    }
}

/// Waits for a state of the embedded server.
pub async fn wait_own(
    own: &OwnServer,
    comparison: &Comparison,
    path: &str,
    code: u16,
    pointer: &str,
    value: &Value,
) {
    let request = comparison.to_own(&Request::get(path));
    for _ in 0..200 {
        if has(&own.send(&request).await, code, pointer, value) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

fn has(answer: &Answer, code: u16, pointer: &str, value: &Value) -> bool {
    answer.code == code && (pointer.is_empty() || answer.body.pointer(pointer) == Some(value))
}
