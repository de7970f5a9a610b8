//! Leader election across restarts: a process does not wait for the Lease of the one before it.
//!
//! client-go's identities are a hostname and a UUID that is new for each process, so a process can't
//! tell that the holder of its Lease is its own predecessor. It waits until the Lease has expired, 15
//! to 60 s, unless the predecessor had the time and the code to release it. The host knows that the
//! predecessor has ended: it ran here, or it ran in a replica whose writes are fenced by now. So it
//! releases the Lease in the predecessor's place, by the write that client-go itself would send.

use std::time::Duration;

use operetta_core::{
    authz::access_review::{Access, AccessVerb, ReadVerb},
    gate::operation::{List, ListOptions, Read, Selection, Write, WriteAction, WriteOptions},
    object::{ObjectKey, kind::GroupVersionKind},
    ports::LogLevel,
    status::ApiError,
};
use serde_json::Value;
use tokio::time::timeout;

use super::definition::Definition;

/// The longest time by which this delays a start. A process that still finds its Lease held waits,
/// as it would in a Pod.
const LIMIT: Duration = Duration::from_secs(2);
/// The most Leases of a namespace that are read.
const MOST: u32 = 500;

/// The length of a UUID in its usual form.
const UUID: usize = 36;

/// Releases the Leases in the Plugin's namespace that its last process holds, as the ServiceAccount
/// and through the gate. Call it while no process of the Plugin runs.
pub(super) async fn release(definition: &Definition) {
    if let Ok(Err(error)) = timeout(LIMIT, release_all(definition)).await {
        tracing::debug!(plugin = %definition.plugin, %error, "failed to release Leases");
    }
}

async fn release_all(definition: &Definition) -> Result<(), ApiError> {
    let (Some(namespace), Some(grants)) = (&definition.plugin.namespace, definition.api.grants())
    else {
        return Ok(());
    };
    let access = |verb: AccessVerb, name: Option<&str>| Access {
        verb,
        group: "coordination.k8s.io".to_owned(),
        version: "v1".to_owned(),
        resource: "leases".to_owned(),
        namespace: Some(namespace.clone()),
        name: name.map(str::to_owned),
    };
    // A refused request would be reported as a right that the operator lacks.
    let list = access(ReadVerb::List.into(), None);
    if !grants.allows(&list).await? {
        return Ok(());
    }

    let kind = GroupVersionKind::new("coordination.k8s.io/v1", "Lease");
    let mut session = definition.gate.session(None);
    let list = List {
        kind: kind.clone(),
        options: ListOptions {
            namespace: Some(namespace.clone()),
            labels: None,
            fields: None,
            selection: Selection::All,
            limit: Some(MOST),
            continue_token: None,
            read: Read::Live,
            projection: Vec::new(),
        },
    };
    let page = session.list(list).await?;

    let held: Vec<_> = page
        .items
        .iter()
        .filter_map(|lease| released(lease.json(), &definition.plugin.name))
        .collect();
    for Released {
        name,
        holder,
        object,
    } in held
    {
        if !grants
            .allows(&access(AccessVerb::Update, Some(&name)))
            .await?
        {
            continue;
        }

        // The object has its resourceVersion: a Lease that somebody else has taken stays theirs.
        let update = Write {
            kind: kind.clone(),
            action: WriteAction::Update {
                key: ObjectKey {
                    namespace: Some(namespace.clone()),
                    name: name.clone(),
                },
                status: false,
                object,
            },
            options: WriteOptions::default(),
        };
        match session.write(update).await {
            Ok(_) => {
                let line =
                    format!("released the Lease {name:?}, which the last process held as {holder}");
                definition.log.write_host_line(LogLevel::Info, line);
            }
            Err(error) => {
                tracing::debug!(plugin = %definition.plugin, lease = name, %error, "failed to release a Lease");
            }
        }
    }
    Ok(())
}

/// A Lease that an earlier process of the Plugin holds.
#[derive(Debug)]
struct Released {
    name: String,
    holder: String,
    /// The Lease without a holder.
    object: String,
}

/// Returns a Lease without its holder, as client-go leaves it; None unless the holder's identity is
/// one that client-go makes of this hostname.
fn released(lease: &str, hostname: &str) -> Option<Released> {
    let mut lease: Value = serde_json::from_str(lease).ok()?;
    let holder = lease["spec"]["holderIdentity"].as_str()?.to_owned();
    let unique = holder.strip_prefix(hostname)?.strip_prefix('_')?;
    let is_uuid = unique.len() == UUID
        && unique
            .bytes()
            .all(|byte| byte.is_ascii_hexdigit() || byte == b'-');
    if !is_uuid {
        return None;
    }

    let name = lease["metadata"]["name"].as_str()?.to_owned();
    lease["spec"]["holderIdentity"] = "".into();
    lease["spec"]["leaseDurationSeconds"] = 1.into();
    Some(Released {
        name,
        holder,
        object: lease.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_the_lease_of_an_earlier_process_is_released() {
        const UNIQUE: &str = "0b2e5f6a-6f3d-4f0c-9d0e-6a4f1c2b3d4e";
        let lease = |holder: Value| {
            let spec = json!({
                "holderIdentity": holder,
                "leaseDurationSeconds": 15,
                "leaseTransitions": 3,
            });
            json!({"metadata": {"name": "election", "resourceVersion": "7"}, "spec": spec})
        };

        let held = lease(json!(format!("op_{UNIQUE}"))).to_string();
        let found = released(&held, "op").expect("its own");
        assert_eq!(found.name, "election");
        assert_eq!(found.holder, format!("op_{UNIQUE}"));
        let mut expected = lease(json!(""));
        expected["spec"]["leaseDurationSeconds"] = json!(1);
        let object: Value = serde_json::from_str(&found.object).expect("JSON");
        assert_eq!(object, expected);

        for other in [
            // A Pod of the Deployment that the Plugin has replaced, which may still run.
            json!(format!("op-5d9c7b6f4-x2x8z_{UNIQUE}")),
            json!(format!("other_{UNIQUE}")),
            // Locks that aren't about processes have names of their own.
            json!("op"),
            json!("op_node-maintenance"),
            json!(""),
            Value::Null,
        ] {
            assert!(
                released(&lease(other.clone()).to_string(), "op").is_none(),
                "{other}"
            );
        }
    }
}
