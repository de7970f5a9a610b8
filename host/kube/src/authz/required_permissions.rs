//! What a plugin needs of RBAC: each of its calls is noted on its way, and so are its Events; what was refused comes with
//! the commands that give the right; and the API server's authorizer says what of it all the ServiceAccount has.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, PoisonError},
    time::SystemTime,
};

use futures::{StreamExt, TryStreamExt, stream};
use operetta_core::{
    authz::{
        access_review::{ServiceAccount, remedy},
        recorded_permissions::{Names, Need, Observed},
    },
    gate::{
        operation::{Operation, OperationAction, Read},
        raw_request::{RawRequest, ResourcePath},
    },
    object::ObjectKey,
    ports::{EventNote, EventSink},
    status::{ApiError, ErrorKind},
};
use serde::{Deserialize, Serialize};

use crate::{
    authz::access_review::SubjectAccessReviews,
    client::{
        object_api::{PluginApi, Refusal},
        wire::check_key,
    },
    discovery::ApiResource,
};

/// Questions that are asked at once.
const AT_ONCE: usize = 8;

/// A need, and the name of the object that its calls were about, where a rule with `resourceNames` can be about it.
pub type Call = (Need, Option<String>);

/// A need, and whether the ServiceAccount has the right.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Needed {
    /// The right.
    #[serde(flatten)]
    pub need: Need,
    /// The name for which it is had, or not, while it is not had for every name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// True if the ServiceAccount has it.
    pub allowed: bool,
    /// True if it is one namespace's part of a permission in all namespaces.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub partial: bool,
}

/// The permissions that a plugin needs.
pub struct Needs {
    /// Each right, in order.
    pub needed: Vec<Needed>,
    /// Calls that are not among them, because they were too many.
    pub missed: u64,
    /// True if a call was recorded, and not only watches.
    pub called: bool,
    /// Since when calls are noted.
    pub since: SystemTime,
}

impl PluginApi {
    /// Notes what a call needs.
    pub(crate) fn note(&self, (need, name): &Call) {
        if let Some(observed) = &self.observed {
            observed.note(need, name.as_deref());
        }
    }

    /// Notes that the answer to an update or a patch was 201: it made the object, for which one needs `create`.
    pub(crate) fn note_created(&self, (need, _): &Call) {
        if !need.resource.contains('/') {
            self.note(&(Need { verb: "create".to_owned(), ..need.clone() }, None));
        }
    }

    /// Keeps a refusal of RBAC with the commands that give the right. What admission refuses is forbidden as well, and no
    /// right helps there.
    pub(crate) fn note_refusal(&self, (need, _): &Call, error: &ApiError) {
        let Some(grants) = self.grants.as_ref().filter(|_| error.kind == ErrorKind::Forbidden) else { return };
        let refused = |verb: &str| error.status.message.contains(&format!("\" cannot {verb} resource \""));
        let verb = if refused(&need.verb) {
            need.verb.as_str()
        } else if ["update", "patch"].contains(&need.verb.as_str()) && refused("create") {
            // Of an object that it would have made.
            self.note_created(&(need.clone(), None));
            "create"
        } else {
            return;
        };
        let what = (need.group.as_str(), need.resource.as_str());
        let remedy = remedy(grants.subject(), verb, what, need.namespace.as_deref());
        let refusal = Refusal { message: error.status.message.clone(), remedy };
        *self.refusal.lock().unwrap_or_else(PoisonError::into_inner) = Some(refusal);
    }

