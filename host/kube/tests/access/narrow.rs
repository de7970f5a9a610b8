//! Cached reads of a host that may watch some namespaces only: they are as complete as the plugin's
//! rights say, or refused.

use std::sync::Arc;

use kube::config::{KubeConfigOptions, Kubeconfig};
use operetta_core::{
    authz::access_review::{Grants, ServiceAccount},
    gate::operation::{Get, List, ListOptions, Read, Selection},
    manifest::Index,
    object::{ObjectKey, kind::GroupVersionKind},
    ports::ObjectApi,
    status::{ApiError, ErrorKind},
};
use operetta_kube::{
    authz::access_review::SubjectAccessReviews,
    client::{
        api_client::{ApiClient, Identity},
        object_api::{PluginApi, PluginIdentity, Watched},
    },
    discovery::Discovery,
    informer::{Scope, registry::InformerRegistry},
};
use operetta_testkit::{ControlPlane, TestNamespace, eventually, kinds};
use serde_json::{Value, json};

const INDEX: &str = "by-owner-label";

fn secret() -> GroupVersionKind {
    GroupVersionKind::new("v1", "Secret")
}

struct Narrow {
    /// The host may watch Secrets in the first two.
    locations: Vec<TestNamespace<'static>>,
    registry: Arc<InformerRegistry>,
    /// May read Secrets in all three, and nowhere else.
    some: Arc<PluginApi>,
    /// May read Secrets everywhere.
    all: Arc<PluginApi>,
}

impl Narrow {
    async fn new() -> Self {
        let control_plane = ControlPlane::shared().await;
        let mut locations = Vec::new();
        for location in ["a", "b", "c"] {
            let namespace = control_plane.namespace(&format!("narrow-{location}")).await;
            for name in ["s-0", "s-1", "s-2"] {
                let object = json!({"metadata": {"name": name, "labels": {"index": name}}});
                namespace.create_object(kinds::SECRET, object).await;
            }
            namespace.kubectl(&[
                "create",
                "role",
                "reads",
                "--verb=get,list",
                "--resource=secrets",
            ]);
            locations.push(namespace);
        }
        let home = locations[0].name().to_owned();
        let account = |name: &str| format!("--serviceaccount={home}:{name}");
        for name in ["narrow-host", "some", "all"] {
            locations[0].kubectl(&["create", "serviceaccount", name]);
        }
        for location in &locations {
            location.kubectl(&[
                "create",
                "rolebinding",
                "reads",
                "--role=reads",
                &account("some"),
            ]);
        }
        for location in &locations[..2] {
            location.kubectl(&[
                "create",
                "role",
                "host",
                "--verb=list,watch",
                "--resource=secrets",
            ]);
            location.kubectl(&[
                "create",
                "rolebinding",
                "host",
                "--role=host",
                &account("narrow-host"),
            ]);
        }
        let wide = format!("{home}-wide");
        control_plane.kubectl(&[
            "create",
            "clusterrole",
            &wide,
            "--verb=get,list",
            "--resource=secrets",
        ]);
        let role = format!("--clusterrole={wide}");
        control_plane.kubectl(&[
            "create",
            "clusterrolebinding",
            &wide,
            &role,
            &account("all"),
        ]);

        let kubeconfig = Kubeconfig::read_from(control_plane.kubeconfig_of(&home, "narrow-host"))
            .expect("a file");
        let config =
            kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await;
        let of_host = kube::Client::try_from(config.expect("a configuration")).expect("a client");
        let registry =
            InformerRegistry::new(ApiClient::new(of_host, &Identity::Host).expect("a client"));
        // Who acts as the plugins, and asks about them, may do that.
        let client = control_plane.client().await;
        let api_client = ApiClient::new(client.clone(), &Identity::Host).expect("a client");
        let discovery = Discovery::new(api_client.clone());
        let namespaces = discovery
            .resolve(&GroupVersionKind::new("v1", "Namespace"))
            .await
            .expect("served");
        let namespaces =
            InformerRegistry::new(api_client.clone()).informer(&namespaces, Scope::everything());
        namespaces.synced().await;
        registry.watch_scope.choose_from(namespaces);
        let grants = Grants::new(Arc::new(SubjectAccessReviews::new(api_client)));
        let api = |name: &str| {
            let grants = grants.of(ServiceAccount {
                namespace: home.clone(),
                name: name.to_owned(),
            });
            let discovery = discovery.clone();
            let registry = registry.clone();
            let api = PluginApi::of_plugin(
                client.clone(),
                discovery,
                registry,
                PluginIdentity::new(grants, name),
            );
            let api = api.expect("an API");
            let index = Index {
                name: INDEX.to_owned(),
                api_version: "v1".to_owned(),
                kind: "Secret".to_owned(),
                path: None,
                label: Some("index".to_owned()),
                controller: None,
            };
            api.watch(Watched::new(vec![], vec![index]));
            api
        };
        let some = api("some");
        let all = api("all");
        Self {
            locations,
            registry,
            some,
            all,
        }
    }

    fn location(&self, at: usize) -> &str {
        self.locations[at].name()
    }

