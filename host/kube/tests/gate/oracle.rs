//! The oracle: sends a tenant's call to the API server as the tenant's ServiceAccount. Writes are
//! dry runs.

use http::Request;
use operetta_core::authz::access_review::ServiceAccount;

use crate::{
    call::{Act, Answer, Call},
    world::World,
};

/// Returns the API server's response to a tenant's call.
pub async fn answer(world: &World, account: &ServiceAccount, call: &Call) -> Answer {
    let request = call.request();
    let mut query = request.query.clone();
    if call.is_write() {
        let separator = if query.is_empty() { "" } else { "&" };
        query = format!("{query}{separator}dryRun=All");
    }
    let uri = if query.is_empty() {
        request.path
    } else {
        format!("{}?{query}", request.path)
    };
    let sent = Request::builder()
        .method(request.method.as_str())
        .uri(uri)
        .header(
            "content-type",
            request
                .content_type
                .as_deref()
                .unwrap_or("application/json"),
        )
        .header(
            "impersonate-user",
            format!(
                "system:serviceaccount:{}:{}",
                account.namespace, account.name
            ),
        )
        .body(request.body.unwrap_or_default().into_bytes())
        .expect("a request");
    match world.client.request_text(sent).await {
        Ok(text) => Answer { code: 200, text },
        Err(kube::Error::Api(status)) => Answer {
            code: status.code,
            text: status.message.clone(),
        },
        Err(error) => panic!("the API server did not answer {call:?}: {error}"),
    }
}

/// Returns the oracle's answer to a cached list of all namespaces, which has the objects of the
/// namespaces that the tenant may list. Returns None for other calls, and if there are no such
/// objects.
pub async fn parts(
    world: &World,
    account: &ServiceAccount,
    call: &Call,
    namespaces: &[String; 2],
) -> Option<Answer> {
    if call.act != Act::List || !call.cached || call.namespace.is_some() {
        return None;
    }
    let mut seen = Vec::new();
    for namespace in namespaces {
        let part = Call {
            namespace: Some(namespace.clone()),
            ..call.clone()
        };
        let answer = answer(world, account, &part).await;
        if answer.is_ok() && answer.text.contains("canary") {
            seen.push(answer.text);
        }
    }
    (!seen.is_empty()).then(|| Answer {
        code: 200,
        text: seen.join("\n"),
    })
}
