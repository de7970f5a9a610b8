//! Consent: whether a Plugin may run at all. Its namespace must be opted in and a ServiceAccount
//! must consent.
//!
//! Creating a ConfigMap is a weaker right than creating a Pod, so it must not be enough to act as a
//! ServiceAccount. Therefore a cluster administrator opts the namespace in, and someone who may
//! change the ServiceAccount names the plugins allowed to act as it. The pure functions here make
//! the whole decision.

use std::collections::BTreeMap;

use operetta_api::{Class, labels::CLASS, reasons};
use operetta_core::{
    authz::access_review::ServiceAccount,
    object::{Object, ObjectKey},
    remedy::{Advice, Remedy},
};

use crate::{authz::allowed_code::AllowedCode, problem::Problem};

pub use operetta_api::{annotations::ALLOW_PLUGINS, labels::PLUGINS as NAMESPACE_LABEL};

/// How a namespace is opted in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OptIn {
    /// Label value `enabled`: consent may name a Plugin without digests.
    Enabled,
    /// Label value `pinned`: consent must name digests.
    Pinned,
}

impl OptIn {
    /// The valid values of the namespace's label.
    pub const VALUES: [&str; 2] = ["enabled", "pinned"];
}

/// The namespaces of the cluster and of the host's default installation; no plugin runs in them.
const RESERVED: [&str; 2] = ["kube-system", "operetta-system"];

/// Checks that a namespace isn't the cluster's or the host's own (`own`), whatever its labels.
/// Namespaces in `allowed` are exempt.
///
/// # Errors
/// The problem, with the field of the host's configuration that allows the namespace.
pub fn check_not_reserved(
    name: &str,
    own: Option<&str>,
    allowed: &[String],
) -> Result<(), Problem> {
    if !RESERVED.contains(&name) && own != Some(name)
        || allowed.iter().any(|allowed| allowed == name)
    {
        return Ok(());
    }

    let whose = if own == Some(name) {
        "is the host's own"
    } else {
        "is reserved"
    };
    let message = format!(
        "namespace {name:?} {whose}: no plugin may run in it, because its ServiceAccounts control the cluster or the host; \
         use another namespace, or add {name:?} to allowReservedNamespaces in the host's configuration"
    );
    Err(Problem::new(reasons::NAMESPACE_RESERVED, message))
}

/// Returns the problem when the host (user name `host`) isn't allowed to impersonate a
/// ServiceAccount.
pub fn not_granted(account: &ServiceAccount, host: &str) -> Problem {
    let ServiceAccount { namespace, name } = account;
    let Some(arguments) = grant_arguments(account, host) else {
        let message = format!(
            "the host (user {host:?}) may not impersonate ServiceAccount {name:?} in namespace {namespace:?}: run the \
             host as a ServiceAccount, and use operetta grant"
        );
        return Problem::new(reasons::HOST_FORBIDDEN, message);
    };

    let message = format!(
        "the host may not impersonate ServiceAccount {name:?} in namespace {namespace:?}: an administrator grants it"
    );
    let advice = Advice::from(message).with(" with ", Remedy::new(arguments));
    Problem::new(reasons::HOST_FORBIDDEN, advice)
}

/// Returns the command that grants the host (user name `host`) what a ServiceAccount may do. None if
/// the host is no ServiceAccount.
pub fn grant_command(account: &ServiceAccount, host: &str) -> Option<Remedy> {
    Remedy::new(grant_arguments(account, host)?)
}

fn grant_arguments(account: &ServiceAccount, host: &str) -> Option<Vec<String>> {
    let ServiceAccount { namespace, name } = account;
    let arguments = ["operetta", "grant", name, "-n", namespace].map(str::to_owned);
    let mut arguments = arguments.to_vec();

    let (home, host) = host
        .strip_prefix("system:serviceaccount:")?
        .split_once(':')?;
    if (home, host) != ("operetta-system", "operetta") {
        arguments.push("--host-service-account".to_owned());
        arguments.push(format!("{home}/{host}"));
    }
    Some(arguments)
}

/// Checks that a namespace is opted in. Pass None if it doesn't exist.
///
/// # Errors
/// The problem, with the command that solves it.
pub fn check_namespace(name: &str, namespace: Option<&Object>) -> Result<OptIn, Problem> {
    match namespace.and_then(|namespace| namespace.label(NAMESPACE_LABEL)) {
        Some("enabled") => return Ok(OptIn::Enabled),
        Some("pinned") => return Ok(OptIn::Pinned),
        _ => {}
    }

    let message = format!(
        "namespace {name:?} is not opted in: a cluster administrator lets plugins run in it"
    );
    let label = format!("{NAMESPACE_LABEL}=enabled");
    let opt_in = Remedy::new(["kubectl", "label", "namespace", name, &label]);
    let advice = Advice::from(message).with(" with ", opt_in);
    Err(Problem::new(reasons::NAMESPACE_NOT_ENABLED, advice))
}

