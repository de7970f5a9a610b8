//! Diagnoses a failed request: one sentence with the cause and the remedy.

use std::{error::Error, io};

use kube::core::Status;
use rustls::CertificateError;

use super::api_client::chain;

/// Why a request of the host itself failed.
pub fn diagnose(error: &kube::Error) -> String {
    if let kube::Error::Api(status) = error {
        let said = &status.message;
        if let Some(sentence) = of_namespace(status) {
            return sentence;
        }

        return match status.code {
            401 => format!(
                "the API server does not accept the host's credentials (401 Unauthorized): its token or client \
                 certificate is wrong, expired or revoked: {said}"
            ),
            403 => format!(
                "the API server denies a permission that the host needs (403 Forbidden): apply deploy/rbac, or run the host \
                 as a user with these permissions: {said}"
            ),
            code => format!("the API server responded with {code}: {said}"),
        };
    }

    let cause = chain(error);
    match causes(error).find_map(name) {
        Some(named) => format!("{named}: {cause}"),
        None => format!("no response from the API server: {cause}"),
    }
}

/// A sentence about a namespace that takes no new objects: it is missing, or on its way out.
fn of_namespace(status: &Status) -> Option<String> {
    let details = status.details.as_ref()?;
    let is_terminating = details
        .causes
        .iter()
        .any(|cause| cause.reason == "NamespaceTerminating");
    let said = &status.message;

    if is_terminating {
        return Some(format!(
            "the host's namespace is being deleted, and takes no new objects: {said}"
        ));
    }
    (status.code == 404 && details.kind == "namespaces").then(|| {
        format!(
            "the host's namespace does not exist: create namespace {}, or set another one in the \
             host's configuration (`namespace`): {said}",
            details.name
        )
    })
}

/// A sentence about a cause an operator can fix.
fn name(cause: &(dyn Error + 'static)) -> Option<&'static str> {
    if let Some(error) = cause.downcast_ref::<io::Error>() {
        return match error.kind() {
            io::ErrorKind::ConnectionRefused => {
                Some("the API server refuses the connection (is it running at this address?)")
            }
            io::ErrorKind::TimedOut => Some("the API server does not respond (is the network up?)"),
            _ => None,
        };
    }

    match cause.downcast_ref::<rustls::Error>()? {
        rustls::Error::InvalidCertificate(certificate) => Some(match certificate {
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
                "the API server's certificate has expired: renew it, or check this machine's clock"
            }
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
                "the API server's certificate is not valid yet: check this machine's clock"
            }
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                "the API server's certificate is for another name (is the address right?)"
            }
            _ => {
                "the API server's certificate is not signed by the configured certificate authority (wrong CA)"
            }
        }),
        rustls::Error::AlertReceived(_) => {
            Some("the API server refuses the TLS connection (is the client certificate valid?)")
        }
        _ => None,
    }
}

/// An error and its causes. An I/O error exposes the error it wraps only through `get_ref`.
pub(crate) fn causes<'a>(
    error: &'a (dyn Error + 'static),
) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |&error| {
        let wrapped = error
            .downcast_ref::<io::Error>()
            .and_then(io::Error::get_ref);
        match wrapped {
            Some(wrapped) => Some(wrapped as &(dyn Error + 'static)),
            None => error.source(),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed(cause: io::Error) -> String {
        diagnose(&kube::Error::Service(Box::new(cause)))
    }

    #[test]
    fn each_cause_has_its_sentence() {
        let certificate =
            |error| failed(io::Error::other(rustls::Error::InvalidCertificate(error)));
        let table = [
            (
                failed(io::ErrorKind::ConnectionRefused.into()),
                "refuses the connection",
            ),
            (certificate(CertificateError::Expired), "has expired"),
            (certificate(CertificateError::UnknownIssuer), "wrong CA"),
            (
                certificate(CertificateError::NotValidForName),
                "another name",
            ),
            (
                failed(io::Error::other("x")),
                "no response from the API server",
            ),
        ];
        for (sentence, words) in table {
            assert!(sentence.contains(words), "{sentence}");
        }
    }

    #[test]
    fn namespaces_without_room_are_named() {
        let status = |code: u16, details: serde_json::Value| {
            let status = serde_json::json!({
                "status": "Failure", "message": "said", "reason": "", "code": code, "details": details,
            });
            diagnose(&kube::Error::Api(
                serde_json::from_value(status).expect("a Status"),
            ))
        };

        let missing = status(404, serde_json::json!({"kind": "namespaces", "name": "a"}));
        assert!(missing.contains("create namespace a"), "{missing}");
        let causes =
            serde_json::json!([{"reason": "NamespaceTerminating", "message": "x", "field": "y"}]);
        let ending = status(403, serde_json::json!({"kind": "leases", "causes": causes}));
        assert!(ending.contains("is being deleted"), "{ending}");
        let other = status(404, serde_json::json!({"kind": "leases", "name": "a"}));
        assert!(
            other.starts_with("the API server responded with 404"),
            "{other}"
        );
    }

    #[test]
    fn refusals_keep_the_api_servers_words() {
        let status = |code| {
            let status = Status {
                code,
                message: "leases is forbidden".to_owned(),
                ..Default::default()
            };
            diagnose(&kube::Error::Api(Box::new(status)))
        };
        assert!(
            status(401).contains("401 Unauthorized") && status(401).contains("leases is forbidden")
        );
        assert!(status(403).contains("403 Forbidden") && status(403).contains("deploy/rbac"));
    }
}
