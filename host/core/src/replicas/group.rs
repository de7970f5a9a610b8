//! Members of a group of replicas.

use std::{collections::BTreeMap, fmt};

/// Numbers one membership. A replica joining again gets a new one, larger than all before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Epoch(pub u32);

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A member of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// The replica's identity, unique among living replicas.
    pub identity: String,
    /// Whether it is handing its Plugins over and gets no more.
    pub is_leaving: bool,
}

/// A text is not a list of members.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not EPOCH=IDENTITY")]
pub struct InvalidGroup(String);

/// The members of a group of replicas, as stored in one object of the API server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Group {
    /// Epochs up to this one belong to earlier groups, whose object was deleted.
    begin: u32,
    /// The largest epoch ever given out; at least `begin`.
    last_epoch: u32,
    /// Each identity occurs at most once. No epoch is larger than `last_epoch`.
    members: BTreeMap<Epoch, Member>,
}

impl Group {
    /// Parses a stored group: the last epoch, the members as `EPOCH=IDENTITY`, and the epochs of
    /// leaving members, both separated by commas.
    ///
    /// # Errors
    /// Names the first invalid member.
    pub fn parse(last_epoch: u32, members: &str, leaving: &str) -> Result<Self, InvalidGroup> {
        let leaving: Vec<&str> = leaving.split(',').collect();
        let parse = |text: &str| {
            let (epoch, identity) = text.split_once('=')?;
            let member = Member {
                identity: identity.to_owned(),
                is_leaving: leaving.contains(&epoch),
            };
            Some((Epoch(epoch.parse().ok()?), member))
        };

        let texts = members.split(',').filter(|text| !text.is_empty());
        let parsed = texts.map(|text| parse(text).ok_or_else(|| InvalidGroup(text.to_owned())));
        let members: BTreeMap<Epoch, Member> = parsed.collect::<Result<_, _>>()?;
        let largest = members.keys().next_back().map_or(0, |epoch| epoch.0);
        Ok(Self {
            begin: 0,
            last_epoch: last_epoch.max(largest),
            members,
        })
    }

    /// Records that epochs up to `begin` belong to earlier groups, so that new ones are larger.
    pub fn begun_after(self, begin: u32) -> Self {
        Self {
            begin,
            last_epoch: self.last_epoch.max(begin),
            ..self
        }
    }

    /// Whether an epoch belongs to an earlier group, whose object was deleted.
    pub fn is_earlier(&self, epoch: Epoch) -> bool {
        epoch.0 <= self.begin
    }

    /// The largest epoch ever given out.
    pub fn last_epoch(&self) -> Epoch {
        Epoch(self.last_epoch)
    }

    /// Formats the members for [`Group::parse`].
    pub fn members_text(&self) -> String {
        let texts = self
            .members
            .iter()
            .map(|(epoch, member)| format!("{epoch}={}", member.identity));
        texts.collect::<Vec<_>>().join(",")
    }

    /// Formats the epochs of leaving members for [`Group::parse`].
    pub fn leaving_text(&self) -> String {
        let leaving = self.members.iter().filter(|(_, member)| member.is_leaving);
        leaving
            .map(|(epoch, _)| epoch.to_string())
            .collect::<Vec<_>>()
            .join(",")
    }

    /// Adds a replica and returns its epoch. Any earlier membership of the same identity ends.
    pub fn join(&mut self, identity: &str) -> Epoch {
        self.members.retain(|_, member| member.identity != identity);
        self.last_epoch += 1;
        let epoch = Epoch(self.last_epoch);
        self.members.insert(
            epoch,
            Member {
                identity: identity.to_owned(),
                is_leaving: false,
            },
        );

        epoch
    }

    /// Records that a member is leaving. Reports whether this is news.
    pub fn begin_leaving(&mut self, epoch: Epoch) -> bool {
        let member = self
            .members
            .get_mut(&epoch)
            .filter(|member| !member.is_leaving);
        member.map(|member| member.is_leaving = true).is_some()
    }

    /// Removes a member; its epoch is over. Reports whether it was a member.
    pub fn remove(&mut self, epoch: Epoch) -> bool {
        self.members.remove(&epoch).is_some()
    }

    /// Returns the member of this epoch.
    pub fn get(&self, epoch: Epoch) -> Option<&Member> {
        self.members.get(&epoch)
    }

    /// All members, in the order they joined.
    pub fn members(&self) -> impl Iterator<Item = (Epoch, &Member)> {
        self.members.iter().map(|(epoch, member)| (*epoch, member))
    }

    /// Whether any other member is staying.
    pub fn has_others(&self, epoch: Epoch) -> bool {
        self.members()
            .any(|(other, member)| other != epoch && !member.is_leaving)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn epochs_are_never_given_out_twice() {
        let mut group = Group::default();
        let first = group.join("a");
        let other = group.join("b");
        let again = group.join("a");
        assert!(first < other && other < again, "{first} {other} {again}");
        assert_eq!(group.get(first), None, "the earlier membership is over");
        assert!(group.remove(again) && !group.remove(again));
        assert!(group.join("c") > again);
    }

    #[test]
    fn stored_group_is_read_as_it_was_written() {
        let mut group = Group::default();
        let one = group.join("pod-1_0b");
        group.join("pod-2_1c");
        assert!(group.begin_leaving(one) && !group.begin_leaving(one));
        let text = group.members_text();
        assert_eq!(text, "1=pod-1_0b,2=pod-2_1c");
        assert_eq!(Group::parse(2, &text, &group.leaving_text()), Ok(group));
        assert_eq!(
            Group::parse(7, "", ""),
            Ok(Group {
                last_epoch: 7,
                ..Group::default()
            })
        );
        assert_eq!(
            Group::parse(0, "3=a", "").expect("a group").last_epoch(),
            Epoch(3)
        );
        assert!(
            Group::parse(0, "1=a,b", "")
                .expect_err("invalid")
                .to_string()
                .contains("\"b\"")
        );
    }

    #[test]
    fn epochs_of_a_new_group_are_larger_than_those_of_earlier_ones() {
        let mut group = Group::default().begun_after(40);
        let first = group.join("a");
        assert_eq!(
            (first, group.is_earlier(Epoch(40)), group.is_earlier(first)),
            (Epoch(41), true, false)
        );
        let stored = Group::parse(57, "41=a", "")
            .expect("a group")
            .begun_after(40);
        assert_eq!(
            stored.last_epoch(),
            Epoch(57),
            "a begin changes nothing later"
        );
    }
}
