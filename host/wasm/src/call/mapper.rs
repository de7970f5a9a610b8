//! A plugin as core's [`Mapper`]. Each event has a fresh instance, even if reconciles have warm
//! ones.

use std::sync::Arc;

use async_trait::async_trait;
use operetta_core::{
    controller::request::{Failure, ReconcileRequest},
    gate::Gate,
    handler::event::Event,
    object::{ObjectKey, kind::GroupVersionKind},
    ports::Mapper,
};

use crate::{
    CallLimits, Plugin,
    bindings::operetta::controller::types,
    call::{self, Budget},
    cut,
    imports::{MAX_FAILURE, non_empty},
    mapper_bindings::exports::operetta::controller::mapper as generated,
    slots::Tenant,
};

/// The maximum size in bytes of the keys returned for an event.
/// [`MAX_KEYS`](operetta_core::handler::mapping::MAX_KEYS) of the longest keys take a third of it,
/// so a mapping of a few times as many keys is still refused by their number. There is a limit
/// because the keys are copied at once, which blocks the thread.
const MAX_TRANSFER: usize = 1 << 20;

/// Maps events in a plugin.
pub struct PluginMapper {
    plugin: Arc<Plugin>,
    gate: Arc<Gate>,
    budget: Budget,
    tenant: Tenant,
}

impl PluginMapper {
    /// Returns a mapper for this plugin behind this gate; None if the plugin exports no mapper.
    pub fn new(plugin: Arc<Plugin>, gate: Arc<Gate>, limits: &CallLimits) -> Option<Self> {
        plugin.has_mapper().then(|| {
            let mut budget = limits.budget();
            budget.transfer_bytes = budget.transfer_bytes.min(MAX_TRANSFER);
            Self {
                plugin,
                gate,
                budget,
                tenant: Tenant::default(),
            }
        })
    }

    /// Makes its calls share pool slots with the other calls of a tenant.
    #[must_use]
    pub fn for_tenant(mut self, tenant: &str) -> Self {
        self.tenant = tenant.into();
        self
    }
}

#[async_trait]
impl Mapper for PluginMapper {
    async fn map(
        &self,
        request: &ReconcileRequest,
        kind: &GroupVersionKind,
        event: &Event,
    ) -> Result<Vec<ObjectKey>, Failure> {
        let engine = self.plugin.engine();
        let event = wit_event(&request.controller, kind, event);
        let linked = self.plugin.linked().await?;
        let Some(pre) = &linked.mapper else {
            return Err(Failure::Retry("the plugin has no mapper".to_owned()));
        };

        let waits = Some(&self.gate.meter().slot_waits);
        let _slot = call::slots(engine, &self.tenant, linked.slots, waits).await;
        let mut store = call::store(
            engine,
            self.gate.session(Some(request.clone())),
            &self.budget,
        );
        store.data_mut().evaluated = self.plugin.evaluated();

        let answer = call::run(engine, &self.budget, async {
            let guest = pre.instantiate_async(&mut store).await?;
            guest
                .operetta_controller_mapper()
                .call_map_event(&mut store, &event)
                .await
        });
        let answer = answer.await;

        match call::finish(&mut store, answer, &self.budget)? {
            Ok(keys) => Ok(keys.into_iter().map(key).collect()),
            Err(message) => Err(Failure::Retry(cut(message, MAX_FAILURE))),
        }
    }
}

fn wit_event(controller: &str, kind: &GroupVersionKind, event: &Event) -> generated::Event {
    let object = event.object();
    let key = object.key();

    generated::Event {
        controller: controller.to_owned(),
        kind: types::GroupVersionKind {
            api_version: kind.api_version.clone(),
            kind: kind.kind.clone(),
        },
        key: types::ObjectKey {
            namespace: key.namespace.clone(),
            name: key.name.clone(),
        },
        event_type: match event {
            Event::Added { .. } => generated::EventType::Added,
            Event::Modified { .. } => generated::EventType::Modified,
            Event::Deleted { .. } => generated::EventType::Deleted,
        },
        object: object.json().to_owned(),
        old: event.changed_from().map(|old| old.json().to_owned()),
    }
}

fn key(key: types::ObjectKey) -> ObjectKey {
    ObjectKey {
        namespace: non_empty(key.namespace),
        name: key.name,
    }
}
