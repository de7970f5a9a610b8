//! Reviews of access: what users may do.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Map, Value, json};

pub use crate::authz::review_validation::ReviewKind;
use crate::{
    apimachinery::{attributes::Attributes, field::aggregate, status::Status},
    authn::{token_review::with_status, user::User},
    authz::{
        objects::{text, texts},
        rbac::Rbac,
        review_selectors, review_validation,
        rules::PolicyRule,
    },
};

const GROUP: &str = "authorization.k8s.io";

/// Answers the creation of a SubjectAccessReview, LocalSubjectAccessReview or
/// SelfSubjectAccessReview.
///
/// `namespace` is that of the URL, and `user` sends the request.
///
/// # Errors
/// `Invalid` if the review is invalid, `BadRequest` if the namespace of a local review is another
/// than in the URL.
pub fn review_access(
    authorizer: &Rbac<'_>,
    kind: ReviewKind,
    review: &Value,
    namespace: &str,
    user: &User,
) -> Result<Value, Status> {
    let mut review = review.clone();
    if kind == ReviewKind::Local {
        set_namespace(&mut review, namespace)?;
    }

    let causes = review_validation::validate(kind, &review);
    if !causes.is_empty() {
        // kube-apiserver does not know the kind here, and answers without it.
        return Err(Status::invalid(GROUP, "", "", causes));
    }

    let spec = &review["spec"];
    let subject = if kind == ReviewKind::SelfSubject {
        user.clone()
    } else {
        subject(spec)
    };
    let attributes = attributes(spec, subject);
    let decision = authorizer.authorize(&attributes);
    let mut status = Map::new();

    status.insert("allowed".to_owned(), json!(decision.allowed));
    if !decision.reason.is_empty() {
        status.insert("reason".to_owned(), json!(decision.reason));
    }
    if let Some(error) = review_selectors::evaluation_error(&spec["resourceAttributes"]) {
        status.insert("evaluationError".to_owned(), json!(error));
    }

    review["spec"] = without_empty(review["spec"].take());

    Ok(with_status(&review, Value::Object(status)))
}

/// Drops the empty fields of a specification, which kube-apiserver does not encode; those of
/// requirements it does.
fn without_empty(value: Value) -> Value {
    let Value::Object(fields) = value else {
        return value;
    };

    let is_set = |(key, value): &(String, Value)| {
        !value.is_null()
            && *value != json!("")
            && *value != json!([])
            && !(key == "extra" && *value == json!({}))
    };

    Value::Object(
        fields
            .into_iter()
            .filter(is_set)
            .map(|(key, value)| (key, without_empty(value)))
            .collect(),
    )
}

/// Sets the namespace of a local review to that of the URL.
fn set_namespace(review: &mut Value, namespace: &str) -> Result<(), Status> {
    let given = text(review, &["metadata", "namespace"]);
    if !given.is_empty() && given != namespace {
        return Err(Status::other_namespace());
    }

    if let Some(fields) = review.as_object_mut() {
        let metadata = fields.entry("metadata").or_insert_with(|| json!({}));
        if let Some(metadata) = metadata.as_object_mut() {
            metadata.insert("namespace".to_owned(), json!(namespace));
        }
    }

    Ok(())
}

fn subject(spec: &Value) -> User {
    User {
        name: text(spec, &["user"]).to_owned(),
        uid: text(spec, &["uid"]).to_owned(),
        groups: texts(&spec["groups"]).map(str::to_owned).collect(),
        extra: BTreeMap::deserialize(&spec["extra"]).unwrap_or_default(),
    }
}

fn attributes(spec: &Value, user: User) -> Attributes {
    let resource = &spec["resourceAttributes"];
    if resource.is_null() {
        let path = &spec["nonResourceAttributes"];
        let field = |name| text(path, &[name]).to_owned();
        return Attributes {
            user,
            verb: field("verb"),
            path: field("path"),
            ..Attributes::default()
        };
    }

    let field = |name| text(resource, &[name]).to_owned();
    Attributes {
        user,
        verb: field("verb"),
        namespace: field("namespace"),
        group: field("group"),
        version: field("version"),
        resource: field("resource"),
        subresource: field("subresource"),
        name: field("name"),
        is_resource: true,
        ..Attributes::default()
    }
}

/// Answers the creation of a SelfSubjectRulesReview by a user.
///
/// # Errors
/// `BadRequest` if the review has no namespace.
pub fn review_rules(rbac: &Rbac<'_>, review: &Value, user: &User) -> Result<Value, Status> {
    let namespace = text(review, &["spec", "namespace"]);
    if namespace.is_empty() {
        return Err(Status::bad_request("no namespace on request".to_owned()));
    }

    let found = rbac.rules_for(user, namespace);
    let is_for = |urls: bool| {
        move |rule: &&PolicyRule| {
            if urls {
                !rule.non_resource_urls.is_empty()
            } else {
                !rule.resources.is_empty()
            }
        }
    };

    let resources: Vec<Value> = found
        .rules
        .iter()
        .filter(is_for(false))
        .map(resource_rule)
        .collect();

    let paths = found.rules.iter().filter(is_for(true));
    let paths: Vec<Value> = paths
        .map(|rule| json!({"verbs": rule.verbs, "nonResourceURLs": rule.non_resource_urls}))
        .collect();
    let mut status =
        json!({"resourceRules": resources, "nonResourceRules": paths, "incomplete": false});

    if !found.errors.is_empty() {
        status["evaluationError"] = json!(aggregate(
            &found
                .errors
                .iter()
                .map(ToString::to_string)
                .collect::<Vec<_>>()
        ));
    }

    let answer = json!({"kind": review["kind"], "apiVersion": review["apiVersion"], "metadata": {}, "spec": {}});
    Ok(with_status(&answer, status))
}

fn resource_rule(rule: &PolicyRule) -> Value {
    let fields = [
        ("verbs", &rule.verbs),
        ("apiGroups", &rule.api_groups),
        ("resources", &rule.resources),
        ("resourceNames", &rule.resource_names),
    ];
    let fields = fields
        .into_iter()
        .filter(|(name, values)| *name == "verbs" || !values.is_empty());

    Value::Object(
        fields
            .map(|(name, values)| (name.to_owned(), json!(values)))
            .collect(),
    )
}
