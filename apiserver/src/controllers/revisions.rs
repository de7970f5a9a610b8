//! ControllerRevisions: the past and present templates of a StatefulSet or DaemonSet.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{
    claims,
    client::Refused,
    control_loop::Context,
    hash,
    object::{controller_reference, name, namespace, number, text},
    pod_control::resource,
};

const GROUP: &str = "apps";
const RESOURCE: &str = "controllerrevisions";

/// The revisions of an owner, the oldest first.
pub(super) struct Revisions {
    pub all: Vec<Value>,
    /// The name of the one with the owner's template.
    pub update: String,
}

impl Revisions {
    /// Finds an owner's revisions, and creates the one of its template if it is new.
    ///
    /// # Errors
    ///
    /// The refusal of a write.
    pub fn sync(
        owner: &Value,
        hash_label: &str,
        hash: &str,
        context: &Context<'_>,
    ) -> Result<Self, Refused> {
        let data = data_of(owner);
        let mut all: Vec<Value> = claims::claim(owner, GROUP, RESOURCE, context)?
            .iter()
            .map(|one: &Arc<Value>| (**one).clone())
            .collect();

        all.sort_by_key(|one| number(one, "/revision", 0));
        let next = all.last().map_or(0, |last| number(last, "/revision", 0)) + 1;

        let resource = resource(GROUP, RESOURCE, context)?;
        let update = match all.iter().position(|one| one["data"] == data) {
            Some(index) if index + 1 == all.len() => name(&all[index]).to_owned(),
            // The template came back, so its revision becomes the newest again.
            Some(index) => {
                let mut changed = all.remove(index);
                changed["revision"] = next.into();
                let changed = context.client.update(&resource, &changed, "")?;
                let update = name(&changed).to_owned();
                all.push(changed);
                update
            }
            None => {
                let mut labels = owner["spec"]["template"]["metadata"]["labels"].clone();
                labels[hash_label] = hash.into();

                let object = json!({
                    "metadata": {
                        "name": format!("{}-{hash}", name(owner)), "namespace": namespace(owner), "labels": labels,
                        "ownerReferences": [controller_reference(owner)],
                    },
                    "data": data, "revision": next,
                });

                let created = context
                    .client
                    .create(&resource, Some(namespace(owner)), &object)?;
                let update = name(&created).to_owned();
                all.push(created);
                update
            }
        };

        Ok(Self { all, update })
    }

    /// The template of a revision.
    pub fn template(&self, revision: &str) -> Option<Value> {
        let found = self.all.iter().find(|one| name(one) == revision)?;
        let mut template = found["data"]["spec"]["template"].clone();
        template.as_object_mut()?.remove("$patch");
        Some(template)
    }

    /// Deletes the oldest unused revisions beyond the history limit.
    ///
    /// # Errors
    ///
    /// The refusal of a deletion.
    pub fn truncate(
        &self,
        owner: &Value,
        live: &[String],
        context: &Context<'_>,
    ) -> Result<(), Refused> {
        let limit =
            usize::try_from(number(owner, "/spec/revisionHistoryLimit", 10)).unwrap_or_default();

        let unused: Vec<_> = self
            .all
            .iter()
            .filter(|one| name(one) != self.update && !live.iter().any(|used| used == name(one)))
            .collect();
        let surplus = unused.len().saturating_sub(limit);

        let resource = resource(GROUP, RESOURCE, context)?;
        unused
            .into_iter()
            .take(surplus)
            .try_for_each(|one| context.client.delete(&resource, one, ""))
    }
}

/// The data of an owner's revision: a patch that sets its template.
fn data_of(owner: &Value) -> Value {
    let mut template = owner["spec"]["template"].clone();
    template["$patch"] = "replace".into();
    json!({"spec": {"template": template}})
}

/// The hash of an owner's revision, exactly as kube-controller-manager computes it for StatefulSets.
pub(super) fn hash_of(owner: &Value) -> String {
    hash::of_revision(
        &data_of(owner).to_string(),
        number(owner, "/status/collisionCount", 0),
    )
}

pub(super) fn revision_of(pod: &Value) -> &str {
    text(pod, &["metadata", "labels", "controller-revision-hash"])
}
