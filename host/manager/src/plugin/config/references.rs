//! ConfigMaps and Secrets that a Plugin names: the watches, and their contents as read from the API
//! server.
//!
//! They are read as the plugin's ServiceAccount, so a Plugin can't read a Secret with the host's
//! permissions, or with those of whoever may create Plugins. Only their metadata is watched, to
//! know when to read them again.

use std::{collections::BTreeMap, fmt, sync::Arc};

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use operetta_api::reasons;
use operetta_core::{
    authz::{
        access_review::{Access, ReadVerb, ServiceAccount, SubjectGrants, remedy_for},
        host_permissions::HostPermissions,
    },
    object::{Object, ObjectKey},
    remedy::Advice,
    status::{ApiError, ErrorKind},
};
use operetta_kube::{discovery::ApiResource, informer::Subscription};
use tokio::task::JoinSet;
use zeroize::Zeroizing;

use crate::{
    context::Context,
    plugin::{crd::ConfigKind, host_informers::watch_object},
    problem::Problem,
};

/// The most that a Plugin's ConfigMaps and Secrets may have together, in bytes.
const MAX_BYTES: usize = 16 << 20;

/// The version of an object that doesn't exist.
const NONE: &str = "none ";

/// The ConfigMaps and Secrets that a part of a Plugin's spec names, each once.
#[derive(Default)]
pub struct References {
    watched: Vec<Reference>,
    /// Whose permissions are followed.
    account: Option<ServiceAccount>,
    /// Enqueues the Plugin when permissions change. Dropping this aborts the task.
    permission_watch: JoinSet<()>,
}

/// A watched ConfigMap or Secret.
pub struct Reference {
    kind: ConfigKind,
    key: ObjectKey,
    metadata: Subscription,
}

/// The contents of ConfigMaps and Secrets, overwritten on drop.
#[derive(Debug, Default)]
pub struct Contents(BTreeMap<(ConfigKind, String), Option<Content>>);

/// The content of one ConfigMap or Secret, overwritten on drop.
#[derive(Debug, Default)]
pub struct Content {
    /// The object's uid and resourceVersion.
    version: String,
    /// What its `data` has.
    pub data: BTreeMap<String, Zeroizing<Vec<u8>>>,
    /// What a ConfigMap's `binaryData` has.
    pub binary_data: BTreeMap<String, Zeroizing<Vec<u8>>>,
}

/// Why contents can't be read.
pub enum Unreadable<'a> {
    /// The ServiceAccount may not read this one.
    Forbidden(&'a Reference),
    /// They have more than 16 MiB together.
    TooLarge,
}

impl Unreadable<'_> {
    /// Returns the problem. `field` names those of a kind and name in the spec.
    pub fn problem(&self, grants: &SubjectGrants, field: impl Fn(&Reference) -> String) -> Problem {
        match self {
            Self::Forbidden(reference) => reference.forbidden(grants, &field(reference)),
            Self::TooLarge => Problem::new(
                reasons::CONFIG_TOO_LARGE,
                format!("its ConfigMaps and Secrets have more than {MAX_BYTES} bytes together"),
            ),
        }
    }
}

impl References {
    /// Watches these objects, and stops watching others. A change of one of them, or of a permission
    /// to read them, enqueues the Plugin.
    ///
    /// # Errors
    /// The API server's error when it doesn't respond.
    pub async fn watch(
        &mut self,
        context: &Arc<Context>,
        plugin: &ObjectKey,
        grants: &SubjectGrants,
        wanted: &[(ConfigKind, String)],
    ) -> Result<(), ApiError> {
        let mut before = std::mem::take(&mut self.watched);
        for (kind, name) in wanted {
            let kind = *kind;
            if self.watched.iter().any(|known| known.is(kind, name)) {
                continue;
            }
            if let Some(at) = before.iter().position(|known| known.is(kind, name)) {
                self.watched.push(before.swap_remove(at));
                continue;
            }
            let resource = context.cluster.discovery.resolve(&kind.gvk()).await?;
            self.watched
                .push(Reference::watch(context, plugin, kind, name, &resource));
        }

        if self.watched.is_empty() {
            *self = Self::default();
            return Ok(());
        }
        let account = grants.subject();
        if self.account.as_ref() != Some(account) {
            self.account = Some(account.clone());
            let host = HostPermissions::new(context.cluster.grants.clone());
            let follow = context.queue.clone().enqueue_on_permission_change(
                grants.permission_changes(),
                host.permission_changes(),
                plugin.clone(),
            );
            self.permission_watch = JoinSet::new();
            self.permission_watch.spawn(follow);
        }
        Ok(())
    }

