//! The configuration of a Plugin: its spec's, merged over the ConfigMaps and Secrets that it names.
//!
//! The host reads them from the API server as the plugin's ServiceAccount, so a Plugin cannot use the host's
//! permissions to read a Secret. The host watches only their metadata, to know when to read again. No message contains
//! the content of a Secret, not even when it is invalid.

use std::{collections::BTreeMap, sync::Arc};

use k8s_openapi::{
    ByteString,
    api::core::v1::{ConfigMap, Secret},
};
use operetta_api::reasons;
use operetta_core::{
    authz::access_review::{Access, Grants, ReadVerb, SubjectGrants, remedy_for},
    object::ObjectKey,
    status::{ApiError, ErrorKind},
};
use operetta_kube::informer::Subscription;
use serde_json::{Map, Value};
use tokio::task::JoinSet;

use crate::{
    context::Context,
    plugin::{
        config_text::{MAX_DEPTH, config_key, config_object},
        crd::{ConfigKind, ConfigRef, ConfigSource, PluginSpec},
        object_watch::watch_object,
    },
    problem::Problem,
};

/// The largest configuration as JSON, in bytes.
const MAX_BYTES: usize = 1 << 20;
/// The reason when the ServiceAccount may not read a part.
pub const FORBIDDEN: &str = reasons::CONFIG_FORBIDDEN;

/// The ConfigMaps and Secrets that a Plugin names.
#[derive(Default)]
pub struct Configuration {
    parts: Vec<Part>,
    /// The task that enqueues the Plugin when permissions change; ends with this.
    permission_watch: JoinSet<()>,
    /// The contents that were read last; None if they must be read again.
    read: Option<ReadParts>,
}

/// The contents of the parts.
struct ReadParts {
    /// The versions of the parts.
    versions: String,
    config: Map<String, Value>,
}

/// A ConfigMap or Secret, watched.
struct Part {
    kind: ConfigKind,
    reference: ConfigRef,
    key: ObjectKey,
    metadata: Subscription,
}

impl Configuration {
    /// Reads the configuration as JSON text. Returns the problem when it cannot be read.
    ///
    /// # Errors
    /// The API server's error when it does not respond; the caller retries.
    pub async fn read(
        &mut self,
        context: &Arc<Context>,
        plugin: &ObjectKey,
        spec: &PluginSpec,
        grants: &SubjectGrants,
    ) -> Result<Result<Arc<str>, Problem>, ApiError> {
        let own = spec.config.clone().unwrap_or_default();
        if spec.config_from.is_empty() {
            *self = Self::default();
            return Ok(text(own));
        }
        self.watch(context, plugin, &spec.config_from).await?;
        for part in &self.parts {
            let access = part.access();
            // A change of permissions enqueues the Plugin, as for events.
            if grants.is_known_allowed(&access) {
                continue;
            }
            match grants.check(&access).await {
                Ok(()) => {}
                Err(error) if error.kind == ErrorKind::Forbidden => return Ok(Err(part.forbidden(grants))),
                Err(error) => return Err(error),
            }
        }
        let versions = self.parts.iter().map(Part::version).collect::<Option<String>>();
        if let (Some(versions), Some(read)) = (&versions, &self.read)
            && *versions == read.versions
        {
            return Ok(text(merge(read.config.clone(), own)));
        }
        self.read = None;
        let config = match self.read_parts(context, plugin, grants).await? {
            Ok(config) => config,
            Err(problem) => return Ok(Err(problem)),
        };
        let merged = text(merge(config.clone(), own));
        self.read = versions.map(|versions| ReadParts { versions, config });
        Ok(merged)
    }

    async fn read_parts(
        &self,
        context: &Context,
        plugin: &ObjectKey,
        grants: &SubjectGrants,
    ) -> Result<Result<Map<String, Value>, Problem>, ApiError> {
        let mut whole = Map::new();
        for part in &self.parts {
            let data = match part.data(context, grants).await {
                Ok(data) => data,
                Err(error) if error.kind == ErrorKind::NotFound && part.reference.optional => continue,
                Err(error) if error.kind == ErrorKind::NotFound => {
                    let at = plugin.namespace.as_deref().unwrap_or_default();
                    let message = format!("{part} of spec.configFrom does not exist in namespace {at:?}");
                    return Ok(Err(Problem::new(reasons::CONFIG_NOT_FOUND, message)));
                }
                Err(error) if error.kind == ErrorKind::Forbidden => return Ok(Err(part.forbidden(grants))),
                Err(error) => return Err(error),
            };
            if let Err(what) = add(&mut whole, &part.reference, &data) {
                return Ok(Err(Problem::new(reasons::INVALID_CONFIG, format!("{part} of spec.configFrom: {what}"))));
            }
        }
        Ok(Ok(whole))
    }

