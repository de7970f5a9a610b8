//! ServiceAccounts impersonate other users.

use std::{collections::BTreeMap, sync::Arc};

use operetta_apiserver::{
    apimachinery::status::Status,
    authn::{
        authenticate::{Authenticator, DEFAULT_ISSUER},
        signing::SigningKey,
        token_request::{self, TokenRequest},
        user::User,
    },
    authz::{impersonation::Impersonation, rbac::Rbac, request_info},
};
use serde_json::{Value, json};

use crate::{decisions::split, status, store::Store, table};

pub const NOW: i64 = 1_800_000_000;

/// An authenticator with a new key and one static token.
pub fn authenticator() -> Authenticator {
    let key = Arc::new(SigningKey::generate().expect("a key"));
    let admin = User {
        uid: "admin".to_owned(),
        ..User::new("admin", &["system:masters"])
    };
    Authenticator::new(key, DEFAULT_ISSUER).with_token("admin-token", admin)
}

/// A token of a ServiceAccount.
pub fn token(
    authenticator: &Authenticator,
    store: &Store,
    namespace: &str,
    account: &str,
    spec: &Value,
) -> String {
    let object = json!({"spec": spec});
    let request = TokenRequest {
        namespace,
        name: account,
        object: &object,
        token_id: "id".to_owned(),
        now: NOW,
    };

    let answer = token_request::request_token(authenticator, &request, store).expect("a token");
    answer["status"]["token"]
        .as_str()
        .expect("a token")
        .to_owned()
}

#[test]
fn impersonation_is_decided_as_by_kubernetes() {
    let mut lines = table(include_str!("impersonation.json"));
    let world = lines.remove(0);
    let store = Store::with_roles(world["objects"].as_array().expect("objects"));

    let namespace = world["namespace"].as_str().expect("a namespace");
    let authenticator = authenticator();
    let users: BTreeMap<&str, User> = world["tokens"]
        .as_object()
        .expect("tokens")
        .iter()
        .map(|(name, of)| {
            let account = of["account"].as_str().expect("an account");
            let token = token(
                &authenticator,
                &store,
                namespace,
                account,
                &json!({"boundObjectRef": of["ref"]}),
            );

            let user = authenticator.authenticate(Some(&format!("Bearer {token}")), &store, NOW);
            (name.as_str(), user.expect("a valid token"))
        })
        .collect();

    let mut impersonation = Impersonation::default();
    assert!(lines.len() >= 240);
    for line in &lines {
        let user = &users[line["as"].as_str().expect("an account")];
        let answer = request(&mut impersonation, &store, line, user);

        let expected = Some(&line["answer"])
            .filter(|answer| !answer.is_null())
            .map(status);

        match answer {
            Err(error) => assert_eq!(Some(error.to_value()), expected, "{line}"),
            Ok(user) => {
                assert_eq!(expected, None, "allowed: {line}");
                if !line["user"].is_null() {
                    let mut info = user.info();
                    // Each token has its own ID.
                    forget_credential(&mut info);

                    let mut expected = line["user"].clone();
                    forget_credential(&mut expected);
                    assert_eq!(info, expected, "{line}");
                }
            }
        }
    }
}

/// Drops the credential's ID, and the extra fields if there are no others.
pub fn forget_credential(info: &mut Value) {
    let Some(extra) = info["extra"].as_object_mut() else {
        info.as_object_mut().expect("an object").remove("extra");
        return;
    };
    extra.remove("authentication.kubernetes.io/credential-id");
    if extra.is_empty() {
        info.as_object_mut().expect("an object").remove("extra");
    }
}

fn request(
    impersonation: &mut Impersonation,
    store: &Store,
    line: &Value,
    user: &User,
) -> Result<User, Status> {
    let rbac = Rbac::new(store);
    let (path, query) = split(line["path"].as_str().expect("a path"));

    let method = line["method"].as_str().expect("a method");
    let mut attributes =
        request_info::attributes(user.clone(), method, &path, &query).expect("a resource");
    let headers: Vec<(String, String)> =
        serde_json::from_value(line["headers"].clone()).expect("headers");

    if let Some(impersonated) = impersonation.impersonate(&rbac, &attributes, &headers)? {
        attributes.user = impersonated.user;
    }

    rbac.require(&attributes)?;
    Ok(attributes.user)
}
