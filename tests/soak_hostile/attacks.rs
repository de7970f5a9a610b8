//! The attacks of hostile tenants, by plugins and by people. They run one after another, each with
//! the permissions of a namespace's owner and within the default limits.

use std::time::Duration;

use operetta_testkit::{
    ControlPlane, DropIn, Kind, TestNamespace, guest,
    hostile::{Fixture, yaml_bomb},
    kinds,
    wat_guest::{Guest, numbered},
};
use serde_json::{Value, json};

use crate::{
    canaries::Canaries,
    people::{PARENT, PLUGIN},
};

/// The number of keys of an attack's plugins.
const KEYS: u32 = 64;

const ROLE_BINDING: Kind = Kind("rbac.authorization.k8s.io/v1", "RoleBinding");
const SERVICE: Kind = Kind("v1", "Service");
const CLAIM: Kind = Kind("v1", "PersistentVolumeClaim");

/// An attack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attack {
    /// ConfigMaps with YAML of some hundred kilobytes that expands to billions of values.
    YamlAliases,
    /// Components that take long to compile.
    SlowCompiles,
    /// A source with a hundred selectors and a resync of a second, and no permission to watch it.
    SourcesWithoutRights,
    /// A hundred label selectors on a kind that may be watched.
    Selectors,
    /// Requests for a neighbour's objects, by name and as lists, cached and live, some with
    /// odd paths.
    NeighboursObjects,
    /// Patches that guess the content of a neighbour's Secret; every second guess is right.
    SecretGuesses,
    /// Requests with large responses, many at once.
    LargeAnswers,
    /// Reconciles that sleep, in every worker of many plugins.
    Sleepers,
    /// Reconciles that spin.
    Spinners,
    /// Reconciles that allocate.
    Allocators,
    /// Cached reads, each of a different name.
    NewNames,
    /// A mapping that names a thousand new keys for each change of an object.
    NewKeys,
    /// Endless Events and log lines.
    Floods,
    /// Plugins whose sources do not exist.
    MissingKinds,
    /// RoleBindings that are created and deleted continually.
    BindingChurn,
    /// Code that is replaced continually.
    CodeChurn,
    /// The page of an object that owns large ones, read by many people at once.
    PageReaders,
    /// Questions about the causes of an object's changes, two hundred at once.
    Questions,
    /// Thousands of followed logs and live tables that nobody reads.
    SlowReaders,
    /// Retries of all failed keys, a hundred at once.
    Retries,
    /// Connections without a token, with wrong tokens, and with handshakes and headers that never
    /// end.
    Strangers,
    /// Metrics scraped without a pause.
    Scrapes,
}

