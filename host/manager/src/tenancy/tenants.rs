//! The shares of tenants: processor time and requests to the API server, for each plugin within its
//! namespace.

use std::{collections::HashMap, sync::Arc};

use anyhow::{Context, Result};
use operetta_core::{
    gate::{bytes::ByteBudget, in_flight::Seats, throttle::Throttle},
    handler::unmapped_events::MAX_OLD_STATES,
    nondeterminism,
    object::ObjectKey,
    queue::budget::QueueBudget,
};
use operetta_scheduler::{Account, Background, FairScheduler};
use parking_lot::Mutex;
use tokio::sync::Semaphore;

use crate::{
    plugin::queue::PluginQueue,
    tenancy::{admission::Admission, quotas::Quotas},
};

/// The tenants of a host: each namespace is one.
pub struct Tenants {
    quotas: Quotas,
    /// The Plugins that run within the quotas.
    pub admission: Admission,
    scheduler: Arc<FairScheduler>,
    /// The threads of demoted plugins.
    _background: Option<Background>,
    /// The requests to the API server that all plugins have in flight.
    seats: Arc<Seats>,
    /// The quotas of requests that a namespace's plugins share.
    requests: Mutex<HashMap<String, Throttle>>,
    /// The semaphore of each namespace's compilations, with one permit.
    compilations: Mutex<HashMap<String, Arc<Semaphore>>>,
    /// The memory of all plugins together.
    memory: Arc<ByteBudget>,
    /// The memory of each namespace's plugins.
    memory_of: Mutex<HashMap<String, Arc<ByteBudget>>>,
    /// The budget of each namespace's queues.
    queues_of: Mutex<HashMap<String, Arc<QueueBudget>>>,
}

impl Tenants {
    /// Starts the scheduler with `slots` poll slots and as many background threads. `memory_bytes`
    /// is the memory that all plugins may take at once. Plugins whose admission changes are added
    /// to `queue`.
    ///
    /// # Errors
    /// When the background threads cannot be started.
    pub fn start(
        quotas: Quotas,
        slots: usize,
        memory_bytes: u64,
        queue: PluginQueue,
    ) -> Result<Self> {
        // A simulation has one thread, on which polls take no time.
        let has_threads = nondeterminism::replacement().is_none();
        let background = has_threads.then(|| Background::start(slots)).transpose();
        let background = background.context("failed to start the background threads")?;
        let scheduler = match &background {
            Some(background) => FairScheduler::with_background(slots, background.handle().clone()),
            None => FairScheduler::new(slots),
        };
        let memory = ByteBudget::of_host(memory_bytes);
        let seats = quotas.seats();
        let requests = Mutex::default();
        let memory_of = Mutex::default();
        let compilations = Mutex::default();
        let queues_of = Mutex::default();
        let admission = Admission::new(quotas.clone(), queue);

        Ok(Self {
            quotas,
            admission,
            scheduler,
            _background: background,
            seats,
            requests,
            compilations,
            memory,
            memory_of,
            queues_of,
        })
    }

    /// Returns a new plugin's account: its share of the processors, within its namespace's.
    pub fn account(&self, namespace: &str) -> Arc<Account> {
        let share = self.quotas.of_namespace(namespace).share();
        self.scheduler
            .group(namespace, share)
            .account(self.quotas.plugin.share())
    }

    /// Returns the quotas of a new plugin's requests: a rate limiter of its own, and what its
    /// namespace's plugins share.
    pub fn throttle(&self, namespace: &str) -> Throttle {
        let quota = self.quotas.of_namespace(namespace);
        let new = || Throttle {
            rates: Vec::from_iter(quota.call_rate()),
            in_flight: Some(quota.flow(&self.seats)),
            ..Throttle::default()
        };
        let shared = self
            .requests
            .lock()
            .entry(namespace.to_owned())
            .or_insert_with(new)
            .clone();
        let own = self.quotas.plugin.call_rate();

        Throttle {
            rates: own.into_iter().chain(shared.rates).collect(),
            meter: Arc::default(),
            ..shared
        }
    }

    /// Returns the semaphore of a namespace's compilations: its components are compiled one after
    /// another, those of other namespaces between them.
    pub fn compilations(&self, namespace: &str) -> Arc<Semaphore> {
        self.compilations
            .lock()
            .entry(namespace.to_owned())
            .or_insert_with(|| Arc::new(Semaphore::new(1)))
            .clone()
    }

    /// Returns the budget of memory of a namespace's plugins.
    pub fn memory(&self, namespace: &str) -> Arc<ByteBudget> {
        let mut all = self.memory_of.lock();
        let limit = self
            .quotas
            .of_namespace(namespace)
            .memory_bytes
            .unwrap_or(u64::MAX);
        let new = || self.memory.child(format!("namespace {namespace}"), limit);
        all.entry(namespace.to_owned()).or_insert_with(new).clone()
    }

    /// Returns the budget of the queues of a Plugin's namespace.
    pub fn queues(&self, plugin: &ObjectKey) -> Arc<QueueBudget> {
        let namespace = plugin.namespace.as_deref().unwrap_or_default();
        let new = || QueueBudget::new(self.max_queued_keys(namespace), MAX_OLD_STATES);
        self.queues_of
            .lock()
            .entry(namespace.to_owned())
            .or_insert_with(new)
            .clone()
    }

    /// Returns the number of keys in the queues of a namespace.
    pub fn queued_keys(&self, namespace: &str) -> usize {
        self.queues_of
            .lock()
            .get(namespace)
            .map_or(0, |budget| budget.keys())
    }

    /// Returns the quota of keys in the queues of a namespace.
    pub fn max_queued_keys(&self, namespace: &str) -> usize {
        self.quotas
            .of_namespace(namespace)
            .queued_keys
            .map_or(usize::MAX, |keys| keys as usize)
    }

    /// Returns the configured quotas.
    pub fn quotas(&self) -> &Quotas {
        &self.quotas
    }
}
