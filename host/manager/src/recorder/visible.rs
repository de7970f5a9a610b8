//! What a user may see of the flight recorder: an object's changes with their causes, and a
//! plugin's reconciles.
//!
//! A user who may read an object sees its changes. Other objects and Plugins in the chain are named
//! if the user may read them, and only counted otherwise. Each replica knows just its own
//! reconciles, so the one being asked asks the others, with the user's token.

use std::collections::{BTreeMap, HashMap};

use async_trait::async_trait;
use axum::{
    extract::Path,
    http::{Request, StatusCode},
};
use futures::future::join_all;
use operetta_core::{
    object::{ObjectKey, kind::GroupVersionKind},
    recorder::{
        Facts, Recorded, WriteFact,
        explain::{Explanation, FactSource, Question, explain},
        record::{CallRecord, ObjectRef, Reconcile},
    },
};
use operetta_kube::client::own_token::FORWARDED;
use parking_lot::Mutex;

use crate::{
    admin::{
        access::{Asker, Required},
        forward::Forwarder,
        object_path,
    },
    context::Context,
    manager::Manager,
    plugin::history::{self, History, Past},
};

/// The longest response of another replica, in bytes.
const MAX_FACTS: usize = 32 << 20;

/// How many permissions of the user one request asks for.
const MAX_REVIEWS: usize = 500;

/// An object's path: group, version, plural, namespace and name.
pub(crate) type ObjectPath = Path<(String, String, String, String, String)>;

/// What a user may see of all replicas' records.
pub(crate) struct Visible<'a> {
    manager: &'a Manager,
    /// Reaches the other replicas; None without the secure endpoints.
    forwarder: Option<&'a Forwarder>,
    /// The user; None on the endpoint without authentication.
    asker: Option<Asker>,
    /// The replicas that didn't answer, and why.
    silent: Mutex<BTreeMap<String, String>>,
    /// The user's permissions, as far as they were asked for.
    known: Mutex<HashMap<Required, bool>>,
}

impl<'a> Visible<'a> {
    pub(crate) fn new(
        manager: &'a Manager,
        forwarder: Option<&'a Forwarder>,
        asker: Option<Asker>,
    ) -> Self {
        Self {
            manager,
            forwarder,
            asker,
            silent: Mutex::default(),
            known: Mutex::default(),
        }
    }

    /// Returns the object for a path of group (`core` for the core group), version, plural,
    /// namespace (`_` without one) and name.
    ///
    /// # Errors
    /// The status and message to respond with, if the API server has no such kind or doesn't
    /// respond.
    pub(crate) async fn object(
        &self,
        Path(path): ObjectPath,
    ) -> Result<ObjectRef, (StatusCode, String)> {
        let (group, version, plural, namespace, name) = path;
        let api_version = object_path::api_version(&group, &version);
        let resource = self
            .context()
            .cluster
            .discovery
            .resolve_plural(&api_version, &plural)
            .await;
        let resource =
            resource.map_err(|error| (StatusCode::SERVICE_UNAVAILABLE, error.to_string()))?;

        let unknown = || {
            (
                StatusCode::NOT_FOUND,
                format!("the API server has no resource {plural:?} in {api_version}"),
            )
        };
        let resource = resource.ok_or_else(unknown)?;
        let key = ObjectKey {
            namespace: object_path::namespace(&namespace).map(str::to_owned),
            name,
        };
        Ok(ObjectRef::new(&resource.kind, &key))
    }

    /// Explains an object's changes, or returns None if the user may not read the object.
    pub(crate) async fn explain(self, question: &Question) -> Option<Explanation> {
        let mut explanation = explain(&self, question).await?;
        let silent = self.silent.into_inner();
        explanation.silent = silent
            .into_iter()
            .map(|(identity, error)| format!("{identity}: {error}"))
            .collect();
        Some(explanation)
    }