impl Attack {
    pub const ALL: [Self; 22] = [
        Self::YamlAliases,
        Self::SlowCompiles,
        Self::SourcesWithoutRights,
        Self::Selectors,
        Self::NeighboursObjects,
        Self::SecretGuesses,
        Self::LargeAnswers,
        Self::Sleepers,
        Self::Spinners,
        Self::Allocators,
        Self::NewNames,
        Self::NewKeys,
        Self::Floods,
        Self::MissingKinds,
        Self::BindingChurn,
        Self::CodeChurn,
        Self::PageReaders,
        Self::Questions,
        Self::SlowReaders,
        Self::Retries,
        Self::Strangers,
        Self::Scrapes,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::YamlAliases => "yaml-aliases",
            Self::SlowCompiles => "slow-compiles",
            Self::SourcesWithoutRights => "sources-without-rights",
            Self::Selectors => "selectors",
            Self::NeighboursObjects => "neighbours-objects",
            Self::SecretGuesses => "secret-guesses",
            Self::LargeAnswers => "large-answers",
            Self::Sleepers => "sleepers",
            Self::Spinners => "spinners",
            Self::Allocators => "allocators",
            Self::NewNames => "new-names",
            Self::NewKeys => "new-keys",
            Self::Floods => "floods",
            Self::MissingKinds => "missing-kinds",
            Self::BindingChurn => "binding-churn",
            Self::CodeChurn => "code-churn",
            Self::PageReaders => "page-readers",
            Self::Questions => "questions",
            Self::SlowReaders => "slow-readers",
            Self::Retries => "retries",
            Self::Strangers => "strangers",
            Self::Scrapes => "scrapes",
        }
    }

    /// Reports whether people make the attack too, with requests to the host (people.rs).
    pub fn is_by_people(self) -> bool {
        matches!(
            self,
            Self::PageReaders
                | Self::Questions
                | Self::SlowReaders
                | Self::Retries
                | Self::Strangers
                | Self::Scrapes
        )
    }

    /// Starts the attack.
    pub async fn start(self, ground: &Ground<'_>) {
        match self {
            Self::YamlAliases => ground.yaml_aliases().await,
            Self::SlowCompiles => ground.slow_compiles().await,
            Self::SourcesWithoutRights => {
                ground.namespace.consenting("powerless").await;
                ground.selectors("powerless", kinds::SECRET).await;
            }
            Self::Selectors => ground.selectors("plugin", kinds::CONFIG_MAP).await,
            Self::NeighboursObjects => ground.misbehaving(1, "send", json!(ground.spying())).await,
            Self::SecretGuesses => ground.misbehaving(1, "send", json!(ground.guesses())).await,
            Self::LargeAnswers => {
                let request = json!({"method": "GET", "path": "/openapi/v2"});
                ground
                    .misbehaving(1, "send", json!(vec![request; 200]))
                    .await;
            }
            Self::Sleepers => {
                ground
                    .misbehaving(17 / ground.divisor + 1, "sleep-host", json!([]))
                    .await;
            }
            Self::Spinners => ground.misbehaving(5, "loop", json!([])).await,
            Self::Allocators => ground.misbehaving(5, "allocate", json!([])).await,
            Self::NewNames => {
                let place = ground.namespace.name();
                let path = |number| format!("/api/v1/namespaces/{place}/configmaps/name-{number}");
                let get =
                    |number: u32| json!({"method": "GET", "path": path(number), "cached": true});
                ground
                    .misbehaving(1, "send", json!((0..3_000).map(get).collect::<Vec<_>>()))
                    .await;
            }
            Self::NewKeys => {
                let wasm = Fixture::of("mapper_of_new_keys_for_ever").build();
                ground
                    .namespace
                    .drop_in(&DropIn::new("new-keys", wasm))
                    .await;
            }
            Self::Floods => {
                ground.misbehaving(1, "event-flood", json!([])).await;
                ground.misbehaving(1, "log-flood", json!([])).await;
            }
            Self::MissingKinds => ground.missing_kinds().await,
            Self::BindingChurn => ground.misbehaving(1, "touch", json!([])).await,
            Self::CodeChurn => ground.replace_code(0).await,
            Self::PageReaders => ground.family().await,
            Self::Questions => ground.plugin("touch").await,
            Self::SlowReaders => ground.plugin("log-flood").await,
            Self::Retries => ground.plugin("trap").await,
            Self::Strangers | Self::Scrapes => {}
        }
    }

    /// Triggers the attack's plugins continually, and repeats the requests that the attack makes as
    /// a user. Never returns.
    pub async fn go_on(self, ground: &Ground<'_>) {
        for at in 0_u32.. {
            match self {
                Self::BindingChurn => ground.toggle_binding(at).await,
                Self::CodeChurn => ground.replace_code(at + 1).await,
                _ => {}
            }

            let labels = json!({"metadata": {"labels": {"at": at.to_string()}}});
            ground
                .namespace
                .patch(kinds::CONFIG_MAP, &format!("target-{}", at % KEYS), labels)
                .await;
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
}

/// The namespace of an attack.
pub struct Ground<'a> {
    pub namespace: TestNamespace<'a>,
    victim: String,
    known: String,
    content: String,
    /// The divisor of the attacks' sizes.
    divisor: usize,
}

impl<'a> Ground<'a> {
    /// Creates the namespace and the objects of an attack.
    pub async fn new(
        control_plane: &'a ControlPlane,
        attack: Attack,
        canaries: &Canaries,
        divisor: usize,
    ) -> Self {
        let namespace = control_plane.namespace(attack.name()).await;
        namespace.allow_all("plugin").await;
        for key in 0..KEYS {
            namespace.create_touchable(&format!("target-{key}")).await;
        }

        let (victim, known) = (canaries.namespace.clone(), canaries.known.clone());
        Self {
            namespace,
            victim,
            known,
            content: canaries.content.clone(),
            divisor,
        }
    }

    /// Ends the attack by deleting its objects.
    pub async fn clear(&self) {
        for kind in [
            kinds::CONFIG_MAP,
            kinds::PLUGIN,
            ROLE_BINDING,
            kinds::SECRET,
            SERVICE,
            CLAIM,
            kinds::SERVICE_ACCOUNT,
        ] {
            self.namespace.delete_all(kind).await;
        }
    }

