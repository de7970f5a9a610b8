//! A Plugin's configuration: `spec.config`, merged over the ConfigMaps and Secrets in
//! `spec.configFrom`.
//!
//! The host reads those as the plugin's ServiceAccount ([`references`]). No message contains
//! anything from a Secret, even if that is invalid, and the texts are overwritten before their
//! memory is reused.

pub mod references;
mod secrets;
pub mod text;

use std::sync::Arc;

use operetta_api::reasons::{self, Reason};
use operetta_core::{
    authz::access_review::SubjectGrants, gate::PluginConfig, object::ObjectKey, status::ApiError,
};
use serde_json::{Map, Value};

use crate::{
    context::Context,
    crash_journal::Step,
    plugin::{
        config::{
            references::{Contents, References},
            secrets::{Secrets, Texts, text, texts},
            text::{MAX_DEPTH, config_key, config_object},
        },
        crash_guard::CrashGuard,
        crd::{ConfigKind, ConfigRef, ConfigSource, Plugin},
    },
    problem::Problem,
};

/// The reason if the ServiceAccount may not read a part.
pub const FORBIDDEN: Reason = reasons::CONFIG_FORBIDDEN;

/// The field that names the parts.
const FIELD: &str = "spec.configFrom";

/// The configuration of a Plugin: `spec.config` and `spec.configFrom`.
#[derive(Default)]
pub struct Configuration {
    references: References,
    /// The entries of `spec.configFrom`.
    parts: Vec<(ConfigKind, ConfigRef)>,
    /// What was last read; None if it must be read again.
    read: Option<ReadParts>,
}

struct ReadParts {
    versions: String,
    config: Secrets,
}

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

        self.follow(context, key, grants, &spec.config_from).await?;
        if let Some(forbidden) = self.references.forbidden(grants).await? {
            return Ok(Err(Some(forbidden.forbidden(grants, FIELD))));
        }

        let versions = self.references.versions();
        if let (Some(versions), Some(read)) = (&versions, &self.read)
            && *versions == read.versions
        {
            return Ok(text(&read.config.clone().merge(own)).map_err(Some));
        }

        self.read = None;
        let contents = match self.references.read(context, grants).await? {
            Ok(contents) => contents,
            Err(unreadable) => {
                return Ok(Err(Some(unreadable.problem(grants, |_| FIELD.to_owned()))));
            }
        };
        if let Some(missing) = self.missing(&contents, key) {
            return Ok(Err(Some(missing)));
        }
        let in_flight =
            match guard.begin_for_plugin(key, plugin, Step::ParseConfig, &contents.digest()) {
                Ok(in_flight) => in_flight,
                Err(problem) => return Ok(Err(problem)),
            };
        let parsed = self.parse(&contents);
        drop(in_flight);

        let config = match parsed {
            Ok(config) => config,
            Err(problem) => return Ok(Err(Some(problem))),
        };
        let merged = text(&config.clone().merge(own)).map_err(Some);
        self.read = versions.map(|versions| ReadParts { versions, config });

        Ok(merged)
    }

    /// Returns the problem of the first part that doesn't exist and isn't optional.
    fn missing(&self, contents: &Contents, plugin: &ObjectKey) -> Option<Problem> {
        let is_missing = |(kind, reference): &&(ConfigKind, ConfigRef)| {
            !reference.optional && contents.get(*kind, &reference.name).is_none()
        };
        let (kind, reference) = self.parts.iter().find(is_missing)?;
        let at = plugin.namespace.as_deref().unwrap_or_default();
        Some(not_found(*kind, &reference.name, FIELD, at))
    }

    /// Parses the parts' texts and merges them.
    fn parse(&self, contents: &Contents) -> Result<Secrets, Problem> {
        let mut merged = Secrets::default();
        for (kind, reference) in &self.parts {
            let Some(content) = contents.get(*kind, &reference.name) else {
                continue;
            };
            merged = add(merged, reference, &texts(content)).map_err(|problem| {
                let (kind, name) = (kind.as_str(), &reference.name);
                Problem::new(
                    reasons::INVALID_CONFIG,
                    format!("{kind} {name:?} of {FIELD}: {problem}"),
                )
            })?;
        }
        Ok(merged)
    }

    /// Watches the parts in the spec, and stops watching others.
    async fn follow(
        &mut self,
        context: &Arc<Context>,
        plugin: &ObjectKey,
        grants: &SubjectGrants,
        sources: &[ConfigSource],
    ) -> Result<(), ApiError> {
        let parts: Vec<_> = sources
            .iter()
            .filter_map(ConfigSource::chosen)
            .map(|(kind, reference)| (kind, reference.clone()))
            .collect();
        if self.parts != parts {
            self.parts = parts;
            self.read = None;
        }
        let wanted: Vec<_> = self
            .parts
            .iter()
            .map(|(kind, reference)| (*kind, reference.name.clone()))
            .collect();
        self.references
            .watch(context, plugin, grants, &wanted)
            .await
    }
}

/// Returns the problem that an object doesn't exist, which a field of the spec names.
pub fn not_found(kind: ConfigKind, name: &str, field: &str, namespace: &str) -> Problem {
    let kind = kind.as_str();
    let message = format!("{kind} {name:?} of {field} does not exist in namespace {namespace:?}");
    Problem::new(reasons::CONFIG_NOT_FOUND, message)
}

/// Merges the key of `data` that a reference selects into the configuration.
fn add(config: Secrets, reference: &ConfigRef, data: &Texts<'_>) -> Result<Secrets, String> {
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
            let inner = Value::String((*text).to_owned());
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
                .map(|(key, text)| ((*key).to_owned(), *text))
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
            (
                key("x"),
                &[("x", "a: hunter2\n hunter2: b")],
                "x is not a YAML mapping: line 2",
            ),
            (key("x"), &[("x", "a: *hunter2")], "x uses YAML anchors"),
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
            let source = text_with_secret(&secret);
            let data = Texts::from([(key.to_owned(), source.as_str())]);
            let read = add(Secrets::default(), &reference, &data).expect("valid");
            let replaced = add(read.clone(), &reference, &data).expect("valid");
            let config = text(&read.clone().merge(replaced)).expect("small");

            assert!(
                copies_in_memory(&secret) >= 3,
                "the texts, the values, the configuration"
            );

            drop((source, read, config));
            assert_eq!(copies_in_memory(&secret), 0, "{key}");
        }
    }
}
