//! Events of an informer, and its requests on the wire.

use std::{sync::Arc, time::Duration};

use operetta_core::{
    gate::operation::DeleteOptions, handler::event::Event, object::kind::GroupVersionKind,
    status::ErrorKind,
};
use operetta_kube::informer::{Handler, Informer, Scope};
use operetta_testkit::{Kind, any_schema, crd, eventually, kinds, needs_real_server, with_status};
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::{Stage, config_map};

/// Writes down what it receives: `+a`, `~a`, `-a`, with `(initial)` for what was there before.
#[derive(Clone, Default)]
pub struct Notes(Arc<Mutex<Vec<String>>>);

impl Notes {
    /// A handler of the informer that also checks that the store knows already what it receives.
    pub fn handler(&self, informer: &Arc<Informer>) -> Handler {
        let notes = self.clone();
        let informer = Arc::downgrade(informer);
        Arc::new(move |event| {
            let object = event.object();
            let name = &object.key().name;
            let line = match event {
                Event::Added { initial: true, .. } => format!("+{name} (initial)"),
                Event::Added { .. } => format!("+{name}"),
                Event::Modified { .. } => format!("~{name}"),
                Event::Deleted { .. } => format!("-{name}"),
            };
            let informer = informer.upgrade().expect("it calls");
            let stored = informer.cache.store.get(object.key());
            let known = match event {
                // Another one of that name may have come in the same list.
                Event::Deleted { .. } => stored.is_none_or(|stored| stored.uid() != object.uid()),
                _ => stored.is_some_and(|stored| stored.revision() >= object.revision()),
            };
            let line = if known {
                line
            } else {
                format!("{line} before the store has it")
            };
            notes.0.lock().push(line);
        })
    }

    pub fn all(&self) -> Vec<String> {
        self.0.lock().clone()
    }

    pub async fn until(&self, wanted: &[&str]) {
        eventually("what the handler is delivered", async || {
            let now = self.all();
            if now == wanted {
                Ok(())
            } else {
                Err(format!("{now:?}"))
            }
        })
        .await;
    }
}

#[tokio::test]
async fn panicking_handler_takes_no_event_from_others() {
    let stage = Stage::new("panics").await;
    let informer = stage.config_maps("").await;
    let panicking: Handler =
        Arc::new(|event| panic!("a handler that panics at {}", event.object().key()));
    let _panicking = informer.subscribe(panicking, None);
    let notes = Notes::default();
    let _sound = informer.subscribe(notes.handler(&informer), None);
    informer.synced().await;
    let before = informer.stats().relists;
    for name in ["a", "b"] {
        stage.create(config_map(name)).await.expect("created");
    }
    notes.until(&["+a", "+b"]).await;
    assert_eq!(informer.stats().relists, before, "the watch goes on");
}

#[tokio::test]
async fn events_arrive_in_order_and_late_handlers_get_the_store() {
    let stage = Stage::new("delivered").await;
    stage.create(config_map("a")).await.expect("created");
    let informer = stage.config_maps("").await;
    let early = Notes::default();
    let _early = informer.subscribe(early.handler(&informer), None);
    informer.synced().await;
    early.until(&["+a (initial)"]).await;

    stage.create(config_map("b")).await.expect("created");
    for n in ["1", "2"] {
        stage
            .namespace
            .patch(kinds::CONFIG_MAP, "b", json!({"data": {"n": n}}))
            .await;
    }
    stage
        .delete("a", DeleteOptions::default())
        .await
        .expect("deleted");
    early.until(&["+a (initial)", "+b", "~b", "~b", "-a"]).await;

    let late = Notes::default();
    let late_subscription = informer.subscribe(late.handler(&informer), None);
    assert_eq!(
        late.all(),
        ["+b (initial)"],
        "delivered before subscribe() returns"
    );
    stage
        .delete("b", DeleteOptions::default())
        .await
        .expect("deleted");
    late.until(&["+b (initial)", "-b"]).await;

    drop(late_subscription);
    stage.create(config_map("c")).await.expect("created");
    early
        .until(&["+a (initial)", "+b", "~b", "~b", "-a", "-b", "+c"])
        .await;
    assert_eq!(
        late.all().len(),
        2,
        "a dropped subscription receives nothing more"
    );
}

#[tokio::test]
async fn an_object_that_leaves_the_selector_is_told_as_deleted() {
    let stage = Stage::new("leaves").await;
    let informer = stage.config_maps("app=x").await;
    let notes = Notes::default();
    let _subscription = informer.subscribe(notes.handler(&informer), None);
    let labelled = |name: &str, app: &str| {
        let mut made = config_map(name);
        made["metadata"]["labels"] = json!({"app": app});
        made
    };
    stage.create(labelled("other", "y")).await.expect("created");
    stage.create(labelled("a", "x")).await.expect("created");
    eventually("a is seen", async || {
        if notes.all().is_empty() {
            Err("nothing".to_owned())
        } else {
            Ok(())
        }
    })
    .await;
    stage
        .namespace
        .patch(
            kinds::CONFIG_MAP,
            "a",
            json!({"metadata": {"labels": {"app": "y"}}}),
        )
        .await;
    eventually("a is delivered as deleted", async || {
        let now = notes.all();
        if now.last().is_some_and(|last| last == "-a") {
            Ok(())
        } else {
            Err(format!("{now:?}"))
        }
    })
    .await;
    assert!(informer.cache.store.is_empty());
}

