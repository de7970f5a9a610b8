//! Errors as the API server answers them: a `metav1.Status` with a reason, a message and details.

use std::borrow::Cow;

use serde_json::{Map, Value, json};

use super::{
    field::{FieldError, aggregate},
    group_resource::GroupResource,
};
use crate::golang::quote;

/// A refused request. The client sees it as a `Status` object.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Status {
    /// The HTTP status code.
    pub code: u16,
    /// The machine-readable reason, such as `NotFound`; `""` for errors without one.
    pub reason: Cow<'static, str>,
    /// The message for people.
    pub message: String,
    /// The details; `None` leaves them out.
    pub details: Option<Box<Details>>,
    /// The token with which an expired list goes on, or `""`.
    pub continue_token: String,
}

/// The details of a `Status`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Details {
    /// The name of the object.
    pub name: String,
    /// The API group.
    pub group: String,
    /// The kind, or the resource: the API server uses both.
    pub kind: String,
    /// The UID of the object.
    pub uid: String,
    /// The causes.
    pub causes: Vec<Cause>,
    /// The seconds after which the client may retry; 0 for none.
    pub retry_after_seconds: u32,
}

impl Details {
    /// Returns the details as JSON, without what is empty.
    #[must_use]
    pub fn to_value(&self) -> Value {
        let mut details = Map::new();
        let texts = [
            ("name", &self.name),
            ("group", &self.group),
            ("kind", &self.kind),
            ("uid", &self.uid),
        ];
        for (name, text) in texts {
            insert_text(&mut details, name, text);
        }
        if !self.causes.is_empty() {
            details.insert(
                "causes".into(),
                self.causes.iter().map(Cause::to_value).collect(),
            );
        }
        if self.retry_after_seconds > 0 {
            details.insert("retryAfterSeconds".into(), self.retry_after_seconds.into());
        }
        Value::Object(details)
    }
}

/// A cause in the details of a `Status`: one invalid field, or one message of an admission policy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cause {
    /// The machine-readable reason, such as `FieldValueInvalid`.
    pub reason: String,
    /// The message for people.
    pub message: String,
    /// The path of the field.
    pub field: String,
}

impl Cause {
    /// Returns the cause as JSON, without what is empty.
    #[must_use]
    pub fn to_value(&self) -> Value {
        let mut cause = Map::new();
        for (name, text) in [
            ("reason", &self.reason),
            ("message", &self.message),
            ("field", &self.field),
        ] {
            insert_text(&mut cause, name, text);
        }
        Value::Object(cause)
    }
}

fn insert_text(map: &mut Map<String, Value>, name: &str, text: &str) {
    if !text.is_empty() {
        map.insert(name.into(), text.into());
    }
}

