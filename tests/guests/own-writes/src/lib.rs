//! Reads after each of its own writes, and counts the reads that miss the write before them, for
//! `make bench-lag`.
//!
//! Each ConfigMap labelled `operetta-fixture=true` is a case: `data.form` names the write,
//! `data.read` the read (`get` or `list`), and `data.count` how often. The objects exist before:
//! `FORM-READ-0` … with the label `case=FORM-READ`, and a label `set` of their own name.
//! `data.result` becomes the answer as JSON, `{"old": 0, "waits": [0.2]}`, in milliseconds. A write
//! or read that fails ends the case, with its reason in `refused`.

use std::time::Instant;

use operetta_sdk::k8s_openapi::api::core::v1::ConfigMap;
use operetta_sdk::{
    Action, ApiError, Context, Controller, DeleteOptions, DynamicApi, DynamicObject, Error,
    GroupVersionKind, ListOptions, Object, ObjectKey, Patch, Plugin, RawRequest, Source,
};
use serde::Serialize;
use serde_json::{Value, json};

operetta_sdk::plugin!(plugin);

/// Returns one controller, `own-writes`, which plays one case at a time.
pub fn plugin() -> Plugin {
    let cases = Source::of::<ConfigMap>()
        .labels("operetta-fixture=true")
        .own_namespace();
    let controller = Controller::new("own-writes", reconcile)
        .for_source(cases)
        .workers(1);
    Plugin::new().controller(controller)
}

/// A case, and where it is played.
struct Case<'a> {
    ctx: &'a Context,
    namespace: String,
    form: String,
    read: String,
    kind: GroupVersionKind,
}

/// What a case found.
#[derive(Default, Serialize)]
struct Outcome {
    /// How many reads missed the write before them.
    old: usize,
    /// How long each read took, in milliseconds.
    waits: Vec<f64>,
    /// Why the case ended early.
    #[serde(skip_serializing_if = "Option::is_none")]
    refused: Option<String>,
}

fn reconcile(ctx: &Context, map: ConfigMap) -> Result<Action, Error> {
    let data = map.data.clone().unwrap_or_default();
    if data.contains_key("result") {
        return Ok(Action::done());
    }
    let field = |name: &str| {
        data.get(name)
            .cloned()
            .ok_or_else(|| Error::terminal(format!("{} has no data.{name}", map.name())))
    };

    let form = field("form")?;
    let kind = match form.as_str() {
        "evict" => GroupVersionKind::new("v1", "Pod"),
        _ => GroupVersionKind::new("apps/v1", "Deployment"),
    };
    let case = Case {
        ctx,
        namespace: map.namespace().unwrap_or_default().to_owned(),
        form,
        read: field("read")?,
        kind,
    };
    let count = field("count")?
        .parse::<usize>()
        .map_err(|error| Error::terminal(format!("data.count of {}: {error}", map.name())))?;

    let outcome = case.play(count)?;
    let result = serde_json::to_string(&outcome)?;
    ctx.patch::<ConfigMap>(
        map.key(),
        Patch::merge(&json!({"data": {"result": result}})),
    )?;
    Ok(Action::done())
}

