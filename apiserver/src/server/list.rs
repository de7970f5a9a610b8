//! The verbs `get` and `list`: which objects, and at which revision.

use std::time::Duration;

use base64::{
    Engine,
    alphabet::URL_SAFE,
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig},
};
use serde_json::json;
use tokio::time::{Instant, sleep};

use super::{
    call::{Answer, Call},
    query::{ListOptions, Query},
    resource::Flavor,
};
use crate::{
    apimachinery::{
        json,
        selector::{FieldSelector, LabelSelector, unknown_field},
        status::Status,
    },
    golang::quote,
    store::{ListQuery, Listing, Store, StoreError, StoredObject},
};

/// The time that a read waits for a revision that is yet to come.
const REVISION_TIMEOUT: Duration = Duration::from_secs(3);
const REVISION_POLL: Duration = Duration::from_millis(50);
const TOKEN_VERSION: &str = "meta.k8s.io/v1";
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &URL_SAFE,
    GeneralPurposeConfig::new()
        .with_encode_padding(false)
        .with_decode_allow_trailing_bits(true)
        .with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// The selectors of a request.
pub(super) struct Selection {
    pub labels: LabelSelector,
    pub fields: FieldSelector,
}

impl Selection {
    /// Reads the selectors.
    ///
    /// # Errors
    ///
    /// 400 for selectors that cannot be parsed, or that name other fields than the kind has.
    pub fn read(call: &Call<'_>) -> Result<Self, Status> {
        let Self { labels, fields } = Self::parse(call.query)?;
        let strategy = &call.view.resource.strategy;
        let own = strategy.field_names();

        for field in fields.fields() {
            // Built-in kinds without fields of their own accept it even if they have no namespaces.
            let has_namespace = call.view.resource.namespaced
                || (call.view.resource.flavor == Flavor::BuiltIn && own.is_empty());

            if field == "metadata.name"
                || (field == "metadata.namespace" && has_namespace)
                || own.contains(&field)
            {
                continue;
            }

            let has_own_rules = call.view.resource.flavor == Flavor::Custom || !own.is_empty();
            let message = if has_own_rules {
                strategy.unsupported_field(field)
            } else {
                unknown_field(field)
            };

            return Err(Status::bad_request(message));
        }

        Ok(Self { labels, fields })
    }

    fn parse(query: &Query) -> Result<Self, Status> {
        let labels =
            LabelSelector::parse(query.text("labelSelector")).map_err(Status::bad_request)?;
        let fields =
            FieldSelector::parse(query.text("fieldSelector")).map_err(Status::bad_request)?;
        Ok(Self { labels, fields })
    }

    /// Reports whether everything is selected.
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty()
    }

    /// Reports whether an object is selected.
    pub fn matches(&self, object: &StoredObject) -> bool {
        self.labels.matches(|name| object.label(name))
            && self.fields.matches(|field| selectable(object, field))
    }
}

/// A page of a list.
pub(super) struct Page {
    pub listing: Listing,
    /// The token of the next page, or `""`.
    pub continue_token: String,
    /// The number of objects that follow, when it is known.
    pub remaining: Option<usize>,
}

/// Returns a field of an object by which it can be selected.
fn selectable<'a>(object: &'a StoredObject, field: &str) -> Option<&'a str> {
    match field {
        "metadata.name" => Some(object.key().name()),
        "metadata.namespace" => object.key().namespace(),
        field => object.field(field),
    }
}

pub(super) fn get(call: &Call<'_>) -> Result<Answer, Status> {
    call.find(call.name()?)
        .map(|object| Answer::Stored(200, object))
}

/// Checks the parameters of a list in the order in which the API server looks at them.
pub(super) fn check(call: &Call<'_>) -> Result<(), Status> {
    for number in ["timeoutSeconds", "limit"] {
        call.query.integer(number)?;
    }

    Selection::parse(call.query)?;
    let options = ListOptions::read(call.query, false)?;
    Selection::read(call)?;

    Token::decode_of(&options, call.namespace()).map(drop)
}

/// Waits for the revision that a get or list asks for.
///
/// # Errors
///
/// An error for texts that are no revision, 504 when it does not come in time.
pub(super) async fn wait_for_revision(
    store: &Store,
    text: &str,
    is_list: bool,
) -> Result<(), Status> {
    let wanted = parse_revision(text).map_err(|message| match is_list {
        true => Status::bad_request(format!("invalid resource version: {message}")),
        false => Status::plain(message),
    })?;
    let deadline = Instant::now() + REVISION_TIMEOUT;

    loop {
        let current = store.revision();
        if wanted <= current {
            return Ok(());
        }
        if Instant::now() >= deadline {
            return Err(Status::too_large_revision(wanted, current));
        }

        sleep(REVISION_POLL).await;
    }
}

/// Parses a revision; `""` is 0.
///
/// # Errors
///
/// The API server's message.
pub(super) fn parse_revision(text: &str) -> Result<u64, String> {
    if text.is_empty() {
        return Ok(0);
    }

    let message = || {
        let quoted = quote(text);
        format!(
            "resourceVersion: Invalid value: {quoted}: strconv.ParseUint: parsing {quoted}: invalid syntax"
        )
    };

    text.parse().map_err(|_| message())
}

