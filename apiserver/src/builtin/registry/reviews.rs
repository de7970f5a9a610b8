//! Resources that answer questions and store nothing: reviews of access and of tokens, and requests
//! for tokens.

use std::sync::Arc;

use serde_json::Value;

use crate::{
    apimachinery::{options::FieldValidation, status::Status},
    apply::fields::tracked,
    authn::{
        authenticate::Authenticator,
        token_request::{TokenRequest, request_token},
        token_review::{review_self, review_token},
    },
    authz::{
        objects::Objects,
        rbac::Rbac,
        reviews::{ReviewKind, review_access, review_rules},
    },
    builtin,
    server::{Environment, Handler, HandlerRequest, format_time, objects::StoredObjects},
    store::GroupResource,
};

/// The code of a review's answer.
const CREATED: u16 = 201;

/// The seconds for which a token is valid, unless the client says otherwise.
const DEFAULT_EXPIRATION: i64 = 3600;

/// The kinds of questions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Question {
    /// The access of a user.
    Access(ReviewKind),
    /// The rights of the user that asks.
    Rules,
    /// The owner of a token.
    Token,
    /// The user that asks.
    SelfSubject,
    /// A token for a ServiceAccount.
    TokenRequest,
}

impl Question {
    /// Returns the question that a built-in resource answers, if it is one.
    pub fn of(group: &str, resource: &str) -> Option<Self> {
        Some(match (group, resource) {
            ("authorization.k8s.io", "subjectaccessreviews") => Self::Access(ReviewKind::Subject),
            ("authorization.k8s.io", "localsubjectaccessreviews") => {
                Self::Access(ReviewKind::Local)
            }
            ("authorization.k8s.io", "selfsubjectaccessreviews") => {
                Self::Access(ReviewKind::SelfSubject)
            }
            ("authorization.k8s.io", "selfsubjectrulesreviews") => Self::Rules,
            ("authentication.k8s.io", "tokenreviews") => Self::Token,
            ("authentication.k8s.io", "selfsubjectreviews") => Self::SelfSubject,
            _ => return None,
        })
    }
}

/// Answers the questions of one kind.
pub(crate) struct Reviewer {
    pub question: Question,
    pub kind: String,
    pub api_version: String,
    pub objects: Arc<StoredObjects>,
    pub authenticator: Arc<Authenticator>,
    pub environment: Environment,
}

impl Reviewer {
    fn answer(&self, request: &HandlerRequest<'_>, body: &Value) -> Result<Value, Status> {
        let (objects, user, now) = (
            &*self.objects,
            &request.attributes.user,
            request.now.as_second(),
        );

        let attributes = request.attributes;
        match self.question {
            Question::Access(kind) => {
                review_access(&Rbac::new(objects), kind, body, &attributes.namespace, user)
            }
            Question::Rules => review_rules(&Rbac::new(objects), body, user),
            Question::Token => review_token(&self.authenticator, body, objects, now),
            Question::SelfSubject => Ok(review_self(body, user, &format_time(request.now))),
            Question::TokenRequest => {
                let request = TokenRequest {
                    namespace: &attributes.namespace,
                    name: &attributes.name,
                    object: body,
                    token_id: self.environment.uid(),
                    now,
                };

                request_token(&self.authenticator, &request, objects)
            }
        }
    }

    /// Returns a request for a token with its defaults and its managed fields.
    fn token_request(&self, request: &HandlerRequest<'_>) -> Result<Value, Status> {
        if request.body.is_null() {
            let cause = "couldn't get version/kind; json parse error: unexpected end of JSON input (<empty>)";
            let message = format!(
                "the object provided is unrecognized (must be of type {}): {cause}",
                self.kind
            );
            return Err(Status::bad_request(message));
        }

        let decoded = builtin::decode_value(
            &self.api_version,
            &self.kind,
            &self.typed(&request.body),
            FieldValidation::Ignore,
        )?;
        let mut object = decoded.object;

        if request.body["spec"]["audiences"]
            .as_array()
            .is_some_and(Vec::is_empty)
        {
            // An empty list is another value than none: it has a manager.
            object["spec"]["audiences"] = Value::Array(Vec::new());
        }

        if object["spec"]["expirationSeconds"].is_null() {
            object["spec"]["expirationSeconds"] = DEFAULT_EXPIRATION.into();
        }

        Ok(tracked(
            object,
            &request.attributes.subresource,
            request.manager,
            request.now,
        ))
    }

    /// Returns the body, with a type if it names none.
    fn typed(&self, body: &Value) -> Value {
        let mut body = if body.is_object() {
            body.clone()
        } else {
            Value::Object(serde_json::Map::new())
        };

        body["kind"] = self.kind.as_str().into();
        body["apiVersion"] = self.api_version.as_str().into();
        body
    }
}

impl Handler for Reviewer {
    fn handle(&self, request: &HandlerRequest<'_>) -> Result<(u16, Value), Status> {
        let body = match self.question {
            Question::TokenRequest => self.token_request(request)?,
            _ => self.typed(&request.body),
        };
        self.answer(request, &body).map(|answer| (CREATED, answer))
    }
}

/// Refuses a resource or subresource that this server does not have.
pub(crate) struct NotImplemented {
    pub objects: Arc<StoredObjects>,
    /// The resource, or the resource with its subresource.
    pub what: String,
}

impl Handler for NotImplemented {
    fn handle(&self, request: &HandlerRequest<'_>) -> Result<(u16, Value), Status> {
        let attributes = request.attributes;
        // A proxy's path has the scheme and the port around the name.
        let mut parts = attributes.name.split(':');
        let first = parts.next().unwrap_or_default();
        let name = parts
            .next()
            .filter(|_| attributes.subresource == "proxy")
            .unwrap_or(first);
        let (group, resource) = (attributes.group.as_str(), attributes.resource.as_str());

        if !attributes.subresource.is_empty()
            && self
                .objects
                .get(group, resource, &attributes.namespace, name)
                .is_none()
        {
            return Err(Status::not_found(
                &GroupResource::new(group, resource),
                name,
            ));
        }

        Err(Status::not_implemented(&self.what))
    }
}
