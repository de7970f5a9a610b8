//! Informers, each with two handlers, over things that change at random.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use kube::Client;
use operetta_core::object::{ObjectKey, kind::GroupVersionKind};
use operetta_kube::{
    client::api_client::{ApiClient, Identity},
    discovery::{ApiResource, Discovery},
    informer::{Informer, Scope, Subscription, Timing, registry::InformerRegistry},
};
use operetta_testkit::{ControlPlane, any_schema, crd};
use parking_lot::Mutex;
use rand::rngs::StdRng;
use tokio::task::JoinHandle;

use crate::{
    compare::Listed,
    notes::{Recorder, judge},
    truth::{Truth, Writer},
};

/// The time that informers have to catch up once nothing goes wrong any more. On a busy machine it
/// tells "never" from "later".
const CATCH_UP: Duration = Duration::from_secs(90);

/// The same for informers that lose events: they never catch up, and the test waits for all of it.
const CATCH_UP_IN_VAIN: Duration = Duration::from_secs(15);

/// What is there before the informers begin, and stays.
const ANCHORS: [&str; 3] = ["anchor-0", "anchor-1", "anchor-2"];

/// Patience that fits a test of a few seconds.
const TIMING: Timing = Timing {
    stall: Duration::from_millis(800),
    answer: Duration::from_secs(2),
    backoff: Duration::from_millis(20),
    max_backoff: Duration::from_millis(200),
    watch: Duration::from_secs(1),
    streaming_lists: false,
};

/// Where a scene plays.
pub struct Scene {
    client: Client,
    /// `ConfigMaps` and Gadgets.
    writers: [Writer; 2],
    watched: Vec<Watched>,
}

/// One informer, and what is known of it.
struct Watched {
    name: &'static str,
    informer: Arc<Informer>,
    truth: Arc<Mutex<Truth>>,
    /// With the part of the scene at which each began.
    recorders: Vec<(&'static str, Recorder, Subscription)>,
    /// Ends with the complaints about has-synced and the state.
    synced: JoinHandle<Vec<String>>,
    state: JoinHandle<Vec<String>>,
}

/// The kinds of a scene.
pub struct Kinds {
    config_maps: Arc<ApiResource>,
    gadgets: Arc<ApiResource>,
}

impl Kinds {
    /// Installs what has to be.
    pub async fn install(control_plane: &ControlPlane) -> Self {
        let crd = crd(
            "faults.operetta.dev",
            "Gadget",
            "gadgets",
            "Namespaced",
            &any_schema(),
        );
        control_plane.apply(&crd.to_string());
        let api_client =
            ApiClient::new(control_plane.client().await, &Identity::Host).expect("a client");
        let discovery = Discovery::new(api_client);
        let config_maps = discovery
            .wait_for(&GroupVersionKind::new("v1", "ConfigMap"))
            .await;
        let gadgets = discovery
            .wait_for(&GroupVersionKind::new("faults.operetta.dev/v1", "Gadget"))
            .await;
        Self {
            config_maps,
            gadgets,
        }
    }
}

fn writer(client: &Client, resource: &ApiResource, namespace: &str, field: &'static str) -> Writer {
    let kind = &resource.kind;
    let kind = kube::api::GroupVersionKind::gvk(kind.group(), kind.version(), &kind.kind);
    let resource = kube::api::ApiResource::from_gvk_with_plural(&kind, &resource.plural);
    Writer::new(client.clone(), resource, namespace, field)
}

impl Scene {
    /// Begins: the writers go by `direct`, the informers by `watching`, with one way to list or the
    /// other. The early handlers lose each event of which `swallow_every` says so.
    pub async fn begin(
        direct: Client,
        watching: Client,
        kinds: &Kinds,
        namespace: &str,
        streaming_lists: bool,
        swallow_every: Option<usize>,
    ) -> Self {
        let mut config_maps = writer(&direct, &kinds.config_maps, namespace, "data");
        let mut gadgets = writer(&direct, &kinds.gadgets, namespace, "spec");
        for anchor in ANCHORS {
            config_maps.anchor(anchor).await;
            gadgets.anchor(anchor).await;
        }
        let registry = InformerRegistry::with_timing(
            ApiClient::new(watching, &Identity::Host).expect("a client"),
            Timing {
                streaming_lists,
                ..TIMING
            },
        );
        let all = Scope {
            namespace: Some(namespace.to_owned()),
            ..Scope::everything()
        };
        let begin = |name, resource, scope, writer: &Writer| {
            Watched::begin(
                name,
                registry.informer(resource, scope),
                writer.truth.clone(),
                swallow_every,
            )
        };
        let selected = Scope {
            labels: "app=x".to_owned(),
            ..all.clone()
        };
        let metadata_only = Scope {
            metadata_only: true,
            ..all.clone()
        };
        let watched = vec![
            begin(
                "selected ConfigMaps",
                &kinds.config_maps,
                selected,
                &config_maps,
            ),
            begin("Gadgets", &kinds.gadgets, all, &gadgets),
            begin(
                "metadata of ConfigMaps",
                &kinds.config_maps,
                metadata_only,
                &config_maps,
            ),
        ];
        Self {
            client: direct,
            writers: [config_maps, gadgets],
            watched,
        }
    }

