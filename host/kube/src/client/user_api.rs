//! Reads with a user's own token: any path, or a watch of it. The API server decides what the user
//! may read, as it does for kubectl.

use std::time::Duration;

use http::{Request, header::ACCEPT};
use kube::Client;
use operetta_core::{
    gate::path::{check_name, encoded},
    status::{ApiError, ErrorKind},
};

use crate::{
    client::api_client::{ApiClient, query},
    informer::frames::Lines,
};

/// Timeout of a response read in one piece.
const DEADLINE: Duration = Duration::from_secs(30);

/// The API server as one user sees it.
#[derive(Clone)]
pub struct UserApi {
    api_client: ApiClient,
}

/// The lines of a watch.
pub struct WatchLines {
    lines: Lines,
}

/// A request: the path with encoded segments ([`segment`]), the parameters, and the media type.
#[derive(Clone, Copy, Debug)]
pub struct Read<'a> {
    /// The path without a query.
    pub path: &'a str,
    /// The parameters. Those without a value are omitted.
    pub parameters: &'a [(&'a str, &'a str)],
    /// The header Accept.
    pub accept: &'static str,
}

impl Read<'_> {
    fn request(self) -> Result<Request<Vec<u8>>, ApiError> {
        let pairs: Vec<_> = self
            .parameters
            .iter()
            .copied()
            .filter(|(_, value)| !value.is_empty())
            .collect();

        let request = Request::get(self.path.to_owned() + &query(&pairs))
            .header(ACCEPT, self.accept)
            .body(Vec::new());
        request.map_err(|error| {
            ApiError::new(ErrorKind::BadRequest, format!("{}: {error}", self.path))
        })
    }
}

impl UserApi {
    /// Creates the API for a token. The client must not have credentials of its own.
    ///
    /// # Errors
    /// `BadRequest` if the token cannot be part of a header.
    pub fn new(client: Client, token: &str) -> Result<Self, ApiError> {
        Ok(Self {
            api_client: ApiClient::of_user(client, token)?,
        })
    }

    /// Reads a path. A response of more than `max_bytes` is refused with code 413.
    ///
    /// # Errors
    /// The API server's error, such as forbidden. Never retries.
    pub async fn read(&self, read: Read<'_>, max_bytes: usize) -> Result<String, ApiError> {
        let api_client = self.api_client.clone().reading_at_most(max_bytes);
        let answer = tokio::time::timeout(DEADLINE, api_client.send(read.request()?)).await;
        answer.unwrap_or_else(|_elapsed| {
            Err(ApiError::new(
                ErrorKind::TimedOut,
                format!("no response to {} within {DEADLINE:?}", read.path),
            ))
        })
    }

    /// Begins a watch.
    ///
    /// # Errors
    /// The API server's error, such as forbidden. Never retries.
    pub async fn watch(&self, read: Read<'_>) -> Result<WatchLines, ApiError> {
        let body = tokio::time::timeout(DEADLINE, self.api_client.open(read.request()?)).await;
        let body = body.unwrap_or_else(|_elapsed| {
            Err(ApiError::new(
                ErrorKind::TimedOut,
                format!("no watch of {} within {DEADLINE:?}", read.path),
            ))
        })?;
        Ok(WatchLines {
            lines: Lines::new(body),
        })
    }
}

impl WatchLines {
    /// Waits at most `patience` for the next event; None at the end of the watch. Cancel safe: a
    /// dropped call has taken no event.
    ///
    /// # Errors
    /// `TimedOut` if nothing arrived, `Unavailable` if the connection broke.
    pub async fn next(&mut self, patience: Duration) -> Result<Option<String>, ApiError> {
        loop {
            if let Some(line) = self.lines.next_line() {
                return Ok(Some(String::from_utf8_lossy(line).into_owned()));
            }
            if !self.lines.fill(patience).await? {
                return Ok(None);
            }
        }
    }
}

/// Encodes a name as a path segment; None if no object can have it.
pub fn segment(name: &str) -> Option<String> {
    check_name(name).ok().map(|()| encoded(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segment_cannot_leave_its_path() {
        assert_eq!(segment("system:node").as_deref(), Some("system:node"));
        assert_eq!(segment("<b>?x#y").as_deref(), Some("%3Cb%3E%3Fx%23y"));
        for name in ["", ".", "..", "a/b", "%2e%2e", "a%2Fb"] {
            assert_eq!(segment(name), None, "{name}");
        }
    }

    #[test]
    fn empty_parameters_are_left_out() {
        let parameters = [
            ("limit", "500"),
            ("continue", ""),
            ("labelSelector", "a in (b,c)"),
        ];
        let read = Read {
            path: "/api/v1/pods",
            parameters: &parameters,
            accept: "application/json",
        };
        let uri = read.request().expect("a request").uri().to_string();
        assert_eq!(
            uri,
            "/api/v1/pods?limit=500&labelSelector=a%20in%20%28b%2Cc%29"
        );
    }
}
