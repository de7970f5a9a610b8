//! What every namespace has: the ServiceAccount `default`, and the server's certificate in the
//! ConfigMap `kube-root-ca.crt`.

use std::time::Duration;

use serde_json::{Value, json};

use super::{
    client::Refused,
    control_loop::{Context, Controller},
    object::is_terminating,
    world::{Change, Key, World},
};

const ACCOUNT: &str = "default";
const CERTIFICATE: &str = "kube-root-ca.crt";
const DESCRIPTION: &str = "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints \
    such as the internal service IP or kubernetes.default.svc. No other usage is guaranteed across distributions of \
    Kubernetes clusters.";

/// Creates the ServiceAccount `default` in each namespace.
pub(super) struct ServiceAccounts;

/// Keeps the certificate in each namespace.
pub(super) struct RootCertificate(pub String);

/// Adds the namespace in which such an object changed, or which changed itself.
fn add_namespace(change: &Change, resource: &str, name: &str, keys: &mut Vec<Key>) {
    if change.key.is_of("", "namespaces") {
        keys.push(change.key.clone());
    } else if change.key.is_of("", resource) && change.key.object.name() == name {
        keys.push(Key::new("", "namespaces", None, change.key.namespace()));
    }
}

fn is_active(key: &Key, world: &World) -> bool {
    world
        .get(key)
        .is_some_and(|namespace| !is_terminating(namespace))
}

/// Creates an object in a namespace that may be gone by now.
fn create(
    resource: &str,
    key: &Key,
    object: &Value,
    context: &Context<'_>,
) -> Result<Option<Duration>, Refused> {
    let of = Key::new("", resource, Some(key.object.name()), "");
    let Some(resource) = context.world.resource(&of.resource) else {
        return Ok(None);
    };

    match context
        .client
        .create(&resource, Some(key.object.name()), object)
    {
        Err(error) if !matches!(error.code, 403 | 404 | 409) => Err(error),
        _ => Ok(None),
    }
}

impl Controller for ServiceAccounts {
    fn affected(&mut self, change: &Change, _world: &World, keys: &mut Vec<Key>) {
        add_namespace(change, "serviceaccounts", ACCOUNT, keys);
    }

    fn reconcile(&mut self, key: &Key, context: &Context<'_>) -> Result<Option<Duration>, Refused> {
        let account = Key::new("", "serviceaccounts", Some(key.object.name()), ACCOUNT);
        if !is_active(key, context.world) || context.world.get(&account).is_some() {
            return Ok(None);
        }

        create(
            "serviceaccounts",
            key,
            &json!({"metadata": {"name": ACCOUNT}}),
            context,
        )
    }
}

impl Controller for RootCertificate {
    fn affected(&mut self, change: &Change, _world: &World, keys: &mut Vec<Key>) {
        add_namespace(change, "configmaps", CERTIFICATE, keys);
    }

    fn reconcile(&mut self, key: &Key, context: &Context<'_>) -> Result<Option<Duration>, Refused> {
        if !is_active(key, context.world) {
            return Ok(None);
        }

        let data = json!({"ca.crt": self.0});
        let found = Key::new("", "configmaps", Some(key.object.name()), CERTIFICATE);
        let description = json!({"kubernetes.io/description": DESCRIPTION});
        let Some(found) = context.world.get(&found) else {
            let object = json!({"metadata": {"name": CERTIFICATE, "annotations": description}, "data": data});
            return create("configmaps", key, &object, context);
        };
        if found["data"] == data
            && found["metadata"]["annotations"]["kubernetes.io/description"] == DESCRIPTION
        {
            return Ok(None);
        }

        let mut changed = (**found).clone();
        changed["data"] = data;
        changed["metadata"]["annotations"] = description;

        let of = Key::new("", "configmaps", None, "");
        let Some(resource) = context.world.resource(&of.resource) else {
            return Ok(None);
        };

        context.client.update(&resource, &changed, "").map(|_| None)
    }
}
