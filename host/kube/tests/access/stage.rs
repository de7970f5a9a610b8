//! Three namespaces with one object of each kind, six ServiceAccounts of the first one, and what
//! each of them sees.

mod reads;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use futures::StreamExt;
use http::Request;
use kube::Client;
use operetta_core::{
    authz::access_review::{Grants, ServiceAccount},
    handler::{EventHandler, Target, event::Event},
    manifest::{Index, Mapping},
    object::{ObjectKey, kind::GroupVersionKind},
    ports::{EventNote, EventSink, EventType},
};
use operetta_kube::{
    authz::{
        access_review::SubjectAccessReviews, filtered_view::FilteredView,
        permission_watch::PermissionWatch,
    },
    client::{
        api_client::{ApiClient, Identity},
        object_api::{PluginApi, PluginIdentity, Watched},
    },
    discovery::Discovery,
    events::recorder::EventRecorder,
    informer::{Handler, Informer, Scope, Subscription, registry::InformerRegistry},
};
use operetta_testkit::{ControlPlane, Kind as TestKind, TestNamespace, eventually};
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::ways::{Cell, Kind, Question, Way, cells_of};

/// ServiceAccounts of the first namespace, by what they begin with.
pub const ACCOUNTS: [&str; 6] = ["none", "own", "two", "wide", "named", "writer"];

/// The name of every namespaced object.
const ONE: &str = "one";
const INDEX: &str = "by-touch";
/// Questions to the API server at once.
const AT_ONCE: usize = 8;

/// A ClusterRole of the test.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rights {
    ReadAll,
    GetOnly,
    ListOnly,
    ListWatch,
    Named,
    Write,
}

impl Rights {
    pub const ALL: [Self; 6] = [
        Self::ReadAll,
        Self::GetOnly,
        Self::ListOnly,
        Self::ListWatch,
        Self::Named,
        Self::Write,
    ];

    fn rules(self) -> Value {
        let all = |verbs: &[&str]| {
            json!([{"apiGroups": ["", "apps"], "resources": ["configmaps", "secrets", "deployments", "nodes"],
                    "verbs": verbs}])
        };
        match self {
            Self::ReadAll => all(&["get", "list", "watch"]),
            Self::GetOnly => all(&["get"]),
            Self::ListOnly => all(&["list"]),
            Self::ListWatch => all(&["list", "watch"]),
            Self::Named => {
                json!([{"apiGroups": [""], "resources": ["secrets"], "resourceNames": [ONE], "verbs": ["get"]}])
            }
            Self::Write => json!([
                {"apiGroups": ["apps"], "resources": ["deployments/status"], "verbs": ["patch"]},
                {"apiGroups": [""], "resources": ["events"], "verbs": ["create"]},
            ]),
        }
    }

    fn name(self) -> String {
        format!("{self:?}").to_lowercase()
    }
}

/// What handlers received last of a kind, by account, what they listen for, and namespace: a
/// resourceVersion.
type Delivered = Arc<Mutex<BTreeMap<(&'static str, Way, Kind, Option<String>), String>>>;

pub struct Stage<'a> {
    pub control_plane: &'a ControlPlane,
    pub locations: Vec<String>,
    client: Client,
    namespaces: Vec<TestNamespace<'a>>,
    node: String,
    apis: BTreeMap<&'static str, Arc<PluginApi>>,
    recorders: BTreeMap<&'static str, Arc<EventRecorder>>,
    bindings: BTreeSet<(&'static str, Option<String>, Rights)>,
    delivered: Delivered,
    touched: Mutex<BTreeMap<(Kind, Option<String>), String>>,
    touches: Mutex<u64>,
    _views: Vec<FilteredView>,
    _references: Vec<Subscription>,
    _rights: Option<PermissionWatch>,
}

/// How the host of a stage knows what accounts may do.
#[derive(Clone, Copy)]
pub struct Reviews {
    /// Changes of rights are delivered.
    pub told_of_changes: bool,
    /// Each request is asked about as it is (`exactAccessReviews`).
    pub exact: bool,
}

impl Stage<'static> {
    pub async fn new(prefix: &str) -> Self {
        Self::on(
            ControlPlane::shared().await,
            prefix,
            Reviews {
                told_of_changes: true,
                exact: false,
            },
        )
        .await
    }

    /// Nobody delivers changes of rights.
    pub async fn untold(prefix: &str) -> Self {
        Self::on(
            ControlPlane::shared().await,
            prefix,
            Reviews {
                told_of_changes: false,
                exact: false,
            },
        )
        .await
    }
}

