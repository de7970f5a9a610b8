//! The conformance suite's plugin in Rust: each behaviour of plugins/conformance/README.md, done as an author of the SDK
//! would do it.

mod cases;
mod data;
mod errors;
mod reads;
mod results;
mod widget;
mod writes;

use operetta_sdk::k8s_openapi::api::core::v1::ConfigMap;
use operetta_sdk::{
    Action, ApiError, ApiErrorKind, Context, Controller, Error, Object, ObjectMeta, Patch, Plugin, RateLimiter, Source,
};
use serde_json::json;
use std::time::Duration;

operetta_sdk::plugin!(plugin);

/// One controller, `cases`.
pub fn plugin() -> Plugin {
    let limiter =
        RateLimiter::default().backoff(Duration::from_millis(5), Duration::from_millis(1_000)).bucket(1_000, 1_000);
    let controller = Controller::new("cases", reconcile)
        .for_source(Source::of::<ConfigMap>().labels("conformance=case"))
        .owns_source(Source::of::<ConfigMap>().labels("conformance=child"))
        .own_namespace()
        .workers(4)
        .rate_limiter(limiter);
    Plugin::new().controller(controller).index::<ConfigMap>("colour", ".data.colour")
}

fn reconcile(ctx: &Context, map: ConfigMap) -> Result<Action, Error> {
    let case = Case { ctx, map };
    match case.map.name() {
        "finalizer" => return results::finalizer(&case),
        name if name.starts_with("result-") => return results::run(&case),
        _ => {}
    }
    if case.argument("result").is_some() {
        return Ok(Action::done());
    }
    let (result, saw) = match cases::carry_out(&case) {
        Ok(saw) => ("ok".to_owned(), saw),
        Err(error) => (format!("failed: {error}"), String::new()),
    };
    let patch = Patch::merge(&json!({"data": {"result": result, "saw": saw}}));
    ctx.patch::<ConfigMap>(case.map.key(), patch)?;
    Ok(Action::done())
}

/// A behaviour that is to be shown: a ConfigMap with the behaviour's name and its arguments.
struct Case<'a> {
    ctx: &'a Context,
    map: ConfigMap,
}

/// What a behaviour saw, or what unexpected thing came back.
type Seen = Result<String, Error>;

impl Case<'_> {
    fn argument(&self, name: &str) -> Option<&str> {
        word_of(&self.map, name)
    }

    fn wanted(&self, name: &str) -> Result<&str, Error> {
        self.argument(name).ok_or_else(|| Error::msg(format!("the case has no data.{name}")))
    }

    /// The case's namespace.
    fn namespace(&self) -> &str {
        self.map.namespace().unwrap_or_default()
    }

    /// The key of `data.target`.
    fn target(&self) -> Result<operetta_sdk::ObjectKey, Error> {
        Ok(self.map.key().beside(self.wanted("target")?))
    }

    /// A new ConfigMap beside the case.
    fn config_map(&self, name: &str, data: &[(&str, &str)]) -> ConfigMap {
        let pairs = data.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        ConfigMap { metadata: self.metadata(name), data: Some(pairs.collect()), ..ConfigMap::default() }
    }

    /// The metadata of a new object beside the case.
    fn metadata(&self, name: &str) -> ObjectMeta {
        let namespace = Some(self.namespace().to_owned());
        ObjectMeta { name: Some(name.to_owned()), namespace, ..ObjectMeta::default() }
    }
}

fn word_of<'a>(map: &'a ConfigMap, name: &str) -> Option<&'a str> {
    map.data.as_ref()?.get(name).map(String::as_str)
}

fn word(map: &ConfigMap) -> String {
    word_of(map, "word").unwrap_or_default().to_owned()
}

/// `VARIANT CODE REASON` of an error that had to come.
fn words<T>(result: Result<T, ApiError>) -> Seen {
    let error = result.err().ok_or_else(|| Error::msg("it worked, but had to fail"))?;
    let status = error.status();
    Ok(format!("{} {} {}", variant(&error), status.code, status.reason))
}

/// The contract's name of an error.
fn variant(error: &ApiError) -> &'static str {
    match error.kind() {
        ApiErrorKind::NotFound => "not-found",
        ApiErrorKind::AlreadyExists => "already-exists",
        ApiErrorKind::Conflict => "conflict",
        ApiErrorKind::Invalid => "invalid",
        ApiErrorKind::BadRequest => "bad-request",
        ApiErrorKind::Forbidden => "forbidden",
        ApiErrorKind::Expired => "expired",
        ApiErrorKind::TooManyRequests => "too-many-requests",
        ApiErrorKind::Unavailable => "unavailable",
        ApiErrorKind::TimedOut => "timed-out",
        ApiErrorKind::Other => "other",
        // The SDK's own: the object does not fit its type.
        _ => "malformed",
    }
}

#[cfg(test)]
mod manifest_tests;
#[cfg(test)]
mod tests;