#[tokio::test]
async fn a_resync_tells_every_object_again() {
    let stage = Stage::new("resync").await;
    stage.create(config_map("a")).await.expect("created");
    let informer = stage.config_maps("").await;
    informer.synced().await;
    let notes = Notes::default();
    let _subscription =
        informer.subscribe(notes.handler(&informer), Some(Duration::from_millis(50)));
    eventually("a is delivered again", async || {
        let now = notes.all();
        if now.iter().filter(|line| *line == "~a").count() >= 2 {
            Ok(())
        } else {
            Err(format!("{now:?}"))
        }
    })
    .await;
}

#[tokio::test]
async fn metadata_only_keeps_no_data() {
    let stage = Stage::new("metadata").await;
    let mut made = config_map("a");
    made["data"] = json!({"secret": "x".repeat(1000)});
    stage.create(made).await.expect("created");
    let namespace = Some(stage.namespace.name().to_owned());
    let scope = Scope {
        namespace,
        metadata_only: true,
        ..Scope::everything()
    };
    let informer = stage
        .registry
        .informer(&stage.resource("v1", "ConfigMap").await, scope);
    informer.synced().await;
    let kept = informer.cache.store.get(&stage.key("a")).expect("kept");
    assert!(
        !kept.json().contains("secret") && kept.json().contains(kept.uid()),
        "{}",
        kept.json()
    );
}

#[tokio::test]
async fn two_users_share_a_watch_until_the_last_leaves() {
    let stage = Stage::new("shared").await;
    let open = || {
        let audit = stage.namespace.control_plane().audit();
        let here = |event: &&&operetta_testkit::AuditEvent| {
            event.object_ref.namespace == stage.namespace.name()
        };
        audit.open_watches("configmaps").iter().filter(here).count()
    };
    let one = stage.config_maps("").await;
    let two = stage.config_maps("").await;
    assert!(Arc::ptr_eq(&one, &two));
    one.synced().await;
    eventually("the watch is open", async || {
        if open() == 1 {
            Ok(())
        } else {
            Err(open().to_string())
        }
    })
    .await;
    let subscription = two.subscribe(Notes::default().handler(&two), None);
    drop((one, two));
    // The subscription alone keeps it.
    stage.create(config_map("a")).await.expect("created");
    eventually("it is seen", async || {
        if subscription.informer().cache.store.is_empty() {
            Err("nothing".to_owned())
        } else {
            Ok(())
        }
    })
    .await;
    assert_eq!(open(), 1);
    drop(subscription);
    eventually("the watch has ended", async || {
        if open() == 0 {
            Ok(())
        } else {
            Err(open().to_string())
        }
    })
    .await;
    assert!(stage.registry.running().is_empty());
}

#[tokio::test]
async fn a_kind_is_found_once_its_crd_is_installed() {
    let stage = Stage::new("discovery").await;
    let kind = GroupVersionKind::new("test.operetta.dev/v1", "Sprocket");
    let error = stage
        .discovery
        .resolve(&kind)
        .await
        .expect_err("not served yet");
    assert_eq!(error.kind, ErrorKind::NotFound);
    assert!(
        error.status.message.contains("Sprocket"),
        "{}",
        error.status.message
    );
    let waiting = tokio::spawn({
        let discovery = stage.discovery.clone();
        let kind = kind.clone();
        async move { discovery.wait_for(&kind).await }
    });
    let crd = with_status(crd(
        "test.operetta.dev",
        "Sprocket",
        "sprocketry",
        "Cluster",
        &any_schema(),
    ));
    stage.namespace.control_plane().apply(&crd.to_string());
    let found = waiting.await.expect("found");
    assert_eq!(
        (found.plural.as_str(), found.namespaced, found.watchable),
        ("sprocketry", false, true)
    );
    assert_eq!(found.subresources, ["status"]);

    // Gone again: what was known is forgotten when a change is delivered.
    stage
        .namespace
        .control_plane()
        .kubectl(&["delete", "crd", "sprocketry.test.operetta.dev"]);
    eventually("the kind is gone", async || {
        stage.discovery.invalidate(Some("test.operetta.dev"));
        stage
            .discovery
            .resolve(&kind)
            .await
            .map_or(Ok(()), |_| Err("still served".to_owned()))
    })
    .await;
}

