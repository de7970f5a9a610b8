//! Tests of kube-rs's client on a test's cluster: its requests and its errors.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{
    Api, DeleteParams, ListParams, Patch, PatchParams, PostParams, Preconditions, WatchParams,
};
use kube::{Client, ResourceExt};
use serde_json::json;

use super::block_on;
use super::controller::Action;
use crate::testing::{Cluster, Verb};
use crate::{ApiError, Context, Controller, ErrorKind, ObjectMeta, Plugin};

fn metadata(name: &str) -> ObjectMeta {
    ObjectMeta {
        name: Some(name.into()),
        namespace: Some("ns".into()),
        ..ObjectMeta::default()
    }
}

fn map(name: &str) -> ConfigMap {
    ConfigMap {
        metadata: metadata(name),
        ..ConfigMap::default()
    }
}

fn maps(client: Client) -> Api<ConfigMap> {
    Api::namespaced(client, "ns")
}

/// Runs kube-rs's code against the cluster.
fn run<F: Future<Output = Result<(), kube::Error>>>(
    cluster: &Cluster,
    code: impl FnOnce(Client) -> F,
) {
    block_on(code(cluster.context().kube_client()))
        .expect("ends")
        .expect("works");
}

#[test]
fn client_creates_reads_replaces_patches_and_deletes() {
    let cluster = Cluster::new();
    run(&cluster, async |client| {
        let maps = maps(client);

        let mut made = maps.create(&PostParams::default(), &map("a")).await?;
        made.data
            .get_or_insert_default()
            .insert("a".into(), "1".into());
        maps.replace("a", &PostParams::default(), &made).await?;

        let merge = Patch::Merge(json!({"data": {"b": "2"}}));
        let merged = maps.patch("a", &PatchParams::default(), &merge).await?;
        assert_eq!(merged.data.as_ref().map_or(0, |data| data.len()), 2);

        let apply =
            Patch::Apply(json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"c": "3"}}));
        maps.patch("a", &PatchParams::apply("tests").force(), &apply)
            .await?;
        assert_eq!(maps.get("a").await?.data.unwrap_or_default().len(), 3);

        let other = Preconditions {
            uid: Some("other".into()),
            ..Preconditions::default()
        };

        let refused = maps
            .delete(
                "a",
                &DeleteParams {
                    preconditions: Some(other),
                    ..DeleteParams::default()
                },
            )
            .await;

        assert!(matches!(refused, Err(kube::Error::Api(status)) if status.code == 409));
        assert!(
            maps.delete("a", &DeleteParams::default()).await?.is_right(),
            "a Status: it is gone"
        );

        assert!(maps.get_opt("a").await?.is_none());
        Ok(())
    });

    let verbs: Vec<_> = cluster.writes().iter().map(|write| write.verb).collect();
    assert_eq!(
        verbs,
        [
            Verb::Create,
            Verb::Update,
            Verb::Patch,
            Verb::Patch,
            Verb::Delete
        ]
    );
}

#[test]
fn client_lists_with_selectors_pages_and_metadata_only() {
    let mut cluster = Cluster::new();

    for name in ["a", "b", "c"] {
        let mut map = map(name);
        map.metadata.labels = Some([("first".to_owned(), (name == "a").to_string())].into());
        cluster = cluster.with(map);
    }

    run(&cluster, async |client| {
        let maps = maps(client);

        assert_eq!(
            maps.list(&ListParams::default().labels("first in (false)"))
                .await?
                .items
                .len(),
            2
        );

        let page = maps.list(&ListParams::default().limit(2)).await?;
        let token = page.metadata.continue_.expect("there is more");
        let rest = maps
            .list(&ListParams::default().limit(2).continue_token(&token))
            .await?;

        assert_eq!(
            rest.items
                .iter()
                .map(ResourceExt::name_any)
                .collect::<Vec<_>>(),
            ["c"]
        );

        assert_eq!(
            maps.list_metadata(&ListParams::default().fields("metadata.name=b"))
                .await?
                .items
                .len(),
            1
        );

        assert_eq!(maps.get_metadata("a").await?.labels()["first"], "true");
        Ok(())
    });
}