    /// Creates an object that owns 31 objects of each of five kinds, with annotations of 250 KB
    /// each.
    async fn family(&self) {
        let parent = json!({"metadata": {"name": PARENT}});
        let parent = self
            .namespace
            .create_object(kinds::CONFIG_MAP, parent)
            .await;

        let owner = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "name": PARENT, "uid": parent["metadata"]["uid"],
        });
        let annotations = json!({"bulk": "x".repeat(250_000)});
        let claim = json!({
            "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}},
        });
        let children = [
            (kinds::CONFIG_MAP, json!({})),
            (kinds::SECRET, json!({})),
            (kinds::SERVICE_ACCOUNT, json!({})),
            (SERVICE, json!({"clusterIP": "None"})),
            (CLAIM, claim),
        ];

        for number in 0..31_usize.div_ceil(self.divisor) {
            for (kind, spec) in &children {
                let mut child = json!({"metadata": {
                    "name": format!("child-{number}"), "ownerReferences": [owner],
                    "annotations": annotations,
                }});
                if *spec != json!({}) {
                    child["spec"] = spec.clone();
                }
                self.namespace.create_object(*kind, child).await;
            }
        }
    }

    /// Runs the plugin that people read from and retry.
    async fn plugin(&self, what: &str) {
        self.misbehaving_as(&[PLUGIN.to_owned()], what, json!([]))
            .await;
    }

    async fn yaml_aliases(&self) {
        let yaml = yaml_bomb();

        for number in 0..5 {
            let mut object =
                DropIn::new(&format!("bomb-{number}"), Guest::default().build()).object();

            object["data"] = json!({"config.yaml": yaml});
            self.namespace
                .create_object(kinds::CONFIG_MAP, object)
                .await;
        }
    }

    async fn slow_compiles(&self) {
        for number in 0..50 / self.divisor {
            let wasm = Guest::default()
                .text(&format!("slow {number}"))
                .with_functions(3_000)
                .build();

            self.namespace
                .drop_in(&DropIn::compressed(&format!("slow-{number}"), &wasm))
                .await;
        }
    }

    /// Runs a plugin with a hundred selectors of one kind.
    async fn selectors(&self, account: &str, kind: Kind) {
        let wasm = Guest::default().hundred_selectors(kind).build();
        self.namespace
            .drop_in(&DropIn::new("selectors", wasm).service_account(account))
            .await;
    }

    /// Returns requests for the victim's objects.
    fn spying(&self) -> Vec<Value> {
        let Self { victim, known, .. } = self;
        let paths = [
            "/api/v1/secrets".to_owned(),
            "/api/v1/configmaps".to_owned(),
            format!("/api/v1/namespaces/{victim}/secrets"),
            format!("/api/v1/namespaces/{victim}/configmaps"),
            format!("/api/v1/namespaces/{victim}/secrets/{known}"),
            format!("/api/v1/namespaces/{victim}/secrets/../secrets/{known}"),
            format!("/api/v1/namespaces/{victim}/events"),
            format!("/apis/apps/v1/namespaces/{victim}/deployments"),
            format!("/api/v1/watch/namespaces/{victim}/secrets"),
        ];

        let both = |path: &String| {
            [true, false].map(|cached| json!({"method": "GET", "path": path, "cached": cached}))
        };
        let requests = paths.iter().flat_map(both);
        requests.collect()
    }

    /// Returns patches of the victim's Secret, half with its content and half with another.
    fn guesses(&self) -> Vec<Value> {
        let path = format!("/api/v1/namespaces/{}/secrets/{}", self.victim, self.known);
        let patch = |content: &str| {
            json!({"method": "PATCH", "path": path, "contentType": "application/merge-patch+json",
                   "body": json!({"data": {"canary": content}}).to_string()})
        };

        (0..100)
            .flat_map(|_| [patch(&self.content), patch("AAAA")])
            .collect()
    }

    /// Runs `count` plugins whose workers all misbehave as `what` names.
    async fn misbehaving(&self, count: usize, what: &str, requests: Value) {
        let names: Vec<String> = (0..count)
            .map(|number| format!("{what}-{number}"))
            .collect();
        self.misbehaving_as(&names, what, requests).await;
    }

    /// Runs plugins of these names as [`Ground::misbehaving`] does.
    async fn misbehaving_as(&self, names: &[String], what: &str, requests: Value) {
        let code = format!("{what}-code");
        let component = DropIn::compressed(&code, &guest("fixture-misbehave"));
        self.namespace
            .create_object(kinds::CONFIG_MAP, component.code())
            .await;

        let spec = json!({
            "serviceAccountName": "plugin",
            "source": {"configMap": {"name": code}},
            "config": {"do": what, "requests": requests},
            "controllers": [{"name": "misbehave", "workers": KEYS}],
        });

        for name in names {
            let plugin = json!({"metadata": {"name": name}, "spec": spec});
            self.namespace.create_object(kinds::PLUGIN, plugin).await;
        }
    }

    async fn missing_kinds(&self) {
        let source = json!({"apiVersion": "missing.example.com/v1", "kind": "Missing"});
        let wasm = Guest::default()
            .controllers(&json!([{"name": "c", "for": source}]))
            .build();

        for number in 0..200 / self.divisor {
            self.namespace
                .drop_in(&DropIn::new(&format!("missing-{number}"), wasm.clone()))
                .await;
        }
    }

    /// Creates or deletes RoleBindings of a ServiceAccount.
    async fn toggle_binding(&self, at: u32) {
        for number in 0..5 {
            let name = format!("churn-{number}");
            if at % 2 == 1 {
                self.namespace.delete(ROLE_BINDING, &name).await;
                continue;
            }

            let binding = json!({
                "metadata": {"name": name},
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"},
                "subjects": [{"kind": "ServiceAccount", "namespace": self.namespace.name(), "name": "plugin"}],
            });
            self.namespace.create_object(ROLE_BINDING, binding).await;
        }
    }

    async fn replace_code(&self, number: u32) {
        let code = DropIn::new(
            "churn",
            numbered(&Guest::default().build(), number as usize),
        );

        if number == 0 {
            self.namespace.drop_in(&code).await;
        } else {
            let object = code.object();
            self.namespace
                .patch(
                    kinds::CONFIG_MAP,
                    "churn",
                    json!({"binaryData": object["binaryData"]}),
                )
                .await;
        }
    }
}
