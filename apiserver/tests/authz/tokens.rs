//! Requests and reviews of tokens.

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use operetta_apiserver::authn::{
    authenticate::Authenticator,
    token_request::{self, TokenRequest},
    token_review,
    user::User,
};
use serde_json::{Value, json};

use crate::{
    impersonation::{NOW, authenticator, forget_credential, token},
    status,
    store::Store,
    table,
};

fn world() -> (Vec<Value>, Store, String) {
    let mut lines = table(include_str!("tokens.json"));
    let world = lines.remove(0);
    let mut store = Store::default();
    for object in world["objects"].as_array().expect("objects") {
        store.put(object.clone());
    }
    let namespace = world["namespace"].as_str().expect("a namespace").to_owned();
    (lines, store, namespace)
}

fn claims(token: &str) -> Value {
    let payload = token.split('.').nth(1).expect("three parts");
    serde_json::from_slice(&URL_SAFE_NO_PAD.decode(payload).expect("base64")).expect("JSON")
}

#[test]
fn tokens_are_requested_as_from_kubernetes() {
    let (lines, store, _) = world();
    let authenticator = authenticator();
    assert!(lines.len() >= 30);

    for line in &lines {
        let text = |field: &str| line[field].as_str().unwrap_or_default();
        let request = TokenRequest {
            namespace: text("namespace"),
            name: text("name"),
            object: &line["body"],
            token_id: "id".to_owned(),
            now: NOW,
        };

        match token_request::request_token(&authenticator, &request, &store) {
            Err(error) => assert_eq!(error.to_value(), status(&line["answer"]), "{line}"),
            Ok(mut answer) => {
                assert_eq!(line["code"], 201, "{line}");

                let mut claims = claims(answer["status"]["token"].as_str().expect("a token"));
                relative(&mut claims);
                assert_eq!(claims, line["claims"], "{line}");

                let seconds = answer["spec"]["expirationSeconds"]
                    .as_i64()
                    .expect("seconds");

                let expires: jiff::Timestamp = answer["status"]["expirationTimestamp"]
                    .as_str()
                    .expect("a time")
                    .parse()
                    .expect("a time");
                assert_eq!(expires.as_second(), NOW + seconds);

                answer.as_object_mut().expect("an object").remove("status");
                answer["metadata"]
                    .as_object_mut()
                    .expect("an object")
                    .remove("creationTimestamp");
                assert_eq!(answer, line["answer"], "{line}");
            }
        }
    }
}

/// Makes the times of claims relative to the request, and drops the ID.
fn relative(claims: &mut Value) {
    for pointer in ["/iat", "/nbf", "/exp", "/kubernetes.io/warnafter"] {
        if let Some(time) = claims.pointer_mut(pointer) {
            *time = json!(time.as_i64().expect("seconds") - NOW);
        }
    }
    assert_eq!(claims["jti"], "id");
    claims.as_object_mut().expect("an object").remove("jti");
}

#[test]
fn tokens_are_reviewed_as_by_kubernetes() {
    let (_, store, namespace) = world();
    let authenticator = authenticator();
    let lines = table(include_str!("token_reviews.json"));
    assert!(lines.len() >= 20);

    for line in &lines {
        let token = line_token(&authenticator, &store, &namespace, &line["token"]);

        let mut later = Store::default();
        let objects = table(include_str!("tokens.json")).remove(0)["objects"].take();
        for object in objects.as_array().expect("objects") {
            if json!([object["kind"], object["metadata"]["name"]]) != line["token"]["deleted"] {
                later.put(object.clone());
            }
        }

        let mut review = json!({"kind": "TokenReview", "spec": {"token": token}});
        if !line["audiences"].is_null() {
            review["spec"]["audiences"] = line["audiences"].clone();
        }

        match token_review::review_token(&authenticator, &review, &later, NOW) {
            Err(error) => assert_eq!(error.to_value(), status(&line["answer"]), "{line}"),
            Ok(answer) => {
                let mut given = answer["status"].clone();
                let mut expected = line["answer"]["status"].clone();
                forget_credential(&mut given["user"]);
                forget_credential(&mut expected["user"]);

                assert_eq!(given, expected, "{line}");
                assert_eq!(answer["spec"], review["spec"]);
            }
        }
    }
}

fn line_token(authenticator: &Authenticator, store: &Store, namespace: &str, of: &Value) -> String {
    if let Some(text) = of["text"].as_str() {
        return text.to_owned();
    }

    if of["static"].is_string() {
        return "admin-token".to_owned();
    }

    if let Some(account) = of["forged"].as_str() {
        let token = token(authenticator, store, namespace, account, &json!({}));
        return format!(
            "{}{}",
            &token[..token.len() - 8],
            if token.ends_with('A') {
                "BBBBBBBB"
            } else {
                "AAAAAAAA"
            }
        );
    }

    let spec = json!({"audiences": of["audiences"], "boundObjectRef": of["ref"]});
    token(
        authenticator,
        store,
        namespace,
        of["account"].as_str().expect("an account"),
        &spec,
    )
}

#[test]
fn token_is_valid_only_in_its_time() {
    let (_, store, namespace) = world();
    let authenticator = authenticator();
    let token = token(
        &authenticator,
        &store,
        &namespace,
        "target",
        &json!({"expirationSeconds": 600}),
    );

    let header = format!("Bearer {token}");

    // Clocks may be off by a minute.
    for (now, valid) in [
        (-61, false),
        (-60, true),
        (0, true),
        (660, true),
        (661, false),
    ] {
        let user = authenticator.authenticate(Some(&header), &store, NOW + now);
        assert_eq!(user.is_ok(), valid, "after {now} s");
    }
}

#[test]
fn unknown_token_is_unauthorized_and_no_token_is_anonymous() {
    let (_, store, _) = world();
    let authenticator = authenticator();
    let mut world = table(include_str!("tokens.json"));

    let error = authenticator
        .authenticate(Some("Bearer nope"), &store, NOW)
        .expect_err("an unknown token");
    assert_eq!(error.to_value(), status(&world[0]["unauthorized"].take()));
    assert_eq!(
        authenticator.authenticate(None, &store, NOW),
        Ok(User::anonymous())
    );
    assert_eq!(
        authenticator.authenticate(Some("Basic eDp5"), &store, NOW),
        Ok(User::anonymous())
    );
}

#[test]
fn self_review_shows_the_user() {
    let user = User::new("jane", &["devs"]);
    let review = token_review::review_self(
        &json!({"kind": "SelfSubjectReview", "apiVersion": "authentication.k8s.io/v1"}),
        &user,
        "2026-01-01T00:00:00Z",
    );
    assert_eq!(
        review["status"],
        json!({"userInfo": {"username": "jane", "groups": ["devs"]}})
    );
}
