//! The Service of the host, reached through the API server:
//! `/api/v1/namespaces/NAMESPACE/services/https:operetta:https/proxy/...`.
//!
//! The API server authenticates the user as for any other request, and forwards this one to a ready
//! replica. It removes the user's credentials, so the request carries a token in a header of its
//! own ([`FORWARDED`]). The token goes only to the kubeconfig's API server, and from there to the
//! Service in the namespace that the user names.

use anyhow::{Context, Error, Result, anyhow};
use http::{HeaderValue, Method, Request, StatusCode};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Bytes;
use k8s_openapi::{
    api::{
        authentication::v1::{TokenRequest, TokenRequestSpec},
        core::v1::ServiceAccount,
    },
    apimachinery::pkg::apis::meta::v1::Status,
};
use kube::{Api, Client, api::PostParams, client::Body};
use operetta_api::reasons;
use operetta_kube::client::{
    diagnosis::diagnose,
    own_token::{AUDIENCE, FORWARDED, SendOwnToken},
};

use super::host_response::HostResponse;
use crate::args::HostArgs;

/// The name of the Service and of its port, as in `deploy/`, the chart and the Role
/// `operetta-proxy`.
const SERVICE: &str = "operetta";
const PORT: &str = "https";

/// The default namespace of the Service.
const NAMESPACE: &str = "operetta-system";

/// How long a token of `--service-account` is valid: ten minutes is the API server's minimum.
const TOKEN_SECONDS: i64 = 600;

/// The maximum size of an error, in bytes.
const MAX_ERROR: usize = 64 << 10;

/// The Service of a host.
pub struct HostService<'a> {
    client: &'a Client,
    args: &'a HostArgs,
    /// The namespace of `--service-account`.
    accounts: &'a str,
}

impl<'a> HostService<'a> {
    /// Uses the Service that the arguments select. `accounts` is the namespace of
    /// `--service-account`.
    pub fn new(client: &'a Client, args: &'a HostArgs, accounts: &'a str) -> Self {
        Self {
            client,
            args,
            accounts,
        }
    }

    fn namespace(&self) -> &str {
        self.args.host_namespace.as_deref().unwrap_or(NAMESPACE)
    }

    /// The Service of the hosts of the class, as `operetta install --class` names it.
    fn name(&self) -> String {
        match &self.args.host_class {
            Some(class) => format!("{SERVICE}-{class}"),
            None => SERVICE.to_owned(),
        }
    }

    /// Sends a request without a body to the host. Returns None if there is no such Service, unless
    /// the arguments name its namespace or class.
    ///
    /// # Errors
    /// Returns the API server's reason not to forward the request, with the cure.
    pub async fn send(&self, method: Method, path: &str) -> Result<Option<HostResponse>> {
        let namespace = self.namespace();

        let service = self.name();
        let uri =
            format!("/api/v1/namespaces/{namespace}/services/https:{service}:{PORT}/proxy{path}");
        let request = match self.token().await? {
            Some(token) => Request::builder().header(FORWARDED, bearer(&token)?),
            None => Request::builder().extension(SendOwnToken),
        };

        let request = request.method(method).uri(uri);

        let response = self.client.send(request.body(Body::empty())?).await;
        let (head, body) = response
            .map_err(|error| anyhow!(diagnose(&error)))?
            .into_parts();

        let source = format!("the host of namespace {namespace}");
        if head.status.is_success() {
            return Ok(Some(HostResponse::new(
                head.status,
                &head.headers,
                body,
                source,
            )));
        }

        let body = Limited::new(body, MAX_ERROR).collect().await;
        let body = body
            .map_err(|error| anyhow!("failed to read the response of the API server: {error}"))?
            .to_bytes();

        match api_server_error(&body) {
            None => Ok(Some(HostResponse::new(
                head.status,
                &head.headers,
                Full::<Bytes>::new(body),
                source,
            ))),
            Some(_)
                if head.status == StatusCode::NOT_FOUND
                    && self.args.host_namespace.is_none()
                    && self.args.host_class.is_none() =>
            {
                Ok(None)
            }
            Some(message) => Err(not_forwarded(head.status, namespace, &message)),
        }
    }

