//! What the parts of a server share.

use std::sync::Arc;

use crate::{
    apiextensions::custom::CustomResources,
    authn::{authenticate::Authenticator, signing::SigningKey},
    server::{Environment, Resources, WeakResources, objects::StoredObjects},
    store::Store,
};

/// The state that the parts of a server share.
pub(crate) struct Shared {
    pub store: Store,
    /// The API holds the registry, and the registry's handlers hold this.
    pub registry: WeakResources,
    pub environment: Environment,
    pub objects: Arc<StoredObjects>,
    pub customs: CustomResources,
    /// The key that signs tokens.
    pub key: Arc<SigningKey>,
    pub authenticator: Arc<Authenticator>,
    /// Reports whether a controller keeps the status of PodDisruptionBudgets.
    pub has_disruption_budgets: bool,
}

impl Shared {
    /// Returns the registry of resources.
    pub fn resources(&self) -> Resources {
        self.registry.get()
    }
}
