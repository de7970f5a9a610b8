//! The options of a list or a watch, and the form that its client accepts. By these the watch cache
//! decides whether it may answer.

use std::{collections::HashMap, time::Duration};

use http::HeaderMap;
use http::header::ACCEPT;
use operetta_core::object::selector::{LabelSelector, MetadataFieldSelector};

/// What a list or a watch asks for (apimachinery's [`metav1.ListOptions`]), as far as the watch cache
/// answers it.
///
/// [`metav1.ListOptions`]: https://github.com/kubernetes/apimachinery/blob/v0.36.2/pkg/apis/meta/v1/types.go#L329
#[derive(Clone, Debug)]
pub(super) struct ListOptions {
    pub labels: LabelSelector,
    pub fields: MetadataFieldSelector,
    pub version: Version,
    /// How long a watch lasts; None if the client leaves it to the server.
    pub timeout: Option<Duration>,
    /// Whether the watch is to have bookmarks.
    pub bookmarks: bool,
    /// Whether the watch is to begin with all objects, and to say when it has sent them.
    pub initial_events: bool,
}

/// How new the answer must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Version {
    /// The most recent: only the API server knows which one that is.
    MostRecent,
    /// Any.
    Any,
    /// This one or later; for a watch, the changes after this one.
    From(u64),
}

/// The form of the objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    Whole,
    /// As PartialObjectMetadata.
    Metadata,
}

impl ListOptions {
    /// Reads the parameters of a query; None if only the API server can answer it, or refuse it.
    pub fn read(parameters: &HashMap<String, String>) -> Option<Self> {
        let mut options = Self {
            labels: LabelSelector::default(),
            fields: MetadataFieldSelector::default(),
            version: Version::MostRecent,
            timeout: None,
            bookmarks: false,
            initial_events: false,
        };
        let mut has_limit = false;

        for (name, value) in parameters {
            match (name.as_str(), value.as_str()) {
                // `timeout` comes from Go clients that have one. It limits the API server's own
                // work.
                ("watch" | "timeout", _)
                | ("limit" | "continue" | "resourceVersion" | "timeoutSeconds", "") => {}
                ("resourceVersion", "0") => options.version = Version::Any,
                ("resourceVersion", version) => {
                    options.version = Version::From(version.parse().ok()?);
                }
                ("labelSelector", text) => options.labels = LabelSelector::parse(text).ok()?,
                ("fieldSelector", text) => {
                    options.fields = MetadataFieldSelector::parse(text).ok()?;
                }
                ("timeoutSeconds", seconds) => {
                    options.timeout = Some(Duration::from_secs(seconds.parse().ok()?));
                }
                ("allowWatchBookmarks", value) => options.bookmarks = boolean(value)?,
                ("sendInitialEvents", value) => options.initial_events = boolean(value)?,
                ("resourceVersionMatch", "NotOlderThan") => {}
                ("limit", limit) => has_limit = limit.parse::<u64>().ok()? > 0,
                _ => return None,
            }
        }

        let is_match = parameters.contains_key("resourceVersionMatch");
        let is_watch = parameters.contains_key("watch");
        match options.version {
            // The API server refuses some of these, and says why.
            _ if is_match && is_watch && !options.initial_events => None,
            _ if options.initial_events && !(is_match && is_watch) => None,
            Version::MostRecent if is_match && !options.initial_events => None,
            // The watch cache ignores a limit only where any version will do.
            Version::From(_) | Version::MostRecent if has_limit => None,
            _ => Some(options),
        }
    }
}

/// A boolean parameter, in the forms that the clients of Kubernetes write.
fn boolean(value: &str) -> Option<bool> {
    match value {
        "true" | "1" => Some(true),
        "false" | "0" => Some(false),
        _ => None,
    }
}

impl Form {
    /// The form that a client of a list or a watch prefers; None if it does not take that form in
    /// JSON, or if the API server has to refuse it.
    pub fn accepted(headers: &HeaderMap, is_watch: bool) -> Option<Self> {
        let mut preferred = None;
        let given = headers.get_all(ACCEPT).iter();
        let texts: Option<Vec<&str>> = given.map(|value| value.to_str().ok()).collect();
        let texts = texts?;
        if texts.is_empty() {
            return Some(Self::Whole);
        }

        for clause in texts.iter().flat_map(|text| text.split(',')) {
            let mut parts = clause.split(';').map(str::trim);
            let media_type = parts.next().unwrap_or_default().to_ascii_lowercase();
            let form = Self::of_parameters(parts, is_watch)?;
            // The first clause decides the form; a later one may offer it in JSON.
            if *preferred.get_or_insert(form) != form {
                continue;
            }

            if matches!(
                media_type.as_str(),
                "application/json" | "application/*" | "*/*"
            ) {
                return Some(form);
            }
        }
        None
    }

