//! A Plugin's configuration: `spec.config`, merged over the ConfigMaps and Secrets in
//! `spec.configFrom`.
//!
//! The host reads those as the plugin's ServiceAccount, so a Plugin can't read a Secret with the
//! host's permissions. It watches only their metadata, to know when to read them again. No message
//! contains anything from a Secret, even if that is invalid, and the texts are overwritten before
//! their memory is reused.

mod part;
mod secrets;
pub mod text;

use std::sync::Arc;

use operetta_api::reasons::{self, Reason};
use operetta_core::{
    authz::access_review::{Grants, SubjectGrants},
    gate::PluginConfig,
    object::ObjectKey,
    status::{ApiError, ErrorKind},
};
use serde_json::{Map, Value};
use tokio::task::JoinSet;

use crate::{
    context::Context,
    crash_journal::Step,
    plugin::{
        config::{
            part::{Part, PartData},
            secrets::{Secrets, Texts, text},
            text::{MAX_DEPTH, config_key, config_object},
        },
        crash_guard::CrashGuard,
        crd::{ConfigRef, ConfigSource, Plugin},
    },
    problem::Problem,
};

/// The reason if the ServiceAccount may not read a part.
pub const FORBIDDEN: Reason = reasons::CONFIG_FORBIDDEN;

/// The ConfigMaps and Secrets in a Plugin's `spec.configFrom`.
#[derive(Default)]
pub struct Configuration {
    parts: Vec<Part>,
    /// Enqueues the Plugin when permissions change. Dropping this aborts the task.
    permission_watch: JoinSet<()>,
    /// What was last read; None if it must be read again.
    read: Option<ReadParts>,
}

struct ReadParts {
    versions: String,
    config: Secrets,
}

/// The parts as read from the API server. None stands for an optional one that doesn't exist.
#[derive(Default)]
struct Unparsed(Vec<Option<PartData>>);

impl Configuration {
    /// Reads the configuration as JSON text. The inner error is the problem, or None if the
    /// configuration can't be parsed yet.
    ///
    /// # Errors
    /// The API server's error when it doesn't respond; the caller retries.
    pub async fn read(
        &mut self,
        context: &Arc<Context>,
        guard: &CrashGuard,
        key: &ObjectKey,
        plugin: &Plugin,
        grants: &SubjectGrants,
    ) -> Result<Result<PluginConfig, Option<Problem>>, ApiError> {
        let spec = &plugin.spec;
        let own = Secrets(spec.config.clone().unwrap_or_default());
        if spec.config_from.is_empty() {
            *self = Self::default();
            return Ok(text(&own).map_err(Some));
        }

        self.watch(context, key, &spec.config_from).await?;
        for part in &self.parts {
            let access = part.access();
            // If this changes, the Plugin is enqueued.
            if grants.is_known_allowed(&access) {
                continue;
            }

            match grants.check(&access).await {
                Ok(()) => {}
                Err(error) if error.kind == ErrorKind::Forbidden => {
                    return Ok(Err(Some(part.forbidden(grants))));
                }
                Err(error) => return Err(error),
            }
        }

        let versions = self
            .parts
            .iter()
            .map(Part::version)
            .collect::<Option<String>>();
        if let (Some(versions), Some(read)) = (&versions, &self.read)
            && *versions == read.versions
        {
            return Ok(text(&read.config.clone().merge(own)).map_err(Some));
        }

        self.read = None;
        let data = match self.read_parts(context, key, grants).await? {
            Ok(data) => data,
            Err(problem) => return Ok(Err(Some(problem))),
        };
        let in_flight = match guard.begin_for_plugin(key, plugin, Step::ParseConfig, &data.digest())
        {
            Ok(in_flight) => in_flight,
            Err(problem) => return Ok(Err(problem)),
        };
        let parsed = self.parse(&data);
        drop(in_flight);

        let config = match parsed {
            Ok(config) => config,
            Err(problem) => return Ok(Err(Some(problem))),
        };
        let merged = text(&config.clone().merge(own)).map_err(Some);
        self.read = versions.map(|versions| ReadParts { versions, config });

        Ok(merged)
    }

    async fn read_parts(
        &self,
        context: &Context,
        plugin: &ObjectKey,
        grants: &SubjectGrants,
    ) -> Result<Result<Unparsed, Problem>, ApiError> {
        let mut all = Unparsed::default();
        for part in &self.parts {
            all.0.push(match part.data(context, grants).await {
                Ok(data) => Some(data),
                Err(error) if error.kind == ErrorKind::NotFound && part.reference().optional => {
                    None
                }
                Err(error) if error.kind == ErrorKind::NotFound => {
                    let at = plugin.namespace.as_deref().unwrap_or_default();
                    let message =
                        format!("{part} of spec.configFrom does not exist in namespace {at:?}");
                    return Ok(Err(Problem::new(reasons::CONFIG_NOT_FOUND, message)));
                }
                Err(error) if error.kind == ErrorKind::Forbidden => {
                    return Ok(Err(part.forbidden(grants)));
                }
                Err(error) => return Err(error),
            });
        }
        Ok(Ok(all))
    }

