//! Writes that change nothing are not sent, as the API server's audit log shows; whatever else
//! there is to it is.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use operetta_core::{
    authz::access_review::{Access, AccessReviewer, Grants, ServiceAccount},
    gate::operation::{PatchBody, Read, Write, WriteAction, WriteOptions, Written},
    handler::event::Event,
    object::{ManagedFields, Object, kind::GroupVersionKind},
    ports::{ObjectApi, ObjectLookup},
    status::{ApiError, ErrorKind},
};
use operetta_kube::{
    client::object_api::{PluginApi, PluginIdentity},
    informer::{Informer, Scope},
};
use operetta_testkit::{Kind, eventually, kinds};
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::{Stage, config_map, value};

const RBAC: &str = "rbac.authorization.k8s.io/v1";

/// A plugin that may do everything in its namespace, and whole caches of ConfigMaps and
/// Deployments.
struct Cached {
    stage: Stage,
    api: Arc<PluginApi>,
    _informers: Vec<Arc<Informer>>,
}

impl Cached {
    async fn new(prefix: &str) -> Self {
        let stage = Stage::new(prefix).await;
        stage.namespace.allow_all("plugin").await;
        let mut informers = Vec::new();
        for (api_version, kind) in [("v1", "ConfigMap"), ("apps/v1", "Deployment")] {
            let informer = stage.registry.informer(
                &stage.resource(api_version, kind).await,
                Scope::everything(),
            );
            informer.synced().await;
            informers.push(informer);
        }
        let api = stage.api_as("plugin");
        Self {
            stage,
            api,
            _informers: informers,
        }
    }

    /// Creates an object as the plugin, once its rights are in effect; as it is cached.
    async fn created(&self, kind: Kind, object: Value) -> Arc<Object> {
        let namespace = Some(self.stage.namespace.name().to_owned());
        let made = eventually("the plugin may write", async || {
            let options = WriteOptions::default();
            let action = WriteAction::Create {
                namespace: namespace.clone(),
                object: object.to_string(),
            };
            match act(&self.api, kind, (action, options)).await {
                Ok(Written::Stored(made)) => Ok(made),
                other => Err(format!("{other:?}")),
            }
        })
        .await;
        let kind = GroupVersionKind::new(kind.0, kind.1);
        eventually("it is cached", async || {
            self.api
                .cached(&kind, made.key())
                .ok_or("it is not".to_owned())
        })
        .await
    }

    /// Waits until a write that changes nothing is not sent any more: the first one is, and its
    /// permission is learnt from that.
    async fn until_suppressed(&self, kind: Kind, action: &Action) {
        eventually("the write's permission is known", async || {
            match act(&self.api, kind, action.clone()).await {
                Ok(Written::Unchanged(_)) => Ok(()),
                other => Err(format!("{other:?}")),
            }
        })
        .await;
    }

    /// Writes of ServiceAccounts of the namespace that have reached the API server.
    fn sent(&self) -> usize {
        self.stage
            .namespace
            .control_plane()
            .audit()
            .writes_in(self.stage.namespace.name())
            .count()
    }
}

/// A write of an object of some kind.
type Action = (WriteAction, WriteOptions);

async fn act(api: &PluginApi, kind: Kind, (action, options): Action) -> Result<Written, ApiError> {
    api.write(Write {
        kind: GroupVersionKind::new(kind.0, kind.1),
        action,
        options,
    })
    .await
}

fn update(object: &Object, with: &Value, status: bool) -> Action {
    (
        WriteAction::Update {
            key: object.key().clone(),
            status,
            object: with.to_string(),
        },
        WriteOptions::default(),
    )
}

fn patch(object: &Object, subresource: Option<&str>, body: PatchBody) -> Action {
    let subresource = subresource.map(str::to_owned);
    (
        WriteAction::Patch {
            key: object.key().clone(),
            subresource,
            body,
            force: false,
        },
        WriteOptions::default(),
    )
}

fn merge(patch: Value) -> PatchBody {
    PatchBody::Merge(patch.to_string())
}

fn deployment(name: &str) -> Value {
    let labels = json!({"app": name});
    let template = json!({"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name},
        "spec": {"selector": {"matchLabels": labels}, "template": template}})
}

