//! Someone who writes at random, past the proxy, and writes down what became of it.

use std::{collections::BTreeMap, sync::Arc};

use kube::{
    Api, Client,
    api::{ApiResource, DeleteParams, DynamicObject, Patch, PatchParams, PostParams},
};
use parking_lot::Mutex;
use rand::{Rng, rngs::StdRng, seq::IndexedRandom};
use serde_json::{Value, json};

/// What an object was at one time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    Present {
        uid: String,
        revision: u64,
        app: String,
    },
    Absent,
}

/// Every state of every object, by name, in order.
#[derive(Clone, Debug, Default)]
pub struct Truth(BTreeMap<String, Vec<State>>);

impl Truth {
    pub fn push(&mut self, name: &str, state: State) {
        self.0.entry(name.to_owned()).or_default().push(state);
    }

    pub fn of(&self, name: &str) -> &[State] {
        self.0.get(name).map_or(&[], Vec::as_slice)
    }

    fn is_present(&self, name: &str) -> bool {
        matches!(self.of(name).last(), Some(State::Present { .. }))
    }
}

/// How many names there are: few, so that each has a history.
const NAMES: usize = 8;

/// Texts that are easy to get wrong.
const TEXTS: [&str; 5] = ["plain", "<&>\"\\", "\u{2028}é\u{1f980}", "\t\n\u{1}", ""];

/// Writes objects of one kind in one namespace.
pub struct Writer {
    api: Api<DynamicObject>,
    resource: ApiResource,
    /// The field that has the content: `data` or `spec`.
    field: &'static str,
    pub truth: Arc<Mutex<Truth>>,
    count: u64,
}

impl Writer {
    pub fn new(
        client: Client,
        resource: ApiResource,
        namespace: &str,
        field: &'static str,
    ) -> Self {
        Self {
            api: Api::namespaced_with(client, namespace, &resource),
            resource,
            field,
            truth: Arc::default(),
            count: 0,
        }
    }

    /// Makes an object that nobody touches again.
    pub async fn anchor(&mut self, name: &str) {
        let content = self.content("anchor");
        self.create(name, "x", content).await.expect("an anchor");
    }

    /// Changes something.
    pub async fn step(&mut self, random: &mut StdRng) -> kube::Result<()> {
        let name = format!("n{}", random.random_range(0..NAMES));
        let app = *["x", "x", "y"].choose(random).expect("some");
        let text = TEXTS
            .choose(random)
            .expect("some")
            .repeat(if random.random_bool(0.1) { 1500 } else { 2 });
        let content = self.content(&text);
        let present = self.truth.lock().is_present(&name);
        match random.random_range(0..100) {
            _ if !present => self.create(&name, app, content).await,
            0..45 => self.patch(&name, json!({self.field: content})).await,
            45..65 => {
                self.patch(&name, json!({"metadata": {"labels": {"app": app}}}))
                    .await
            }
            65..80 => self.delete(&name).await,
            _ => {
                self.delete(&name).await?;
                self.create(&name, app, content).await
            }
        }
    }

    /// After an error: what is there now, for all it is known.
    pub async fn look(&mut self) {
        for at in 0..NAMES {
            let name = format!("n{at}");
            match self.api.get_opt(&name).await {
                Ok(Some(found)) => self.note(&name, &found),
                Ok(None) => self.truth.lock().push(&name, State::Absent),
                Err(_) => {}
            }
        }
    }

    fn content(&mut self, text: &str) -> Value {
        self.count += 1;
        json!({"n": self.count.to_string(), "text": text})
    }

    async fn create(&mut self, name: &str, app: &str, content: Value) -> kube::Result<()> {
        let api_version = &self.resource.api_version;
        let kind = &self.resource.kind;
        let made = json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name, "labels": {"app": app}}, self.field: content});
        let made = serde_json::from_value(made).expect("an object");
        let made = self.api.create(&PostParams::default(), &made).await?;
        self.note(name, &made);
        Ok(())
    }

    async fn patch(&mut self, name: &str, patch: Value) -> kube::Result<()> {
        let patched = self
            .api
            .patch(name, &PatchParams::default(), &Patch::Merge(patch))
            .await?;
        self.note(name, &patched);
        Ok(())
    }

    async fn delete(&mut self, name: &str) -> kube::Result<()> {
        self.api.delete(name, &DeleteParams::default()).await?;
        self.truth.lock().push(name, State::Absent);
        Ok(())
    }

    fn note(&mut self, name: &str, object: &DynamicObject) {
        let metadata = &object.metadata;
        let app = metadata
            .labels
            .as_ref()
            .and_then(|labels| labels.get("app"))
            .cloned();
        let revision = metadata
            .resource_version
            .as_ref()
            .and_then(|text| text.parse().ok());
        let state = State::Present {
            uid: metadata.uid.clone().unwrap_or_default(),
            revision: revision.unwrap_or_default(),
            app: app.unwrap_or_default(),
        };
        self.truth.lock().push(name, state);
    }
}
