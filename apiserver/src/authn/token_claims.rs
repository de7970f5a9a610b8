//! The claims of a ServiceAccount's token: who it stands for, and whether that still exists.

use std::{collections::BTreeMap, sync::Arc};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    apimachinery::{group_resource::GroupResource, status::Status},
    authn::user::{self, User},
    authz::objects::{Objects, text},
};

/// The seconds that clocks may be apart.
const LEEWAY: i64 = 60;

/// The claims of a token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Claims {
    #[serde(default)]
    pub aud: Vec<String>,
    pub exp: i64,
    #[serde(default)]
    pub iat: i64,
    pub iss: String,
    #[serde(default)]
    pub jti: String,
    #[serde(rename = "kubernetes.io", default)]
    pub kubernetes: Kubernetes,
    #[serde(default)]
    pub nbf: i64,
    pub sub: String,
}

/// The claims that only Kubernetes knows.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Kubernetes {
    pub namespace: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<Reference>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod: Option<Reference>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret: Option<Reference>,
    pub serviceaccount: Reference,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warnafter: Option<i64>,
}

/// An object that a token is bound to.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Reference {
    pub name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub uid: String,
}

impl Reference {
    pub fn to(object: &Value) -> Self {
        let field = |name| text(object, &["metadata", name]).to_owned();
        Self {
            name: field("name"),
            uid: field("uid"),
        }
    }
}

impl Claims {
    /// Returns the user of the token at a time in seconds since 1970.
    ///
    /// # Errors
    /// Returns kube-apiserver's message if the token is out of its time, or an object that it is
    /// bound to is gone.
    pub fn user(&self, objects: &dyn Objects, now: i64) -> Result<User, String> {
        if now + LEEWAY < self.nbf {
            return Err("service account token is not valid yet".to_owned());
        }
        if now - LEEWAY > self.exp {
            return Err("service account token has expired".to_owned());
        }
        if now + LEEWAY < self.iat {
            return Err("service account token is issued in the future".to_owned());
        }

        self.check_account(objects, now)?;
        let kubernetes = &self.kubernetes;
        self.check_bound(objects, now, "secret", kubernetes.secret.as_ref())?;
        self.check_bound(objects, now, "pod", kubernetes.pod.as_ref())?;

        if kubernetes.pod.is_none() {
            self.check_bound(objects, now, "node", kubernetes.node.as_ref())?;
        }

        Ok(self.make_user())
    }

    fn check_account(&self, objects: &dyn Objects, now: i64) -> Result<(), String> {
        let Kubernetes {
            namespace,
            serviceaccount: account,
            ..
        } = &self.kubernetes;

        let Some(object) = objects.get("", "serviceaccounts", namespace, &account.name) else {
            return Err(Status::not_found(
                &GroupResource::new("", "serviceaccounts"),
                &account.name,
            )
            .to_string());
        };
        let uid = text(&object, &["metadata", "uid"]);

        if uid != account.uid {
            return Err(format!(
                "service account UID ({uid}) does not match claim ({})",
                account.uid
            ));
        }

        if is_deleted(&object, now) {
            return Err(format!(
                "service account {namespace}/{} has been deleted",
                account.name
            ));
        }

        Ok(())
    }

    fn check_bound(
        &self,
        objects: &dyn Objects,
        now: i64,
        kind: &str,
        reference: Option<&Reference>,
    ) -> Result<(), String> {
        let Some(reference) = reference else {
            return Ok(());
        };

        let namespace = if kind == "node" {
            ""
        } else {
            &self.kubernetes.namespace
        };

        let invalidated = || "service account token has been invalidated".to_owned();
        let object: Arc<Value> = objects
            .get("", &format!("{kind}s"), namespace, &reference.name)
            .ok_or_else(invalidated)?;
        let uid = text(&object, &["metadata", "uid"]);
        if uid != reference.uid {
            let title = match kind {
                "pod" => "Pod",
                "node" => "Node",
                other => other,
            };

            return Err(format!(
                "{title} UID ({uid}) does not match service account {kind} ref claim ({})",
                reference.uid
            ));
        }

        if is_deleted(&object, now) {
            Err(invalidated())
        } else {
            Ok(())
        }
    }

    fn make_user(&self) -> User {
        let Kubernetes {
            namespace,
            serviceaccount: account,
            pod,
            node,
            ..
        } = &self.kubernetes;

        let mut extra: BTreeMap<String, Vec<String>> = BTreeMap::new();
        let mut add = |key: &str, value: String| extra.insert(key.to_owned(), vec![value]);
        if let Some(pod) = pod
            .as_ref()
            .filter(|pod| !pod.name.is_empty() && !pod.uid.is_empty())
        {
            add("authentication.kubernetes.io/pod-name", pod.name.clone());
            add("authentication.kubernetes.io/pod-uid", pod.uid.clone());
        }

        if !self.jti.is_empty() {
            add(user::CREDENTIAL_ID, format!("JTI={}", self.jti));
        }

        if let Some(node) = node.as_ref().filter(|node| !node.name.is_empty()) {
            add(user::NODE_NAME, node.name.clone());
            if !node.uid.is_empty() {
                add("authentication.kubernetes.io/node-uid", node.uid.clone());
            }
        }

        let name = user::account_user_name(namespace, &account.name);
        User {
            name,
            uid: account.uid.clone(),
            groups: user::account_groups(namespace),
            extra,
        }
    }
}

/// Reports whether an object was deleted too long ago for a difference of clocks. Finalizers may
/// still keep it.
fn is_deleted(object: &Value, now: i64) -> bool {
    let deleted = text(object, &["metadata", "deletionTimestamp"]).parse::<jiff::Timestamp>();
    deleted.is_ok_and(|deleted| deleted.as_second() < now - LEEWAY)
}