/// Returns the trust class in a namespace's label. Namespaces that aren't opted in have none: no
/// plugin runs in them, and the host without a class says so.
pub fn class_of<'a>(name: &str, namespace: Option<&'a Object>) -> Option<&'a str> {
    namespace
        .filter(|namespace| check_namespace(name, Some(namespace)).is_ok())
        .and_then(|namespace| namespace.label(CLASS))
}

/// Checks that a namespace with this label is of the host's own class.
///
/// # Errors
/// The problem, with the command that solves it.
pub fn check_class(name: &str, class: Option<&str>, own: Option<&Class>) -> Result<(), Problem> {
    if class == own.map(Class::as_str) {
        return Ok(());
    }

    let Some(class) = class else {
        let message =
            format!("namespace {name:?} has no label {CLASS}: other hosts run its plugins");
        return Err(Problem::new(reasons::CLASS_NOT_SERVED, message));
    };
    let Ok(class) = class.parse::<Class>() else {
        let message = format!(
            "the label {CLASS} of namespace {name:?} is {class:?}, which is not the name of a class: no host runs its \
             plugins; a cluster administrator corrects the label or removes it"
        );
        return Err(Problem::new(reasons::CLASS_NOT_SERVED, message));
    };

    let message = format!(
        "namespace {name:?} has the label {CLASS}={class}, and only hosts of that class run its plugins: a cluster \
         administrator installs them"
    );
    let install = Remedy::new(["operetta", "install", "--class", class.as_str()]);
    let advice = Advice::from(message).with(" with ", install);
    Err(Problem::new(reasons::CLASS_NOT_SERVED, advice))
}

/// Returns a Plugin's ServiceAccount.
///
/// # Errors
/// When the Plugin names none, or `default`, which all Pods without a ServiceAccount share.
pub fn named_account(plugin: &ObjectKey, name: Option<&str>) -> Result<ServiceAccount, Problem> {
    let namespace = plugin.namespace.clone().unwrap_or_default();
    match name {
        Some(name) if name != "default" && !name.is_empty() => Ok(ServiceAccount {
            namespace,
            name: name.to_owned(),
        }),
        _ => {
            let plugin = &plugin.name;
            let account = ServiceAccount {
                namespace,
                name: plugin.clone(),
            };
            let message = format!(
                "spec.serviceAccountName is {}: a plugin acts as a ServiceAccount of its own, which a drop-in ConfigMap \
                 names by the annotation operetta.dev/service-account",
                name.map_or_else(
                    || "not set".to_owned(),
                    |name| format!("{name:?}, which all Pods share by default")
                )
            );
            let advice = Advice::from(message).with(": ", create(&account, plugin));
            Err(Problem::new(reasons::SERVICE_ACCOUNT_REQUIRED, advice))
        }
    }
}

/// Checks that a ServiceAccount consents to a Plugin acting as it, and returns the allowed code.
/// Pass None if it doesn't exist, or its deletion has ended its consent.
///
/// # Errors
/// The problem, with the command that solves it.
pub fn check_account(
    account: &ServiceAccount,
    found: Option<&Object>,
    plugin: &str,
) -> Result<AllowedCode, Problem> {
    let ServiceAccount { namespace, name } = account;
    let Some(found) = found else {
        let message = format!("ServiceAccount {name:?} does not exist in namespace {namespace:?}");
        let advice = Advice::from(message).with(": ", create(account, plugin));
        return Err(Problem::new(reasons::SERVICE_ACCOUNT_NOT_FOUND, advice));
    };

    let allowed = allowed_plugins(found).unwrap_or_default();
    match AllowedCode::parse(&allowed, plugin) {
        Ok(Some(allowed)) => return Ok(allowed),
        Ok(None) => {}
        Err(entry) => {
            let message = format!(
                "annotation {ALLOW_PLUGINS} of ServiceAccount {name:?} has {entry:?}, which is not a digest: use \
                 {plugin}@sha256: and 64 hexadecimal digits, as operetta check prints them"
            );
            return Err(Problem::new(reasons::CONSENT_MISSING, message));
        }
    }

    let names = allowed
        .split(',')
        .map(str::trim)
        .filter(|name| !name.is_empty());
    let all = names.chain([plugin]).collect::<Vec<_>>().join(",");
    let message =
        format!("ServiceAccount {name:?} does not consent to Plugin {plugin:?} acting as it");
    let advice = Advice::from(message).with(": ", annotate(account, &all, true));
    Err(Problem::new(reasons::CONSENT_MISSING, advice))
}