    /// Watches the parts that the spec names, and drops the watches of others.
    async fn watch(
        &mut self,
        context: &Arc<Context>,
        plugin: &ObjectKey,
        sources: &[ConfigSource],
    ) -> Result<(), ApiError> {
        let mut before = std::mem::take(&mut self.parts);
        for source in sources {
            let Some((kind, reference)) = source.chosen() else { continue };
            let same = |part: &Part| part.kind == kind && part.reference == *reference;
            if let Some(at) = before.iter().position(same) {
                self.parts.push(before.swap_remove(at));
                continue;
            }
            let resource = context.cluster.discovery.resolve(&kind.gvk()).await?;
            let key = ObjectKey { namespace: plugin.namespace.clone(), name: reference.name.clone() };
            let metadata = watch_object(context, plugin, &resource, &key);
            self.parts.push(Part { kind, reference: reference.clone(), key, metadata });
            self.read = None;
        }
        if !before.is_empty() {
            self.read = None;
        }
        if self.permission_watch.is_empty() {
            let queue = context.queue.clone();
            let key = plugin.clone();
            let mut changes = context.cluster.grants.changes();
            self.permission_watch.spawn(async move {
                while changes.changed().await.is_ok() {
                    queue.enqueue(&key);
                    // The authorizer may notice the change later than the host.
                    tokio::time::sleep(Grants::SETTLE).await;
                    queue.enqueue(&key);
                }
            });
        }
        Ok(())
    }
}

impl Part {
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

    fn forbidden(&self, grants: &SubjectGrants) -> Problem {
        let account = grants.subject();
        let ObjectKey { namespace, name } = &self.key;
        let remedy = remedy_for(account, "get", ("", self.kind.resource()), namespace.as_deref(), Some(name));
        let message = format!(
            "ServiceAccount {}/{} may not get {self}, which spec.configFrom names: {remedy}",
            account.namespace, account.name
        );
        Problem::new(FORBIDDEN, message)
    }

    /// Returns the version of the part, or `none` when it does not exist; None when the watch does not know.
    fn version(&self) -> Option<String> {
        let informer = self.metadata.informer();
        let state = informer.state().borrow().clone();
        if !state.synced || state.error.is_some() {
            return None;
        }
        let found = informer.cache.get(&self.key);
        Some(found.map_or_else(|| "none ".to_owned(), |found| format!("{}/{} ", found.uid(), found.resource_version())))
    }

    /// Reads its texts by key, as the ServiceAccount.
    async fn data(&self, context: &Context, grants: &SubjectGrants) -> Result<BTreeMap<String, String>, ApiError> {
        let object = context.cluster.get_as(grants, &self.kind.gvk(), &self.key).await?;
        let unreadable = |_| ApiError::new(ErrorKind::Other, format!("failed to decode {self}"));
        Ok(match self.kind {
            ConfigKind::ConfigMap => {
                serde_json::from_str::<ConfigMap>(object.json()).map_err(unreadable)?.data.unwrap_or_default()
            }
            ConfigKind::Secret => {
                let secret = serde_json::from_str::<Secret>(object.json()).map_err(unreadable)?;
                let text = |(key, ByteString(bytes))| Some((key, String::from_utf8(bytes).ok()?));
                secret.data.unwrap_or_default().into_iter().filter_map(text).collect()
            }
        })
    }
}

/// Writes the part as `Secret "x"`.
impl std::fmt::Display for Part {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {:?}", self.kind.as_str(), self.key.name)
    }
}