    /// Lists the permissions that the plugin needs for its calls so far, and for `watched`. `reviews` tells which of
    /// them are granted now. None for the host itself.
    ///
    /// # Errors
    /// The API server's error when it cannot be asked.
    pub async fn needs(&self, reviews: &SubjectAccessReviews, watched: Vec<Call>) -> Result<Option<Needs>, ApiError> {
        let (Some(grants), Some(observed)) = (&self.grants, &self.observed) else { return Ok(None) };
        let (kept, since) = observed.kept();
        let called = !kept.needs.is_empty();
        let mut all = kept.needs;
        for (need, name) in watched {
            let names = name.map_or(Names::Any, |name| Names::Only(BTreeSet::from([name])));
            all.entry(need).and_modify(|known| *known = Names::Any).or_insert(names);
        }
        let asking = Asking { reviews, subject: grants.subject(), api: self };
        // A right that holds everywhere is asked for once, not for each namespace.
        let wide: BTreeSet<Need> = all.keys().map(everywhere).collect();
        let wide = stream::iter(wide).map(async |need| {
            let has = reviews.has(asking.subject, &need, None).await?;
            Ok::<_, ApiError>((need, has))
        });
        let wide: BTreeMap<Need, bool> = wide.buffer_unordered(AT_ONCE).try_collect().await?;
        let answers = stream::iter(all).map(async |(need, names)| {
            if wide.get(&everywhere(&need)) == Some(&true) {
                return Ok(vec![Needed { need, name: None, allowed: true, partial: false }]);
            }
            asking.narrower(need, names).await
        });
        let needed: Vec<Vec<Needed>> = answers.buffered(AT_ONCE).try_collect().await?;
        Ok(Some(Needs { needed: needed.concat(), missed: kept.missed, called, since }))
    }
}

fn everywhere(need: &Need) -> Need {
    Need { cached: false, ..need.within(None) }
}

struct Asking<'a> {
    reviews: &'a SubjectAccessReviews,
    subject: &'a ServiceAccount,
    api: &'a PluginApi,
}

impl Asking<'_> {
    async fn has(&self, need: &Need, name: Option<&str>) -> Result<bool, ApiError> {
        self.reviews.has(self.subject, need, name).await
    }

    /// Splits a permission that is not granted everywhere into its granted parts: in its namespace, for its names, or
    /// in some namespaces.
    async fn narrower(&self, need: Need, names: Names) -> Result<Vec<Needed>, ApiError> {
        let whole = |allowed: bool| Needed { need: need.clone(), name: None, allowed, partial: false };
        if need.namespace.is_some() && self.has(&need, None).await? {
            return Ok(vec![whole(true)]);
        }
        if let Names::Only(names) = names {
            let mut named = Vec::new();
            for name in names {
                let allowed = self.has(&need, Some(&name)).await?;
                named.push(Needed { need: need.clone(), name: Some(name), allowed, partial: false });
            }
            if named.iter().any(|needed| needed.allowed) {
                return Ok(named);
            }
        }
        if need.cached {
            let mut parts = Vec::new();
            for namespace in self.namespaces(&need) {
                let need = everywhere(&need).within(Some(&namespace));
                if self.has(&need, None).await? {
                    parts.push(Needed { need, name: None, allowed: true, partial: true });
                }
            }
            if !parts.is_empty() {
                return Ok(parts);
            }
        }
        Ok(vec![whole(false)])
    }

    /// The namespaces that the caches have objects of.
    fn namespaces(&self, need: &Need) -> BTreeSet<String> {
        let informers = self.api.registry.running().into_iter();
        let of_need = informers.filter(|informer| {
            informer.resource.plural == need.resource && informer.resource.kind.group() == need.group
        });
        of_need.flat_map(|informer| informer.cache.namespaces()).collect()
    }
}

/// Returns the permission that an operation needs.
pub(crate) fn of_operation(resource: &ApiResource, operation: &Operation) -> Call {
    let (name, cached) = match &operation.action {
        OperationAction::Get { key, .. }
        | OperationAction::Update { key, .. }
        | OperationAction::Patch { key, .. }
        | OperationAction::Delete { key, .. } => (Some(key.name.clone()), false),
        OperationAction::List(options) => {
            (named(options.fields.as_deref().unwrap_or_default()), options.read == Read::Cached)
        }
        OperationAction::Create { .. } => (None, false),
    };
    let need = need(resource, operation.verb().as_str(), operation.subresource(), operation.namespace());
    (Need { cached: cached && resource.namespaced && need.namespace.is_none(), ..need }, name)
}