/// Returns the page of a list that a request asks for.
pub(super) fn page(call: &Call<'_>) -> Result<Page, Status> {
    let options = ListOptions::read(call.query, false)?;
    let selection = Selection::read(call)?;
    let namespace = call.namespace();
    let token = Token::read(&options, namespace)?;
    let revision = match &token {
        Some(token) => u64::try_from(token.revision).ok(),
        None => revision_of(&options)?,
    };
    let filter = |object: &StoredObject| selection.matches(object);

    let query = ListQuery {
        namespace,
        revision,
        start: token.as_ref().map(|token| token.start.as_str()),
        limit: if options.resource_version == "0" {
            0
        } else {
            options.limit
        },
        filter: if selection.is_empty() {
            None
        } else {
            Some(&filter)
        },
    };

    let listing = call
        .state
        .store
        .list(&call.storage(), &query)
        .map_err(|error| match (error, &token) {
            (StoreError::Compacted { .. }, Some(token)) => token.expired(namespace),
            (StoreError::Compacted { .. }, None) => {
                Status::expired("The resourceVersion for the provided list is too old.")
            }
            (error, _) => call.store_error(error, ""),
        })?;

    let next = listing.items.last().filter(|_| listing.more);
    let continue_token = next
        .map(|last| {
            encode(
                listing.revision as i64,
                &relative(last.key().as_str(), namespace),
            )
        })
        .unwrap_or_default();

    let remaining = (listing.more && selection.is_empty()).then_some(listing.remaining);
    Ok(Page {
        listing,
        continue_token,
        remaining,
    })
}

/// Returns the revision at which a list is pinned.
fn revision_of(options: &ListOptions) -> Result<Option<u64>, Status> {
    let wanted = parse_revision(&options.resource_version).map_err(Status::bad_request)?;
    let is_exact = match options.resource_version_match.as_str() {
        "Exact" => true,
        "NotOlderThan" => false,
        _ => options.limit > 0,
    };

    Ok(Some(wanted).filter(|wanted| is_exact && *wanted > 0))
}

/// Returns the key that follows `key`, as tokens have it: without the namespace of the list.
fn relative(key: &str, namespace: Option<&str>) -> String {
    let rest = namespace
        .and_then(|namespace| key.strip_prefix(namespace))
        .unwrap_or(key);
    format!("{rest}\0")
}

fn encode(revision: i64, start: &str) -> String {
    BASE64.encode(json!({"v": TOKEN_VERSION, "rv": revision, "start": start}).to_string())
}

/// A token of the next page.
struct Token {
    /// The revision of the list; -1 for whatever is current.
    revision: i64,
    /// The key with which the page begins.
    start: String,
}

impl Token {
    fn read(options: &ListOptions, namespace: Option<&str>) -> Result<Option<Self>, Status> {
        let Some(token) = Self::decode_of(options, namespace)? else {
            return Ok(None);
        };
        if !matches!(options.resource_version.as_str(), "" | "0") {
            return Err(Status::bad_request(
                "specifying resource version is not allowed when using continue",
            ));
        }

        Ok(Some(token))
    }

    fn decode_of(options: &ListOptions, namespace: Option<&str>) -> Result<Option<Self>, Status> {
        if options.continue_token.is_empty() {
            return Ok(None);
        }

        let refuse = |message: String| {
            Status::bad_request(format!(
                "invalid continue token: continue key is not valid: {message}"
            ))
        };

        Self::decode(&options.continue_token, namespace)
            .map(Some)
            .map_err(refuse)
    }

    fn decode(text: &str, namespace: Option<&str>) -> Result<Self, String> {
        let bytes = BASE64.decode(text).map_err(|error| match error {
            base64::DecodeError::InvalidByte(index, _)
            | base64::DecodeError::InvalidLastSymbol(index, _) => {
                format!("illegal base64 data at input byte {index}")
            }
            _ => format!("illegal base64 data at input byte {}", text.len()),
        })?;
        let value = json::read(&bytes).map_err(|error| error.to_string())?;
        let version = value["v"].as_str().unwrap_or_default();
        if version != TOKEN_VERSION {
            return Err(format!(
                "server does not recognize this encoded version {version}"
            ));
        }

        let revision = value["rv"].as_i64().unwrap_or_default();
        if revision == 0 {
            return Err(format!(
                "incorrect encoded start resourceVersion (version {TOKEN_VERSION})"
            ));
        }

        let start = value["start"].as_str().unwrap_or_default();
        if start.is_empty() {
            return Err(format!("encoded start key empty (version {TOKEN_VERSION})"));
        }
        if start.split('/').any(|part| matches!(part, "." | "..")) {
            return Err(start.to_owned());
        }

        let start = start.trim_start_matches('/');
        let start = namespace.map_or_else(
            || start.to_owned(),
            |namespace| format!("{namespace}/{start}"),
        );

        Ok(Self { revision, start })
    }

    /// Returns the error for a list that has expired, with a token to continue it as of now.
    fn expired(&self, namespace: Option<&str>) -> Status {
        let start =
            namespace.and_then(|namespace| self.start.strip_prefix(&format!("{namespace}/")));
        let mut error = Status::expired(
            "The provided continue parameter is too old to display a consistent list result. You can start a new list \
             without the continue parameter, or use the continue token in this response to retrieve the remainder of the \
             results. Continuing with the provided token results in an inconsistent list - objects that were created, \
             modified, or deleted between the time the first chunk was returned and now may show up in the list.",
        );

        error.continue_token = encode(-1, start.unwrap_or(&self.start));
        error
    }
}