/// Adds the key that a reference selects of `data` to the configuration.
fn add(whole: &mut Map<String, Value>, reference: &ConfigRef, data: &BTreeMap<String, String>) -> Result<(), String> {
    let found = match &reference.key {
        Some(key) => data.get(key).map(|text| (key.as_str(), text)),
        None => config_key(data)?,
    };
    let Some((key, text)) = found else {
        if reference.optional {
            return Ok(());
        }
        let wanted = reference.key.as_deref().unwrap_or("config.json or config.yaml");
        return Err(format!("it has no key {wanted} that is text"));
    };
    let part = match &reference.target_path {
        Some(path) if path.split('.').count() > MAX_DEPTH => {
            return Err(format!("its targetPath is more than {MAX_DEPTH} fields deep"));
        }
        Some(path) => {
            let inner = Value::String(text.clone());
            let nested =
                path.rsplit('.').fold(inner, |value, field| Value::Object(Map::from_iter([(field.into(), value)])));
            nested.as_object().cloned().unwrap_or_default()
        }
        None => config_object(key, text)?,
    };
    *whole = merge(std::mem::take(whole), part);
    Ok(())
}

/// Merges two objects recursively; where a field is not an object in both, `over` takes precedence.
fn merge(mut under: Map<String, Value>, over: Map<String, Value>) -> Map<String, Value> {
    for (field, value) in over {
        let merged = match (under.remove(&field), value) {
            (Some(Value::Object(under)), Value::Object(over)) => Value::Object(merge(under, over)),
            (_, value) => value,
        };
        under.insert(field, merged);
    }
    under
}

/// Serializes a configuration.
fn text(config: Map<String, Value>) -> Result<Arc<str>, Problem> {
    let text = Value::Object(config).to_string();
    if text.len() > MAX_BYTES {
        let message = format!("the configuration has {} bytes, over the limit of {MAX_BYTES} bytes", text.len());
        return Err(Problem::new(reasons::CONFIG_TOO_LARGE, message));
    }
    Ok(text.into())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn added(references: &[(ConfigRef, &[(&str, &str)])]) -> Result<Value, String> {
        let mut whole = Map::new();
        for (reference, data) in references {
            let data = data.iter().map(|(key, text)| ((*key).to_owned(), (*text).to_owned())).collect();
            add(&mut whole, reference, &data)?;
        }
        Ok(Value::Object(whole))
    }

    #[test]
    fn later_parts_override_earlier_ones_by_field() {
        let plain = ConfigRef::default();
        let token =
            ConfigRef { key: Some("t".into()), target_path: Some("cloud.token".into()), ..ConfigRef::default() };
        let made = added(&[
            (plain.clone(), &[("config.yaml", "{cloud: {region: a, token: none}, list: [1, 2]}")]),
            (token, &[("t", "s3cret")]),
            (plain, &[("config.json", r#"{"cloud":{"region":"b"},"list":[3]}"#)]),
        ]);
        assert_eq!(made, Ok(json!({"cloud": {"region": "b", "token": "s3cret"}, "list": [3]})));
    }

    #[test]
    fn errors_name_the_key_and_not_the_secret() {
        let key = |key: &str| ConfigRef { key: Some(key.into()), ..ConfigRef::default() };
        let optional = ConfigRef { optional: true, ..key("x") };
        assert_eq!(added(&[(optional, &[])]), Ok(json!({})));
        for (reference, data, part) in [
            (ConfigRef::default(), [("config.json", "{}"), ("config.yaml", "{}")].as_slice(), "both"),
            (ConfigRef::default(), &[("other", "hunter2")], "no key config.json or config.yaml"),
            (key("x"), &[("config.json", "{}")], "no key x"),
            (key("x.json"), &[("x.json", "\"hunter2\"")], "x.json is not a JSON object"),
            (key("x.json"), &[("x.json", "{\"hunter2\": ")], "x.json is not a JSON object: line 1"),
            (key("x"), &[("x", "hunter2")], "x is not a YAML mapping"),
            (key("x"), &[("x", "[hunter2")], "x is not a YAML mapping"),
            (key("x"), &[("x", "a: *hunter2")], "x is not a YAML mapping"),
        ] {
            let error = added(&[(reference, data)]).expect_err(part);
            assert!(error.contains(part) && !error.contains("hunter2"), "{error}");
        }
    }

    #[test]
    fn rejects_configuration_beyond_size_limit() {
        let large = Map::from_iter([("a".to_owned(), Value::String("x".repeat(MAX_BYTES)))]);
        assert_eq!(text(large).expect_err("too large").reason, "ConfigTooLarge");
        assert_eq!(text(Map::new()).as_deref(), Ok("{}"));
    }
}
