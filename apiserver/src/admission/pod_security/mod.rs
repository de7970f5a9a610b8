//! The admission plugin PodSecurity: the levels `baseline` and `restricted` of the Pod Security
//! Standards, by the labels of a Namespace.
//!
//! It knows the latest version of the levels only; labels for other versions are refused. Unlike
//! kube-apiserver it does not warn about existing Pods when the labels of a Namespace change.

mod baseline;
mod restricted;
mod view;

use serde_json::{Value, json};

use self::view::PodView;
use super::request::{AdmissionRequest, Operation};
use crate::{
    apimachinery::{field::FieldError, status::Status},
    authz::objects::{Objects, text},
};

const PREFIX: &str = "pod-security.kubernetes.io/";
const MODES: [&str; 3] = ["enforce", "audit", "warn"];
/// Subresources of Pods that cannot change what is checked.
const IGNORED: [&str; 8] = [
    "exec",
    "attach",
    "binding",
    "eviction",
    "log",
    "portforward",
    "proxy",
    "status",
];

/// A level, the less strict first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Level {
    Privileged,
    Baseline,
    Restricted,
}

impl Level {
    fn parse(label: &str) -> Option<Self> {
        Some(match label {
            "privileged" => Self::Privileged,
            "baseline" => Self::Baseline,
            "restricted" => Self::Restricted,
            _ => return None,
        })
    }

    fn name(self) -> &'static str {
        match self {
            Self::Privileged => "privileged:latest",
            Self::Baseline => "baseline:latest",
            Self::Restricted => "restricted:latest",
        }
    }

    /// Returns why a Pod is not of this level; None if it is.
    fn violation(self, pod: &PodView<'_>) -> Option<String> {
        let violations = match self {
            Self::Privileged => Vec::new(),
            Self::Baseline => baseline::check(pod, false),
            Self::Restricted => {
                let mut violations = baseline::check(pod, true);
                violations.extend(restricted::check(pod));
                violations
            }
        };

        let shown: Vec<String> = violations
            .into_iter()
            .map(|(reason, detail)| {
                if detail.is_empty() {
                    reason
                } else {
                    format!("{reason} ({detail})")
                }
            })
            .collect();

        (!shown.is_empty()).then(|| shown.join(", "))
    }
}

/// The levels of a Namespace.
#[derive(Debug, Clone, Copy)]
struct Levels {
    enforce: Level,
    warn: Level,
}

fn label<'n>(namespace: &'n Value, name: &str) -> &'n str {
    namespace["metadata"]["labels"]
        .get(format!("{PREFIX}{name}"))
        .and_then(Value::as_str)
        .unwrap_or_default()
}

impl Levels {
    /// Returns the levels by the labels. An invalid level to enforce is `restricted`, one to warn
    /// about `privileged`.
    fn of(namespace: &Value) -> Self {
        let enforce = label(namespace, "enforce");
        let parsed = Level::parse(enforce);
        let enforce = match enforce {
            "" => Level::Privileged,
            _ => parsed.unwrap_or(Level::Restricted),
        };
        let warn = match label(namespace, "warn") {
            "" => parsed.unwrap_or(Level::Privileged),
            level => Level::parse(level).unwrap_or(Level::Privileged),
        };

        Self { enforce, warn }
    }
}

/// Checks the labels of a Namespace that is to be stored.
///
/// # Errors
/// `Invalid` for an unknown level; `Unsupported` for another version than the latest.
pub fn check_namespace(namespace: &Value) -> Result<(), Status> {
    let mut causes = Vec::new();
    for mode in MODES {
        let level = label(namespace, mode);
        if !level.is_empty() && Level::parse(level).is_none() {
            let field = format!("metadata.labels[{PREFIX}{mode}]");
            causes.push(FieldError::invalid(
                field,
                json!(level),
                "must be one of privileged, baseline, restricted",
            ));
        }

        let version = label(namespace, &format!("{mode}-version"));
        if !matches!(version, "" | "latest") {
            let message = format!(
                "the embedded API server does not support version {version} of the Pod Security levels"
            );
            return Err(Status::unsupported(message));
        }
    }

    if causes.is_empty() {
        return Ok(());
    }

    Err(Status::invalid(
        "",
        "Namespace",
        text(namespace, &["metadata", "name"]),
        causes,
    ))
}

/// Admits a request for a Pod, or for an object that makes Pods. Returns the text of a `Warning`
/// header, if any.
///
/// # Errors
/// `Forbidden` if the Pod is not of the level that its Namespace enforces.
pub fn admit(
    request: &AdmissionRequest<'_>,
    objects: &dyn Objects,
) -> Result<Option<String>, Status> {
    let writes = matches!(request.operation, Operation::Create | Operation::Update);
    let Some(object) = request
        .object
        .filter(|_| writes && !request.namespace.is_empty())
    else {
        return Ok(None);
    };

    let endpoint = request.endpoint;
    let is_pod = endpoint.group.is_empty() && endpoint.resource == "pods";
    let Some(template) = template(&endpoint.group, &endpoint.resource, object) else {
        return Ok(None);
    };
    if is_pod && IGNORED.contains(&request.subresource)
        || !is_pod && !request.subresource.is_empty()
    {
        return Ok(None);
    }

    let is_unchanged = |old: &Value| is_pod && view::images(old) == view::images(object);
    if request.old.is_some_and(is_unchanged) {
        return Ok(None);
    }
    let Some(namespace) = objects.get("", "namespaces", "", request.namespace) else {
        return Ok(None);
    };
    let levels = Levels::of(&namespace);
    let pod = PodView::new(template);

    if let Some(violation) = levels.enforce.violation(&pod).filter(|_| is_pod) {
        return Err(request.forbidden(&format!(
            "violates PodSecurity \"{}\": {violation}",
            levels.enforce.name()
        )));
    }

    let warning = levels.warn.violation(&pod);
    Ok(warning.map(|violation| {
        format!(
            "would violate PodSecurity \"{}\": {violation}",
            levels.warn.name()
        )
    }))
}

/// Returns the Pod or the template of Pods in an object; None if it makes no Pods.
fn template<'o>(group: &str, resource: &str, object: &'o Value) -> Option<&'o Value> {
    let template = match (group, resource) {
        ("", "pods") => object,
        ("", "podtemplates") => &object["template"],
        ("", "replicationcontrollers")
        | ("apps", "deployments" | "replicasets" | "statefulsets" | "daemonsets")
        | ("batch", "jobs") => &object["spec"]["template"],
        ("batch", "cronjobs") => &object["spec"]["jobTemplate"]["spec"]["template"],
        _ => return None,
    };

    template.is_object().then_some(template)
}