    /// Returns a plugin's last reconciles, or those of one key together with the key's state. None
    /// if the host has no such plugin.
    pub(crate) async fn history(
        &self,
        plugin: &ObjectKey,
        key: Option<&str>,
        limit: usize,
    ) -> Option<History> {
        let hosted = self.manager.hosted_plugins.get(plugin)?;
        let keys = key.map(|text| history::keys(plugin, text));
        let keys = keys.as_deref().unwrap_or_default();
        let (records, older) = self.context().recorder.reconciles(plugin, keys, limit);
        let states = history::states(&hosted, keys).await;

        let mut answer = History {
            states,
            older,
            ..History::default()
        };
        for Recorded { mut reconcile, .. } in records {
            answer.hidden += self.hide(&mut reconcile).await;
            answer.reconciles.push(Past::from(reconcile));
        }

        Some(answer)
    }

    /// Returns this replica's records of an object, or None if the user may not read the object.
    pub(crate) async fn own_facts(&self, object: &ObjectRef) -> Option<Facts> {
        if self.may_get(object).await {
            Some(self.local(object).await)
        } else {
            None
        }
    }

    fn context(&self) -> &'a Context {
        &self.manager.context
    }

    /// Returns this replica's records. For Plugins and reconciled objects the user may not read, only
    /// the writes and their times remain; otherwise, triggers and calls about other objects are left
    /// out.
    async fn local(&self, object: &ObjectRef) -> Facts {
        let Facts { changes, writes } = self.context().recorder.facts(object);
        let mut shown = Vec::new();
        for write in writes {
            let is_visible = self.may_see_plugin(&write.plugin).await
                && self.may_get(&write.reconcile.object()).await;
            shown.push(if is_visible {
                self.readable(write).await
            } else {
                write.hidden()
            });
        }

        Facts {
            changes,
            writes: shown,
        }
    }

    async fn may_see_plugin(&self, plugin: &ObjectKey) -> bool {
        let Some(asker) = &self.asker else {
            return true;
        };
        let namespace = plugin.namespace.as_deref().unwrap_or_default();
        let required = Required::plugin_resource("get", "plugins", namespace, &plugin.name);
        self.may(asker, required).await
    }

    /// Asks another replica, which checks the user's permissions itself.
    async fn of_replica(&self, identity: &str, path: &str) -> Result<Facts, String> {
        let (Some(forwarder), Some(asker)) = (self.forwarder, &self.asker) else {
            return Err(
                "other replicas answer users with a token only: use the secure endpoints"
                    .to_owned(),
            );
        };
        let mut request = Request::get(path);
        if let Some(token) = asker.credentials() {
            request = request.header(FORWARDED, token.clone());
        }

        let (head, ()) = request
            .body(())
            .map_err(|error| error.to_string())?
            .into_parts();
        let response = forwarder.send(identity, head).await?;
        let status = response.status();
        let body = axum::body::to_bytes(response.into_body(), MAX_FACTS)
            .await
            .map_err(|error| error.to_string())?;
        if !status.is_success() {
            return Err(format!("{status}: {}", String::from_utf8_lossy(&body)));
        }

        serde_json::from_slice(&body)
            .map_err(|error| format!("failed to decode its answer: {error}"))
    }

    /// Returns the path of the endpoint for an object's records.
    async fn path(&self, object: &ObjectRef) -> Option<String> {
        let resource = self
            .context()
            .cluster
            .discovery
            .resolve(&object.kind)
            .await
            .ok()?;
        let path =
            object_path::object_path(&object.kind.api_version, &resource.plural, &object.key);
        Some(format!("/facts/{path}"))
    }
}