impl<'a> Stage<'a> {
    pub async fn on(control_plane: &'a ControlPlane, prefix: &str, reviews: Reviews) -> Self {
        let mut namespaces = Vec::new();
        for location in ["home", "other", "third"] {
            namespaces.push(
                control_plane
                    .namespace(&format!("{prefix}-{location}"))
                    .await,
            );
        }
        let locations: Vec<String> = namespaces
            .iter()
            .map(|namespace| namespace.name().to_owned())
            .collect();
        let client = control_plane.client().await;
        let api_client = ApiClient::new(client.clone(), &Identity::Host).expect("a client");
        let discovery = Discovery::new(api_client.clone());
        let registry = InformerRegistry::new(api_client.clone());
        let grants = Grants::with(
            Arc::new(SubjectAccessReviews::new(api_client)),
            reviews.exact,
        );
        let rights = if reviews.told_of_changes {
            Some(
                PermissionWatch::start(&grants, &discovery, &registry)
                    .await
                    .expect("a watch"),
            )
        } else {
            None
        };
        let mut stage = Self {
            control_plane,
            node: format!("{prefix}-node"),
            locations,
            client,
            namespaces,
            apis: BTreeMap::new(),
            recorders: BTreeMap::new(),
            bindings: BTreeSet::new(),
            delivered: Delivered::default(),
            touched: Mutex::default(),
            touches: Mutex::default(),
            _views: Vec::new(),
            _references: Vec::new(),
            _rights: rights,
        };
        stage.make_objects().await;
        for (account, location, rights) in [
            ("own", Some(0), Rights::ReadAll),
            ("two", Some(0), Rights::ReadAll),
            ("two", Some(1), Rights::ReadAll),
            ("two", Some(2), Rights::GetOnly),
            ("wide", None, Rights::ReadAll),
            ("named", Some(0), Rights::Named),
            ("named", Some(1), Rights::ListWatch),
            ("named", Some(2), Rights::ListOnly),
            ("writer", Some(0), Rights::Write),
            ("writer", Some(1), Rights::Write),
        ] {
            let location = location.map(|at: usize| stage.locations[at].clone());
            stage.toggle(account, location, rights).await;
        }
        stage.open(&grants, &discovery, &registry).await;
        stage
    }

