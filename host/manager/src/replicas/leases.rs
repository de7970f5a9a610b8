//! Reads and conditionally writes a group's Leases.

use std::{collections::BTreeMap, time::Duration};

use k8s_openapi::{
    api::coordination::v1::{Lease, LeaseSpec},
    apimachinery::pkg::apis::meta::v1::MicroTime,
};
use kube::{
    Api, Client,
    api::{DeleteParams, ObjectMeta, PostParams, Preconditions},
};
use operetta_api::{Class, annotations, labels};
use operetta_core::{
    object::{
        ObjectKey,
        bounded_name::{MAX_OBJECT_NAME, bounded},
    },
    replicas::{Epoch, Group, InvalidGroup},
};
use operetta_kube::clock;

use crate::replicas::endpoint::Endpoint;

/// The name of the Lease of the group without a class, and the prefix of all others.
const NAME: &str = "operetta";

/// How often to try changing the group while others change it too.
const ATTEMPTS: u32 = 20;

/// Where a group's epochs start: 2025-01-01, in seconds since 1970.
const EPOCHS_BEGIN: i64 = 1_735_689_600;

/// Epochs per second since then: how many replicas may join a group per second, on average.
const EPOCHS_PER_SECOND: i64 = 4;

/// The label's value on the group's Lease.
const GROUP: &str = "group";
/// The label's value on a replica's Lease.
const REPLICA: &str = "replica";

/// The names and labels of a group's Leases.
///
/// Those of a trust class have names with a dot: `operetta.CLASS` is the group, and
/// `operetta.CLASS.IDENTITY` a replica. Names of other replicas have no dot, because `of_replica`
/// replaces it, so no two groups share a Lease. The labels differ as well, so a host that doesn't
/// know of classes leaves these Leases alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseNames {
    /// The class of the hosts; None for those without one.
    pub class: Option<Class>,
}

impl LeaseNames {
    /// Returns the names for the hosts of a class, or of none.
    pub fn new(class: Option<Class>) -> Self {
        Self { class }
    }

    /// Returns the class in the name of a group's Lease; None if a host can't have created it.
    pub fn of_group(name: &str) -> Option<Self> {
        let class = match name.strip_prefix(NAME)? {
            "" => None,
            rest => Some(rest.strip_prefix('.')?.parse().ok()?),
        };
        Some(Self { class })
    }

    /// Returns the name of the group's Lease.
    pub fn group(&self) -> String {
        match &self.class {
            Some(class) => format!("{NAME}.{class}"),
            None => NAME.to_owned(),
        }
    }

    /// Returns the name of a replica's Lease. Kubernetes allows fewer characters in it than
    /// identities have.
    pub(super) fn of_replica(&self, identity: &str) -> String {
        let valid = |character: char| {
            if character.is_ascii_alphanumeric() {
                character.to_ascii_lowercase()
            } else {
                '-'
            }
        };
        let name: String = identity.chars().map(valid).collect();
        let name = name.trim_matches('-');

        let whole = match &self.class {
            Some(class) => format!("{NAME}.{class}.{name}"),
            None => format!("{NAME}-{name}"),
        };
        bounded(whole, MAX_OBJECT_NAME)
    }

    /// Selects the group's Leases.
    pub(super) fn selector(&self) -> String {
        format!(
            "{} in ({},{})",
            labels::LEASE,
            self.label(REPLICA),
            self.label(GROUP)
        )
    }

    fn label(&self, kind: &str) -> String {
        match &self.class {
            Some(class) => format!("{kind}.{class}"),
            None => kind.to_owned(),
        }
    }
}

/// A group's Leases, all in one namespace.
pub(super) struct Leases {
    namespace: String,
    pub(super) names: LeaseNames,
    leases: Api<Lease>,
}

impl Leases {
    pub(super) fn new(client: Client, namespace: &str, names: LeaseNames) -> Self {
        Self {
            namespace: namespace.to_owned(),
            names,
            leases: Api::namespaced(client, namespace),
        }
    }

    /// Returns the same Leases over another connection.
    pub(super) fn through(&self, client: Client) -> Self {
        Self::new(client, &self.namespace, self.names.clone())
    }

    pub(super) fn client(&self) -> Client {
        self.leases.clone().into_client()
    }

    pub(super) fn group_key(&self) -> ObjectKey {
        ObjectKey::namespaced(&self.namespace, self.names.group())
    }