impl Visible<'_> {
    async fn may_get(&self, object: &ObjectRef) -> bool {
        let Some(asker) = &self.asker else {
            return true;
        };
        let ObjectRef { kind, key } = object;
        // No permission can be checked for a kind that no longer exists.
        let Ok(resource) = self.context().cluster.discovery.resolve(kind).await else {
            return false;
        };

        let required = Required::get(
            Some(kind.group()),
            &resource.plural,
            key.namespace.as_deref(),
            &key.name,
        );
        self.may(asker, required).await
    }

    /// Asks once for each permission. The answer is no once there are too many: otherwise one request
    /// about a busy plugin would cost thousands of reviews.
    async fn may(&self, asker: &Asker, required: Required) -> bool {
        let known = {
            let known = self.known.lock();
            let answer = known.get(&required).copied();
            answer.or((known.len() >= MAX_REVIEWS).then_some(false))
        };
        match known {
            Some(answer) => answer,
            None => {
                let answer = asker.may(&required).await;
                self.known.lock().insert(required, answer);
                answer
            }
        }
    }

    /// Reports whether the user may read the object of a call.
    async fn may_read(&self, call: &CallRecord) -> bool {
        let Some(asker) = &self.asker else {
            return true;
        };
        let kind = GroupVersionKind::new(&*call.api_version, &*call.resource);
        let name = call.name.as_deref().unwrap_or_default();
        let group = kind.group();
        let required =
            |plural: &str| Required::get(Some(group), plural, call.namespace.as_deref(), name);

        match call.is_raw {
            true => self.may(asker, required(&call.resource)).await,
            false => match self.context().cluster.discovery.resolve(&kind).await {
                Ok(resource) => self.may(asker, required(&resource.plural)).await,
                Err(_) => false,
            },
        }
    }

    /// Leaves out triggers and calls about objects that the user may not read.
    async fn readable(&self, mut write: WriteFact) -> WriteFact {
        let calls = &mut write.reconcile.calls;
        if write.at >= calls.len() {
            return write;
        }
        // The write itself is about the object in question.
        let after = calls.split_off(write.at + 1);
        let own = calls.pop();
        let mut hidden = self.hide(&mut write.reconcile).await;
        write.at = write.reconcile.calls.len();
        write.reconcile.calls.extend(own);
        for call in after {
            if self.may_read(&call).await {
                write.reconcile.calls.push(call);
            } else {
                hidden += 1;
            }
        }

        write.left_out = hidden;
        write
    }

    /// Removes triggers and calls about objects the user may not read, and returns how many.
    async fn hide(&self, record: &mut Reconcile) -> usize {
        let before = record.triggers.len() + record.calls.len();
        let mut triggers = Vec::new();
        for trigger in std::mem::take(&mut record.triggers) {
            let is_visible = match &trigger.object {
                Some(object) => self.may_get(object).await,
                None => true,
            };
            triggers.extend(is_visible.then_some(trigger));
        }

        let mut calls = Vec::new();
        for call in std::mem::take(&mut record.calls) {
            calls.extend(self.may_read(&call).await.then_some(call));
        }
        record.triggers = triggers;
        record.calls = calls;

        before - record.triggers.len() - record.calls.len()
    }
}

#[async_trait]
impl FactSource for Visible<'_> {
    async fn facts(&self, object: &ObjectRef) -> Option<Facts> {
        let mut facts = self.own_facts(object).await?;
        let replicas = &self.manager.replicas;
        let group = replicas.group().borrow().clone();
        let others = group.members().map(|(_, member)| member.identity.as_str());
        let others: Vec<&str> = others
            .filter(|identity| *identity != replicas.identity())
            .collect();
        let Some(path) = self.path(object).await.filter(|_| !others.is_empty()) else {
            return Some(facts);
        };

        let answers = others
            .into_iter()
            .map(async |identity| (identity, self.of_replica(identity, &path).await));
        for (identity, answer) in join_all(answers).await {
            match answer {
                Ok(other) => facts.add(other),
                Err(error) => {
                    self.silent.lock().insert(identity.to_owned(), error);
                }
            }
        }

        Some(facts)
    }
}
