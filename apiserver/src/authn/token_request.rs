//! TokenRequest: the `token` subresource of a ServiceAccount.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::{
    apimachinery::{field::FieldError, group_resource::GroupResource, status::Status},
    authn::{
        authenticate::Authenticator,
        token_claims::{Claims, Kubernetes, Reference},
        user,
    },
    authz::objects::{Objects, text, texts},
    golang::quote,
};

const GROUP: &str = "authentication.k8s.io";
const KIND: &str = "TokenRequest";
const DEFAULT_SECONDS: i64 = 3600;
const MIN_SECONDS: i64 = 600;
const MAX_SECONDS: i64 = 1 << 32;
/// The lifetime that the kubelet asks for; a Pod's token with it lasts a year, for clients that
/// never read it again.
const EXTENDED_SECONDS: i64 = 3607;
const YEAR_SECONDS: i64 = 365 * 24 * 3600;

/// A request for a token of a ServiceAccount.
pub struct TokenRequest<'a> {
    /// The namespace in the URL.
    pub namespace: &'a str,
    /// The name of the ServiceAccount in the URL.
    pub name: &'a str,
    /// The TokenRequest object.
    pub object: &'a Value,
    /// A new UUID for the token.
    pub token_id: String,
    /// The time in seconds since 1970.
    pub now: i64,
}

/// Answers the creation of a TokenRequest.
///
/// # Errors
/// `NotFound` if the ServiceAccount or the bound object does not exist, `Invalid` for an invalid
/// lifetime or for another name than in the URL, `Conflict` for another UID, `BadRequest` for an
/// object that tokens cannot be bound to.
pub fn request_token(
    authenticator: &Authenticator,
    request: &TokenRequest<'_>,
    objects: &dyn Objects,
) -> Result<Value, Status> {
    check_metadata(request)?;
    let account = objects
        .get("", "serviceaccounts", request.namespace, request.name)
        .ok_or_else(|| {
            Status::not_found(&GroupResource::new("", "serviceaccounts"), request.name)
        })?;

    check_uid(request, &account)?;
    let spec = &request.object["spec"];
    let seconds = spec["expirationSeconds"]
        .as_i64()
        .unwrap_or(DEFAULT_SECONDS);
    check_lifetime(seconds)?;

    let mut audiences: Vec<String> = texts(&spec["audiences"]).map(str::to_owned).collect();
    if audiences.is_empty() {
        audiences = authenticator.audiences();
    }

    let mut kubernetes = Kubernetes {
        namespace: request.namespace.to_owned(),
        serviceaccount: Reference::to(&account),
        ..Kubernetes::default()
    };

    bind(request, &spec["boundObjectRef"], objects, &mut kubernetes)?;
    let mut lifetime = seconds;
    let is_own = audiences
        .iter()
        .all(|audience| authenticator.audiences().contains(audience));
    if kubernetes.pod.is_some() && seconds == EXTENDED_SECONDS && is_own {
        kubernetes.warnafter = Some(request.now + seconds);
        lifetime = YEAR_SECONDS;
    }

    let claims = Claims {
        aud: audiences.clone(),
        exp: request.now + lifetime,
        iat: request.now,
        iss: authenticator.issuer.clone(),
        jti: request.token_id.clone(),
        kubernetes,
        nbf: request.now,
        sub: user::account_user_name(request.namespace, request.name),
    };

    let token = serde_json::to_value(&claims)
        .map_err(|error| Status::internal(format!("failed to generate token: {error}")))
        .and_then(|claims| {
            let signed = authenticator.key.sign(&claims);
            signed.map_err(|error| Status::internal(format!("failed to generate token: {error}")))
        })?;

    Ok(answer(request, &account, &audiences, seconds, &token))
}

fn answer(
    request: &TokenRequest<'_>,
    account: &Value,
    audiences: &[String],
    seconds: i64,
    token: &str,
) -> Value {
    let api_version = text(request.object, &["apiVersion"]);
    let mut metadata = request.object["metadata"]
        .as_object()
        .cloned()
        .unwrap_or_default();
    metadata.insert("name".to_owned(), json!(request.name));
    metadata.insert("namespace".to_owned(), json!(request.namespace));
    metadata.insert("uid".to_owned(), account["metadata"]["uid"].clone());
    metadata.insert(
        "creationTimestamp".to_owned(),
        json!(timestamp(request.now)),
    );

    json!({
        "kind": KIND, "apiVersion": if api_version.is_empty() { "authentication.k8s.io/v1" } else { api_version },
        "metadata": metadata,
        "spec": {
            "audiences": audiences, "expirationSeconds": seconds,
            "boundObjectRef": request.object["spec"]["boundObjectRef"],
        },
        "status": {"token": token, "expirationTimestamp": timestamp(request.now + seconds)},
    })
}