    /// Reads the group, or returns an empty one if there is none.
    pub(super) async fn group(&self) -> kube::Result<Group> {
        let found = self.leases.get_opt(&self.names.group()).await?;
        found.as_ref().map_or_else(
            || Ok(Group::default()),
            |lease| parse_group(lease).map_err(invalid),
        )
    }

    /// Checks whether another group, with its Lease in another namespace, has members.
    pub(super) async fn has_members(&self, group: &ObjectKey) -> kube::Result<bool> {
        let namespace = group.namespace.as_deref().unwrap_or_default();
        let leases: Api<Lease> = Api::namespaced(self.client(), namespace);
        let found = leases.get_opt(&group.name).await?;
        // An unreadable group may have members.
        Ok(found.is_some_and(|lease| {
            parse_group(&lease).map_or(true, |group| group.members().next().is_some())
        }))
    }

    /// Applies `change` to the newest version of the group. Returns the group as written, or None
    /// if `change` returned None.
    pub(super) async fn change<T>(
        &self,
        change: impl Fn(&mut Group) -> Option<T>,
    ) -> kube::Result<Option<(Group, T)>> {
        let mut attempts = 0;
        loop {
            attempts += 1;
            let changed = match self.leases.get_opt(&self.names.group()).await? {
                Some(lease) => self.change_lease(lease, &change).await,
                None if change(&mut Group::default()).is_none() => return Ok(None),
                // Create it first: its creation time comes from the API server and doesn't depend
                // on the replicas' clocks.
                None => match self.put(&self.new_group()).await {
                    Ok(lease) => self.change_lease(lease, &change).await,
                    Err(error) => Err(error),
                },
            };
            match changed {
                // Another replica was faster, or somebody deleted the Lease.
                Err(error)
                    if (is_code(&error, 409) || is_code(&error, 404)) && attempts < ATTEMPTS => {}
                changed => return changed,
            }
        }
    }

    fn new_group(&self) -> Lease {
        new_lease(self.names.group(), self.names.label(GROUP))
    }

    /// Changes the group, if the Lease still has the version we read.
    async fn change_lease<T>(
        &self,
        mut lease: Lease,
        change: impl Fn(&mut Group) -> Option<T>,
    ) -> kube::Result<Option<(Group, T)>> {
        let mut group = parse_group(&lease).map_err(invalid)?;
        let Some(result) = change(&mut group) else {
            return Ok(None);
        };
        write_group(&mut lease, &group);
        self.put(&lease).await?;
        Ok(Some((group, result)))
    }

    /// Reads a replica's Lease.
    pub(super) async fn get(&self, identity: &str) -> kube::Result<Option<Lease>> {
        self.leases.get_opt(&self.names.of_replica(identity)).await
    }

    /// Renews a replica's Lease, or creates it if `current` is None. `leaseTransitions` is the epoch,
    /// once the replica has joined. Others reach the replica at `endpoint`.
    pub(super) async fn renew(
        &self,
        identity: &str,
        current: Option<Lease>,
        duration: Duration,
        epoch: Option<Epoch>,
        endpoint: Option<&Endpoint>,
    ) -> kube::Result<Lease> {
        let mut lease = current.unwrap_or_else(|| {
            new_lease(self.names.of_replica(identity), self.names.label(REPLICA))
        });
        Endpoint::write(endpoint, &mut lease);
        let now = MicroTime(clock::now());
        let spec = lease.spec.get_or_insert_default();

        let acquired = spec
            .acquire_time
            .take()
            .filter(|_| spec.holder_identity.as_deref() == Some(identity));
        lease.spec = Some(LeaseSpec {
            holder_identity: Some(identity.to_owned()),
            lease_duration_seconds: i32::try_from(duration.as_secs()).ok(),
            acquire_time: Some(acquired.unwrap_or_else(|| now.clone())),
            renew_time: Some(now),
            lease_transitions: epoch.and_then(|epoch| i32::try_from(epoch.0).ok()),
            ..LeaseSpec::default()
        });

        self.put(&lease).await
    }

    /// Takes over a replica's Lease, if it still has the version we read, so that its later
    /// renewals fail.
    pub(super) async fn take(&self, mut lease: Lease) -> kube::Result<Lease> {
        lease.spec.get_or_insert_default().holder_identity = Some(String::new());
        self.put(&lease).await
    }

