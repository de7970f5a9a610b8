//! The guest's side of the contract: the bindings of wit/controller.wit, the [`Backend`] over its
//! imports, and its exports. This is the one module with generated, unsafe code.

use std::sync::atomic::{AtomicU8, Ordering};

#[cfg(feature = "kube")]
use bindings::operetta::controller::outcome;
use bindings::operetta::controller::{config, events, log, objects, raw, types, warnings};

use crate::action::Next;
use crate::backend::{Backend, CreateRequest, EventRequest, Part, PatchRequest, UpdateRequest};
use crate::logging::{Forward, Level, Pair, Sink, panic_text};
use crate::options::{
    DeleteOptions, ListOptions, Page, PatchType, Propagation, Read, Selection, WriteOptions,
};
use crate::{
    Action, ApiError, Cause, Context, ErrorKind, EventType, GroupVersionKind, MapEvent, ObjectKey,
    Plugin, RawRequest, RawResponse, Request, Status,
};

#[allow(
    unsafe_code,
    missing_docs,
    missing_debug_implementations,
    unused_qualifications,
    clippy::allow_attributes_without_reason,
    reason = "wit-bindgen generates these modules: they are unsafe and lack comments"
)]
mod generated {
    pub mod bindings {
        wit_bindgen::generate!({
            path: "wit",
            world: "plugin",
            pub_export_macro: true,
            default_bindings_module: "operetta_sdk::__private::bindings",
            runtime_path: "operetta_sdk::__private::wit_bindgen::rt",
        });
    }

    /// An export that only some plugins have.
    pub mod mapping_bindings {
        wit_bindgen::generate!({
            inline: "package operetta:sdk; world mapping { export operetta:controller/mapper@0.1.0; }",
            path: "wit",
            world: "operetta:sdk/mapping",
            with: { "operetta:controller/types@0.1.0": crate::guest::bindings::operetta::controller::types },
            pub_export_macro: true,
            default_bindings_module: "operetta_sdk::__private::mapping_bindings",
            runtime_path: "operetta_sdk::__private::wit_bindgen::rt",
        });
    }
}

pub use generated::{bindings, mapping_bindings};

use bindings::exports::operetta::controller::reconciler as exported;
use mapping_bindings::exports::operetta::controller::mapper;

/// The size of the arena in bytes: enough for most reconciles. Pages that are never allocated are
/// never touched, so they use no physical memory.
#[cfg(not(feature = "system-allocator"))]
const ARENA: usize = 256 << 10;

#[cfg(not(feature = "system-allocator"))]
#[global_allocator]
static ALLOCATOR: crate::allocator::Arena<ARENA> = crate::allocator::Arena::new();

/// Serves the contract's `describe`.
pub fn describe(plugin: fn() -> Plugin) -> String {
    start();
    plugin().manifest()
}

/// Serves the contract's `reconcile`.
///
/// # Errors
/// Returns the error of the author's function.
pub fn reconcile(
    plugin: fn() -> Plugin,
    request: exported::Request,
) -> Result<exported::Action, exported::Failure> {
    start();

    let exported::Request {
        controller,
        key,
        retries,
        reconcile_id,
    } = request;

    let key = ObjectKey {
        namespace: key.namespace.filter(|namespace| !namespace.is_empty()),
        name: key.name,
    };

    let request = Request {
        controller,
        key,
        retries,
        reconcile_id,
    };

    match plugin().reconcile(&Context {
        backend: Host,
        request,
    }) {
        Ok(Action(Next::Done)) => Ok(exported::Action::Done),
        Ok(Action(Next::Requeue)) => Ok(exported::Action::Requeue),
        Ok(Action(Next::RequeueAfterMs(delay))) => Ok(exported::Action::RequeueAfterMs(delay)),
        Err(error) if error.is_terminal() => Err(exported::Failure::Terminal(error.to_string())),
        Err(error) => Err(exported::Failure::Retry(error.to_string())),
    }
}

/// Serves the contract's `map-event`.
///
/// # Errors
/// Returns a message if there is no such controller, or the object does not fit its type.
pub fn map_event(
    plugin: fn() -> Plugin,
    event: mapper::Event,
) -> Result<Vec<types::ObjectKey>, String> {
    start();

    let mapper::Event {
        controller,
        kind,
        object,
        old,
        ..
    } = event;
    let kind = GroupVersionKind::new(kind.api_version, kind.kind);

    let keys = plugin()
        .map(&MapEvent {
            controller,
            kind,
            object,
            old,
        })
        .map_err(|error| error.to_string())?;
    Ok(keys.iter().map(wit_key).collect())
}

