//! What an access review asks, and the commands to grant the access.

use std::{fmt, iter};

use operetta_api::names::{is_dns_label, is_dns_subdomain, is_path_segment};

use crate::{
    object::bounded_name::{MAX_OBJECT_NAME, bounded},
    remedy::Remedy,
    status::{ApiError, ErrorKind},
};

/// A ServiceAccount; plugins never act as anything else.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ServiceAccount {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

impl ServiceAccount {
    /// The user name by which the API server knows it.
    pub fn user(&self) -> String {
        format!("system:serviceaccount:{}:{}", self.namespace, self.name)
    }

    /// Parses a user name; None for other users and for groups.
    pub fn of_user(user: &str) -> Option<Self> {
        let (namespace, name) = user
            .strip_prefix("system:serviceaccount:")?
            .split_once(':')?;
        Some(Self {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        })
    }

    /// The groups the API server puts it into.
    pub fn groups(&self) -> [String; 3] {
        let all = "system:serviceaccounts";
        [
            all.to_owned(),
            format!("{all}:{}", self.namespace),
            "system:authenticated".to_owned(),
        ]
    }
}

/// The verbs of reads answered from the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "each is the RBAC verb of its name")]
pub enum ReadVerb {
    Get,
    List,
    Watch,
}

impl ReadVerb {
    /// The verb in RBAC's spelling.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::List => "list",
            Self::Watch => "watch",
        }
    }
}

/// The verb of an access review.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "each is the RBAC verb of its name")]
pub enum AccessVerb {
    Read(ReadVerb),
    Update,
    Patch,
    /// A verb of impersonation, such as `impersonate`.
    Impersonate(&'static str),
}

impl AccessVerb {
    /// The verb in RBAC's spelling.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Read(verb) => verb.as_str(),
            Self::Update => "update",
            Self::Patch => "patch",
            Self::Impersonate(verb) => verb,
        }
    }
}

impl From<ReadVerb> for AccessVerb {
    fn from(verb: ReadVerb) -> Self {
        Self::Read(verb)
    }
}

/// What an access review asks: the ResourceAttributes of a SubjectAccessReview.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Access {
    /// The verb.
    pub verb: AccessVerb,
    /// The API group; empty for the core group.
    pub group: String,
    /// The version of the API group, such as `v1`. RBAC ignores it; other authorizers may not.
    pub version: String,
    /// The resource, e.g. `pods`, or `pods/status`.
    pub resource: String,
    /// The namespace; None for all namespaces and for cluster-scoped resources.
    pub namespace: Option<String>,
    /// The object's name; None for all names.
    pub name: Option<String>,
}

impl Access {
    /// The same request for another namespace and all names.
    fn wider(&self, namespace: Option<String>) -> Self {
        Self {
            namespace,
            name: None,
            ..self.clone()
        }
    }

    /// The questions to ask, widest first: a permission that holds everywhere is asked for once
    /// instead of per namespace. Each question is built only after the previous one was denied.
    /// With `exact`, only the request itself is asked: authorizers other than RBAC may allow a wide
    /// request and deny a narrow one.
    pub(super) fn questions(&self, exact: bool) -> impl Iterator<Item = Self> {
        let everywhere = (!exact).then(|| iter::once_with(|| self.wider(None)));
        let in_namespace = self.namespace.iter().filter(move |_| !exact);
        let in_namespace = in_namespace.map(|namespace| self.wider(Some(namespace.clone())));
        let by_name = self
            .name
            .iter()
            .filter(move |_| !exact)
            .map(|_| self.clone());
        let itself = exact.then(|| self.clone());

        everywhere
            .into_iter()
            .flatten()
            .chain(in_namespace)
            .chain(by_name)
            .chain(itself)
    }