/// What `CreateOrUpdate` does: the mutation sets what its author wrote, without the fields that the
/// API server fills in and in other forms than it keeps.
#[tokio::test]
async fn write_without_the_servers_defaults_is_sent_once() {
    let cached = Cached::new("defaults").await;
    let web = cached.created(kinds::DEPLOYMENT, deployment("web")).await;
    let field = json!({"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}});
    let container = json!({
        "name": "c", "image": "i", "env": [field],
        "ports": [{"containerPort": 80}], "resources": {"limits": {"cpu": "0.5", "memory": "1024Mi"}},
    });
    let mutated = |object: &Object| {
        let mut object = value(object);
        object["spec"]["template"]["spec"] = json!({"containers": [container]});
        object
    };
    let first = act(
        &cached.api,
        kinds::DEPLOYMENT,
        update(&web, &mutated(&web), false),
    )
    .await;
    let Ok(Written::Stored(stored)) = first else {
        panic!("{first:?}")
    };
    let kind = GroupVersionKind::new("apps/v1", "Deployment");
    let current = async || {
        eventually("the change is cached", async || {
            let cached = cached.api.cached(&kind, stored.key());
            cached
                .filter(|object| object.resource_version() == stored.resource_version())
                .ok_or("it is not".to_owned())
        })
        .await
    };

    // The first is sent, and its permission may become known a little later.
    let object = current().await;
    let again = update(&object, &mutated(&object), false);
    cached.until_suppressed(kinds::DEPLOYMENT, &again).await;
    let before = cached.sent();
    for _ in 0..20 {
        let object = current().await;
        let again = update(&object, &mutated(&object), false);
        let answer = act(&cached.api, kinds::DEPLOYMENT, again).await;
        let Ok(Written::Unchanged(answer)) = answer else {
            panic!("{answer:?}")
        };
        assert_eq!(answer.resource_version(), stored.resource_version());
    }
    assert_eq!(cached.sent(), before, "nothing has reached the API server");

    let object = current().await;
    let mut other = mutated(&object);
    other["spec"]["template"]["spec"]["containers"][0]["image"] = json!("j");
    let changed = act(
        &cached.api,
        kinds::DEPLOYMENT,
        update(&object, &other, false),
    )
    .await;
    assert!(matches!(changed, Ok(Written::Stored(_))), "{changed:?}");
}

#[tokio::test]
async fn unchanged_write_is_not_sent() {
    let cached = Cached::new("unchanged").await;
    let mut map = config_map("a");
    map["data"] = json!({"n": "1"});
    let map = cached.created(kinds::CONFIG_MAP, map).await;
    let web = cached.created(kinds::DEPLOYMENT, deployment("web")).await;
    let actions = [
        (kinds::CONFIG_MAP, &map, update(&map, &value(&map), false)),
        (
            kinds::CONFIG_MAP,
            &map,
            patch(&map, None, merge(json!({"data": {"n": "1", "gone": null}}))),
        ),
        (kinds::DEPLOYMENT, &web, update(&web, &value(&web), false)),
        (kinds::DEPLOYMENT, &web, update(&web, &value(&web), true)),
        (
            kinds::DEPLOYMENT,
            &web,
            patch(
                &web,
                Some("status"),
                merge(json!({"status": value(&web)["status"]})),
            ),
        ),
    ];
    let first = act(&cached.api, kinds::CONFIG_MAP, actions[0].2.clone())
        .await
        .expect("done");
    assert!(
        matches!(first, Written::Stored(_)),
        "nobody knows yet that it may"
    );
    for (kind, _, action) in &actions {
        cached.until_suppressed(*kind, action).await;
    }
    let before = cached.sent();
    for (kind, object, action) in actions {
        let answer = act(&cached.api, kind, action.clone()).await;
        let Ok(Written::Unchanged(answer)) = answer else {
            panic!("{action:?} is sent: {answer:?}")
        };
        assert_eq!(answer.json(), object.json());
    }
    assert_eq!(
        cached.sent(),
        before,
        "nothing of it has reached the API server"
    );

    let mut changed = value(&map);
    changed["data"]["n"] = json!("2");
    let status = json!({"status": {"observedGeneration": 7}});
    for (at, (kind, action)) in [
        (kinds::CONFIG_MAP, update(&map, &changed, false)),
        (
            kinds::CONFIG_MAP,
            patch(&map, None, merge(json!({"data": {"n": "3"}}))),
        ),
        (
            kinds::DEPLOYMENT,
            patch(&web, Some("status"), merge(status)),
        ),
    ]
    .into_iter()
    .enumerate()
    {
        let answer = act(&cached.api, kind, action).await.expect("done");
        assert!(matches!(answer, Written::Stored(_)));
        assert_eq!(cached.sent(), before + at + 1);
    }
    let stored = cached.stage.get("a", Read::Live).await.expect("there");
    assert_eq!(stored.scalar_at(".data.n").as_deref(), Some("3"));
}

#[tokio::test]
async fn what_depends_on_more_than_the_object_is_sent() {
    let cached = Cached::new("unchanged-sent").await;
    let map = cached.created(kinds::CONFIG_MAP, config_map("a")).await;
    let web = cached.created(kinds::DEPLOYMENT, deployment("web")).await;
    let mut without_version = value(&map);
    without_version["metadata"]
        .as_object_mut()
        .expect("it is")
        .remove("resourceVersion");
    let with = |options: WriteOptions| (update(&map, &value(&map), false).0, options);
    let applied =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}).to_string();
    let before = cached.sent();
    let actions = [
        (
            kinds::CONFIG_MAP,
            with(WriteOptions {
                dry_run: true,
                ..WriteOptions::default()
            }),
        ),
        (
            kinds::CONFIG_MAP,
            with(WriteOptions {
                strict: true,
                ..WriteOptions::default()
            }),
        ),
        (kinds::CONFIG_MAP, update(&map, &without_version, false)),
        (
            kinds::CONFIG_MAP,
            patch(&map, None, PatchBody::Json("[]".to_owned())),
        ),
        (
            kinds::DEPLOYMENT,
            patch(&web, Some("scale"), merge(json!({}))),
        ),
        (
            kinds::CONFIG_MAP,
            patch(&map, None, PatchBody::Apply(applied)),
        ),
    ];
    for (at, (kind, action)) in actions.into_iter().enumerate() {
        let answer = act(&cached.api, kind, action.clone())
            .await
            .unwrap_or_else(|error| panic!("{action:?}: {error}"));
        assert!(matches!(answer, Written::Stored(_)), "{action:?}");
        assert_eq!(cached.sent(), before + at + 1, "{action:?}");
    }
    let error = act(
        &cached.api,
        kinds::CONFIG_MAP,
        patch(&map, None, PatchBody::Merge("[]".to_owned())),
    )
    .await;
    assert_eq!(error.expect_err("no object").kind, ErrorKind::BadRequest);
}

