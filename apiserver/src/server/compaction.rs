//! Compaction: from time to time the server forgets the past, and what it has prepared for it.

use std::time::Duration;

use tokio::time::sleep;

use super::state::ApiServer;

/// kube-apiserver's default of `--etcd-compaction-interval`.
const INTERVAL: Duration = Duration::from_secs(5 * 60);

impl ApiServer {
    /// Compacts every five minutes, as kube-apiserver has etcd do: the changes that were made before
    /// the last time go. So a change can be listed and watched for five to ten minutes. Never ends.
    pub(crate) async fn compact(&self) {
        let mut revision = self.state.store.revision();

        loop {
            sleep(INTERVAL).await;
            self.state.store.compact_to(revision);
            self.state.access.objects.forget_outdated();
            self.state.documents.forget_outdated();
            revision = self.state.store.revision();
        }
    }
}