    /// The namespaces of the informers that reads have started.
    fn watched(&self) -> Vec<String> {
        let mut scopes: Vec<_> = self
            .registry
            .running()
            .iter()
            .map(|one| one.scope.namespace.clone())
            .collect();
        scopes.sort();
        scopes
            .into_iter()
            .map(|namespace| namespace.unwrap_or_else(|| "all".to_owned()))
            .collect()
    }
}

fn list(namespace: Option<&str>, selection: Selection) -> ListOptions {
    ListOptions {
        selection,
        ..ListOptions::all(namespace.map(str::to_owned), Read::Cached)
    }
}

fn by_index(value: &str) -> Selection {
    Selection::ByIndex {
        name: INDEX.to_owned(),
        value: value.to_owned(),
    }
}

/// The keys that a list finds, page by page.
async fn keys(api: &PluginApi, options: &ListOptions) -> Result<Vec<String>, ApiError> {
    let mut keys = Vec::new();
    let mut options = options.clone();
    loop {
        let page = api
            .list(List {
                kind: secret(),
                options: options.clone(),
            })
            .await?;
        assert!(
            options
                .limit
                .is_none_or(|limit| page.items.len() <= limit as usize),
            "more than asked for"
        );
        assert!(
            page.resource_version
                .parse::<u64>()
                .is_ok_and(|revision| revision > 0),
            "{}",
            page.resource_version
        );
        for item in &page.items {
            let item: Value = serde_json::from_str(item.json()).expect("JSON");
            let text = |field: &str| {
                item["metadata"][field]
                    .as_str()
                    .unwrap_or_default()
                    .to_owned()
            };
            keys.push(format!("{}/{}", text("namespace"), text("name")));
        }
        let Some(token) = page.continue_token else {
            return Ok(keys);
        };
        options.continue_token = Some(token);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn narrow_hosts_cached_reads_are_whole_or_refused() {
    let stage = Narrow::new().await;
    let a = stage.location(0);
    let b = stage.location(1);
    let c = stage.location(2);
    let of = |locations: &[&str], names: &[&str]| -> Vec<String> {
        locations
            .iter()
            .flat_map(|location| names.iter().map(move |name| format!("{location}/{name}")))
            .collect()
    };
    let names = ["s-0", "s-1", "s-2"];
    eventually("rights are in effect", async || {
        let found = keys(&stage.some, &list(None, Selection::All))
            .await
            .map_err(|error| error.to_string())?;
        if found == of(&[a, b], &names) {
            Ok(())
        } else {
            Err(format!("{found:?}"))
        }
    })
    .await;

    // Pages of any size join without gap or repeat, also where one ends with its namespace.
    for limit in 1..8 {
        for (selection, names) in [
            (Selection::All, &names[..]),
            (by_index("s-1"), &names[1..2]),
        ] {
            for projection in [
                vec![],
                vec![
                    ".metadata.namespace".to_owned(),
                    ".metadata.name".to_owned(),
                ],
            ] {
                let options = ListOptions {
                    limit: Some(limit),
                    projection,
                    ..list(None, selection.clone())
                };
                let found = keys(&stage.some, &options).await.expect("a list");
                assert_eq!(found, of(&[a, b], names), "by {limit}");
            }
        }
    }
    assert_eq!(stage.watched(), [a, b]);

    // What the host does not see, the API server answers; what only a cache can answer is refused,
    // and not cut short.
    let get = |namespace: &str| {
        let key = ObjectKey::namespaced(namespace, "s-0");
        Get {
            kind: secret(),
            key,
            read: Read::Cached,
        }
    };
    for location in [a, b, c] {
        stage.some.get(get(location)).await.expect("an object");
        assert_eq!(
            keys(&stage.some, &list(Some(location), Selection::All))
                .await
                .expect("a list"),
            of(&[location], &names)
        );
    }
    let everything = keys(&stage.all, &list(None, Selection::All))
        .await
        .expect("a list");
    assert!(
        of(&[a, b, c], &names)
            .iter()
            .all(|key| everything.contains(key)),
        "{everything:?}"
    );
    for (api, namespace, location) in [
        (&stage.all, None, "in all namespaces"),
        (&stage.some, Some(c), &*format!("in namespace {c:?}")),
    ] {
        let error = keys(api, &list(namespace, by_index("s-1")))
            .await
            .expect_err("refused");
        assert_eq!(error.kind, ErrorKind::Forbidden);
        let words = format!("the host itself may not list and watch secrets {location}");
        assert!(
            error.status.message.contains(&words),
            "{}",
            error.status.message
        );
    }
    assert_eq!(stage.watched(), [a, b]);

    // A namespace is in view as soon as the host may watch it.
    let role = [
        "create",
        "role",
        "host",
        "--verb=list,watch",
        "--resource=secrets",
    ];
    stage.locations[2].kubectl(&role);
    let account = format!("--serviceaccount={a}:narrow-host");
    stage.locations[2].kubectl(&["create", "rolebinding", "host", "--role=host", &account]);
    eventually("the third namespace is listed by index", async || {
        let found = keys(&stage.some, &list(None, by_index("s-1")))
            .await
            .map_err(|error| error.to_string())?;
        if found == of(&[a, b, c], &["s-1"]) {
            Ok(())
        } else {
            Err(format!("{found:?}"))
        }
    })
    .await;
}