impl Status {
    fn new(code: u16, reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            code,
            reason: Cow::Borrowed(reason),
            message: message.into(),
            details: None,
            continue_token: String::new(),
        }
    }

    /// Adds details.
    #[must_use]
    pub fn with_details(mut self, details: Details) -> Self {
        self.details = Some(Box::new(details));
        self
    }

    fn for_object(mut self, resource: &GroupResource, name: &str) -> Self {
        self.details = Some(Box::new(Details {
            name: name.into(),
            group: resource.group().into(),
            kind: resource.resource().into(),
            ..Details::default()
        }));
        self
    }

    /// An object that does not exist.
    #[must_use]
    pub fn not_found(resource: &GroupResource, name: &str) -> Self {
        let message = format!("{resource} {} not found", quote(name));
        Self::new(404, "NotFound", message).for_object(resource, name)
    }

    /// A path that names nothing.
    #[must_use]
    pub fn no_such_path() -> Self {
        Self::new(
            404,
            "NotFound",
            "the server could not find the requested resource",
        )
        .with_details(Details::default())
    }

    /// An object that exists already.
    #[must_use]
    pub fn already_exists(resource: &GroupResource, name: &str) -> Self {
        let message = format!("{resource} {} already exists", quote(name));
        Self::new(409, "AlreadyExists", message).for_object(resource, name)
    }

    /// A generated name that was taken, several times.
    #[must_use]
    pub fn generated_name_exists(resource: &GroupResource, name: &str) -> Self {
        let message = format!(
            "{resource} {} already exists, the server was not able to generate a unique name for the object",
            quote(name)
        );
        let mut error = Self::new(409, "AlreadyExists", message).for_object(resource, name);
        if let Some(details) = &mut error.details {
            details.retry_after_seconds = 1;
        }
        error
    }

    /// A write that conflicts with the stored object.
    #[must_use]
    pub fn conflict(resource: &GroupResource, name: &str, cause: &str) -> Self {
        let message = format!(
            "Operation cannot be fulfilled on {resource} {}: {cause}",
            quote(name)
        );
        Self::new(409, "Conflict", message).for_object(resource, name)
    }

    /// A write of an old version of the object.
    #[must_use]
    pub fn modified(resource: &GroupResource, name: &str) -> Self {
        let cause = "the object has been modified; please apply your changes to the latest version and try again";
        Self::conflict(resource, name, cause)
    }

    /// A request that is not allowed on this object.
    #[must_use]
    pub fn forbidden(resource: &GroupResource, name: &str, cause: &str) -> Self {
        let message = match (resource.to_string().as_str(), name) {
            ("", _) => format!("forbidden: {cause}"),
            (resource, "") => format!("{resource} is forbidden: {cause}"),
            (resource, name) => format!("{resource} {} is forbidden: {cause}", quote(name)),
        };
        Self::new(403, "Forbidden", message).for_object(resource, name)
    }

    /// An invalid object. `kind` is the kind of the object, or the resource where the API server
    /// names that.
    #[must_use]
    pub fn invalid(group: &str, kind: &str, name: &str, errors: impl AsRef<[FieldError]>) -> Self {
        let errors = errors.as_ref();
        let qualified = GroupResource::new(group, kind);
        let message = format!(
            "{qualified} {} is invalid: {}",
            quote(name),
            aggregate(errors)
        );
        let causes = errors.iter().map(FieldError::cause).collect();

        let details = Details {
            name: name.into(),
            group: group.into(),
            kind: kind.into(),
            causes,
            ..Details::default()
        };
        Self::new(422, "Invalid", message).with_details(details)
    }

    /// A request that cannot be understood.
    #[must_use]
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, "BadRequest", message)
    }

    /// An object in another namespace than that of the URL.
    #[must_use]
    pub fn other_namespace() -> Self {
        Self::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        )
    }

    /// An HTTP method that the path does not have.
    #[must_use]
    pub fn method_not_allowed() -> Self {
        let message = "the server does not allow this method on the requested resource";
        Self::new(405, "MethodNotAllowed", message).with_details(Details::default())
    }

    /// A verb that the resource does not have.
    #[must_use]
    pub fn verb_not_supported(resource: &GroupResource, verb: &str) -> Self {
        let message = format!("{verb} is not supported on resources of kind \"{resource}\"");
        Self::new(405, "MethodNotAllowed", message).for_object(resource, "")
    }

    /// A media type in `Accept` that the server does not have, of a resource.
    #[must_use]
    pub fn not_acceptable(message: impl Into<String>) -> Self {
        Self::new(406, "NotAcceptable", message)
    }

    /// A media type in `Content-Type` that the server does not have.
    #[must_use]
    pub fn unsupported_media_type(message: impl Into<String>) -> Self {
        Self::new(415, "UnsupportedMediaType", message)
    }

    /// A request for changes that are gone.
    #[must_use]
    pub fn expired(message: impl Into<String>) -> Self {
        Self::new(410, "Expired", message)
    }

    /// A revision that has been compacted: the objects have to be listed again.
    #[must_use]
    pub fn too_old_revision(requested: u64, oldest: u64) -> Self {
        Self::expired(format!("too old resource version: {requested} ({oldest})"))
    }

    /// A revision that is yet to come.
    #[must_use]
    pub fn too_large_revision(requested: u64, current: u64) -> Self {
        let message =
            format!("Timeout: Too large resource version: {requested}, current: {current}");
        let cause = Cause {
            reason: "ResourceVersionTooLarge".into(),
            message: "Too large resource version".into(),
            field: String::new(),
        };
        let details = Details {
            causes: vec![cause],
            retry_after_seconds: 1,
            ..Details::default()
        };
        Self::new(504, "Timeout", message).with_details(details)
    }

    /// A body that is too large.
    #[must_use]
    pub fn request_entity_too_large(limit: usize) -> Self {
        Self::new(
            413,
            "RequestEntityTooLarge",
            format!("Request entity too large: limit is {limit}"),
        )
    }

    /// A request that may be allowed later.
    #[must_use]
    pub fn too_many_requests(message: impl Into<String>) -> Self {
        Self::new(429, "TooManyRequests", message)
    }

    /// A request without valid credentials.
    #[must_use]
    pub fn unauthorized() -> Self {
        Self::new(401, "Unauthorized", "Unauthorized")
    }

    /// An error of the server, with the message that the API server gives it.
    #[must_use]
    pub fn internal(message: impl std::fmt::Display) -> Self {
        let cause = Cause {
            message: message.to_string(),
            ..Cause::default()
        };
        Self::new(
            500,
            "InternalError",
            format!("Internal error occurred: {message}"),
        )
        .with_details(Details {
            causes: vec![cause],
            ..Details::default()
        })
    }

    /// An error that the API server reports with code 500 and without a reason.
    #[must_use]
    pub fn plain(message: impl Into<String>) -> Self {
        Self::new(500, "", message)
    }

    /// A request that this server refuses, because it does not do what the API server does.
    #[must_use]
    pub fn unsupported(message: impl Into<String>) -> Self {
        Self::new(501, "NotImplemented", message)
    }

    /// As [`Status::unsupported`], with what is missing.
    #[must_use]
    pub fn not_implemented(what: &str) -> Self {
        Self::unsupported(format!("the embedded API server does not implement {what}"))
    }

    /// An invalid patch, as the API server rejects one that cannot be applied.
    #[must_use]
    pub fn unprocessable() -> Self {
        Self::new(
            422,
            "Invalid",
            "the server rejected our request due to an error in our request",
        )
        .with_details(Details::default())
    }

    /// Returns the error that a `Status` object describes.
    #[must_use]
    pub fn from_status(status: &Value) -> Self {
        let text = |value: &Value, name: &str| value[name].as_str().unwrap_or_default().to_owned();
        let code = status["code"]
            .as_u64()
            .and_then(|code| u16::try_from(code).ok())
            .unwrap_or(500);
        let details = status.get("details").map(|details| {
            let causes = details["causes"]
                .as_array()
                .map(Vec::as_slice)
                .unwrap_or_default()
                .iter();
            Box::new(Details {
                name: text(details, "name"),
                group: text(details, "group"),
                kind: text(details, "kind"),
                uid: text(details, "uid"),
                causes: causes
                    .map(|cause| Cause {
                        reason: text(cause, "reason"),
                        message: text(cause, "message"),
                        field: text(cause, "field"),
                    })
                    .collect(),
                retry_after_seconds: details["retryAfterSeconds"]
                    .as_u64()
                    .map_or(0, |seconds| seconds as u32),
            })
        });
        Self {
            code,
            reason: Cow::Owned(text(status, "reason")),
            message: text(status, "message"),
            details,
            continue_token: String::new(),
        }
    }

    /// Returns the `Status` object.
    #[must_use]
    pub fn to_value(&self) -> Value {
        let mut status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": self.message, "code": self.code,
        });
        if !self.reason.is_empty() {
            status["reason"] = self.reason.as_ref().into();
        }
        if !self.continue_token.is_empty() {
            status["metadata"]["continue"] = self.continue_token.as_str().into();
        }
        if let Some(details) = &self.details {
            status["details"] = details.to_value();
        }
        status
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::apimachinery::field::{Path, Shown};

    #[test]
    fn invalid_object_names_each_field() {
        let path = Path::new("a");
        let error = FieldError::not_supported(&path, Shown::text("x"), &["y", "z"]);
        let status = Status::invalid("example.com", "Foo", "one", [error]).to_value();

        let message = r#"Foo.example.com "one" is invalid: a: Unsupported value: "x": supported values: "y", "z""#;
        assert_eq!(status["message"], message);
        assert_eq!(
            status["details"]["causes"][0]["reason"],
            "FieldValueNotSupported"
        );
        assert_eq!(status["code"], 422);
    }
}