impl Case<'_> {
    fn play(&self, count: usize) -> Result<Outcome, Error> {
        // The first read of a kind waits until its informer has synced.
        self.objects().list(self.selected())?;

        let mut outcome = Outcome::default();
        for at in 0..count {
            let name = format!("{}-{}-{at}", self.form, self.read);
            if let Err(error) = self.write(&name) {
                outcome.refused = Some(format!("write: {error}"));
                break;
            }

            let began = Instant::now();
            match self.read(&name) {
                Ok(found) => {
                    outcome.waits.push(began.elapsed().as_secs_f64() * 1e3);
                    outcome.old += usize::from(!self.shows(found.as_ref()));
                }
                Err(error) => {
                    outcome.refused = Some(format!("read: {error}"));
                    break;
                }
            }
        }

        Ok(outcome)
    }

    fn objects(&self) -> DynamicApi<'_> {
        self.ctx.dynamic(&self.kind)
    }

    fn key(&self, name: &str) -> ObjectKey {
        ObjectKey::namespaced(self.namespace.as_str(), name)
    }

    fn name(&self) -> String {
        format!("{}-{}", self.form, self.read)
    }

    fn selected(&self) -> ListOptions {
        ListOptions::in_namespace(self.namespace.as_str()).labels(format!("case={}", self.name()))
    }

    /// Changes the object of this name. Objects that are sent whole are read before.
    fn write(&self, name: &str) -> Result<(), Error> {
        let key = self.key(name);
        let annotated = json!({"metadata": {"annotations": {"n": "1"}}});

        match self.form.as_str() {
            "create" => drop(self.ctx.create(&self.deployment(name))?),
            "update" => {
                let mut found = self.objects().get(key)?;
                found
                    .annotations_mut()
                    .insert("n".to_owned(), "1".to_owned());
                self.ctx.update(&found)?;
            }
            "patch" => drop(self.objects().patch(key, Patch::merge(&annotated))?),
            "apply" => drop(
                self.objects()
                    .patch(key, Patch::apply(&annotated).force())?,
            ),
            "status" => {
                let found = self.objects().get(key)?;
                let found = found.with("status", json!({"replicas": 1}));
                self.ctx.update_status(&found)?;
            }
            "scale" => {
                let scale = Patch::merge(&json!({"spec": {"replicas": 1}}));
                self.objects().patch(key, scale.subresource("scale"))?;
            }
            "delete" => self.objects().delete(key, &DeleteOptions::new())?,
            "delete-collection" => {
                let set = RawRequest::delete(self.path("apis/apps/v1", "deployments"));
                self.send(&set.query(format!("labelSelector=set%3D{name}")))?;
            }
            "evict" => {
                let metadata = json!({"name": name, "namespace": self.namespace});
                let eviction =
                    json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": metadata});
                let path = self.path("api/v1", &format!("pods/{name}/eviction"));
                self.send(&RawRequest::post(path).json(&eviction))?;
            }
            "raw" => {
                let path = self.path("apis/apps/v1", &format!("deployments/{name}"));
                let patch = RawRequest::patch(path, "application/merge-patch+json");
                self.send(&patch.json(&annotated))?;
            }
            form => return Err(Error::terminal(format!("no such form: {form}"))),
        }

        Ok(())
    }

    fn path(&self, api: &str, of: &str) -> String {
        format!("/{api}/namespaces/{}/{of}", self.namespace)
    }

    fn send(&self, request: &RawRequest) -> Result<(), ApiError> {
        self.ctx.raw(request).json::<Value>().map(drop)
    }

    /// Reads the object from the cache; None if it is not there.
    fn read(&self, name: &str) -> Result<Option<DynamicObject>, Error> {
        match self.read.as_str() {
            "get" => Ok(self.objects().get_opt(self.key(name))?),
            "list" => {
                let mut all = self.objects().list(self.selected())?.into_iter();
                Ok(all.find(|found| found.name() == name))
            }
            read => Err(Error::terminal(format!("no such read: {read}"))),
        }
    }

    /// Reports whether an object is as the write left it.
    fn shows(&self, found: Option<&DynamicObject>) -> bool {
        let is_one =
            |pointer: &str| found.and_then(|found| found.pointer(pointer)?.as_u64()) == Some(1);

        match self.form.as_str() {
            "delete" | "delete-collection" => found.is_none(),
            "evict" => found.is_none_or(|found| found.metadata.deletion_timestamp.is_some()),
            "status" => is_one("/status/replicas"),
            "scale" => is_one("/spec/replicas"),
            _ => found.is_some_and(|found| found.annotation("n") == Some("1")),
        }
    }

    /// A new Deployment of no replicas, as the write leaves it.
    fn deployment(&self, name: &str) -> DynamicObject {
        let labels = json!({"app": name});
        let container = json!({"name": "c", "image": "registry.example/c"});
        let spec = json!({
            "replicas": 0,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
        });

        let mut made = DynamicObject::new(&self.kind, self.key(name)).with("spec", spec);
        made.annotations_mut()
            .insert("n".to_owned(), "1".to_owned());
        let labels = [("case", self.name()), ("set", name.to_owned())];
        made.metadata.labels = Some(
            labels
                .map(|(label, value)| (label.to_owned(), value))
                .into(),
        );
        made
    }
}
