//! The shares of tenants: processor time and requests to the API server, for each plugin within its namespace.

use std::{collections::HashMap, sync::Arc};

use anyhow::{Context, Result};
use operetta_core::gate::throttle::CallRate;
use operetta_scheduler::{Account, Background, FairScheduler};
use parking_lot::Mutex;

use crate::tenancy::quotas::Quotas;

/// The tenants of a host: each namespace is one.
pub struct Tenants {
    quotas: Quotas,
    scheduler: Arc<FairScheduler>,
    /// The threads of demoted plugins.
    _background: Background,
    /// The rate limiters that a namespace's plugins share; None without a limit.
    call_rates: Mutex<HashMap<String, Option<Arc<CallRate>>>>,
}

impl Tenants {
    /// Starts the scheduler with `slots` worker slots and as many background threads.
    ///
    /// # Errors
    /// When the background threads cannot be started.
    pub fn start(quotas: Quotas, slots: usize) -> Result<Self> {
        let background = Background::start(slots).context("failed to start the background threads")?;
        let scheduler = FairScheduler::with_background(slots, background.handle().clone());
        Ok(Self { quotas, scheduler, _background: background, call_rates: Mutex::default() })
    }

    /// Returns a new plugin's account: its share of the processors, within its namespace's.
    pub fn account(&self, namespace: &str) -> Arc<Account> {
        let share = self.quotas.of_namespace(namespace).share();
        self.scheduler.group(namespace, share).account(self.quotas.plugin.share())
    }

    /// Returns the rate limiters of a plugin's requests: a new one of its own, and the one of its namespace.
    pub fn call_rates(&self, namespace: &str) -> Vec<Arc<CallRate>> {
        let mut shared = self.call_rates.lock();
        let new = || self.quotas.of_namespace(namespace).call_rate().map(Arc::new);
        let of_namespace = shared.entry(namespace.to_owned()).or_insert_with(new).clone();
        self.quotas.plugin.call_rate().map(Arc::new).into_iter().chain(of_namespace).collect()
    }

    /// Returns the configured quotas.
    pub fn quotas(&self) -> &Quotas {
        &self.quotas
    }
}
