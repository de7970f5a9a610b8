//! TokenReview and SelfSubjectReview: who a token or a request belongs to.

use serde_json::{Map, Value, json};

use crate::{
    apimachinery::status::Status,
    authn::{authenticate::Authenticator, user::User},
    authz::objects::{Objects, text, texts},
};

/// Answers the creation of a TokenReview.
///
/// # Errors
/// `BadRequest` if the review has no token.
pub fn review_token(
    authenticator: &Authenticator,
    review: &Value,
    objects: &dyn Objects,
    now: i64,
) -> Result<Value, Status> {
    let token = text(review, &["spec", "token"]);
    if token.is_empty() {
        return Err(Status::bad_request(
            "token is required for TokenReview in authentication".to_owned(),
        ));
    }

    let mut wanted: Vec<String> = texts(&review["spec"]["audiences"])
        .map(str::to_owned)
        .collect();
    if wanted.is_empty() {
        wanted = authenticator.audiences();
    }

    // The token is reviewed as the header of a request, where a space ends it, and no token is an
    // anonymous user.
    let status = match token.split(' ').next().filter(|token| !token.is_empty()) {
        None => {
            json!({"authenticated": true, "user": User::anonymous().info(), "audiences": wanted})
        }
        Some(token) => match authenticator.authenticate_token(token, &wanted, objects, now) {
            Ok(authenticated) => json!({
                "authenticated": true, "user": authenticated.user.info(), "audiences": authenticated.audiences,
            }),
            Err(error) => json!({"user": {}, "error": error.to_string()}),
        },
    };

    Ok(with_status(review, status))
}

/// Answers the creation of a SelfSubjectReview by a user. `created` is the time of the answer, as
/// RFC 3339.
pub fn review_self(review: &Value, user: &User, created: &str) -> Value {
    let mut answer = with_status(review, json!({"userInfo": user.info()}));
    answer["metadata"]["creationTimestamp"] = created.into();
    answer
}

/// Returns a review with a status, and with metadata, which all answers have.
pub(crate) fn with_status(review: &Value, status: Value) -> Value {
    let mut answer = review.as_object().cloned().unwrap_or_default();
    answer
        .entry("metadata")
        .or_insert_with(|| Value::Object(Map::new()));
    answer.insert("status".to_owned(), status);

    Value::Object(answer)
}