/// Returns the permission that a raw request needs, as the API server's RequestInfo names it. `cached` tells that a
/// cache answers it.
pub(crate) fn of_raw(resource: &ApiResource, path: &ResourcePath, request: &RawRequest, cached: bool) -> Call {
    let verb = match (request.method.as_str(), &path.name) {
        ("GET", None) => "list",
        ("DELETE", None) => "deletecollection",
        _ => request.verb().as_str(),
    };
    let subresource = path.subresource.as_deref().and_then(|rest| rest.split('/').next());
    let need = need(resource, verb, subresource, path.namespace.as_deref());
    let listed = || named(request.parameters().ok()?.get("fieldSelector")?);
    let name = if verb == "list" { listed() } else { path.name.clone().filter(|_| verb != "create") };
    (Need { cached: cached && verb == "list" && resource.namespaced && need.namespace.is_none(), ..need }, name)
}

/// Returns the permission to watch a resource in a namespace, or in all of them. `fields` is the field selector.
pub(crate) fn of_watch(resource: &ApiResource, namespace: Option<&str>, fields: &str) -> Vec<Call> {
    let call = |verb| {
        let need = need(resource, verb, None, namespace);
        (Need { cached: resource.namespaced && need.namespace.is_none(), ..need }, named(fields))
    };
    ["list", "watch"].map(call).to_vec()
}

fn need(resource: &ApiResource, verb: &str, subresource: Option<&str>, namespace: Option<&str>) -> Need {
    let subresource = subresource.filter(|name| !name.is_empty());
    let plural = subresource.map_or(resource.plural.clone(), |name| format!("{}/{name}", resource.plural));
    Need::resource(verb, resource.kind.group(), &plural, namespace.filter(|_| resource.namespaced))
}

/// The one name that a field selector asks for: the API server takes a list or a watch of it as a request for that name.
pub fn named(fields: &str) -> Option<String> {
    let name = fields.split(',').find_map(|one| one.strip_prefix("metadata.name="))?;
    Some(name.trim_start_matches('=').to_owned())
}

/// Hands on a plugin's Events, and notes that it writes them.
pub struct NotedEvents {
    sink: Arc<dyn EventSink>,
    observed: Arc<Observed>,
}

impl NotedEvents {
    /// Hands them on to `sink`.
    pub fn new(sink: Arc<dyn EventSink>, observed: Arc<Observed>) -> Self {
        Self { sink, observed }
    }
}

impl EventSink for NotedEvents {
    fn emit(&self, note: EventNote) {
        // Where the recorder writes it. One that comes again is counted by a patch.
        let namespace = note.key.namespace.as_deref().unwrap_or("default");
        if check_key(&ObjectKey::namespaced(namespace, &note.key.name)).is_ok() {
            for verb in ["create", "patch"] {
                self.observed.note(&Need::resource(verb, "", "events", Some(namespace)), None);
            }
        }
        self.sink.emit(note);
    }
}

#[cfg(test)]
mod tests {
    use operetta_core::{
        gate::{
            operation::{ListOptions, PatchBody, Selection, WriteOptions},
            raw_request::Target,
        },
        object::kind::GroupVersionKind,
    };

    use super::*;

    fn resource(api_version: &str, plural: &str, namespaced: bool) -> ApiResource {
        let kind = GroupVersionKind::new(api_version, "Kind");
        ApiResource { kind, plural: plural.to_owned(), namespaced, subresources: vec![], watchable: true }
    }

    fn shown((need, name): &Call) -> String {
        let Need { group, resource, verb, namespace, cached, .. } = need;
        let name = name.as_deref().unwrap_or("-");
        let cached = if *cached { " cached" } else { "" };
        format!("{verb} {resource}.{group} {} {name}{cached}", namespace.as_deref().unwrap_or("*"))
    }