    /// Deletes the Lease with this name. With a `version`, a newer version isn't deleted.
    pub(super) async fn delete(&self, name: &str, version: Option<String>) -> kube::Result<()> {
        let preconditions = version.map(|version| Preconditions {
            resource_version: Some(version),
            uid: None,
        });
        let params = DeleteParams {
            preconditions,
            ..DeleteParams::default()
        };
        match self.leases.delete(name, &params).await {
            Err(error) if !is_code(&error, 404) && !is_code(&error, 409) => Err(error),
            _ => Ok(()),
        }
    }

    /// Creates a Lease, or replaces it if it still has the version we read. It must have its uid,
    /// too: Leases can be [created by an update][strategy], so this might otherwise recreate a
    /// deleted one.
    ///
    /// [strategy]:
    /// https://github.com/kubernetes/kubernetes/blob/master/pkg/registry/coordination/lease/strategy.go
    async fn put(&self, lease: &Lease) -> kube::Result<Lease> {
        let name = lease.metadata.name.as_deref().unwrap_or_default();
        match &lease.metadata.resource_version {
            Some(_) => {
                self.leases
                    .replace(name, &PostParams::default(), lease)
                    .await
            }
            None => self.leases.create(&PostParams::default(), lease).await,
        }
    }
}

/// Reports whether this is a replica's Lease, as opposed to the group's.
pub(super) fn is_of_replica(lease: &Lease) -> bool {
    let label = lease
        .metadata
        .labels
        .as_ref()
        .and_then(|labels| labels.get(labels::LEASE));
    // With the name of the class behind it: `replica.CLASS`.
    label.is_some_and(|label| label.split('.').next() == Some(REPLICA))
}

/// Returns the identity of the replica that holds a Lease. None for the group's Lease, and for one
/// that was taken.
pub(super) fn holder(lease: &Lease) -> Option<&str> {
    let holder = lease.spec.as_ref()?.holder_identity.as_deref();
    holder.filter(|holder| is_of_replica(lease) && !holder.is_empty())
}

/// Returns the epoch of a Lease's last holder, or None if that has not joined.
pub(super) fn epoch(lease: &Lease) -> Option<Epoch> {
    let epoch = lease
        .spec
        .as_ref()?
        .lease_transitions
        .filter(|_| is_of_replica(lease))?;
    u32::try_from(epoch).ok().map(Epoch)
}

/// Returns how long a replica's Lease lasts.
pub(super) fn duration(lease: &Lease) -> Duration {
    let seconds = lease
        .spec
        .as_ref()
        .and_then(|spec| spec.lease_duration_seconds);
    Duration::from_secs(
        seconds
            .and_then(|seconds| u64::try_from(seconds).ok())
            .unwrap_or_default(),
    )
}

/// Parses the group in a Lease. Its epochs start at the Lease's creation time, so they are larger
/// than those of a deleted group that was created in an earlier second ([`EPOCHS_PER_SECOND`]).
pub(super) fn parse_group(lease: &Lease) -> Result<Group, InvalidGroup> {
    let annotation = |name| {
        lease
            .metadata
            .annotations
            .as_ref()
            .and_then(|all| all.get(name))
            .map_or("", String::as_str)
    };

    let last = lease
        .spec
        .as_ref()
        .and_then(|spec| spec.lease_transitions)
        .and_then(|last| u32::try_from(last).ok());
    let members = annotation(annotations::MEMBERS);
    let group = Group::parse(
        last.unwrap_or_default(),
        members,
        annotation(annotations::LEAVING),
    )?;
    let created = lease
        .metadata
        .creation_timestamp
        .as_ref()
        .map_or(0, |time| time.0.as_second() - EPOCHS_BEGIN);
    let begin = created
        .saturating_mul(EPOCHS_PER_SECOND)
        .clamp(0, i32::MAX.into());
    Ok(group.begun_after(u32::try_from(begin).unwrap_or_default()))
}

fn write_group(lease: &mut Lease, group: &Group) {
    let annotations = lease.metadata.annotations.get_or_insert_default();
    annotations.insert(annotations::MEMBERS.to_owned(), group.members_text());
    annotations.insert(annotations::LEAVING.to_owned(), group.leaving_text());
    lease.spec.get_or_insert_default().lease_transitions = i32::try_from(group.last_epoch().0).ok();
}

fn new_lease(name: String, label: String) -> Lease {
    let labels = BTreeMap::from([(labels::LEASE.to_owned(), label)]);
    let metadata = ObjectMeta {
        name: Some(name),
        labels: Some(labels),
        ..ObjectMeta::default()
    };
    Lease {
        metadata,
        spec: None,
    }
}

