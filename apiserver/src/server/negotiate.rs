//! Media types: what a client sends and what it accepts.

use http::{HeaderMap, header};

use super::resource::Flavor;
use crate::apimachinery::status::{Details, Status};

/// The media types that a path has beside the others when it serves watches.
const STREAM_TYPES: &str =
    ", application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch";
/// The media types of objects that the API server has. This server reads the last one, protobuf,
/// and does not write it.
const OBJECT_TYPES: &str =
    "application/json, application/yaml, application/vnd.kubernetes.protobuf";

const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

/// The encoding of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// JSON.
    Json,
    /// YAML.
    Yaml,
    /// Protobuf, of requests only.
    Protobuf,
}

/// The form in which a client wants objects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Form {
    /// Whole objects.
    Object,
    /// A table, of this version of `meta.k8s.io`.
    Table(String),
    /// Only the metadata, of this version of `meta.k8s.io`.
    Partial(String),
    /// A list of metadata.
    PartialList(String),
}

/// The encoding and the form that a client accepts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Accepted {
    /// The encoding.
    pub encoding: Encoding,
    /// The form.
    pub form: Form,
    /// Reports whether JSON is wanted on several lines.
    pub pretty: bool,
}

impl Default for Accepted {
    fn default() -> Self {
        Self {
            encoding: Encoding::Json,
            form: Form::Object,
            pretty: false,
        }
    }
}

/// A media type with its parameters.
#[derive(Clone, Debug, Default)]
pub struct MediaType {
    /// Such as `application/json`, in lower case.
    pub essence: String,
    /// The parameters.
    pub parameters: Vec<(String, String)>,
}

impl MediaType {
    /// Parses one media type.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let mut parts = text.split(';').map(str::trim);
        let essence = parts.next().unwrap_or_default().to_ascii_lowercase();
        let parameters = parts
            .filter_map(|part| part.split_once('='))
            .map(|(name, value)| {
                (
                    name.trim().to_ascii_lowercase(),
                    value.trim().trim_matches('"').to_owned(),
                )
            })
            .collect();

        Self {
            essence,
            parameters,
        }
    }

    /// Returns a parameter.
    #[must_use]
    pub fn parameter(&self, name: &str) -> Option<&str> {
        self.parameters
            .iter()
            .find(|(key, _)| key == name)
            .map(|(_, value)| value.as_str())
    }

    fn quality(&self) -> f32 {
        self.parameter("q")
            .and_then(|text| text.parse().ok())
            .unwrap_or(1.0)
    }
}

/// Returns the media types that a client accepts, the preferred ones first.
#[must_use]
pub fn accept_list(headers: &HeaderMap) -> Vec<MediaType> {
    let text = headers
        .get(header::ACCEPT)
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default();
    let mut types: Vec<MediaType> = text.split(',').map(MediaType::parse).collect();
    types.sort_by(|left, right| right.quality().total_cmp(&left.quality()));

    types
}

/// Chooses the encoding and the form of an answer with objects.
///
/// # Errors
///
/// 406 when the client accepts nothing that the server has.
pub fn negotiate(headers: &HeaderMap) -> Result<Accepted, Status> {
    let types = accept_list(headers);
    let candidates = types
        .iter()
        .filter_map(|media| Some((media, encoding_of(&media.essence)?)));
    for (media, encoding) in candidates {
        if let Some(form) = form_of(media) {
            let pretty = media.parameter("pretty").is_some_and(|value| value == "1");
            return Ok(Accepted {
                encoding,
                form,
                pretty,
            });
        }
    }

    if types.iter().any(|media| media.essence == PROTOBUF) {
        return Err(Status::not_implemented("answers in protobuf"));
    }

    Err(Status::not_acceptable(format!(
        "only the following media types are accepted: {OBJECT_TYPES}"
    )))
}

fn encoding_of(essence: &str) -> Option<Encoding> {
    match essence {
        "" | "*/*" | "application/*" | "application/json" => Some(Encoding::Json),
        "application/yaml" => Some(Encoding::Yaml),
        _ => None,
    }
}

fn form_of(media: &MediaType) -> Option<Form> {
    let Some(kind) = media.parameter("as") else {
        return Some(Form::Object);
    };

    let version = media
        .parameter("v")
        .filter(|version| matches!(*version, "v1" | "v1beta1"))?
        .to_owned();

    if media.parameter("g") != Some("meta.k8s.io") {
        return None;
    }

    match kind {
        "Table" => Some(Form::Table(version)),
        "PartialObjectMetadata" => Some(Form::Partial(version)),
        "PartialObjectMetadataList" => Some(Form::PartialList(version)),
        _ => None,
    }
}

/// Checks that the client accepts any representation that the path has, before anything else is
/// looked at.
///
/// # Errors
///
/// 406 in the words of the router.
pub fn check_routable(headers: &HeaderMap, is_stream: bool) -> Result<(), Status> {
    let types = accept_list(headers);
    let known =
        |media: &MediaType| encoding_of(&media.essence).is_some() || media.essence == PROTOBUF;
    if types.iter().any(known) {
        return Ok(());
    }

    let streams = if is_stream { STREAM_TYPES } else { "" };
    let message =
        format!("406: Not Acceptable\n\nAvailable representations: {OBJECT_TYPES}{streams}");

    Err(Status::not_acceptable(message).with_details(Details::default()))
}

/// Returns the encoding of a request's body.
///
/// # Errors
///
/// 415 for other media types.
pub fn content_encoding(headers: &HeaderMap) -> Result<Encoding, Status> {
    let media = content_type(headers);
    match media.essence.as_str() {
        "" | "application/json" => Ok(Encoding::Json),
        "application/yaml" => Ok(Encoding::Yaml),
        PROTOBUF => Ok(Encoding::Protobuf),
        _ => Err(Status::unsupported_media_type(format!(
            "the body of the request was in an unknown format - accepted media types include: {OBJECT_TYPES}"
        ))),
    }
}

/// Returns the media type of a request's body.
#[must_use]
pub fn content_type(headers: &HeaderMap) -> MediaType {
    headers
        .get(header::CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .map(MediaType::parse)
        .unwrap_or_default()
}

/// The kind of a patch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PatchKind {
    /// JSON patch, RFC 6902.
    Json,
    /// Merge patch, RFC 7386.
    Merge,
    /// Strategic merge patch.
    Strategic,
    /// Server-side apply.
    Apply,
}

/// Returns the kind of a patch from the media type of its body.
///
/// # Errors
///
/// 415 for other media types, and for strategic patches of custom resources.
pub fn patch_kind(headers: &HeaderMap, flavor: Flavor) -> Result<PatchKind, Status> {
    let media = content_type(headers);
    let kind = match media.essence.as_str() {
        "application/json-patch+json" => Some(PatchKind::Json),
        "application/merge-patch+json" => Some(PatchKind::Merge),
        "application/apply-patch+yaml" => Some(PatchKind::Apply),
        "application/strategic-merge-patch+json" if flavor == Flavor::BuiltIn => {
            Some(PatchKind::Strategic)
        }
        _ => None,
    };

    kind.ok_or_else(|| match flavor {
        Flavor::BuiltIn => Status::unsupported_media_type("415: Unsupported Media Type")
            .with_details(Details::default()),
        Flavor::Custom => Status::unsupported_media_type(
            "the body of the request was in an unknown format - accepted media types include: \
             application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml",
        ),
    })
}