    /// Parses the parts' texts and merges them.
    fn parse(&self, data: &Unparsed) -> Result<Secrets, Problem> {
        let mut merged = Secrets::default();
        for (part, data) in self.parts.iter().zip(&data.0) {
            let Some(data) = data else { continue };
            merged = add(merged, part.reference(), &data.texts).map_err(|problem| {
                Problem::new(
                    reasons::INVALID_CONFIG,
                    format!("{part} of spec.configFrom: {problem}"),
                )
            })?;
        }
        Ok(merged)
    }

    /// Watches the parts in the spec, and stops watching others.
    async fn watch(
        &mut self,
        context: &Arc<Context>,
        plugin: &ObjectKey,
        sources: &[ConfigSource],
    ) -> Result<(), ApiError> {
        let mut before = std::mem::take(&mut self.parts);
        for source in sources {
            let Some((kind, reference)) = source.chosen() else {
                continue;
            };
            if let Some(at) = before.iter().position(|part| part.is(kind, reference)) {
                self.parts.push(before.swap_remove(at));
                continue;
            }

            let resource = context.cluster.discovery.resolve(&kind.gvk()).await?;
            self.parts.push(Part::watch(
                context,
                plugin,
                kind,
                reference.clone(),
                &resource,
            ));

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
                    // The authorizer may see the change later than we do.
                    tokio::time::sleep(Grants::SETTLE).await;
                    queue.enqueue(&key);
                }
            });
        }

        Ok(())
    }
}

impl Unparsed {
    /// Returns a digest of the versions that were read. The watches don't know them before they
    /// have synced.
    fn digest(&self) -> String {
        let versions: String = self
            .0
            .iter()
            .map(|part| part.as_ref().map_or(part::NONE, |part| &part.version))
            .collect();
        operetta_wasm::digest(versions.as_bytes())
    }
}

