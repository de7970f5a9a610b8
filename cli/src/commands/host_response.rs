//! The response of a host, with the code and the cure of an error.

use anyhow::{Context, Result, anyhow, bail};
use http::{HeaderMap, StatusCode};
use http_body_util::{BodyExt, Limited, combinators::UnsyncBoxBody};
use hyper::body::{Body, Bytes};
use operetta_api::reasons::{self, Reason};
use operetta_manager::admin::headers::{REASON, REPLICA};
use serde::de::DeserializeOwned;

/// The maximum size of a host's response, in bytes.
const MAX_ANSWER: usize = 64 << 20;

/// The response of a host.
pub struct HostResponse {
    /// The status.
    pub status: StatusCode,
    /// The identity of the replica that responded, if it says so.
    pub replica: Option<String>,
    /// The code of an error.
    reason: Option<Reason>,
    body: UnsyncBoxBody<Bytes, anyhow::Error>,
    /// The way to the host, for messages.
    source: String,
}

impl HostResponse {
    /// Takes a response from `source`.
    pub(super) fn new<B>(status: StatusCode, headers: &HeaderMap, body: B, source: String) -> Self
    where
        B: Body<Data = Bytes> + Send + 'static,
        B::Error: Into<anyhow::Error>,
    {
        let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        let replica = text(REPLICA).map(str::to_owned);
        let reason = text(REASON).and_then(reasons::find);

        Self {
            status,
            replica,
            reason,
            body: body.map_err(Into::into).boxed_unsync(),
            source,
        }
    }

    /// Returns the next piece of the body; None at its end.
    ///
    /// # Errors
    /// Returns an error if the connection ends before the body.
    pub async fn next(&mut self) -> Result<Option<Bytes>> {
        while let Some(frame) = self.body.frame().await {
            let frame = frame.with_context(|| format!("failed to read from {}", self.source))?;
            if let Ok(data) = frame.into_data() {
                return Ok(Some(data));
            }
        }
        Ok(None)
    }

    /// Reads the whole body.
    ///
    /// # Errors
    /// Returns an error if the body is truncated or too long.
    pub async fn whole(self) -> Result<Bytes> {
        let body = Limited::new(self.body, MAX_ANSWER).collect().await;
        Ok(body
            .map_err(|error| anyhow!("failed to read the response of {}: {error}", self.source))?
            .to_bytes())
    }

    /// Returns the response if it is not an error.
    ///
    /// # Errors
    /// Returns what the host reports, with the cure.
    pub async fn checked(self) -> Result<Self> {
        if self.status.is_success() {
            return Ok(self);
        }

        let Self { status, reason, .. } = self;
        let source = self.source.clone();
        let body = self.whole().await?;
        let message = String::from_utf8_lossy(&body);

        match reason {
            Some(reason) => bail!(reason.error(with_cure(reason, &message))),
            None => bail!("{source} returned {status}: {message}"),
        }
    }

    /// Decodes the body of a response that is not an error.
    ///
    /// # Errors
    /// Returns what the host reports, or an error if the body is of another version.
    pub async fn decoded<T: DeserializeOwned>(self) -> Result<T> {
        let response = self.checked().await?;
        let source = response.source.clone();
        let body = response.whole().await?;

        serde_json::from_slice(&body).with_context(|| {
            format!("failed to decode the response of {source}: is it a host of this version?")
        })
    }
}

/// Adds the cure, in terms of these commands, to a host's error.
fn with_cure(reason: Reason, message: &str) -> String {
    if reason == reasons::TOKEN_MISSING {
        return "the kubeconfig has no token for the host, which sees no client certificate: use --service-account NAME, or \
                --token \"$(kubectl create token NAME -n NAMESPACE)\""
            .to_owned();
    }

    if reason != reasons::ENDPOINT_FORBIDDEN {
        return message.to_owned();
    }

    if message.contains("cannot get path") {
        return format!(
            "{message}: ask an administrator for a ClusterRole with this nonResourceURL"
        );
    }

    let role = if message.contains("\"plugins/retry\"") {
        "operetta-retrier"
    } else {
        "operetta-log-reader"
    };

    format!("{message}: ask an administrator to bind the ClusterRole {role} there to you")
}
