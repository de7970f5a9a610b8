//! The owners of a Plugin's shards, as its status has them: in the fields `replica`, `epoch` and
//! `successor`, or, if the Plugin is split, in those fields of each entry in `shards`.

use operetta_core::{
    object::Object,
    replicas::{Epoch, Owner, Shard},
};
use serde_json::{Value, json};

use crate::plugin::crd::{self, MAX_SHARDS, ShardStatus};

/// The status fields about owners.
pub const FIELDS: [&str; 5] = ["group", "replica", "epoch", "successor", "shards"];

/// One entry per shard, and at least one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owners(Vec<ShardStatus>);

impl Owners {
    /// Reads a Plugin's owners. There are none in an undecodable status: no host wrote it.
    pub fn read(plugin: &Object) -> Self {
        let read = plugin
            .at(".status")
            .and_then(|text| serde_json::from_str::<crd::Owner>(text).ok());
        Self::from_status(&read.unwrap_or_default())
    }

    /// Returns the owners in a status.
    pub fn from_status(status: &crd::Owner) -> Self {
        if !status.shards.is_empty() {
            return Self(status.shards.clone());
        }
        let crd::Owner {
            replica,
            epoch,
            successor,
            ..
        } = status.clone();
        Self(vec![ShardStatus {
            shard: 0,
            replica,
            epoch,
            successor,
        }])
    }

    /// Returns `count` shards without owners.
    pub fn none(count: u32) -> Self {
        Self(
            Shard::all(count)
                .map(|shard| ShardStatus {
                    shard: shard.index().into(),
                    ..ShardStatus::default()
                })
                .collect(),
        )
    }

    /// Returns the same number of shards without owners.
    pub fn without_owners(&self) -> Self {
        Self::none(u32::try_from(self.0.len()).unwrap_or(u32::MAX))
    }

    /// Returns the shards and their owners.
    pub fn iter(&self) -> impl Iterator<Item = (Shard, Option<Owner>)> {
        let count = u32::try_from(self.0.len()).unwrap_or(u32::MAX);
        Shard::all(count).zip(self.0.iter().map(owner))
    }

    /// Returns each shard's owner, in order.
    pub fn owners(&self) -> Vec<Option<Owner>> {
        self.0.iter().map(owner).collect()
    }

    /// Returns a shard's owner. None if the Plugin now has a different number of shards.
    pub fn of(&self, shard: Shard) -> Option<Owner> {
        self.iter()
            .find(|(other, _)| *other == shard)
            .and_then(|(_, owner)| owner)
    }

    /// Returns the identity of a shard's current or last replica.
    pub fn replica(&self, shard: Shard) -> Option<&str> {
        self.0.get(shard.index() as usize)?.replica.as_deref()
    }

    /// Returns the entries of all shards, in order.
    pub fn entries(&self) -> &[ShardStatus] {
        &self.0
    }

    /// Reports whether the Plugin is split.
    pub fn is_split(&self) -> bool {
        self.0.len() > 1
    }

    /// Sets or removes a shard's owner, and removes the successor.
    pub fn set(&mut self, shard: Shard, owner: Option<(&str, Epoch)>) {
        if let Some(entry) = self.0.get_mut(shard.index() as usize) {
            entry.replica = owner.map(|(identity, _)| identity.to_owned());
            entry.epoch = owner.map(|(_, epoch)| epoch.0.into());
            entry.successor = None;
        }
    }

    /// Sets the successor of a shard's owner.
    pub fn set_successor(&mut self, shard: Shard, successor: Epoch) {
        if let Some(entry) = self.0.get_mut(shard.index() as usize) {
            entry.successor = Some(successor.0.into());
        }
    }

    /// Removes all successors.
    pub fn clear_successors(&mut self) {
        self.0.iter_mut().for_each(|entry| entry.successor = None);
    }

    /// Returns the status fields. Those without a value are null.
    pub fn status(&self) -> Value {
        match &self.0[..] {
            [
                ShardStatus {
                    replica,
                    epoch,
                    successor,
                    ..
                },
            ] => {
                json!({"replica": replica, "epoch": epoch, "successor": successor, "shards": null})
            }
            shards => {
                json!({"replica": self.summary(), "epoch": null, "successor": null, "shards": shards})
            }
        }
    }