    fn raw(method: &str, url: &str, cached: bool) -> String {
        let (path, query) = url.split_once('?').unwrap_or((url, ""));
        let request = RawRequest {
            method: method.to_owned(),
            path: path.to_owned(),
            query: query.to_owned(),
            ..RawRequest::default()
        };
        let Ok(Target::Resource(path)) = request.target() else { panic!("{url} is no resource") };
        let resource = resource(&path.api_version, &path.plural, path.plural != "nodes");
        shown(&of_raw(&resource, &path, &request, cached))
    }

    #[test]
    fn a_raw_request_needs_what_the_api_server_would_ask_for() {
        for (method, url, cached, wanted) in [
            ("GET", "/api/v1/namespaces/n/pods", false, "list pods. n -"),
            ("GET", "/api/v1/pods", false, "list pods. * -"),
            ("GET", "/api/v1/pods", true, "list pods. * - cached"),
            ("GET", "/api/v1/namespaces/n/pods", true, "list pods. n -"),
            ("GET", "/api/v1/nodes", true, "list nodes. * -"),
            ("GET", "/api/v1/namespaces/n/pods?fieldSelector=metadata.name%3Dp", false, "list pods. n p"),
            ("GET", "/api/v1/namespaces/n/pods/p", false, "get pods. n p"),
            ("GET", "/api/v1/namespaces/n/pods/p/log", false, "get pods/log. n p"),
            ("POST", "/api/v1/namespaces/n/pods/p/eviction", false, "create pods/eviction. n -"),
            ("POST", "/apis/apps/v1/namespaces/n/deployments", false, "create deployments.apps n -"),
            ("PUT", "/apis/apps/v1/namespaces/n/deployments/d/status", false, "update deployments/status.apps n d"),
            ("PATCH", "/apis/apps/v1/namespaces/n/deployments/d", false, "patch deployments.apps n d"),
            ("DELETE", "/apis/apps/v1/namespaces/n/deployments/d", false, "delete deployments.apps n d"),
            ("DELETE", "/apis/apps/v1/namespaces/n/deployments", false, "deletecollection deployments.apps n -"),
        ] {
            assert_eq!(raw(method, url, cached), wanted, "{method} {url}");
        }
    }

    #[test]
    fn an_operation_needs_the_same() {
        let list = |namespace: Option<&str>, fields: &str, read: Read| {
            OperationAction::List(ListOptions {
                namespace: namespace.map(str::to_owned),
                labels: None,
                fields: Some(fields.to_owned()),
                selection: Selection::All,
                limit: None,
                continue_token: None,
                read,
                projection: vec![],
            })
        };
        let key = ObjectKey::namespaced("n", "d");
        let patch = |subresource: Option<&str>| OperationAction::Patch {
            key: key.clone(),
            subresource: subresource.map(str::to_owned),
            body: PatchBody::Merge("{}".to_owned()),
            force: false,
            options: WriteOptions::default(),
        };
        let deployments = resource("apps/v1", "deployments", true);
        for (action, wanted) in [
            (OperationAction::Get { key: key.clone(), read: Read::Cached }, "get deployments.apps n d"),
            (list(None, "", Read::Cached), "list deployments.apps * - cached"),
            (list(None, "", Read::Live), "list deployments.apps * -"),
            (list(Some("n"), "metadata.name=d", Read::Cached), "list deployments.apps n d"),
            (patch(Some("scale")), "patch deployments/scale.apps n d"),
            (patch(Some("")), "patch deployments.apps n d"),
        ] {
            let operation = Operation { kind: deployments.kind.clone(), action };
            assert_eq!(shown(&of_operation(&deployments, &operation)), wanted);
        }
        let watch: Vec<String> = of_watch(&deployments, None, "").iter().map(shown).collect();
        assert_eq!(watch, ["list deployments.apps * - cached", "watch deployments.apps * - cached"]);
        let watch = of_watch(&deployments, Some("n"), "metadata.name=d");
        assert_eq!(shown(&watch[1]), "watch deployments.apps n d");
    }
}
