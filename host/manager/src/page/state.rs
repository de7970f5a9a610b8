//! What all requests to the page share.

use std::{sync::Arc, time::Duration};

use axum::http::HeaderMap;
use kube::Client;
use operetta_kube::informer::Informer;

use super::{
    elsewhere::{Elsewhere, Place},
    failing::Answers,
    sessions::Sessions,
    summaries::Summaries,
};
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

/// How often the sessions that are over are forgotten.
const SWEEP: Duration = Duration::from_secs(60);

/// The state of the page.
pub struct Page {
    pub(super) manager: Arc<Manager>,
    pub(super) access: Arc<AccessControl>,
    /// Reaches the other replicas; None without the secure endpoints.
    pub(super) forwarder: Option<Arc<Forwarder>>,
    /// A client without credentials of its own.
    pub(super) users: Client,
    /// Who has signed in here.
    pub(super) sessions: Sessions,
    /// Who has signed in at other replicas.
    pub(super) elsewhere: Elsewhere,
    pub(super) streams: Streams,
    pub(super) summaries: Summaries,
    /// What other replicas say about failing objects.
    pub(super) failing: Answers,
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
    /// Creates the page, in a runtime of tokio. `users` is a client of the API server without
    /// credentials.
    pub fn new(
        manager: Arc<Manager>,
        access: Arc<AccessControl>,
        forwarder: Option<Arc<Forwarder>>,
        users: Client,
        readers: Arc<Readers>,
    ) -> Arc<Self> {
        let page = Arc::new(Self {
            manager,
            access,
            forwarder,
            users,
            sessions: Sessions::default(),
            elsewhere: Elsewhere::default(),
            streams: Streams::new(PER_USER),
            summaries: Summaries::default(),
            failing: Answers::default(),
            server_revisions: ServerRevisions::default(),
            lists: Shares::new(LISTS, LISTS_OF_USER),
            readers,
        });

        let swept = Arc::downgrade(&page);
        tokio::spawn(async move {
            while let Some(page) = swept.upgrade() {
                page.sessions.sweep();
                drop(page);
                tokio::time::sleep(SWEEP).await;
            }
        });

        page
    }

    /// Returns where the session of a request's cookie is.
    pub(super) fn place_of_session(&self, headers: &HeaderMap) -> Place {
        let replicas = &self.manager.replicas;
        Place::of(headers, replicas.epoch(), &replicas.group().borrow())
    }

    /// Returns the informer of CustomResourceDefinitions, or None before it starts.
    pub(super) fn definitions(&self) -> Option<Arc<Informer>> {
        let mut running = self.manager.context.cluster.registry.running().into_iter();
        running.find(|informer| informer.resource.plural == "customresourcedefinitions")
    }
}