/// Returns the commands for creating a ServiceAccount with consent to a plugin.
fn create(account: &ServiceAccount, plugin: &str) -> Option<Remedy> {
    let ServiceAccount { namespace, name } = account;
    Remedy::new(["kubectl", "create", "serviceaccount", name, "-n", namespace])?
        .then(annotate(account, plugin, false))
}

/// Returns the command for setting a ServiceAccount's consent.
fn annotate(account: &ServiceAccount, plugins: &str, overwrite: bool) -> Option<Remedy> {
    let ServiceAccount { namespace, name } = account;
    let annotation = format!("{ALLOW_PLUGINS}={plugins}");
    let command = [
        "kubectl",
        "annotate",
        "serviceaccount",
        name,
        "-n",
        namespace,
        &annotation,
    ];
    Remedy::new(
        command
            .into_iter()
            .chain(overwrite.then_some("--overwrite")),
    )
}

/// What a Plugin is allowed to run as.
pub struct Consent {
    /// The ServiceAccount it acts as.
    pub account: ServiceAccount,
    /// The code the ServiceAccount allows.
    pub code: AllowedCode,
    /// True if consent must name digests.
    pub needs_digest: bool,
}

impl Consent {
    /// Checks that code with this digest may run as this Plugin.
    ///
    /// # Errors
    /// The problem, with the command that solves it.
    pub fn check_code(&self, plugin: &ObjectKey, digest: &str) -> Result<(), Problem> {
        let name = &self.account.name;
        let plugin = plugin.name.as_str();
        let annotation = self.code.with(plugin, digest);
        let remedy = annotate(&self.account, &annotation, true);

        if !self.code.permits(digest) {
            let message = format!(
                "ServiceAccount {name:?} consents to other code of Plugin {plugin:?}, but not to {digest}, which is not run"
            );
            let advice = Advice::from(message).with("; to allow it: ", remedy);
            return Err(Problem::new(reasons::CODE_NOT_ALLOWED, advice));
        }

        if self.needs_digest && self.code.is_any() {
            let message = format!(
                "consent must name a digest here, but ServiceAccount {name:?} names only Plugin {plugin:?}"
            );
            let advice = Advice::from(message).with(": ", remedy);
            return Err(Problem::new(reasons::CODE_NOT_ALLOWED, advice));
        }
        Ok(())
    }

    /// Returns a text that changes when the allowed code does.
    pub fn version(&self) -> String {
        format!("{}{}", u8::from(self.needs_digest), self.code.version())
    }
}

fn allowed_plugins(account: &Object) -> Option<String> {
    let annotations = account.at(".metadata.annotations")?;
    serde_json::from_str::<BTreeMap<String, String>>(annotations)
        .ok()?
        .remove(ALLOW_PLUGINS)
}

#[cfg(test)]
mod tests {
    use operetta_core::object::{ManagedFields, kind::GroupVersionKind};

    use super::*;

