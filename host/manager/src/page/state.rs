//! What all requests to the page share.

use std::sync::Arc;

use kube::Client;
use operetta_kube::informer::Informer;

use super::summaries::Summaries;
use crate::{
    admin::{
        access::AccessControl,
        forward::Forwarder,
        informers::ServerRevisions,
        shares::{Readers, Shares},
        streams::Streams,
    },
    manager::Manager,
};

/// How many open streams a user may have.
pub(super) const PER_USER: usize = 10;

/// The number of lists of objects that are in memory at once, each at most 32 MiB.
const LISTS: u32 = 4;

/// The number of lists of one user that are in memory at once.
const LISTS_OF_USER: u32 = 2;

/// The state of the page.
pub struct Page {
    pub(super) manager: Arc<Manager>,
    pub(super) access: Arc<AccessControl>,
    /// Reaches the other replicas; None without the secure endpoints.
    pub(super) forwarder: Option<Arc<Forwarder>>,
    /// A client without credentials of its own.
    pub(super) users: Client,
    pub(super) streams: Streams,
    pub(super) summaries: Summaries,
    pub(super) server_revisions: ServerRevisions,
    /// Bounds the lists that are in memory at once.
    pub(super) lists: Shares,
    /// The answers that are being read.
    pub(super) readers: Arc<Readers>,
}

/// True if the page is served over TLS.
#[derive(Clone, Copy)]
pub(super) struct IsTls(pub bool);

impl Page {
    /// Creates the page. `users` is a client of the API server without credentials.
    pub fn new(
        manager: Arc<Manager>,
        access: Arc<AccessControl>,
        forwarder: Option<Arc<Forwarder>>,
        users: Client,
        readers: Arc<Readers>,
    ) -> Arc<Self> {
        Arc::new(Self {
            manager,
            access,
            forwarder,
            users,
            streams: Streams::new(PER_USER),
            summaries: Summaries::default(),
            server_revisions: ServerRevisions::default(),
            lists: Shares::new(LISTS, LISTS_OF_USER),
            readers,
        })
    }

    /// Returns the informer of CustomResourceDefinitions, or None before it starts.
    pub(super) fn definitions(&self) -> Option<Arc<Informer>> {
        let mut running = self.manager.context.cluster.registry.running().into_iter();
        running.find(|informer| informer.resource.plural == "customresourcedefinitions")
    }
}