#[test]
fn client_writes_status_subresource() {
    let labels = json!({"app": "d"});
    let template = json!({"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let spec = json!({"selector": {"matchLabels": labels}, "template": template});
    let spec = serde_json::from_value(spec).expect("a spec");

    let cluster = Cluster::new().with(Deployment {
        metadata: metadata("d"),
        spec,
        ..Deployment::default()
    });

    run(&cluster, async |client| {
        let deployments: Api<Deployment> = Api::default_namespaced(client.clone());
        assert!(
            deployments.get_opt("d").await?.is_none(),
            "there is no key, so the namespace is `default`"
        );

        let deployments: Api<Deployment> = Api::namespaced(client, "ns");
        let status = Patch::Merge(json!({"status": {"replicas": 2, "readyReplicas": 2}}));
        let patched = deployments
            .patch_status("d", &PatchParams::default(), &status)
            .await?;

        assert_eq!(
            patched.status.and_then(|status| status.ready_replicas),
            Some(2)
        );

        assert_eq!(deployments.get_status("d").await?.name_any(), "d");
        Ok(())
    });
}

#[test]
fn entry_creates_then_replaces() {
    let cluster = Cluster::new();
    run(&cluster, async |client| {
        let maps = maps(client);

        for _ in 0..2 {
            let mut entry = maps.entry("a").await?.or_insert(|| map("a"));
            entry
                .get_mut()
                .data
                .get_or_insert_default()
                .insert("a".into(), "1".into());
            entry.commit(&PostParams::default()).await.expect("commits");
        }
        Ok(())
    });

    assert_eq!(
        cluster
            .writes()
            .iter()
            .map(|write| write.verb)
            .collect::<Vec<_>>(),
        [Verb::Create, Verb::Update]
    );
}

#[test]
fn refusals_are_kube_rs_errors() {
    let cluster = Cluster::new().with(map("a"));

    cluster.fail_next(
        Verb::Get,
        ApiError::new(ErrorKind::Forbidden, "you may not"),
    );

    run(&cluster, async |client| {
        let maps = maps(client);
        match maps.get("a").await {
            Err(kube::Error::Api(status)) => {
                assert_eq!(
                    (status.code, &*status.reason, &*status.message),
                    (403, "Forbidden", "you may not")
                );
            }
            other => panic!("{other:?}"),
        }

        assert!(
            matches!(maps.get("none").await, Err(kube::Error::Api(status)) if status.is_not_found())
        );
        Ok(())
    });
}

#[test]
fn refuses_watch_with_reason() {
    run(&Cluster::new(), async |client| {
        let maps = maps(client);

        let refused = match maps.watch(&WatchParams::default(), "0").await {
            Ok(stream) => std::pin::pin!(stream)
                .next()
                .await
                .expect("an answer")
                .map(drop),
            Err(error) => Err(error),
        };

        match refused {
            Err(kube::Error::Api(status)) => {
                assert_eq!((status.code, &*status.reason), (405, "MethodNotAllowed"));
                assert!(status.message.contains("manifest"), "{}", status.message);
            }
            other => panic!("{other:?}"),
        }
        Ok(())
    });
}

/// Awaits the client in a tokio runtime of the test.
#[tokio::test]
async fn client_works_in_tests_own_runtime() {
    let client = Cluster::new().with(map("a")).context().kube_client_live();
    assert_eq!(maps(client).get("a").await.expect("there").name_any(), "a");
}

#[test]
fn error_policy_reports_the_failure_and_chooses_the_delay() {
    const SECOND: Duration = Duration::from_secs(1);
    async fn reconcile(map: Arc<ConfigMap>, client: Arc<Client>) -> Result<Action, kube::Error> {
        maps((*client).clone())
            .delete(&map.name_any(), &DeleteParams::default())
            .await?;
        Ok(Action::await_change())
    }

    let policy = |_: Arc<ConfigMap>, _: &kube::Error, _: Arc<Client>| Action::requeue(SECOND);
    let plugin = Plugin::new().controller(Controller::kube(
        "c",
        reconcile,
        policy,
        Context::kube_client,
    ));

    let cluster = Cluster::new().with(map("a"));
    cluster.fail_next(
        Verb::Delete,
        ApiError::new(ErrorKind::Forbidden, "you may not"),
    );

    let key = || ("ns", "a");
    assert_eq!(
        cluster.reconcile(&plugin, "c", key()).expect("an action"),
        crate::Action::requeue_after(SECOND)
    );
    assert_eq!(cluster.failures(), ["you may not"]);

    assert_eq!(
        cluster.reconcile(&plugin, "c", key()).expect("an action"),
        crate::Action::done()
    );
    assert_eq!(cluster.failures(), Vec::<String>::new());
}

#[test]
fn response_has_the_warnings_as_headers() {
    let cluster = Cluster::new();
    run(&cluster, async |client| {
        let body = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "wrong": {}});
        let request = http::Request::post("/api/v1/namespaces/ns/configmaps")
            .header("content-type", "application/json")
            .body(kube::client::Body::from(body.to_string().into_bytes()))
            .expect("a request");

        let response = client.send(request).await?;
        let warnings: Vec<_> = response.headers().get_all("warning").iter().collect();
        assert_eq!(warnings, [r#"299 - "unknown field \"wrong\"""#]);
        Ok(())
    });
}