    /// Lists the replicas with their shards' numbers: `a (0,2), b (1)`.
    fn summary(&self) -> Option<String> {
        let mut replicas: Vec<(&str, Vec<String>)> = Vec::new();
        for ShardStatus { shard, replica, .. } in &self.0 {
            let Some(replica) = replica.as_deref() else {
                continue;
            };
            match replicas.iter_mut().find(|(other, _)| *other == replica) {
                Some((_, shards)) => shards.push(shard.to_string()),
                None => replicas.push((replica, vec![shard.to_string()])),
            }
        }

        let texts = replicas
            .iter()
            .map(|(replica, shards)| format!("{replica} ({})", shards.join(",")));
        Some(texts.collect::<Vec<_>>().join(", ")).filter(|text| !text.is_empty())
    }
}

/// Returns the number of shards in a Plugin's spec.
pub fn wanted_shards(plugin: &Object) -> u32 {
    let wanted = plugin
        .scalar_at(".spec.shards")
        .and_then(|text| text.parse::<u32>().ok());
    wanted.map_or(1, |wanted| wanted.clamp(1, MAX_SHARDS))
}

fn owner(entry: &ShardStatus) -> Option<Owner> {
    let epoch = |number: Option<i64>| {
        number
            .and_then(|number| u32::try_from(number).ok())
            .map(Epoch)
    };
    Some(Owner {
        epoch: epoch(entry.epoch)?,
        successor: epoch(entry.successor),
    })
}

#[cfg(test)]
mod tests {
    use operetta_core::object::{ManagedFields, kind::GroupVersionKind};

    use super::*;

    fn plugin(spec: &Value, status: &Value) -> Object {
        let plugin =
            json!({"metadata": {"name": "p", "namespace": "n"}, "spec": spec, "status": status});
        let kind = GroupVersionKind::new(crd::API_VERSION, crd::KIND);
        Object::from_json(&plugin.to_string(), &kind, ManagedFields::Drop).expect("an object")
    }

    fn owners_in(status: &Value) -> Vec<Option<Owner>> {
        Owners::read(&plugin(&json!({}), status)).owners()
    }

    #[test]
    fn owners_are_read_from_status() {
        assert_eq!(owners_in(&json!({})), [None]);
        assert_eq!(
            owners_in(&json!({"replica": "a"})),
            [None],
            "a name without an epoch owns nothing"
        );

        let owned = Some(Owner {
            epoch: Epoch(7),
            successor: None,
        });
        assert_eq!(owners_in(&json!({"replica": "a", "epoch": 7})), [owned]);

        let offered = owners_in(&json!({"epoch": 7, "successor": 9}))[0].expect("an owner");
        assert_eq!(offered.successor, Some(Epoch(9)));
        assert_eq!(owners_in(&json!({"epoch": -7})), [None]);

        let shards = json!([{"shard": 0}, {"shard": 1, "replica": "a", "epoch": 7}]);
        assert_eq!(
            owners_in(&json!({"replica": "a (1)", "shards": shards})),
            [None, owned]
        );
        assert_eq!(
            Owners::read(&plugin(&json!({}), &json!({}))).of(Shard::WHOLE),
            None
        );
    }

    #[test]
    fn number_of_shards_is_bounded() {
        let wanted = |shards: Value| wanted_shards(&plugin(&json!({"shards": shards}), &json!({})));
        assert_eq!(
            [json!(null), json!(0), json!(4), json!(9999)].map(wanted),
            [1, 1, 4, MAX_SHARDS]
        );
    }

    #[test]
    fn status_is_read_as_it_was_written() {
        let mut owners = Owners::none(4);
        let shards: Vec<Shard> = Shard::all(4).collect();
        owners.set(shards[0], Some(("b", Epoch(2))));
        owners.set(shards[1], Some(("a", Epoch(1))));
        owners.set(shards[3], Some(("b", Epoch(2))));
        owners.set_successor(shards[1], Epoch(2));

        let status = owners.status();
        assert_eq!(status["replica"], "b (0,3), a (1)");
        assert_eq!(Owners::read(&plugin(&json!({}), &status)), owners);

        owners.clear_successors();
        assert_eq!(
            owners.of(shards[1]),
            Some(Owner {
                epoch: Epoch(1),
                successor: None
            })
        );

        owners.set(shards[1], None);
        assert_eq!(owners.of(shards[1]), None);
        assert_eq!(owners.of(Shard::WHOLE), None, "it has four shards");

        let whole = Owners::none(1).status();
        assert_eq!(
            whole,
            json!({"replica": null, "epoch": null, "successor": null, "shards": null})
        );
    }
}
