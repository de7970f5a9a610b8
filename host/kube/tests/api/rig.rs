//! A stage whose informers reach the API server through a fault proxy, and words for what can come
//! between them.

use std::{sync::Arc, time::Duration};

use http::{Request, Response};
use kube::client::{Body, Client};
use operetta_core::object::Object;
use operetta_kube::{
    client::{
        api_client::{ApiClient, Identity},
        connect::connect,
        object_api::PluginApi,
    },
    informer::{Informer, Scope, Subscription, Timing, registry::InformerRegistry},
};
use operetta_testkit::{Ask, Fault, FaultProxy, eventually, kinds};
use serde_json::{Value, json};
use tower::{BoxError, service_fn};

use crate::{Stage, config_map, informer::Notes};

/// A stage with a proxy before it.
pub struct Rig {
    pub stage: Stage,
    pub proxy: FaultProxy,
    pub timing: Timing,
    registry: Arc<InformerRegistry>,
}

/// Nothing stalls, and no watch ends by itself, in the time of a test.
const PATIENT: Timing = Timing {
    stall: Duration::from_secs(60),
    answer: Duration::from_secs(10),
    backoff: Duration::from_millis(20),
    max_backoff: Duration::from_millis(200),
    watch: Duration::from_secs(60),
    streaming_lists: false,
};

impl Rig {
    pub async fn new(prefix: &str) -> Self {
        Self::with(prefix, PATIENT).await
    }

    /// One whose informers soon take a silent watch for a stalled one.
    pub async fn impatient(prefix: &str) -> Self {
        Self::with(
            prefix,
            Timing {
                stall: Duration::from_millis(500),
                watch: Duration::from_secs(1),
                ..PATIENT
            },
        )
        .await
    }

    /// One whose informers list by a watch that first sends what there is.
    pub async fn streaming(prefix: &str) -> Self {
        Self::with(
            prefix,
            Timing {
                streaming_lists: true,
                ..PATIENT
            },
        )
        .await
    }

    async fn with(prefix: &str, timing: Timing) -> Self {
        let stage = Stage::new(prefix).await;
        let proxy = FaultProxy::start(stage.namespace.control_plane()).await;
        let client = connect(Some(proxy.kubeconfig()), None)
            .await
            .expect("a client");
        let registry = InformerRegistry::with_timing(
            ApiClient::new(client, &Identity::Host).expect("a client"),
            timing,
        );
        Self {
            stage,
            proxy,
            timing,
            registry,
        }
    }

    /// An informer of the namespace's ConfigMaps. It begins at once.
    pub async fn config_maps(&self) -> Arc<Informer> {
        let scope = Scope {
            namespace: Some(self.stage.namespace.name().to_owned()),
            ..Scope::everything()
        };
        self.registry
            .informer(&self.stage.resource("v1", "ConfigMap").await, scope)
    }

    /// A plugin's API whose cached reads use these informers. Its writes take the direct way.
    pub fn api(&self) -> Arc<PluginApi> {
        let stage = &self.stage;
        let api_client = ApiClient::new(stage.client.clone(), &Identity::Host).expect("a client");
        let (discovery, registry) = (stage.discovery.clone(), self.registry.clone());
        PluginApi::of_host(api_client, discovery, registry, "test".to_owned())
    }

    /// Same as [`Self::api`], but its writes get no answer, although they are stored.
    pub fn unanswered_api(&self) -> Arc<PluginApi> {
        let stage = &self.stage;
        let client = stage.client.clone();
        let service = service_fn(move |request: Request<Body>| {
            let client = client.clone();
            async move {
                client.send(request).await?;
                Err::<Response<Body>, BoxError>("the connection was closed".into())
            }
        });
        let client = Client::new(service, stage.namespace.name());
        let api_client = ApiClient::new(client, &Identity::Host).expect("a client");
        let (discovery, registry) = (stage.discovery.clone(), self.registry.clone());
        PluginApi::of_host(api_client, discovery, registry, "test".to_owned())
    }

    /// An informer of the namespace's ConfigMaps, synced, and a handler that notes what it receives.
    pub async fn delivered(&self) -> (Notes, Subscription) {
        let informer = self.config_maps().await;
        informer.synced().await;
        let notes = Notes::default();
        let subscription = informer.subscribe(notes.handler(&informer), None);
        (notes, subscription)
    }

    pub async fn create(&self, name: &str) {
        self.stage.create(config_map(name)).await.expect("created");
    }

    pub async fn change(&self, name: &str, n: u32) {
        self.stage
            .namespace
            .patch(
                kinds::CONFIG_MAP,
                name,
                json!({"data": {"n": n.to_string()}}),
            )
            .await;
    }

    pub async fn delete(&self, name: &str) {
        self.stage.namespace.delete(kinds::CONFIG_MAP, name).await;
    }

    /// Lines up a fault for a watch that begins now, and waits until it has.
    pub async fn watch_anew(&self, fault: Fault) {
        let before = self.met(&fault);
        self.proxy.next(Ask::Watch, fault.clone());
        self.proxy.outage();
        self.proxy.restore();
        self.until_met(&fault, before + 1).await;
    }

    /// Waits until the client has met a fault so often.
    pub async fn until_met(&self, fault: &Fault, times: usize) {
        eventually(&format!("a request meets {fault:?}"), async || {
            if self.met(fault) >= times {
                Ok(())
            } else {
                Err(format!("{:#?}", self.proxy.asked()))
            }
        })
        .await;
    }

    fn met(&self, fault: &Fault) -> usize {
        self.proxy
            .asked()
            .iter()
            .filter(|asked| asked.fault == *fault)
            .count()
    }

    /// Does something while no informer sees it, and has them relist. Ends with the addition of
    /// `end`.
    pub async fn gap(&self, meanwhile: impl AsyncFnOnce()) {
        self.proxy.outage();
        meanwhile().await;
        self.create("end").await;
        self.proxy.next(Ask::Watch, Fault::Gone { after: 0 });
        self.proxy.restore();
    }
}

/// Waits until notes end with the addition of `end`, in whatever place: relists tell in no order
/// across names.
pub async fn until_end(notes: &Notes) -> Vec<String> {
    eventually("the end is delivered", async || {
        let all = notes.all();
        if all.iter().any(|line| line == "+end") {
            Ok(())
        } else {
            Err(format!("{all:?}"))
        }
    })
    .await;
    let all = notes.all().into_iter().filter(|line| line != "+end");
    all.collect()
}

/// Waits until the store has an object of that name.
pub async fn until_stored(rig: &Rig, informer: &Informer, name: &str) -> Arc<Object> {
    let key = rig.stage.key(name);
    eventually(&format!("{key} is in the store"), async || {
        informer
            .cache
            .store
            .get(&key)
            .ok_or_else(|| format!("{:?}", informer.cache.store.keys()))
    })
    .await
}

/// `data.n` of an object.
pub fn n_of(object: &Object) -> Value {
    crate::value(object)["data"]["n"].clone()
}