/// Reports whether an error is a Status with this code.
pub(super) fn is_code(error: &kube::Error, code: u16) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == code)
}

fn invalid(error: InvalidGroup) -> kube::Error {
    kube::Error::Service(
        format!(
            "annotation {} of the Lease of the group: {error}",
            annotations::MEMBERS
        )
        .into(),
    )
}

#[cfg(test)]
mod tests {
    use k8s_openapi::{apimachinery::pkg::apis::meta::v1::Time, jiff::Timestamp};
    use operetta_api::names::is_dns_subdomain;

    use super::*;

    #[test]
    fn group_is_stored_in_its_lease() {
        let mut group = Group::default();
        let first = group.join("one");
        group.join("two");
        group.begin_leaving(first);

        let mut lease = new_lease(NAME.to_owned(), GROUP.to_owned());
        assert_eq!(parse_group(&lease), Ok(Group::default()));

        write_group(&mut lease, &group);
        assert_eq!(parse_group(&lease), Ok(group));
        assert_eq!(
            (holder(&lease), epoch(&lease)),
            (None, None),
            "the group's Lease has neither"
        );
    }

    #[test]
    fn epochs_begin_with_the_creation_of_the_lease() {
        let mut lease = new_lease(NAME.to_owned(), GROUP.to_owned());
        lease.metadata.creation_timestamp = Some(Time(
            Timestamp::from_second(EPOCHS_BEGIN + 70).expect("a time"),
        ));
        let mut group = parse_group(&lease).expect("a group");
        assert_eq!(group.join("one"), Epoch(281));

        write_group(&mut lease, &group);
        assert_eq!(
            parse_group(&lease).expect("a group").join("two"),
            Epoch(282)
        );
    }

    fn names(class: &str) -> LeaseNames {
        LeaseNames::new(Some(class.parse().expect("a class")))
    }

    #[test]
    fn lease_of_replica_has_a_valid_name() {
        let none = LeaseNames::new(None);
        assert_eq!(
            none.of_replica("operetta-7d9f_0B1c.x"),
            "operetta-operetta-7d9f-0b1c-x"
        );
        assert_eq!(none.of_replica("a_"), "operetta-a");
        assert_eq!(names("a").of_replica("b_C"), "operetta.a.b-c");

        // A Pod's name alone may be as long as a Lease's.
        let long = "p".repeat(253);
        for lease in [none, names("a")] {
            let names = [
                lease.of_replica(&long),
                lease.of_replica(&(long.clone() + "q")),
            ];
            assert!(names.iter().all(|name| is_dns_subdomain(name)), "{names:?}");
            assert_ne!(names[0], names[1]);
        }
    }

    #[test]
    fn no_two_classes_share_a_lease() {
        let all = [LeaseNames::new(None), names("a"), names("a-b"), names("b")];
        let mut leases = std::collections::BTreeSet::new();
        for names in &all {
            leases.insert(names.group());
            leases.extend(["a", "b", "a-b", "b.a"].map(|identity| names.of_replica(identity)));
        }
        // Four groups, and four replicas in each: `b.a` becomes `b-a`.
        assert_eq!(leases.len(), 4 + 4 * 4, "{leases:?}");

        let selectors = all.each_ref().map(LeaseNames::selector);
        assert_eq!(
            selectors[..2],
            [
                "operetta.dev/lease in (replica,group)",
                "operetta.dev/lease in (replica.a,group.a)"
            ]
        );
    }

    #[test]
    fn lease_of_a_class_is_a_replica_s_or_the_group_s() {
        let class = names("a");
        let mut replica = new_lease(class.of_replica("one"), class.label(REPLICA));
        replica.spec.get_or_insert_default().holder_identity = Some("one".to_owned());
        assert_eq!(holder(&replica), Some("one"));

        let group = new_lease(class.group(), class.label(GROUP));
        assert!(!is_of_replica(&group));
    }

    #[test]
    fn class_is_read_from_the_name_of_the_group() {
        for class in [LeaseNames::new(None), names("a"), names("a-b")] {
            assert_eq!(LeaseNames::of_group(&class.group()), Some(class));
        }
        for name in [
            "",
            "other",
            "operetta.",
            "operetta-a",
            "operetta.a.b",
            "operetta.A",
        ] {
            assert_eq!(LeaseNames::of_group(name), None, "{name}");
        }
    }
}