    async fn make_objects(&self) {
        let rbac = "rbac.authorization.k8s.io/v1";
        for rights in Rights::ALL {
            let role = json!({"metadata": {"name": self.role(rights)}, "rules": rights.rules()});
            self.apply(rbac, "ClusterRole", &role);
        }
        self.apply("v1", "Node", &json!({"metadata": {"name": self.node}}));
        let owner = json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": ONE, "uid": "an-owner", "controller": true}]);
        let labels = json!({"app": ONE});
        for namespace in &self.namespaces {
            for kind in [Kind::ConfigMap, Kind::Secret] {
                let object = json!({"metadata": {"name": ONE, "ownerReferences": owner}});
                namespace
                    .create_object(TestKind(kind.api_version(), kind.name()), object)
                    .await;
            }
            let deployment = json!({
                "metadata": {"name": ONE, "ownerReferences": owner},
                "spec": {"selector": {"matchLabels": labels}, "template": {
                    "metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]}}},
            });
            namespace
                .create_object(TestKind("apps/v1", "Deployment"), deployment)
                .await;
        }
    }

    fn apply(&self, api_version: &str, kind: &str, object: &Value) {
        let mut object = object.clone();
        (object["apiVersion"], object["kind"]) = (json!(api_version), json!(kind));
        self.control_plane.apply(&object.to_string());
    }

    async fn open(
        &mut self,
        grants: &Arc<Grants>,
        discovery: &Arc<Discovery>,
        registry: &Arc<InformerRegistry>,
    ) {
        let indexes = Kind::ALL.map(|kind| Index {
            name: INDEX.to_owned(),
            api_version: kind.api_version().to_owned(),
            kind: kind.name().to_owned(),
            path: Some(".metadata.name".to_owned()),
            label: None,
            controller: None,
        });
        let mut informers: BTreeMap<Kind, Arc<Informer>> = BTreeMap::new();
        for kind in Kind::ALL {
            let resource = discovery.resolve(&gvk(kind)).await.expect("served");
            informers.insert(kind, registry.informer(&resource, Scope::everything()));
        }
        for account in ACCOUNTS {
            let subject = ServiceAccount {
                namespace: self.locations[0].clone(),
                name: account.to_owned(),
            };
            let own = grants.of(subject);
            let api = PluginApi::of_plugin(
                self.client.clone(),
                discovery.clone(),
                registry.clone(),
                PluginIdentity::new(own.clone(), account),
            );
            let api = api.expect("an API");
            let watched = informers.values().cloned().collect();
            api.watch(Watched::new(watched, indexes.to_vec()));
            self.recorders.insert(
                account,
                EventRecorder::start(api.api_client().clone(), account.to_owned()),
            );
            self.apis.insert(account, api);
            for (kind, informer) in &informers {
                let handler = self.note(account, Way::Event, *kind, |event| {
                    vec![event.object().key().clone()]
                });
                self._views.push(FilteredView::open(
                    informer,
                    own.clone(),
                    None,
                    handler,
                    None,
                ));
            }
            let target = Target::Mapped {
                kind: gvk(Kind::ConfigMap),
                cluster_scoped: false,
                namespace: None,
                mapping: Mapping::Owner { all_owners: false },
            };
            let mapping = EventHandler {
                predicates: vec![],
                namespace: None,
                target,
            };
            let handler = self.note(account, Way::Mapping, Kind::Deployment, move |event| {
                mapping.keys(event)
            });
            self._views.push(FilteredView::open(
                &informers[&Kind::Deployment],
                own,
                None,
                handler,
                None,
            ));
        }
        // The last to receive an event: when these have seen it, whoever may see it has.
        for (kind, informer) in &informers {
            let handler = self.note("", Way::Event, *kind, |event| {
                vec![event.object().key().clone()]
            });
            self._references.push(informer.subscribe(handler, None));
        }
    }

    fn note(
        &self,
        account: &'static str,
        way: Way,
        kind: Kind,
        keys: impl Fn(&Event) -> Vec<ObjectKey> + Send + Sync + 'static,
    ) -> Handler {
        let delivered = self.delivered.clone();
        let node = self.node.clone();
        Arc::new(move |event| {
            let object = event.object();
            if object.key().name != ONE && object.key().name != node {
                return;
            }
            for key in keys(event) {
                delivered.lock().insert(
                    (account, way, kind, key.namespace),
                    object.resource_version().to_owned(),
                );
            }
        })
    }

    /// Gives or takes rights; says what it did.
    pub async fn toggle(
        &mut self,
        account: &'static str,
        location: Option<String>,
        rights: Rights,
    ) -> String {
        let entry = (account, location.clone(), rights);
        let gives = !self.bindings.remove(&entry);
        let (kind, name) = match location {
            Some(_) => ("RoleBinding", format!("{account}-{}", rights.name())),
            None => (
                "ClusterRoleBinding",
                format!("{}-{account}-{}", self.locations[0], rights.name()),
            ),
        };
        let change = format!(
            "{} {rights:?} for {account} in {location:?}",
            if gives { "give" } else { "take" }
        );
        let mut metadata = json!({"name": name});
        if let Some(location) = &location {
            metadata["namespace"] = json!(location);
        }
        if gives {
            let binding = json!({
                "metadata": metadata,
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": self.role(rights)},
                "subjects": [{"kind": "ServiceAccount", "namespace": self.locations[0], "name": account}],
            });
            self.apply("rbac.authorization.k8s.io/v1", kind, &binding);
            self.bindings.insert(entry);
        } else {
            let namespace = location
                .as_ref()
                .map_or_else(Vec::new, |location| vec!["-n", location.as_str()]);
            self.control_plane
                .kubectl(&[&["delete", kind, &name][..], &namespace].concat());
        }
        change
    }

    pub fn user(&self, account: &str) -> String {
        format!("system:serviceaccount:{}:{account}", self.locations[0])
    }

    /// The name of the object of a kind.
    pub fn object(&self, kind: Kind) -> &str {
        if kind.namespaced() { ONE } else { &self.node }
    }

    fn role(&self, rights: Rights) -> String {
        format!("{}-{}", self.locations[0], rights.name())
    }

    pub fn cells(&self) -> Vec<Cell> {
        ACCOUNTS
            .into_iter()
            .flat_map(|account| cells_of(account, &self.locations))
            .collect()
    }

    /// Every question that the cells ask, and those about Events.
    pub fn questions(&self, cells: &[Cell]) -> BTreeSet<Question> {
        let asked = cells.iter().flat_map(|cell| {
            [
                cell.questions(self),
                cell.alternatives(self),
                cell.wider(self),
            ]
        });
        let asked = asked.flatten();
        let events = ACCOUNTS
            .iter()
            .flat_map(|account| self.locations.iter().map(|location| (*account, location)));
        asked
            .chain(events.map(|(account, location)| Question::events(self, account, location)))
            .collect()
    }

    /// What the API server answers to the same questions, as kubectl asks them.
    pub async fn self_reviews(&self, cells: &[Cell]) -> BTreeMap<Question, bool> {
        let answers = self.questions(cells).into_iter().map(async |question| {
            let allowed = self.self_review(&question).await;
            (question, allowed)
        });
        futures::stream::iter(answers)
            .buffer_unordered(AT_ONCE)
            .collect()
            .await
    }

    async fn self_review(&self, question: &Question) -> bool {
        let mut attributes =
            json!({"verb": question.verb, "group": question.group, "resource": question.resource});
        let optional = [("namespace", &question.namespace), ("name", &question.name)];
        optional
            .iter()
            .for_each(|(name, value)| attributes[*name] = json!(value));
        attributes["subresource"] = json!(question.subresource);
        let review = json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
                            "spec": {"resourceAttributes": attributes}});
        let request = Request::post("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews")
            .header("content-type", "application/json")
            .header("impersonate-user", &question.user)
            .body(review.to_string().into_bytes());
        let answer: Value = self
            .client
            .request(request.expect("a request"))
            .await
            .expect("answered");
        answer["status"]["allowed"] == true
    }