/// Merges the key of `data` that a reference selects into the configuration.
fn add(config: Secrets, reference: &ConfigRef, data: &Texts) -> Result<Secrets, String> {
    let found = match &reference.key {
        Some(key) => data.get(key).map(|text| (key.as_str(), text)),
        None => config_key(data)?,
    };
    let Some((key, text)) = found else {
        if reference.optional {
            return Ok(config);
        }
        let wanted = reference
            .key
            .as_deref()
            .unwrap_or("config.json or config.yaml");
        return Err(format!("it has no key {wanted} that is text"));
    };

    let part = match &reference.target_path {
        Some(path) if path.split('.').count() > MAX_DEPTH => {
            return Err(format!(
                "its targetPath is more than {MAX_DEPTH} fields deep"
            ));
        }
        Some(path) => {
            let inner = Value::String(text.as_str().to_owned());
            let nested = path.rsplit('.').fold(inner, |value, field| {
                Value::Object(Map::from_iter([(field.into(), value)]))
            });
            match nested {
                Value::Object(nested) => nested,
                _ => Map::new(),
            }
        }
        None => config_object(key, text)?,
    };
    Ok(config.merge(Secrets(part)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use zeroize::Zeroizing;

    use super::*;
    use crate::plugin::config::secrets::MAX_BYTES;

    fn added(references: &[(ConfigRef, &[(&str, &str)])]) -> Result<Value, String> {
        let mut whole = Secrets::default();
        for (reference, data) in references {
            let data = data
                .iter()
                .map(|(key, text)| ((*key).to_owned(), (*text).to_owned().into()))
                .collect();
            whole = add(whole, reference, &data)?;
        }
        Ok(Value::Object(whole.0.clone()))
    }

    #[test]
    fn later_parts_override_earlier_ones_by_field() {
        let plain = ConfigRef::default();
        let token = ConfigRef {
            key: Some("t".into()),
            target_path: Some("cloud.token".into()),
            ..ConfigRef::default()
        };
        let made = added(&[
            (
                plain.clone(),
                &[(
                    "config.yaml",
                    "{cloud: {region: a, token: none}, list: [1, 2]}",
                )],
            ),
            (token, &[("t", "s3cret")]),
            (
                plain,
                &[("config.json", r#"{"cloud":{"region":"b"},"list":[3]}"#)],
            ),
        ]);
        assert_eq!(
            made,
            Ok(json!({"cloud": {"region": "b", "token": "s3cret"}, "list": [3]}))
        );
    }

    #[test]
    fn errors_name_the_key_and_not_the_secret() {
        let key = |key: &str| ConfigRef {
            key: Some(key.into()),
            ..ConfigRef::default()
        };
        let optional = ConfigRef {
            optional: true,
            ..key("x")
        };
        assert_eq!(added(&[(optional, &[])]), Ok(json!({})));

        for (reference, data, part) in [
            (
                ConfigRef::default(),
                [("config.json", "{}"), ("config.yaml", "{}")].as_slice(),
                "both",
            ),
            (
                ConfigRef::default(),
                &[("other", "hunter2")],
                "no key config.json or config.yaml",
            ),
            (key("x"), &[("config.json", "{}")], "no key x"),
            (
                key("x.json"),
                &[("x.json", "\"hunter2\"")],
                "x.json is not a JSON object",
            ),
            (
                key("x.json"),
                &[("x.json", "{\"hunter2\": ")],
                "x.json is not a JSON object: line 1",
            ),
            (key("x"), &[("x", "hunter2")], "x is not a YAML mapping"),
            (key("x"), &[("x", "[hunter2")], "x is not a YAML mapping"),
            (key("x"), &[("x", "a: *hunter2")], "x is not a YAML mapping"),
        ] {
            let error = added(&[(reference, data)]).expect_err(part);
            assert!(
                error.contains(part) && !error.contains("hunter2"),
                "{error}"
            );
        }
    }

    #[test]
    fn rejects_configuration_beyond_size_limit() {
        let large = Map::from_iter([("a".to_owned(), Value::String("x".repeat(MAX_BYTES)))]);
        assert_eq!(
            text(&Secrets(large)).expect_err("too large").reason,
            "ConfigTooLarge"
        );
        assert_eq!(text(&Secrets::default()).as_deref(), Ok("{}"));
    }

    /// The secret of the next test, masked so that the test itself keeps no copy.
    fn masked_secret() -> Vec<u8> {
        (0..40_u8)
            .map(|at| (b'a' + at % 26 * 7 % 26) ^ MASK)
            .collect()
    }

    const MASK: u8 = 0xa5;

    /// Returns a JSON object with the secret, in memory that never moved.
    fn text_with_secret(masked: &[u8]) -> Zeroizing<String> {
        let mut text = Zeroizing::new(String::with_capacity(100));
        text.push_str("{\"token\":\"");
        masked
            .iter()
            .for_each(|byte| text.push(char::from(byte ^ MASK)));
        text.push_str("\"}");
        text
    }

    /// Counts the copies of the secret in the writable memory of this process, page by page. The
    /// buffer is cleared before each read, so that what it has read is no copy.
    fn copies_in_memory(masked: &[u8]) -> usize {
        use std::os::unix::fs::FileExt;
        const PAGE: usize = 4096;
        let maps = std::fs::read_to_string("/proc/self/maps").expect("maps");
        let memory = std::fs::File::open("/proc/self/mem").expect("memory");

        // A copy may begin on one page and end on the next.
        let mut buffer = Zeroizing::new(vec![0; PAGE + masked.len() - 1]);
        let is_copy = |found: &[u8]| {
            found
                .iter()
                .zip(masked)
                .all(|(found, masked)| found ^ MASK == *masked)
        };
        let mut copies = 0;

        for line in maps.lines().filter(|line| {
            line.split(' ')
                .nth(1)
                .is_some_and(|access| access.starts_with("rw"))
        }) {
            let (start, end) = line
                .split(' ')
                .next()
                .and_then(|range| range.split_once('-'))
                .expect("a range");
            let [start, end] =
                [start, end].map(|hex| u64::from_str_radix(hex, 16).expect("an address"));
            for offset in (start..end).step_by(PAGE) {
                buffer.fill(0);
                let Ok(read) = memory.read_at(&mut buffer, offset) else {
                    break;
                };

                let first = masked[0] ^ MASK;
                let windows = buffer[..read].windows(masked.len());
                copies += windows
                    .filter(|found| found[0] == first && is_copy(found))
                    .count();
            }
        }

        copies
    }

    #[test]
    fn dropped_configuration_leaves_no_secret_in_memory() {
        let secret = masked_secret();
        let inner = ConfigRef {
            key: Some("t".into()),
            target_path: Some("a.b".into()),
            ..ConfigRef::default()
        };
        for (key, reference) in [("config.json", ConfigRef::default()), ("t", inner)] {
            let data = Texts::from([(key.to_owned(), text_with_secret(&secret))]);
            let read = add(Secrets::default(), &reference, &data).expect("valid");
            let replaced = add(read.clone(), &reference, &data).expect("valid");
            let config = text(&read.clone().merge(replaced)).expect("small");

            assert!(
                copies_in_memory(&secret) >= 3,
                "the texts, the values, the configuration"
            );

            drop((data, read, config));
            assert_eq!(copies_in_memory(&secret), 0, "{key}");
        }
    }
}