    /// The token that the arguments name; None for the kubeconfig's.
    ///
    /// # Errors
    /// Returns an error if the API server creates no token of `--service-account`.
    pub async fn token(&self) -> Result<Option<String>> {
        let Some(name) = &self.args.service_account else {
            return Ok(self.args.token.clone());
        };

        let accounts: Api<ServiceAccount> = Api::namespaced(self.client.clone(), self.accounts);
        let audiences = vec![AUDIENCE.to_owned()];
        let spec = TokenRequestSpec {
            audiences,
            expiration_seconds: Some(TOKEN_SECONDS),
            bound_object_ref: None,
        };

        let request = TokenRequest {
            spec,
            ..TokenRequest::default()
        };

        let made = accounts
            .create_token_request(name, &PostParams::default(), &request)
            .await;

        let failed = || {
            format!(
                "failed to create a token of ServiceAccount {}/{name}",
                self.accounts
            )
        };

        Ok(made.with_context(failed)?.status.map(|status| status.token))
    }
}

/// The value of a header with a token.
fn bearer(token: &str) -> Result<HeaderValue> {
    let value = HeaderValue::try_from(format!("Bearer {token}"));
    let mut value =
        value.context("the token has a character that no token has, such as a line break")?;
    value.set_sensitive(true);
    Ok(value)
}

/// The message of an error of the API server itself; None if the host has responded, because its
/// errors are plain text.
fn api_server_error(body: &[u8]) -> Option<String> {
    let value: serde_json::Value = serde_json::from_slice(body).ok()?;
    if value["kind"] != "Status" {
        return None;
    }

    serde_json::from_value::<Status>(value)
        .ok()
        .map(|status| status.message.unwrap_or_default())
}

/// The error of a request that the API server did not forward.
fn not_forwarded(status: StatusCode, namespace: &str, message: &str) -> Error {
    let (reason, cure) = match status {
        StatusCode::NOT_FOUND => (
            reasons::SERVICE_NOT_FOUND,
            "is it the namespace of the host, and its class?".to_owned(),
        ),
        StatusCode::FORBIDDEN => {
            let cure = format!(
                "ask an administrator to bind the Role operetta-proxy in namespace {namespace} to you, or use --host for a host \
                 outside of the cluster"
            );
            (reasons::PROXY_FORBIDDEN, cure)
        }
        _ if message.contains("no endpoints available") => (
            reasons::NO_READY_REPLICA,
            format!("look at the Pods of namespace {namespace}"),
        ),
        StatusCode::BAD_GATEWAY | StatusCode::SERVICE_UNAVAILABLE | StatusCode::GATEWAY_TIMEOUT => {
            (
                reasons::SERVICE_UNREACHABLE,
                "does a NetworkPolicy keep the API server from the host's Pods?".to_owned(),
            )
        }
        _ => return anyhow!("the API server responded with {status}: {message}"),
    };

    reason.error(format!("{message}: {cure}")).into()
}

#[cfg(test)]
mod tests {
    use operetta_api::reasons::{CodedError, Reason};

    use super::*;

    fn reason(status: u16, message: &str) -> Option<Reason> {
        let error = not_forwarded(
            StatusCode::from_u16(status).expect("a status"),
            "operetta-system",
            message,
        );
        error.downcast_ref::<CodedError>().map(|coded| coded.reason)
    }

    #[test]
    fn error_of_the_api_server_has_a_code() {
        for (status, message, expected) in [
            (
                404,
                "endpoints \"operetta\" not found",
                Some(reasons::SERVICE_NOT_FOUND),
            ),
            (
                403,
                "services \"https:operetta:https\" is forbidden",
                Some(reasons::PROXY_FORBIDDEN),
            ),
            (
                503,
                "no endpoints available for service \"operetta\"",
                Some(reasons::NO_READY_REPLICA),
            ),
            (
                503,
                "error trying to reach service: dial tcp",
                Some(reasons::SERVICE_UNREACHABLE),
            ),
            (401, "Unauthorized", None),
        ] {
            assert_eq!(reason(status, message), expected, "{status} {message}");
        }
    }

    #[test]
    fn error_of_the_host_is_not_one_of_the_api_server() {
        let status = br#"{"kind": "Status", "apiVersion": "v1", "message": "no", "code": 404}"#;
        assert_eq!(api_server_error(status).as_deref(), Some("no"));
        for body in [&b"this host runs no plugin a/b"[..], b"{}", b"[]", b""] {
            assert_eq!(api_server_error(body), None);
        }
    }
}