/// Returns a time as RFC 3339 with seconds.
fn timestamp(seconds: i64) -> String {
    jiff::Timestamp::from_second(seconds)
        .map(|time| time.to_string())
        .unwrap_or_default()
}

fn check_metadata(request: &TokenRequest<'_>) -> Result<(), Status> {
    let namespace = text(request.object, &["metadata", "namespace"]);
    if !namespace.is_empty() && namespace != request.namespace {
        return Err(Status::other_namespace());
    }

    let name = text(request.object, &["metadata", "name"]);
    if !name.is_empty() && name != request.name {
        let cause = FieldError::invalid(
            "metadata.name",
            json!(name),
            "must match the service account name if specified",
        );
        return Err(Status::invalid(GROUP, KIND, request.name, vec![cause]));
    }

    Ok(())
}

fn check_uid(request: &TokenRequest<'_>, account: &Value) -> Result<(), Status> {
    let given = text(request.object, &["metadata", "uid"]);
    let actual = text(account, &["metadata", "uid"]);
    if given.is_empty() || given == actual {
        return Ok(());
    }

    let cause = format!(
        "the UID in the token request ({given}) does not match the UID of the service account ({actual})"
    );
    Err(Status::conflict(
        &GroupResource::new(GROUP, KIND),
        request.name,
        &cause,
    ))
}

fn check_lifetime(seconds: i64) -> Result<(), Status> {
    let detail = match seconds {
        ..MIN_SECONDS => "may not specify a duration less than 10 minutes",
        MIN_SECONDS..=MAX_SECONDS => return Ok(()),
        _ => "may not specify a duration larger than 2^32 seconds",
    };
    let cause = FieldError::invalid("spec.expirationSeconds", json!(seconds), detail);

    Err(Status::invalid(GROUP, KIND, "", vec![cause]))
}

/// Looks up the object that the token is to be bound to, and adds it to the claims.
fn bind(
    request: &TokenRequest<'_>,
    reference: &Value,
    objects: &dyn Objects,
    claims: &mut Kubernetes,
) -> Result<(), Status> {
    if reference.is_null() {
        return Ok(());
    }

    let (group, version) = match text(reference, &["apiVersion"]).split_once('/') {
        Some((group, version)) => (group, version),
        None => ("", text(reference, &["apiVersion"])),
    };
    let kind = text(reference, &["kind"]);
    let name = text(reference, &["name"]);
    let (resource, namespace) = match (group, kind) {
        ("", "Pod") => ("pods", request.namespace),
        ("", "Secret") => ("secrets", request.namespace),
        ("", "Node") => ("nodes", ""),
        _ => {
            let kind = format!("{group}/{version}, Kind={kind}");
            return Err(Status::bad_request(format!(
                "cannot bind token to object of type {kind}"
            )));
        }
    };

    let object = objects
        .get("", resource, namespace, name)
        .ok_or_else(|| Status::not_found(&GroupResource::new("", resource), name))?;
    let bound = Reference::to(&object);

    if kind == "Pod" {
        claims.node = pod_node(request, &object, objects)?;
    }

    check_bound_uid(group, kind, name, text(reference, &["uid"]), &bound)?;
    match kind {
        "Pod" => claims.pod = Some(bound),
        "Secret" => claims.secret = Some(bound),
        _ => claims.node = Some(bound),
    }

    Ok(())
}

fn pod_node(
    request: &TokenRequest<'_>,
    pod: &Value,
    objects: &dyn Objects,
) -> Result<Option<Reference>, Status> {
    if text(pod, &["spec", "serviceAccountName"]) != request.name {
        return Err(Status::bad_request(format!(
            "cannot bind token for serviceaccount {} to pod running with different serviceaccount name.",
            quote(request.name)
        )));
    }

    let node = text(pod, &["spec", "nodeName"]);
    if node.is_empty() {
        return Ok(None);
    }

    let object: Option<Arc<Value>> = objects.get("", "nodes", "", node);
    let unknown = || Reference {
        name: node.to_owned(),
        uid: String::new(),
    };

    Ok(Some(
        object.map_or_else(unknown, |object| Reference::to(&object)),
    ))
}

fn check_bound_uid(
    group: &str,
    kind: &str,
    name: &str,
    given: &str,
    bound: &Reference,
) -> Result<(), Status> {
    if given.is_empty() || given == bound.uid {
        return Ok(());
    }

    let cause = format!(
        "the UID in the bound object reference ({given}) does not match the UID in record. The object might have been \
         deleted and then recreated"
    );
    Err(Status::conflict(
        &GroupResource::new(group, kind),
        name,
        &cause,
    ))
}
