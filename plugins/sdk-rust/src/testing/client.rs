//! A connection to the test server: each request and each response is one line of JSON.
//! docs/testing-protocol.md describes the messages.

use std::env;
use std::ffi::OsString;
use std::io::{BufRead, BufReader, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, OnceLock};

use operetta_api::Cause;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::locked;
use crate::{ApiError, ErrorKind, Status};

/// The variable that `operetta test` sets.
const ADDRESS: &str = "OPERETTA_TEST_ADDRESS";
/// The variable that names the program `operetta`.
const PROGRAM: &str = "OPERETTA";

/// A connection, and with it a cluster of its own.
pub(super) struct Client {
    connection: Mutex<BufReader<TcpStream>>,
    /// The API server's warnings about the calls since they were last taken.
    warnings: Mutex<Vec<String>>,
}

#[derive(Deserialize)]
struct Response {
    ok: Option<Box<RawValue>>,
    error: Option<Refusal>,
    failure: Option<String>,
    #[serde(default)]
    warnings: Vec<String>,
}

#[derive(Deserialize)]
struct Refusal {
    r#type: String,
    status: Refused,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Refused {
    code: u16,
    reason: String,
    message: String,
    causes: Vec<Cause>,
    retry_after_seconds: Option<u32>,
}

impl Client {
    /// Opens a cluster.
    ///
    /// # Panics
    /// Panics if there is no server and none can be started: a test cannot go on.
    pub(super) fn open() -> Self {
        Self::try_open().unwrap_or_else(|error| panic!("{error}"))
    }

    fn try_open() -> Result<Self, String> {
        let address = address()?;
        let (token, address) = address
            .split_once('@')
            .ok_or_else(|| format!("{ADDRESS} is {address:?}, not TOKEN@ADDRESS"))?;

        let failed = |error: std::io::Error| {
            format!("failed to connect to the test server at {address}: {error}")
        };
        let stream = TcpStream::connect(address).map_err(failed)?;
        stream.set_nodelay(true).map_err(failed)?;

        let client = Self {
            connection: Mutex::new(BufReader::new(stream)),
            warnings: Mutex::default(),
        };

        match client.call(&json!({"call": "open", "token": token})) {
            Ok(_) => Ok(client),
            Err(error) => Err(format!(
                "failed to open a test cluster at {address}: {error}"
            )),
        }
    }

    /// Makes a call. Returns the JSON text of its value.
    ///
    /// # Errors
    /// Returns the API server's error.
    ///
    /// # Panics
    /// Panics if the server is gone, or the call is not part of the protocol.
    #[track_caller]
    pub(super) fn call(&self, request: &Value) -> Result<String, ApiError> {
        match self.ask(request) {
            Ok(Response {
                ok: Some(value), ..
            }) => Ok(value.get().to_owned()),
            Ok(Response {
                error: Some(refusal),
                ..
            }) => Err(refusal.into_error()),
            Ok(Response {
                failure: Some(text),
                ..
            })
            | Err(text) => panic!("{text}"),
            // serde reads `null` as no value.
            Ok(_) => Ok("null".to_owned()),
        }
    }

    fn ask(&self, request: &Value) -> Result<Response, String> {
        let line = self.exchange(request)?;
        let mut response: Response = serde_json::from_str(&line)
            .map_err(|error| format!("a response of the test server is malformed: {error}"))?;
        locked(&self.warnings).append(&mut response.warnings);
        Ok(response)
    }

    /// Takes the warnings about the calls since the last time.
    pub(super) fn take_warnings(&self) -> Vec<String> {
        std::mem::take(&mut *locked(&self.warnings))
    }

    /// Describes the cluster for a failed test; None if the server is gone.
    pub(super) fn dump(&self) -> Option<String> {
        let response = self.ask(&json!({"call": "dump"})).ok()?;
        serde_json::from_str(response.ok?.get()).ok()
    }

    fn exchange(&self, request: &Value) -> Result<String, String> {
        let mut connection = locked(&self.connection);
        let gone = |error: std::io::Error| format!("the test server is gone: {error}");
        connection
            .get_mut()
            .write_all(format!("{request}\n").as_bytes())
            .map_err(gone)?;

        let mut line = String::new();
        if connection.read_line(&mut line).map_err(gone)? == 0 {
            return Err(format!(
                "the test server has closed the connection: is {ADDRESS} that of a running server?"
            ));
        }

        Ok(line)
    }
}

impl Refusal {
    fn into_error(self) -> ApiError {
        let Refused {
            code,
            reason,
            message,
            causes,
            retry_after_seconds,
        } = self.status;

        let status = Status {
            code,
            reason,
            message,
            causes,
            retry_after_seconds,
        };

        match kind(&self.r#type) {
            Some(kind) => ApiError::with_status(kind, status),
            None => ApiError::from_status(status),
        }
    }
}

fn kind(case: &str) -> Option<ErrorKind> {
    Some(match case {
        "not-found" => ErrorKind::NotFound,
        "already-exists" => ErrorKind::AlreadyExists,
        "conflict" => ErrorKind::Conflict,
        "invalid" => ErrorKind::Invalid,
        "bad-request" => ErrorKind::BadRequest,
        "forbidden" => ErrorKind::Forbidden,
        "expired" => ErrorKind::Expired,
        "too-many-requests" => ErrorKind::TooManyRequests,
        "unavailable" => ErrorKind::Unavailable,
        "timed-out" => ErrorKind::TimedOut,
        "other" => ErrorKind::Other,
        _ => return None,
    })
}

/// The address of the server: that of `operetta test`, or of a server that this process starts
/// once.
fn address() -> Result<String, String> {
    static STARTED: OnceLock<Result<Started, String>> = OnceLock::new();
    if let Ok(address) = env::var(ADDRESS) {
        return Ok(address);
    }

    STARTED
        .get_or_init(Started::start)
        .as_ref()
        .map(|started| started.address.clone())
        .map_err(Clone::clone)
}

/// A server started by this process. It ends when the process does, because that closes its stdin.
struct Started {
    address: String,
    _server: Child,
}

impl Started {
    fn start() -> Result<Self, String> {
        let program = env::var_os(PROGRAM).filter(|program| !program.is_empty());
        let program = program.unwrap_or_else(|| OsString::from("operetta"));

        let name = program.to_string_lossy().into_owned();
        let mut command = Command::new(&program);
        command
            .args(["test", "--serve"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());

        let mut server = command.spawn().map_err(|error| {
            format!(
                "failed to start the test server, {name}: {error}: run the tests with `operetta test`, or put `operetta` \
                 on PATH, or set {PROGRAM} to its path"
            )
        })?;

        let mut address = String::new();
        let stdout = server
            .stdout
            .take()
            .ok_or("the test server has no stdout")?;

        let read = BufReader::new(stdout).read_line(&mut address);
        read.map_err(|error| {
            format!("failed to read the address of the test server, {name}: {error}")
        })?;

        if address.is_empty() {
            return Err(format!(
                "the test server, `{name} test --serve`, has ended: see its error above"
            ));
        }

        Ok(Self {
            address: address.trim().to_owned(),
            _server: server,
        })
    }
}