    /// The `Forbidden` error in the API server's wording.
    pub fn forbidden(&self, subject: &ServiceAccount) -> ApiError {
        let Self {
            verb,
            group,
            resource,
            namespace,
            name,
            version: _,
        } = self;

        let dot = if group.is_empty() { "" } else { "." };
        let object = name
            .as_ref()
            .map_or_else(String::new, |name| format!(" {name:?}"));
        let location = match namespace {
            Some(namespace) => format!("in the namespace {namespace:?}"),
            None => "at the cluster scope".to_owned(),
        };
        let user = subject.user();
        let verb = verb.as_str();

        ApiError::new(
            ErrorKind::Forbidden,
            format!(
                "{resource}{dot}{group}{object} is forbidden: User {user:?} cannot {verb} resource {resource:?} in API \
                 group {group:?} {location}"
            ),
        )
    }
}

/// Formats the request as `get pods in namespace "n"`.
impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let dot = if self.group.is_empty() { "" } else { "." };
        write!(
            f,
            "{} {}{dot}{}",
            self.verb.as_str(),
            self.resource,
            self.group
        )?;

        match &self.namespace {
            Some(namespace) => write!(f, " in namespace {namespace:?}"),
            None => f.write_str(" in all namespaces"),
        }
    }
}

/// The commands for an administrator to grant `subject` these verbs, such as `get,list`, on a
/// resource or subresource, in one namespace or in all. None if any part is not a valid Kubernetes
/// name: a plugin may ask for anything.
pub fn remedy(
    subject: &ServiceAccount,
    verbs: &str,
    resource: (&str, &str),
    namespace: Option<&str>,
) -> Option<Remedy> {
    remedy_for(subject, verbs, resource, namespace, None)
}

/// Like [`remedy`], but restricted to the object called `name`.
pub fn remedy_for(
    subject: &ServiceAccount,
    verbs: &str,
    (group, resource): (&str, &str),
    namespace: Option<&str>,
    object: Option<&str>,
) -> Option<Remedy> {
    let (plural, subresource) = resource.split_once('/').unwrap_or((resource, ""));
    let ServiceAccount {
        namespace: home,
        name,
    } = subject;

    let are_names = is_dns_label(home)
        && is_dns_subdomain(name)
        && namespace.is_none_or(is_dns_label)
        && is_dns_label(plural)
        && (group.is_empty() || is_dns_subdomain(group))
        && (subresource.is_empty() || subresource.split('/').all(is_dns_label))
        && object.is_none_or(is_path_segment);
    if !are_names {
        return None;
    }

    let resource = match (group, subresource) {
        ("", _) => resource.to_owned(),
        (_, "") => format!("{plural}.{group}"),
        _ => format!("{plural}.{group}/{subresource}"),
    };
    let parts = [name, plural, subresource, object.unwrap_or_default(), verbs];
    let parts = parts
        .iter()
        .filter(|part| !part.is_empty())
        .map(|part| part.replace([',', '/'], "-"));
    let made = role_name(parts.collect::<Vec<_>>().join("-"));

    let kind = if namespace.is_some() {
        "role"
    } else {
        "clusterrole"
    };
    let location: Vec<String> = namespace
        .map(|namespace| vec!["-n".to_owned(), namespace.to_owned()])
        .unwrap_or_default();
    let create = |kind: &str, flags: Vec<String>| {
        let begin = ["kubectl", "create", kind, &made].map(str::to_owned);
        Remedy::new([begin.to_vec(), location.clone(), flags].concat())
    };

    let mut rules = vec![format!("--verb={verbs}"), format!("--resource={resource}")];
    rules.extend(object.map(|object| format!("--resource-name={object}")));
    let binds = vec![
        format!("--{kind}={made}"),
        format!("--serviceaccount={home}:{name}"),
    ];

    create(kind, rules)?.then(create(&format!("{kind}binding"), binds))
}

/// Joins names into a role's name, replacing what a shell or `kubectl create` would refuse.
fn role_name(parts: String) -> String {
    let valid = |letter: char| letter.is_ascii_alphanumeric() || "-.:_".contains(letter);
    let name = parts.replace(|letter| !valid(letter), "-");
    bounded(name, MAX_OBJECT_NAME)
}