    /// Writes for a while, without a break but for `pause` after each change. Errors are a
    /// violation, unless the API server is being killed: then `forgiving`.
    pub async fn write(
        &mut self,
        random: &mut StdRng,
        period: Duration,
        pause: Duration,
        forgiving: bool,
    ) {
        let end = Instant::now() + period;
        while Instant::now() < end {
            for writer in &mut self.writers {
                match writer.step(random).await {
                    Ok(()) => {}
                    Err(_) if forgiving => writer.look().await,
                    Err(error) => panic!("a direct write failed: {error}"),
                }
            }
            tokio::time::sleep(pause).await;
        }
    }

    /// Adds the late handlers.
    pub fn add_late_handlers(&mut self) {
        for watched in &mut self.watched {
            watched.add_handler("late", Recorder::default());
        }
    }

    /// How many events the handlers received so far.
    pub fn delivered(&self) -> usize {
        self.watched
            .iter()
            .flat_map(|watched| &watched.recorders)
            .map(|(_, recorder, _)| recorder.all().len())
            .sum()
    }

    /// Waits until every informer has caught up, and returns the violations. With `trusting`, the
    /// writers have noted everything that happened. With `lossy`, the informers lose events.
    pub async fn end(self, trusting: bool, lossy: bool) -> Vec<String> {
        let end = Instant::now() + if lossy { CATCH_UP_IN_VAIN } else { CATCH_UP };
        let mut violations = Vec::new();
        for watched in self.watched {
            let listed = Listed::of(&self.client, &watched.informer).await;
            while !watched.differences(&listed).is_empty() && Instant::now() < end {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            // What must not come any more gets a moment to come.
            tokio::time::sleep(Duration::from_millis(200)).await;
            violations.extend(watched.end(&listed, trusting).await);
        }
        violations
    }
}

impl Watched {
    fn begin(
        name: &'static str,
        informer: Arc<Informer>,
        truth: Arc<Mutex<Truth>>,
        swallow_every: Option<usize>,
    ) -> Self {
        let synced = tokio::spawn(honestly_synced(informer.clone()));
        let state = tokio::spawn(honest_state(informer.clone()));
        let mut watched = Self {
            name,
            informer,
            truth,
            recorders: vec![],
            synced,
            state,
        };
        watched.add_handler(
            "early",
            Recorder {
                swallow_every,
                ..Recorder::default()
            },
        );
        watched
    }

    fn add_handler(&mut self, when: &'static str, recorder: Recorder) {
        let subscription = self
            .informer
            .subscribe(recorder.handler(&self.informer), None);
        self.recorders.push((when, recorder, subscription));
    }

    fn selects(&self) -> impl Fn(&str) -> bool + use<> {
        let everything = self.informer.scope.labels.is_empty();
        move |app| everything || app == "x"
    }

    fn differences(&self, listed: &Listed) -> Vec<String> {
        let mut all = listed.differences(&self.informer);
        for (when, recorder, _) in &self.recorders {
            let (_, delivered) = judge(&recorder.all(), None, &self.selects());
            all.extend(
                listed
                    .differs_from(&delivered)
                    .into_iter()
                    .map(|it| format!("the {when} handler: {it}")),
            );
        }
        all
    }

    async fn end(self, listed: &Listed, trusting: bool) -> Vec<String> {
        let mut violations = self.differences(listed);
        let truth = self.truth.lock().clone();
        for (when, recorder, _) in &self.recorders {
            let (wrong, _) = judge(&recorder.all(), trusting.then_some(&truth), &self.selects());
            violations.extend(
                wrong
                    .into_iter()
                    .map(|it| format!("the {when} handler: {it}")),
            );
        }
        if self.informer.state().borrow().synced {
            violations.extend(self.synced.await.expect("it ends"));
        } else {
            self.synced.abort();
            violations.push("it has never synced".to_owned());
        }
        self.state.abort();
        match self.state.await {
            Ok(complaints) => violations.extend(complaints),
            Err(aborted) => assert!(aborted.is_cancelled(), "{aborted}"),
        }
        violations
            .into_iter()
            .map(|violation| format!("{}: {violation}", self.name))
            .collect()
    }
}

/// Has-synced is said when the store has what was there before the informer began, and not earlier.
async fn honestly_synced(informer: Arc<Informer>) -> Vec<String> {
    informer.synced().await;
    let namespace = informer.scope.namespace.clone().unwrap_or_default();
    let missing = ANCHORS.iter().filter(|anchor| {
        informer
            .cache
            .store
            .get(&ObjectKey::namespaced(namespace.as_str(), **anchor))
            .is_none()
    });
    missing
        .map(|anchor| format!("synced without {anchor}"))
        .collect()
}

/// Once it is said, it stays. Ends with a complaint only.
async fn honest_state(informer: Arc<Informer>) -> Vec<String> {
    let mut state = informer.state();
    drop(state.wait_for(|state| state.synced).await);
    drop(state.wait_for(|state| !state.synced).await);
    vec!["it was synced, and is not any more".to_owned()]
}
