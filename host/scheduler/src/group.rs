//! A group of accounts, one per tenant.

use std::sync::Arc;

use operetta_core::gate::wait_time::WaitTime;

use crate::{Account, Group, Share, Usage, concurrency::ConcurrencyLimit, demotion::Demotion};

impl Group {
    /// The group's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Creates an account.
    pub fn account(self: &Arc<Self>, share: Share) -> Arc<Account> {
        let id = self
            .scheduler
            .update(|state, now, _| state.add_account(self.id, &share, now));
        let concurrency = ConcurrencyLimit::new(share.concurrency);
        Arc::new(Account {
            id,
            demotion: Demotion::default(),
            concurrency,
            own_entry: WaitTime::default(),
            group_entry: WaitTime::default(),
            group: self.clone(),
        })
    }

    /// Changes the group's share. Reconciles in flight continue.
    pub fn set_share(&self, share: Share) {
        self.concurrency.set_limit(share.concurrency);
        self.scheduler
            .update(|state, now, woken| state.set_group_share(self.id, &share, now, woken));
    }

    /// The usage of all the group's accounts, including removed ones. `throttled` counts both the
    /// group's own limit and those of its accounts. Takes time linear in the number of accounts.
    pub fn usage(&self) -> Usage {
        self.scheduler
            .update(|state, now, _| state.group_usage(self.id, now))
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let mut shared = self.scheduler.shared.lock();
        shared.state.remove_group(self.id);
        // A new group may have taken over the name meanwhile.
        if shared
            .groups
            .get(&self.name)
            .is_some_and(|group| group.strong_count() == 0)
        {
            shared.groups.remove(&self.name);
        }
    }
}
