//! Shards of a Plugin: parts of its keys, for different replicas to reconcile.

use std::fmt;

use crate::object::ObjectKey;

/// 64-bit FNV-1a: offset basis and prime.
const FNV: (u64, u64) = (0xcbf2_9ce4_8422_2325, 0x0000_0100_0000_01b3);

/// One of the equal parts of a Plugin's keys.
///
/// A hash of its namespace and name selects a key's shard. The key alone decides, because it may
/// come from an event of another kind, and its object may be gone. All replicas, of any version,
/// must compute the same hash.
///
/// ```
/// use operetta_core::{object::ObjectKey, replicas::Shard};
///
/// let key = ObjectKey::namespaced("team", "web");
/// assert_eq!(Shard::all(4).filter(|shard| shard.contains(&key)).count(), 1);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Shard {
    /// Below `count`.
    index: u32,
    /// At least 1.
    count: u32,
}

impl Shard {
    /// The only shard of an undivided Plugin.
    pub const WHOLE: Self = Self { index: 0, count: 1 };

    /// All shards of a Plugin with `count` of them, at least one.
    pub fn all(count: u32) -> impl Iterator<Item = Self> {
        let count = count.max(1);
        (0..count).map(move |index| Self { index, count })
    }

    /// The position among the Plugin's shards, from 0.
    pub fn index(self) -> u32 {
        self.index
    }

    /// The number of the Plugin's shards.
    pub fn count(self) -> u32 {
        self.count
    }

    /// Whether it is the only shard of its Plugin.
    pub fn is_whole(self) -> bool {
        self.count == 1
    }

    /// Whether a key belongs to the shard.
    pub fn contains(self, key: &ObjectKey) -> bool {
        self.is_whole() || hash(key) % u64::from(self.count) == u64::from(self.index)
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.index, self.count)
    }
}

/// The FNV-1a hash of `NAMESPACE/NAME`, mixed with MurmurHash3's finalizer: FNV-1a's lowest bit is
/// only the parity of all characters' lowest bits.
fn hash(key: &ObjectKey) -> u64 {
    let namespace = key.namespace.as_deref().unwrap_or_default();
    let bytes = namespace.bytes().chain(*b"/").chain(key.name.bytes());
    let (basis, prime) = FNV;
    let mut hash = bytes.fold(basis, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(prime)
    });
    hash = (hash ^ (hash >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    hash = (hash ^ (hash >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    hash ^ (hash >> 33)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Keys as users name them: numbers at the end, the namespace's name within the name, and no
    /// namespace.
    fn keys() -> Vec<ObjectKey> {
        let namespaced = (0..3000)
            .map(|at| ObjectKey::namespaced(format!("team-{}", at % 9), format!("web-{at}")));
        let repeated =
            (0..3000).map(|at| ObjectKey::namespaced(format!("app-{at}"), format!("app-{at}")));
        let cluster_scoped = (0..3000).map(|at| ObjectKey::cluster_scoped(format!("node-{at:05}")));
        namespaced.chain(repeated).chain(cluster_scoped).collect()
    }

    #[test]
    fn every_key_belongs_to_one_shard() {
        for count in [0, 1, 2, 3, 7, 32] {
            for key in keys() {
                let shards = Shard::all(count)
                    .filter(|shard| shard.contains(&key))
                    .count();
                assert_eq!(shards, 1, "{key} of {count} shards");
            }
        }
    }

    #[test]
    fn shards_get_equal_parts_of_each_kind_of_keys() {
        for keys in keys().chunks(3000) {
            for count in [2, 4, 16] {
                let share = 3000 / count as usize;
                for shard in Shard::all(count) {
                    let keys = keys.iter().filter(|key| shard.contains(key)).count();
                    assert!(
                        keys.abs_diff(share) < share / 3,
                        "shard {shard} has {keys} keys of 3000"
                    );
                }
            }
        }
    }

    #[test]
    fn hash_is_that_of_earlier_versions() {
        let shard_of = |key: ObjectKey| {
            Shard::all(16)
                .find(|shard| shard.contains(&key))
                .map(|shard| shard.to_string())
                .unwrap_or_default()
        };
        let keys = ["one", "two", "three"].map(|name| ObjectKey::namespaced("team", name));
        assert_eq!(keys.map(shard_of), ["8/16", "9/16", "11/16"]);
        assert_eq!(shard_of(ObjectKey::cluster_scoped("one")), "8/16");
    }
}