    /// Changes every object, and waits until its informer has delivered it.
    pub async fn touch_all(&self) {
        let touch = {
            let mut touches = self.touches.lock();
            *touches += 1;
            json!({"metadata": {"annotations": {"touch": touches.to_string()}}})
        };
        for namespace in &self.namespaces {
            for kind in [Kind::ConfigMap, Kind::Secret, Kind::Deployment] {
                let made = namespace
                    .patch(
                        TestKind(kind.api_version(), kind.name()),
                        ONE,
                        touch.clone(),
                    )
                    .await;
                self.touched(kind, Some(namespace.name().to_owned()), &made);
            }
        }
        let request = Request::patch(format!("/api/v1/nodes/{}", self.node))
            .header("content-type", "application/merge-patch+json")
            .body(touch.to_string().into_bytes());
        let made: Value = self
            .client
            .request(request.expect("a request"))
            .await
            .expect("patched");
        self.touched(Kind::Node, None, &made);
        eventually("the informers", async || {
            let behind = self
                .touched
                .lock()
                .iter()
                .any(|((kind, location), version)| {
                    self.delivered
                        .lock()
                        .get(&("", Way::Event, *kind, location.clone()))
                        != Some(version)
                });
            if behind {
                Err("behind".to_owned())
            } else {
                Ok(())
            }
        })
        .await;
    }

    fn touched(&self, kind: Kind, location: Option<String>, made: &Value) {
        let version = made["metadata"]["resourceVersion"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        self.touched.lock().insert((kind, location), version);
    }

    /// Lets an account's recorder write an Event about the ConfigMap of a namespace.
    pub fn emit(&self, account: &str, location: &str) {
        self.recorders[account].emit(EventNote {
            regarding: gvk(Kind::ConfigMap),
            key: ObjectKey::namespaced(location, ONE),
            uid: None,
            event_type: EventType::Normal,
            reason: format!("From{account}"),
            action: String::new(),
            note: "a test".to_owned(),
        });
    }

    pub async fn event_count(&self, account: &str, location: &str) -> usize {
        let namespace = self
            .namespaces
            .iter()
            .find(|namespace| namespace.name() == location)
            .expect("a namespace");
        let events = namespace.list(operetta_testkit::kinds::EVENT).await;
        events
            .iter()
            .filter(|event| event["reason"] == format!("From{account}"))
            .count()
    }
}

fn gvk(kind: Kind) -> GroupVersionKind {
    GroupVersionKind::new(kind.api_version(), kind.name())
}