#[tokio::test]
async fn built_in_kinds_have_their_plural_scope_and_subresources() {
    let stage = Stage::new("built-in").await;
    let deployment = stage.resource("apps/v1", "Deployment").await;
    assert_eq!(
        (deployment.plural.as_str(), deployment.namespaced),
        ("deployments", true)
    );
    assert!(
        ["scale", "status"]
            .iter()
            .all(|name| deployment.subresources.iter().any(|one| one == name))
    );
    assert!(!stage.resource("v1", "Namespace").await.namespaced);
    let review = stage
        .resource("authorization.k8s.io/v1", "SubjectAccessReview")
        .await;
    assert!(!review.watchable);
}

#[tokio::test]
async fn deep_object_is_skipped_and_disturbs_nobody() {
    if needs_real_server("it stores JSON that is nested deeper than 128 levels") {
        return;
    }
    const EDITS: usize = 20;
    let stage = Stage::new("deep").await;
    let namespace = &stage.namespace;
    let kind = Kind("deep.operetta.dev/v1", "Well");
    namespace.control_plane().apply(
        &crd(
            "deep.operetta.dev",
            "Well",
            "wells",
            "Namespaced",
            &any_schema(),
        )
        .to_string(),
    );
    let kind_of = GroupVersionKind::new(kind.0, kind.1);
    stage.discovery.wait_for(&kind_of).await;
    let scope = Scope {
        namespace: Some(namespace.name().to_owned()),
        ..Scope::everything()
    };
    let informer = stage
        .registry
        .informer(&stage.resource(kind.0, kind.1).await, scope);
    namespace
        .create_object(
            kind,
            json!({"metadata": {"name": "shallow-first"}, "spec": {"b": 0}}),
        )
        .await;
    informer.synced().await;
    let notes = Notes::default();
    let _subscription = informer.subscribe(notes.handler(&informer), None);
    let deep = |edit: usize| (0..200).fold(json!(edit), |inside, _| json!({"a": inside}));
    let path = format!(
        "/apis/deep.operetta.dev/v1/namespaces/{}/wells",
        namespace.name()
    );
    // Not with a client that would have to read the response.
    let send = async |method: http::Method, path: String, object: Value| {
        let patch = method == http::Method::PATCH;
        let media = if patch {
            "application/merge-patch+json"
        } else {
            "application/json"
        };
        let request = http::Request::builder()
            .method(method)
            .uri(path)
            .header(http::header::CONTENT_TYPE, media);
        let request = request
            .body(object.to_string().into_bytes())
            .expect("a request");
        stage.client.request_text(request).await.expect("written");
    };
    let object = json!({"apiVersion": kind.0, "kind": kind.1, "metadata": {"name": "deep"}, "spec": deep(0)});
    send(http::Method::POST, path.clone(), object).await;
    let before = informer.stats();
    for edit in 1..=EDITS {
        for name in ["deep", "shallow-first"] {
            send(
                http::Method::PATCH,
                format!("{path}/{name}"),
                json!({"spec": {"a": null}}),
            )
            .await;
            send(
                http::Method::PATCH,
                format!("{path}/{name}"),
                json!({"spec": deep(edit)}),
            )
            .await;
        }
    }
    namespace
        .create_object(kind, json!({"metadata": {"name": "neighbour"}, "spec": 1}))
        .await;
    eventually("the neighbour is delivered", async || {
        let all = notes.all();
        if all.contains(&"+neighbour".to_owned()) {
            Ok(())
        } else {
            Err(format!("{all:?}"))
        }
    })
    .await;
    let stats = informer.stats();
    println!("{EDITS} edits of objects nested too deeply: {before:?} before, {stats:?} afterwards");
    assert_eq!(
        (stats.relists, stats.watches),
        (before.relists, before.watches),
        "{stats:?}"
    );
    assert!(stats.unreadable > EDITS as u64, "{stats:?}");
    assert_eq!(
        informer.state().borrow().error,
        None,
        "the watch itself works"
    );
    let unreadable = informer.unreadable().expect("it is named");
    assert!(
        unreadable.contains(&format!("failed to decode Well {}/deep", namespace.name())),
        "{unreadable}"
    );
    assert!(unreadable.ends_with("and 1 more"), "{unreadable}");

    // The store has the last state that could be read; a deletion is delivered all the same.
    for name in ["deep", "shallow-first"] {
        send(http::Method::DELETE, format!("{path}/{name}"), json!({})).await;
    }
    eventually("the deletions are delivered", async || {
        let names: Vec<String> = informer
            .cache
            .store
            .keys()
            .into_iter()
            .map(|key| key.name)
            .collect();
        if names == ["neighbour"] && informer.unreadable().is_none() {
            Ok(())
        } else {
            Err(format!("{names:?}"))
        }
    })
    .await;
    assert!(
        notes.all().contains(&"-shallow-first".to_owned()),
        "{:?}",
        notes.all()
    );
    assert_eq!(informer.stats().relists, before.relists);
}