/// Sends log lines and panics to the host. In a warm instance the subscriber is set already: the
/// calls fail or change nothing.
fn start() {
    std::panic::set_hook(Box::new(report_panic));

    let _ = tracing::subscriber::set_global_default(Forward::new(Log::default()));
    #[cfg(feature = "log")]
    {
        static LOGGER: std::sync::OnceLock<crate::logging::LogForward<Log>> =
            std::sync::OnceLock::new();
        if ::log::set_logger(LOGGER.get_or_init(|| crate::logging::LogForward(Log::default())))
            .is_ok()
        {
            ::log::set_max_level(::log::LevelFilter::Trace);
        }
    }
}

/// Writes a panic's message and location to the log and to stderr. The panic itself ends as a trap
/// without a message; the host reports the end of stderr with it.
fn report_panic(panic: &std::panic::PanicHookInfo<'_>) {
    let text = panic_text(panic.payload_as_str(), panic.location());
    log::write(log::Level::Error, &text, &[]);
    eprintln!("{text}");
}

/// The log import. It asks the host once for each level.
#[derive(Default)]
struct Log {
    /// Bit `level` is set once the host was asked for that level.
    known: AtomicU8,
    /// Bit `level` is set if the host keeps lines of that level.
    enabled: AtomicU8,
}

impl Sink for Log {
    fn enabled(&self, level: Level) -> bool {
        let bit = 1 << level as u8;
        if self.known.load(Ordering::Relaxed) & bit == 0 {
            if log::enabled(log_level(level)) {
                self.enabled.fetch_or(bit, Ordering::Relaxed);
            }
            self.known.fetch_or(bit, Ordering::Relaxed);
        }

        self.enabled.load(Ordering::Relaxed) & bit != 0
    }

    fn write(&self, level: Level, message: &str, fields: Vec<Pair>) {
        log::write(log_level(level), message, &fields);
    }
}

fn log_level(level: Level) -> log::Level {
    match level {
        Level::Error => log::Level::Error,
        Level::Warn => log::Level::Warn,
        Level::Info => log::Level::Info,
        Level::Debug => log::Level::Debug,
        Level::Trace => log::Level::Trace,
    }
}

/// The imports of `objects`, `raw`, `warnings`, `events`, `config` and `outcome`.
#[derive(Clone, Copy)]
pub(crate) struct Host;

impl Backend for Host {
    fn get(
        &self,
        kind: &GroupVersionKind,
        key: &ObjectKey,
        from: Read,
    ) -> Result<String, ApiError> {
        Ok(objects::get(&wit_kind(kind), &wit_key(key), read(from))?)
    }

    fn list(
        &self,
        kind: &GroupVersionKind,
        options: &ListOptions,
    ) -> Result<Page<String>, ApiError> {
        let options = objects::ListOptions {
            namespace: options.namespace.clone(),
            labels: options.labels.clone(),
            fields: options.fields.clone(),
            selection: match &options.selection {
                Selection::All => objects::Selection::All,
                Selection::Index { name, value } => {
                    objects::Selection::ByIndex((name.clone(), value.clone()))
                }
                Selection::Owner(uid) => objects::Selection::ByOwner(uid.clone()),
            },
            limit: options.page_size,
            continue_token: options.continue_token.clone(),
            read: read(options.read),
            projection: options.projection.clone(),
        };

        let objects::Page {
            items,
            resource_version,
            continue_token,
        } = objects::list(&wit_kind(kind), &options)?;

        Ok(Page {
            items,
            resource_version,
            continue_token,
        })
    }

    fn create(
        &self,
        kind: &GroupVersionKind,
        create: &CreateRequest<'_>,
    ) -> Result<String, ApiError> {
        Ok(objects::create(
            &wit_kind(kind),
            create.namespace,
            create.object,
            &wit_write(create.options),
        )?)
    }

    fn update(
        &self,
        kind: &GroupVersionKind,
        key: &ObjectKey,
        update: &UpdateRequest<'_>,
    ) -> Result<String, ApiError> {
        let send = match update.part {
            Part::Main => objects::update,
            Part::Status => objects::update_status,
        };

        Ok(send(
            &wit_kind(kind),
            &wit_key(key),
            update.object,
            &wit_write(update.options),
        )?)
    }

