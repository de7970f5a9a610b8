//! The conformance suite's plugin in Rust: each behaviour of plugins/conformance/README.md, in the
//! code of a typical plugin.

mod cases;
mod data;
mod errors;
mod reads;
mod results;
mod watches;
mod widget;
mod writes;

use operetta_sdk::k8s_openapi::api::core::v1::ConfigMap;
use operetta_sdk::{
    Action, ApiError, Context, Controller, Error, ErrorKind, Kind, Object, ObjectMeta, Patch,
    Plugin, RateLimiter, Source,
};
use serde_json::json;
use std::time::Duration;

operetta_sdk::mapping_plugin!(plugin);

/// Returns a plugin with one controller, `cases`.
pub fn plugin() -> Plugin {
    let limiter = RateLimiter::default()
        .backoff(Duration::from_millis(5), Duration::from_millis(1_000))
        .bucket(1_000, 1_000);
    let controller = Controller::new("cases", reconcile)
        .for_source(Source::of::<ConfigMap>().labels("conformance=case"))
        .owns_source(Source::of::<ConfigMap>().labels("conformance=child"))
        .watches_mapped(watches::wakers(), watches::woken)
        .own_namespace()
        .workers(4)
        .rate_limiter(limiter);
    Plugin::new()
        .controller(controller)
        .index::<ConfigMap>("colour", ".data.colour")
        .index_by_label::<ConfigMap>("app", "app")
        .index_by_controller::<ConfigMap>("owner", ConfigMap::gvk())
}

fn reconcile(ctx: &Context, map: ConfigMap) -> Result<Action, Error> {
    let case = Case { ctx, map };
    match case.map.name() {
        "finalizer" => return results::finalizer(&case),
        name if name.starts_with("result-") || name.starts_with("map-") => {
            return results::run(&case);
        }
        _ => {}
    }
    if case.argument("result").is_some() {
        return Ok(Action::done());
    }
    let (result, saw) = match cases::run(&case) {
        Ok(saw) => ("ok".to_owned(), saw),
        Err(error) => (format!("failed: {error}"), String::new()),
    };
    let patch = Patch::merge(&json!({"data": {"result": result, "saw": saw}}));
    ctx.patch::<ConfigMap>(case.map.key(), patch)?;
    Ok(Action::done())
}

/// A case of the suite: a ConfigMap with the behaviour's name and its arguments.
struct Case<'a> {
    ctx: &'a Context,
    map: ConfigMap,
}

/// The observation of a behaviour, or an unexpected error.
type Seen = Result<String, Error>;

impl Case<'_> {
    fn argument(&self, name: &str) -> Option<&str> {
        word_of(&self.map, name)
    }

    fn wanted(&self, name: &str) -> Result<&str, Error> {
        self.argument(name)
            .ok_or_else(|| Error::msg(format!("the case has no data.{name}")))
    }

    /// Returns the case's namespace.
    fn namespace(&self) -> &str {
        self.map.namespace().unwrap_or_default()
    }

    /// Returns the key of `data.target`.
    ///
    /// # Errors
    /// Returns an error if the case has no such field.
    fn target(&self) -> Result<operetta_sdk::ObjectKey, Error> {
        Ok(self.map.key().beside(self.wanted("target")?))
    }

    /// Returns a new ConfigMap in the case's namespace.
    fn config_map(&self, name: &str, data: &[(&str, &str)]) -> ConfigMap {
        let pairs = data
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        ConfigMap {
            metadata: self.metadata(name),
            data: Some(pairs.collect()),
            ..ConfigMap::default()
        }
    }

    /// Returns the metadata of a new object in the case's namespace.
    fn metadata(&self, name: &str) -> ObjectMeta {
        operetta_sdk::object_meta(self.map.key().beside(name))
    }
}

fn word_of<'a>(map: &'a ConfigMap, name: &str) -> Option<&'a str> {
    map.data.as_ref()?.get(name).map(String::as_str)
}

fn word(map: &ConfigMap) -> String {
    word_of(map, "word").unwrap_or_default().to_owned()
}

/// Returns `VARIANT CODE REASON` of an expected error.
///
/// # Errors
/// Returns an error if the call succeeded.
fn words<T>(result: Result<T, ApiError>) -> Seen {
    let error = result
        .err()
        .ok_or_else(|| Error::msg("the call succeeded, but had to fail"))?;
    let status = error.status();
    Ok(format!(
        "{} {} {}",
        variant(&error),
        status.code,
        status.reason
    ))
}

/// Returns the contract's name of an error.
fn variant(error: &ApiError) -> &'static str {
    match error.kind() {
        ErrorKind::NotFound => "not-found",
        ErrorKind::AlreadyExists => "already-exists",
        ErrorKind::Conflict => "conflict",
        ErrorKind::Invalid => "invalid",
        ErrorKind::BadRequest => "bad-request",
        ErrorKind::Forbidden => "forbidden",
        ErrorKind::Expired => "expired",
        ErrorKind::TooManyRequests => "too-many-requests",
        ErrorKind::Unavailable => "unavailable",
        ErrorKind::TimedOut => "timed-out",
        ErrorKind::Other if error.is_malformed() => "malformed",
        ErrorKind::Other => "other",
    }
}

#[cfg(test)]
mod manifest_tests;
#[cfg(test)]
mod tests;