    fn object(metadata: &str) -> Object {
        let text = format!(r#"{{"metadata":{{"name":"x","namespace":"n",{metadata}}}}}"#);
        Object::from_json(
            &text,
            &GroupVersionKind::new("v1", "ServiceAccount"),
            ManagedFields::Drop,
        )
        .expect("object")
    }

    #[test]
    fn host_runs_the_namespaces_of_its_class_alone() {
        let class: Class = "a".parse().expect("a class");
        assert_eq!(check_class("n", None, None), Ok(()));
        assert_eq!(check_class("n", Some("a"), Some(&class)), Ok(()));

        for (label, own, wanted) in [
            (Some("a"), None, "operetta install --class a"),
            (Some("b"), Some(&class), "operetta.dev/class=b"),
            (None, Some(&class), "has no label operetta.dev/class"),
            // A host without a class must not run what somebody meant to keep apart.
            (Some(""), None, "is \"\", which is not the name of a class"),
            (Some("A_b"), None, "is \"A_b\", which is not the name"),
        ] {
            let problem = check_class("n", label, own).expect_err(wanted);
            assert_eq!(problem.reason, "ClassNotServed");
            assert!(problem.message.contains(wanted), "{}", problem.message);
        }
    }

    #[test]
    fn only_namespaces_that_are_opted_in_have_a_class() {
        let namespace = |labels: &str| object(&format!("\"labels\": {{{labels}}}"));
        let class = "\"operetta.dev/class\": \"a\"";
        let enabled = namespace(&format!("\"operetta.dev/plugins\": \"enabled\", {class}"));
        assert_eq!(class_of("n", Some(&enabled)), Some("a"));
        assert_eq!(class_of("n", Some(&namespace(class))), None);
        assert_eq!(class_of("n", None), None);
    }

    #[test]
    fn check_namespace_requires_the_label() {
        let enabled = object(r#""labels":{"operetta.dev/plugins":"enabled"}"#);
        assert_eq!(check_namespace("n", Some(&enabled)), Ok(OptIn::Enabled));

        let pinned = object(r#""labels":{"operetta.dev/plugins":"pinned"}"#);
        assert_eq!(check_namespace("n", Some(&pinned)), Ok(OptIn::Pinned));

        for other in [
            r#""labels":{"operetta.dev/plugins":"true"}"#,
            r#""labels":{}"#,
        ] {
            let problem = check_namespace("n", Some(&object(other))).expect_err(other);
            assert_eq!(problem.reason, "NamespaceNotEnabled");
            assert!(
                problem
                    .message
                    .contains("kubectl label namespace n operetta.dev/plugins=enabled")
            );
        }

        assert!(check_namespace("n", None).is_err());
    }

    #[test]
    fn reserved_namespace_is_refused_unless_configured() {
        for (name, own, allowed, refused) in [
            ("team", None, "", false),
            ("team", Some("hosts"), "", false),
            ("kube-system", None, "", true),
            ("operetta-system", Some("hosts"), "", true),
            ("hosts", Some("hosts"), "", true),
            ("hosts", Some("hosts"), "hosts", false),
            ("kube-system", Some("hosts"), "kube-system", false),
            ("kube-system", Some("hosts"), "hosts", true),
        ] {
            let result = check_not_reserved(name, own, &[allowed.to_owned()]);
            assert_eq!(result.is_err(), refused, "{name} {own:?} {allowed}");
            if let Err(problem) = result {
                assert_eq!(problem.reason, "NamespaceReserved");
                assert!(
                    problem.message.contains("allowReservedNamespaces"),
                    "{}",
                    problem.message
                );
            }
        }
    }

    #[test]
    fn not_granted_names_the_command_for_its_host() {
        let account = ServiceAccount {
            namespace: "team".into(),
            name: "p".into(),
        };
        for (host, ends) in [
            (
                "system:serviceaccount:operetta-system:operetta",
                "with operetta grant p -n team",
            ),
            (
                "system:serviceaccount:a:b",
                "with operetta grant p -n team --host-service-account a/b",
            ),
            ("jane", "use operetta grant"),
        ] {
            let message = not_granted(&account, host).message;
            assert!(message.ends_with(ends), "{message}");
        }
    }

    #[test]
    fn named_account_rejects_default() {
        let plugin = ObjectKey::namespaced("n", "p");
        for name in [None, Some("default"), Some("")] {
            let problem = named_account(&plugin, name).expect_err("refused");
            assert_eq!(problem.reason, "ServiceAccountRequired");
        }
        let account = named_account(&plugin, Some("p")).expect("named");
        assert_eq!(account.user(), "system:serviceaccount:n:p");
    }

    #[test]
    fn check_account_accepts_the_name_or_a_wildcard() {
        let account = ServiceAccount {
            namespace: "n".into(),
            name: "x".into(),
        };
        for (allowed, reason) in [
            ("p", None),
            ("*", None),
            ("a, p", None),
            ("a,b", Some("ConsentMissing")),
            ("pp", Some("ConsentMissing")),
            ("", Some("ConsentMissing")),
        ] {
            let found = object(&format!(
                r#""annotations":{{"operetta.dev/allow-plugins":"{allowed}"}}"#
            ));
            let problem = check_account(&account, Some(&found), "p").err();
            assert_eq!(
                problem.as_ref().map(|problem| problem.reason.as_str()),
                reason,
                "{allowed}"
            );
        }

        let found = object(r#""annotations":{"operetta.dev/allow-plugins":"a"}"#);
        let problem = check_account(&account, Some(&found), "p").expect_err("not named");
        assert!(
            problem
                .message
                .contains("operetta.dev/allow-plugins=a,p --overwrite"),
            "{}",
            problem.message
        );
        assert_eq!(
            check_account(&account, Some(&object(r#""labels":{}"#)), "p")
                .expect_err("none")
                .reason,
            "ConsentMissing"
        );
        assert_eq!(
            check_account(&account, None, "p").expect_err("none").reason,
            "ServiceAccountNotFound"
        );
    }
}
