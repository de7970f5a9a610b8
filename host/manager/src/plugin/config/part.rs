//! One ConfigMap or Secret in a Plugin's `spec.configFrom`: the watch, and the content as read from
//! the API server.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use operetta_api::reasons;
use operetta_core::{
    authz::access_review::{Access, ReadVerb, SubjectGrants, remedy_for},
    object::{Object, ObjectKey},
    remedy::Advice,
    status::{ApiError, ErrorKind},
};
use operetta_kube::{discovery::ApiResource, informer::Subscription};

use crate::{
    context::Context,
    plugin::{
        config::secrets::{Texts, secret_text},
        crd::{ConfigKind, ConfigRef},
        host_informers::watch_object,
    },
    problem::Problem,
};

/// The version of a part that doesn't exist.
pub const NONE: &str = "none ";

/// A watched ConfigMap or Secret.
pub struct Part {
    kind: ConfigKind,
    reference: ConfigRef,
    key: ObjectKey,
    metadata: Subscription,
}

/// A part's content.
pub struct PartData {
    /// The object's uid and resourceVersion.
    pub version: String,
    /// The texts by key.
    pub texts: Texts,
}

impl Part {
    /// Watches a part of a Plugin's configuration. Each change enqueues the Plugin.
    pub fn watch(
        context: &Context,
        plugin: &ObjectKey,
        kind: ConfigKind,
        reference: ConfigRef,
        resource: &Arc<ApiResource>,
    ) -> Self {
        let key = ObjectKey {
            namespace: plugin.namespace.clone(),
            name: reference.name.clone(),
        };
        let metadata = watch_object(context, plugin, resource, &key);
        Self {
            kind,
            reference,
            key,
            metadata,
        }
    }

    /// Returns the part's entry in `spec.configFrom`.
    pub fn reference(&self) -> &ConfigRef {
        &self.reference
    }

    /// Reports whether this is the part for an entry in `spec.configFrom`.
    pub fn is(&self, kind: ConfigKind, reference: &ConfigRef) -> bool {
        self.kind == kind && self.reference == *reference
    }

    /// Returns the access needed to read the part.
    pub fn access(&self) -> Access {
        Access {
            verb: ReadVerb::Get.into(),
            group: String::new(),
            version: "v1".to_owned(),
            resource: self.kind.resource().to_owned(),
            namespace: self.key.namespace.clone(),
            name: Some(self.key.name.clone()),
        }
    }

    /// Returns the problem if the ServiceAccount may not read the part.
    pub fn forbidden(&self, grants: &SubjectGrants) -> Problem {
        let account = grants.subject();
        let ObjectKey { namespace, name } = &self.key;
        let remedy = remedy_for(
            account,
            "get",
            ("", self.kind.resource()),
            namespace.as_deref(),
            Some(name),
        );
        let message = format!(
            "ServiceAccount {}/{} may not get {self}, which spec.configFrom names",
            account.namespace, account.name
        );
        Problem::new(
            reasons::CONFIG_FORBIDDEN,
            Advice::from(message).with(": ", remedy),
        )
    }

    /// Returns the part's version, or [`NONE`] if it doesn't exist. None if the watch doesn't know.
    pub fn version(&self) -> Option<String> {
        let informer = self.metadata.informer();
        let state = informer.state().borrow().clone();
        if !state.synced || state.error.is_some() {
            return None;
        }
        let found = informer.cache.get(&self.key);
        Some(found.map_or_else(|| NONE.to_owned(), |found| version_of(&found)))
    }

    /// Reads the part's texts by key, as the ServiceAccount.
    ///
    /// # Errors
    /// The API server's error, or [`ErrorKind::Other`] if the object can't be decoded.
    pub async fn data(
        &self,
        context: &Context,
        grants: &SubjectGrants,
    ) -> Result<PartData, ApiError> {
        let object = context
            .cluster
            .get_as(grants, &self.kind.gvk(), &self.key)
            .await?;
        let unreadable = |_| ApiError::new(ErrorKind::Other, format!("failed to decode {self}"));
        let texts = match self.kind {
            ConfigKind::ConfigMap => {
                let config_map =
                    serde_json::from_str::<ConfigMap>(object.json()).map_err(unreadable)?;
                config_map
                    .data
                    .into_iter()
                    .flatten()
                    .map(|(key, text)| (key, text.into()))
                    .collect()
            }
            ConfigKind::Secret => {
                let secret = serde_json::from_str::<Secret>(object.json()).map_err(unreadable)?;
                secret
                    .data
                    .into_iter()
                    .flatten()
                    .filter_map(|(key, bytes)| Some((key, secret_text(bytes)?)))
                    .collect()
            }
        };

        Ok(PartData {
            version: version_of(&object),
            texts,
        })
    }
}

/// For example `Secret "x"`.
impl std::fmt::Display for Part {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {:?}", self.kind.as_str(), self.key.name)
    }
}

fn version_of(object: &Object) -> String {
    format!("{}/{} ", object.uid(), object.resource_version())
}
