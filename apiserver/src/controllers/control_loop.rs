//! The loop that all controllers share: changes fill one queue of keys, and keys are reconciled one
//! after the other.
//!
//! Controllers are functions of the world: they read it, write through the API and wait for nothing.
//! Their writes come back as changes. All order follows from the order of the changes, so that a run
//! can be repeated exactly.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, VecDeque},
    time::Duration,
};

use jiff::Timestamp;
use tokio::time::Instant;

use super::{
    client::{Client, Refused},
    world::{Change, Key, World},
};
use crate::server::Environment;

/// The delay after the first failure. It doubles with each one, up to the longest.
const FIRST_RETRY: Duration = Duration::from_millis(5);
const LONGEST_RETRY: Duration = Duration::from_secs(60);

pub(super) trait Controller: Send {
    /// The keys of objects that should exist from the start.
    fn first_keys(&self) -> Vec<Key> {
        Vec::new()
    }

    /// Adds the keys of the objects that a change affects.
    fn affected(&mut self, change: &Change, world: &World, keys: &mut Vec<Key>);

    /// Moves an object towards its desired state. Returns when to look again, if not only at changes.
    ///
    /// # Errors
    ///
    /// The refusal of a request; the key is retried.
    fn reconcile(&mut self, key: &Key, context: &Context<'_>) -> Result<Option<Duration>, Refused>;
}

/// What a controller works with: the objects and the API.
pub(super) struct Context<'a> {
    pub world: &'a World,
    pub client: &'a Client,
    pub now: Timestamp,
}

pub(super) struct Member {
    pub name: &'static str,
    pub client: Client,
    pub controller: Box<dyn Controller>,
}

/// A key and the index of the controller that it belongs to.
type Item = (usize, Key);

/// Keys that are ready, or become ready at a time.
#[derive(Default)]
struct Queue {
    ready: VecDeque<Item>,
    /// The same keys as in `ready`.
    is_ready: BTreeSet<Item>,
    /// The keys that become ready at a time.
    delayed: BTreeSet<(Instant, Item)>,
    /// The time of each key in `delayed`, where a key is at most once.
    delays: BTreeMap<Item, Instant>,
    failures: HashMap<Item, u32>,
}

impl Queue {
    fn add(&mut self, item: Item) {
        if self.is_ready.insert(item.clone()) {
            self.ready.push_back(item);
        }
    }

    fn add_after(&mut self, item: Item, delay: Duration) {
        let at = Instant::now() + delay;

        if let Some(earlier) = self.delays.get(&item) {
            if *earlier <= at {
                return;
            }
            self.delayed.remove(&(*earlier, item.clone()));
        }

        self.delays.insert(item.clone(), at);
        self.delayed.insert((at, item));
    }

    /// Makes the keys ready that are due.
    fn advance(&mut self) {
        let now = Instant::now();
        while let Some((at, item)) = self.delayed.pop_first() {
            if at > now {
                self.delayed.insert((at, item));
                return;
            }
            self.delays.remove(&item);
            self.add(item);
        }
    }

    fn take(&mut self) -> Option<Item> {
        let item = self.ready.pop_front()?;
        self.is_ready.remove(&item);
        Some(item)
    }

    fn next_time(&self) -> Option<Instant> {
        self.delayed.first().map(|(at, _)| *at)
    }

    fn fail(&mut self, item: Item) {
        let failures = self.failures.entry(item.clone()).or_default();
        let delay = FIRST_RETRY
            .saturating_mul(1 << (*failures).min(16))
            .min(LONGEST_RETRY);
        *failures += 1;
        self.add_after(item, delay);
    }
}

/// Runs controllers, forever.
pub(super) async fn run(mut members: Vec<Member>, mut world: World, environment: Environment) {
    let mut queue = Queue::default();
    for (number, member) in members.iter().enumerate() {
        member
            .controller
            .first_keys()
            .into_iter()
            .for_each(|key| queue.add((number, key)));
    }

    loop {
        for change in world.sync() {
            for (number, member) in members.iter_mut().enumerate() {
                let mut keys = Vec::new();
                member.controller.affected(&change, &world, &mut keys);
                keys.into_iter().for_each(|key| queue.add((number, key)));
            }
        }

        queue.advance();
        match (queue.take(), queue.next_time()) {
            (Some(item), _) => {
                reconcile(&mut members, &world, &environment, &mut queue, item);
                tokio::task::yield_now().await;
            }
            (None, Some(at)) => {
                // A change or the time; the next round looks at both.
                let _elapsed = tokio::time::timeout_at(at, world.wait()).await;
            }
            (None, None) => world.wait().await,
        }
    }
}

fn reconcile(
    members: &mut [Member],
    world: &World,
    environment: &Environment,
    queue: &mut Queue,
    item: Item,
) {
    let Some(member) = members.get_mut(item.0) else {
        return;
    };

    let context = Context {
        world,
        client: &member.client,
        now: environment.now(),
    };

    match member.controller.reconcile(&item.1, &context) {
        Ok(after) => {
            queue.failures.remove(&item);
            if let Some(after) = after {
                queue.add_after(item, after);
            }
        }
        Err(error) => {
            if !error.is_conflict() {
                let (name, key) = (member.name, &item.1);
                tracing::warn!(
                    "{name} failed, retrying {} {}: {error}",
                    key.resource,
                    key.object.as_str()
                );
            }
            queue.fail(item);
        }
    }
}