    /// Returns the first one that the ServiceAccount may not read. If that changes, the Plugin is
    /// enqueued.
    ///
    /// # Errors
    /// The API server's error when it doesn't respond.
    pub async fn forbidden(&self, grants: &SubjectGrants) -> Result<Option<&Reference>, ApiError> {
        for reference in &self.watched {
            let access = reference.access();
            if grants.is_known_allowed(&access) {
                continue;
            }
            match grants.check(&access).await {
                Ok(()) => {}
                Err(error) if error.kind == ErrorKind::Forbidden => return Ok(Some(reference)),
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }

    /// Returns a text that changes with any of them, or None if a watch doesn't know yet.
    pub fn versions(&self) -> Option<String> {
        self.watched.iter().map(Reference::version).collect()
    }

    /// Reads all of them as the ServiceAccount.
    ///
    /// # Errors
    /// The API server's error when it doesn't respond.
    pub async fn read(
        &self,
        context: &Context,
        grants: &SubjectGrants,
    ) -> Result<Result<Contents, Unreadable<'_>>, ApiError> {
        let mut all = Contents::default();
        let mut bytes = 0_usize;
        for reference in &self.watched {
            let content = match reference.content(context, grants).await {
                Ok(content) => Some(content),
                Err(error) if error.kind == ErrorKind::NotFound => None,
                Err(error) if error.kind == ErrorKind::Forbidden => {
                    return Ok(Err(Unreadable::Forbidden(reference)));
                }
                Err(error) => return Err(error),
            };
            bytes += content.as_ref().map_or(0, Content::bytes);
            if bytes > MAX_BYTES {
                return Ok(Err(Unreadable::TooLarge));
            }
            all.insert(reference.kind, &reference.key.name, content);
        }
        Ok(Ok(all))
    }
}

impl Reference {
    fn watch(
        context: &Context,
        plugin: &ObjectKey,
        kind: ConfigKind,
        name: &str,
        resource: &Arc<ApiResource>,
    ) -> Self {
        let key = ObjectKey {
            namespace: plugin.namespace.clone(),
            name: name.to_owned(),
        };
        let metadata = watch_object(context, plugin, resource, &key);
        Self {
            kind,
            key,
            metadata,
        }
    }

    /// Reports whether this is the object of that kind and name.
    pub fn is(&self, kind: ConfigKind, name: &str) -> bool {
        self.kind == kind && self.key.name == name
    }

    fn access(&self) -> Access {
        Access {
            verb: ReadVerb::Get.into(),
            group: String::new(),
            version: "v1".to_owned(),
            resource: self.kind.resource().to_owned(),
            namespace: self.key.namespace.clone(),
            name: Some(self.key.name.clone()),
        }
    }

    /// Returns the problem that the ServiceAccount may not read the object, which a field of the
    /// spec names.
    pub fn forbidden(&self, grants: &SubjectGrants, field: &str) -> Problem {
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
            "ServiceAccount {}/{} may not get {self}, which {field} names",
            account.namespace, account.name
        );
        Problem::new(
            reasons::CONFIG_FORBIDDEN,
            Advice::from(message).with(": ", remedy),
        )
    }

    /// Returns the object's version, or [`NONE`] if it doesn't exist. None if the watch doesn't
    /// know.
    fn version(&self) -> Option<String> {
        let informer = self.metadata.informer();
        let state = informer.state().borrow().clone();
        if !state.synced || state.error.is_some() {
            return None;
        }
        let found = informer.cache.get(&self.key);
        Some(found.map_or_else(|| NONE.to_owned(), |found| version_of(&found)))
    }

    /// Reads the object's content as the ServiceAccount.
    ///
    /// # Errors
    /// The API server's error, or [`ErrorKind::Other`] if the object can't be decoded.
    async fn content(
        &self,
        context: &Context,
        grants: &SubjectGrants,
    ) -> Result<Content, ApiError> {
        let object = context
            .cluster
            .get_as(grants, &self.kind.gvk(), &self.key)
            .await?;
        let unreadable = |_| ApiError::new(ErrorKind::Other, format!("failed to decode {self}"));

        let mut content = Content {
            version: version_of(&object),
            ..Content::default()
        };
        match self.kind {
            ConfigKind::ConfigMap => {
                let config_map =
                    serde_json::from_str::<ConfigMap>(object.json()).map_err(unreadable)?;
                let texts = config_map.data.into_iter().flatten();
                content.data = texts
                    .map(|(key, text)| (key, text.into_bytes().into()))
                    .collect();
                let binary = config_map.binary_data.into_iter().flatten();
                content.binary_data = binary.map(|(key, bytes)| (key, bytes.0.into())).collect();
            }
            ConfigKind::Secret => {
                let secret = serde_json::from_str::<Secret>(object.json()).map_err(unreadable)?;
                let data = secret.data.into_iter().flatten();
                content.data = data.map(|(key, bytes)| (key, bytes.0.into())).collect();
            }
        }
        Ok(content)
    }
}

/// For example `Secret "x"`.
impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:?}", self.kind.as_str(), self.key.name)
    }
}

impl Contents {
    /// Adds an object, or None for one that doesn't exist.
    pub fn insert(&mut self, kind: ConfigKind, name: &str, content: Option<Content>) {
        self.0.insert((kind, name.to_owned()), content);
    }

    /// Returns the content of an object; None if it doesn't exist.
    pub fn get(&self, kind: ConfigKind, name: &str) -> Option<&Content> {
        self.0.get(&(kind, name.to_owned()))?.as_ref()
    }

    /// Returns a digest of the versions that were read. The watches don't know them before they
    /// have synced.
    pub fn digest(&self) -> String {
        let versions: String = self
            .0
            .values()
            .map(|content| content.as_ref().map_or(NONE, |content| &content.version))
            .collect();
        operetta_wasm::digest(versions.as_bytes())
    }
}

impl Content {
    /// Makes a content for tests.
    #[cfg(test)]
    pub fn of(
        data: BTreeMap<String, Zeroizing<Vec<u8>>>,
        binary_data: BTreeMap<String, Zeroizing<Vec<u8>>>,
    ) -> Self {
        Self {
            version: String::new(),
            data,
            binary_data,
        }
    }

    fn bytes(&self) -> usize {
        self.data
            .iter()
            .chain(&self.binary_data)
            .map(|(key, value)| key.len() + value.len())
            .sum()
    }
}

fn version_of(object: &Object) -> String {
    format!("{}/{} ", object.uid(), object.resource_version())
}