    fn of_parameters<'a>(
        parameters: impl Iterator<Item = &'a str>,
        is_watch: bool,
    ) -> Option<Self> {
        let partial = if is_watch {
            "PartialObjectMetadata"
        } else {
            "PartialObjectMetadataList"
        };
        let parameters: HashMap<&str, &str> = parameters
            .filter(|parameter| !parameter.is_empty())
            .map(|parameter| parameter.split_once('='))
            .collect::<Option<_>>()?;

        let named = |name: &str| parameters.get(name).copied();
        let is_known = |name: &&str| matches!(*name, "as" | "g" | "v");
        if !parameters.keys().all(is_known) {
            // A quality, a pretty print, or a stream: rare, and not ours to weigh.
            return None;
        }

        match (named("as"), named("g"), named("v")) {
            (None, None, None) => Some(Self::Whole),
            (Some(kind), Some("meta.k8s.io"), Some("v1")) if kind == partial => {
                Some(Self::Metadata)
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn options(query: &[(&str, &str)]) -> Option<ListOptions> {
        let pairs = query.iter();
        let parameters = pairs.map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        ListOptions::read(&parameters.collect())
    }

    #[test]
    fn what_only_the_api_server_knows_is_left_to_it() {
        let any = ("resourceVersion", "0");
        let at = ("resourceVersion", "7");
        let watch = ("watch", "true");
        let limit = ("limit", "500");
        let not_older = ("resourceVersionMatch", "NotOlderThan");

        for query in [
            &[("continue", "x")][..],
            &[at, ("resourceVersionMatch", "Exact")],
            &[at, limit],
            &[limit],
            &[at, watch, not_older],
            &[not_older],
            &[any, ("sendInitialEvents", "true")],
            &[any, ("fieldSelector", "spec.nodeName=a")],
            &[any, ("labelSelector", "a in (")],
            &[("resourceVersion", "x")],
            &[any, ("timeoutSeconds", "x")],
            &[any, ("pretty", "true")],
            &[watch, ("allowWatchBookmarks", "yes")],
        ] {
            assert!(options(query).is_none(), "{query:?}");
        }

        let found = |query: &[(&str, &str)]| options(query).map(|options| options.version);
        assert_eq!(found(&[any, limit]), Some(Version::Any));
        assert_eq!(found(&[at, not_older]), Some(Version::From(7)));
        assert_eq!(found(&[at, watch]), Some(Version::From(7)));
        assert_eq!(found(&[]), Some(Version::MostRecent));

        let bookmarks = ("allowWatchBookmarks", "true");
        let watched = options(&[watch, at, bookmarks, ("timeoutSeconds", "300")]);
        let watched = watched.expect("is answered");
        assert!(watched.bookmarks && watched.timeout == Some(Duration::from_secs(300)));

        let streamed = options(&[watch, not_older, ("sendInitialEvents", "true")]);
        assert!(streamed.is_some_and(|options| options.initial_events));
    }

    #[test]
    fn first_clause_decides_about_the_form() {
        let metadata = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
        let in_protobuf =
            "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
        let table = "application/json;as=Table;v=v1;g=meta.k8s.io";
        for (accept, form) in [
            ("application/json", Some(Form::Whole)),
            ("application/json, */*", Some(Form::Whole)),
            (
                "application/vnd.kubernetes.protobuf, */*",
                Some(Form::Whole),
            ),
            (
                "application/vnd.kubernetes.protobuf,application/json",
                Some(Form::Whole),
            ),
            ("*/*", Some(Form::Whole)),
            (metadata, Some(Form::Metadata)),
            (
                &format!("{in_protobuf},{metadata},application/json"),
                Some(Form::Metadata),
            ),
            (&format!("{in_protobuf},application/json"), None),
            (&format!("{table},application/json"), None),
            ("application/vnd.kubernetes.protobuf", None),
            ("application/yaml", None),
            ("application/json;q=0.5,application/yaml", None),
            ("application/json;stream=watch", None),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(ACCEPT, HeaderValue::from_str(accept).expect("a value"));
            assert_eq!(Form::accepted(&headers, true), form, "{accept}");
            // A list of them is a kind of its own.
            let of_list = accept.replace("PartialObjectMetadata", "PartialObjectMetadataList");
            headers.insert(ACCEPT, HeaderValue::from_str(&of_list).expect("a value"));
            assert_eq!(Form::accepted(&headers, false), form, "{of_list}");
            if form == Some(Form::Metadata) {
                assert_eq!(Form::accepted(&headers, true), None, "{of_list}");
            }
        }
        assert_eq!(Form::accepted(&HeaderMap::new(), true), Some(Form::Whole));
    }
}