#[tokio::test]
async fn partly_cached_kind_sends_every_write() {
    let stage = Stage::new("unchanged-parts").await;
    stage.namespace.allow_all("plugin").await;
    let resource = stage.resource("v1", "ConfigMap").await;
    let labelled = stage.registry.informer(
        &resource,
        Scope {
            labels: "!never".to_owned(),
            ..Scope::everything()
        },
    );
    let bare = stage.registry.informer(
        &resource,
        Scope {
            metadata_only: true,
            ..Scope::everything()
        },
    );
    labelled.synced().await;
    bare.synced().await;
    let cached = Cached {
        api: stage.api_as("plugin"),
        stage,
        _informers: vec![labelled, bare],
    };
    let map = cached.created(kinds::CONFIG_MAP, config_map("a")).await;
    let before = cached.sent();
    let answer = act(
        &cached.api,
        kinds::CONFIG_MAP,
        update(&map, &value(&map), false),
    )
    .await
    .expect("done");
    assert!(matches!(answer, Written::Stored(_)));
    assert_eq!(cached.sent(), before + 1);
}

#[tokio::test]
async fn unchanged_forbidden_write_is_forbidden() {
    let cached = Cached::new("unchanged-forbidden").await;
    let map = cached.created(kinds::CONFIG_MAP, config_map("a")).await;
    let web = cached.created(kinds::DEPLOYMENT, deployment("web")).await;
    let namespace = &cached.stage.namespace;
    namespace.consenting("updater").await;
    // It may update, but not patch, and of the one kind only.
    let rules = json!([{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["update"]},
        {"apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["update"]}]);
    namespace
        .create_object(
            Kind(RBAC, "Role"),
            json!({"metadata": {"name": "updater"}, "rules": rules}),
        )
        .await;
    let binding = json!({
        "metadata": {"name": "updater"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "updater"},
        "subjects": [{"kind": "ServiceAccount", "namespace": namespace.name(), "name": "updater"}],
    });
    namespace
        .create_object(Kind(RBAC, "RoleBinding"), binding)
        .await;
    let api = cached.stage.api_as("updater");
    eventually("it may update", async || {
        match act(&api, kinds::CONFIG_MAP, update(&map, &value(&map), false)).await {
            Ok(Written::Unchanged(_)) => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
    for (kind, verb, resource, action) in [
        (
            kinds::CONFIG_MAP,
            "patch",
            "configmaps",
            patch(&map, None, merge(json!({}))),
        ),
        (
            kinds::DEPLOYMENT,
            "update",
            "deployments/status",
            update(&web, &value(&web), true),
        ),
        (
            kinds::DEPLOYMENT,
            "patch",
            "deployments/status",
            patch(&web, Some("status"), merge(json!({}))),
        ),
    ] {
        let error = act(&api, kind, action).await.expect_err("forbidden");
        let words = format!("cannot {verb} resource {resource:?}");
        assert!(
            error.kind == ErrorKind::Forbidden && error.status.message.contains(&words),
            "{error}"
        );
        assert!(
            api.refusal()
                .and_then(|refusal| refusal.remedy)
                .is_some_and(|remedy| remedy.to_string().contains(verb)),
            "and it comes with the remedy"
        );
    }
}

/// Counts the questions, and allows nothing.
#[derive(Default)]
struct DenyAll(AtomicUsize);

#[async_trait]
impl AccessReviewer for DenyAll {
    async fn review(&self, _: &ServiceAccount, _: &Access) -> Result<bool, ApiError> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Ok(false)
    }
}

#[tokio::test]
async fn right_and_wrong_guesses_leave_the_same_trace() {
    let cached = Cached::new("unchanged-guess").await;
    let mut map = config_map("a");
    map["data"] = json!({"password": "right"});
    let map = cached.created(kinds::CONFIG_MAP, map).await;
    let stage = &cached.stage;
    stage.namespace.consenting("guesser").await;
    let reviewer = Arc::new(DenyAll::default());
    let account = ServiceAccount {
        namespace: stage.namespace.name().to_owned(),
        name: "guesser".to_owned(),
    };
    let grants = Grants::new(reviewer.clone()).of(account);
    let identity = PluginIdentity::new(grants, "guesser");
    let api = PluginApi::of_plugin(
        stage.client.clone(),
        stage.discovery.clone(),
        stage.registry.clone(),
        identity,
    );
    let api = api.expect("an API");
    let mut missing = value(&map);
    missing["metadata"]["name"] = json!("missing");
    let missing = Object::from_json(
        &missing.to_string(),
        &GroupVersionKind::new("v1", "ConfigMap"),
        ManagedFields::Drop,
    );
    let missing = missing.expect("an object");
    for action in [
        patch(&map, None, merge(json!({"data": {"password": "right"}}))),
        patch(&map, None, merge(json!({"data": {"password": "wrong"}}))),
        patch(&map, None, merge(json!({}))),
        patch(&missing, None, merge(json!({}))),
        update(&map, &value(&map), false),
    ] {
        let before = cached.sent();
        let error = act(&api, kinds::CONFIG_MAP, action.clone())
            .await
            .expect_err("forbidden");
        assert_eq!(error.kind, ErrorKind::Forbidden, "{action:?}");
        assert_eq!(cached.sent(), before + 1, "{action:?} is one request");
        assert_eq!(
            reviewer.0.load(Ordering::Relaxed),
            0,
            "{action:?} asks nothing else"
        );
        println!(
            "{:?}: {:?} after 1 request and 0 access reviews",
            action.0, error.kind
        );
    }
}

/// An authorizer besides RBAC, whose decisions change without a role or a binding.
#[derive(Default)]
struct Elsewhere {
    denies: AtomicBool,
}

#[async_trait]
impl AccessReviewer for Elsewhere {
    async fn review(&self, _: &ServiceAccount, _: &Access) -> Result<bool, ApiError> {
        Ok(!self.denies.load(Ordering::Relaxed))
    }
}

#[tokio::test]
async fn right_that_another_authorizer_takes_away_suppresses_nothing_for_long() {
    let cached = Cached::new("unchanged-elsewhere").await;
    let map = cached.created(kinds::CONFIG_MAP, config_map("a")).await;
    let stage = &cached.stage;
    let reviewer = Arc::new(Elsewhere::default());
    let grants = Grants::new(reviewer.clone());
    // Roles and bindings are watched, so decisions about events last.
    grants.set_watched(true);
    tokio::time::sleep(Grants::SETTLE * 2).await;
    let account = ServiceAccount {
        namespace: stage.namespace.name().to_owned(),
        name: "plugin".to_owned(),
    };
    let api = PluginApi::of_plugin(
        stage.client.clone(),
        stage.discovery.clone(),
        stage.registry.clone(),
        PluginIdentity::new(grants.of(account), "elsewhere"),
    );
    let api = api.expect("an API");
    let action = update(&map, &value(&map), false);
    let write = async || {
        act(&api, kinds::CONFIG_MAP, action.clone())
            .await
            .expect("done")
    };
    eventually("the permission is learnt", async || match write().await {
        Written::Unchanged(_) => Ok(()),
        Written::Stored(_) => Err("it is sent".to_owned()),
    })
    .await;

    tokio::time::sleep(Grants::KEEP + Duration::from_millis(100)).await;
    assert!(
        matches!(write().await, Written::Unchanged(_)),
        "asked again"
    );

    reviewer.denies.store(true, Ordering::Relaxed);
    tokio::time::sleep(Grants::KEEP + Duration::from_millis(100)).await;
    let sent = cached.sent();
    for _ in 0..2 {
        assert!(matches!(write().await, Written::Stored(_)));
    }
    assert_eq!(cached.sent(), sent + 2, "the API server decides");
}

#[tokio::test]
async fn stale_cache_reverts_no_change() {
    let cached = Cached::new("unchanged-behind").await;
    let map = cached.created(kinds::CONFIG_MAP, config_map("a")).await;
    let kind = GroupVersionKind::new("v1", "ConfigMap");
    let seen = Arc::new(Mutex::new(String::new()));
    let note = seen.clone();
    let name = cached.stage.namespace.name().to_owned();
    let handler = Arc::new(move |event: &Event| {
        if event.object().key().namespace.as_deref() == Some(name.as_str()) {
            *note.lock() = event.object().scalar_at(".data.n").unwrap_or_default();
        }
    });
    let _subscription = cached._informers[0].subscribe(handler, None);
    cached
        .until_suppressed(kinds::CONFIG_MAP, &update(&map, &value(&map), false))
        .await;
    let mut outcomes = (0, 0);
    for round in 0..30_u32 {
        let before = cached.api.cached(&kind, map.key()).expect("cached");
        let wanted = round.to_string();
        cached
            .stage
            .namespace
            .patch(kinds::CONFIG_MAP, "a", json!({"data": {"n": wanted}}))
            .await;
        match act(
            &cached.api,
            kinds::CONFIG_MAP,
            update(&map, &value(&before), false),
        )
        .await
        {
            Ok(Written::Unchanged(answer)) => {
                assert_eq!(answer.resource_version(), before.resource_version());
                outcomes.0 += 1;
            }
            Err(error) if error.kind == ErrorKind::Conflict => outcomes.1 += 1,
            other => panic!("{other:?}"),
        }
        let stored = cached.stage.get("a", Read::Live).await.expect("there");
        assert_eq!(stored.scalar_at(".data.n"), Some(wanted.clone()));
        eventually("the event of the change", async || match &*seen.lock() {
            now if *now == wanted => Ok(()),
            now => Err(now.clone()),
        })
        .await;
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    println!(
        "{} times the cache answered, {} times the API server",
        outcomes.0, outcomes.1
    );
}