    fn patch(
        &self,
        kind: &GroupVersionKind,
        key: &ObjectKey,
        patch: &PatchRequest<'_>,
    ) -> Result<String, ApiError> {
        let text = patch.body.to_owned();
        let body = match patch.kind {
            PatchType::Merge => objects::PatchBody::Merge(text),
            PatchType::Json => objects::PatchBody::Json(text),
            PatchType::Apply => objects::PatchBody::Apply(text),
        };

        let options = wit_write(patch.options);
        Ok(objects::patch(
            &wit_kind(kind),
            &wit_key(key),
            patch.subresource,
            &body,
            patch.force,
            &options,
        )?)
    }

    fn delete(
        &self,
        kind: &GroupVersionKind,
        key: &ObjectKey,
        options: &DeleteOptions,
    ) -> Result<(), ApiError> {
        let options = objects::DeleteOptions {
            uid: options.uid.clone(),
            resource_version: options.resource_version.clone(),
            grace_period_seconds: options.grace_period_seconds,
            propagation: options.propagation.map(|propagation| match propagation {
                Propagation::Background => objects::Propagation::Background,
                Propagation::Foreground => objects::Propagation::Foreground,
                Propagation::Orphan => objects::Propagation::Orphan,
            }),
            dry_run: options.dry_run,
        };

        Ok(objects::delete(&wit_kind(kind), &wit_key(key), &options)?)
    }

    fn raw(&self, request: &RawRequest) -> RawResponse {
        let RawRequest {
            method,
            path,
            query,
            content_type,
            accept,
            body,
            cached,
            ..
        } = request.clone();

        let request = raw::Request {
            method,
            path,
            query,
            content_type,
            accept,
            body,
            cached,
        };

        let raw::Response {
            status,
            content_type,
            retry_after_seconds,
            body,
        } = raw::send(&request);

        RawResponse {
            status,
            content_type,
            retry_after_seconds,
            body,
        }
    }

    fn take_warnings(&self) -> Vec<String> {
        warnings::take()
    }

    fn event(&self, event: &EventRequest<'_>) {
        let kind = match event.kind {
            EventType::Normal => events::Kind::Normal,
            EventType::Warning => events::Kind::Warning,
        };

        let regarding = wit_kind(event.regarding);
        events::emit(
            &regarding,
            &wit_key(event.key),
            event.uid,
            kind,
            event.reason,
            event.action,
            event.note,
        );
    }

    fn config(&self) -> String {
        config::get()
    }

    #[cfg(feature = "kube")]
    fn fail(&self, message: &str) {
        outcome::fail(message);
    }
}

fn wit_kind(kind: &GroupVersionKind) -> types::GroupVersionKind {
    types::GroupVersionKind {
        api_version: kind.api_version.clone(),
        kind: kind.kind.clone(),
    }
}

fn wit_key(key: &ObjectKey) -> types::ObjectKey {
    types::ObjectKey {
        namespace: key.namespace.clone(),
        name: key.name.clone(),
    }
}

fn wit_write(options: &WriteOptions) -> objects::WriteOptions {
    let WriteOptions {
        dry_run,
        field_manager,
        strict,
    } = options.clone();

    objects::WriteOptions {
        dry_run,
        field_manager,
        strict,
    }
}

fn read(read: Read) -> objects::Read {
    match read {
        Read::Cached => objects::Read::Cached,
        Read::Live => objects::Read::Live,
    }
}

impl From<types::Error> for ApiError {
    fn from(error: types::Error) -> Self {
        use types::Error as E;
        let (kind, status) = match error {
            E::NotFound(status) => (ErrorKind::NotFound, status),
            E::AlreadyExists(status) => (ErrorKind::AlreadyExists, status),
            E::Conflict(status) => (ErrorKind::Conflict, status),
            E::Invalid(status) => (ErrorKind::Invalid, status),
            E::BadRequest(status) => (ErrorKind::BadRequest, status),
            E::Forbidden(status) => (ErrorKind::Forbidden, status),
            E::Expired(status) => (ErrorKind::Expired, status),
            E::TooManyRequests(status) => (ErrorKind::TooManyRequests, status),
            E::Unavailable(status) => (ErrorKind::Unavailable, status),
            E::TimedOut(status) => (ErrorKind::TimedOut, status),
            E::Other(status) => (ErrorKind::Other, status),
        };

        let types::Status {
            code,
            reason,
            message,
            causes,
            retry_after_seconds,
        } = status;

        let cause = |types::Cause {
                         reason,
                         message,
                         field,
                     }| Cause {
            reason,
            message,
            field,
        };
        let causes = causes.into_iter().map(cause).collect();

        Self::with_status(
            kind,
            Status {
                code,
                reason,
                message,
                causes,
                retry_after_seconds,
            },
        )
    }
}
