//! Retries of a split Plugin: each replica retries the keys in its own shards.

use axum::{
    Json,
    body::{Body, to_bytes},
    response::{IntoResponse, Response},
};
use futures::future::join_all;

use crate::plugin::retry::Retried;

/// The maximum size of a replica's result, in bytes.
const MAX_RESULT: usize = 1 << 20;

/// Adds up the results of a retry on all replicas with shards of the Plugin. Errors matter only if
/// no replica succeeded: this one may have no shard, for example.
pub(super) async fn sum_of(others: Vec<Response>, own: Response) -> Response {
    let others = join_all(others.into_iter().map(result)).await;
    let has_others = others.iter().any(Result::is_err);
    let mut error = None;
    let mut results = Vec::new();

    for one in others.into_iter().chain([result(own).await]) {
        match one {
            Ok(retried) => results.push(retried),
            Err(response) => error = error.or(Some(response)),
        }
    }

    match (sum(results), error) {
        (Some(retried), _) => Json(Retried {
            has_others,
            ..retried
        })
        .into_response(),
        (None, Some(error)) => error,
        (None, None) => Json(Retried::default()).into_response(),
    }
}

/// Parses the result in a response, or returns the error response.
async fn result(response: Response) -> Result<Retried, Response> {
    if !response.status().is_success() {
        return Err(response);
    }
    let (head, body) = response.into_parts();
    let bytes = to_bytes(body, MAX_RESULT).await.unwrap_or_default();
    serde_json::from_slice(&bytes).map_err(|_| Response::from_parts(head, Body::from(bytes)))
}

/// Adds up results. A key is unknown if no replica has it.
fn sum(results: Vec<Retried>) -> Option<Retried> {
    results.into_iter().reduce(|mut sum, next| {
        sum.keys += next.keys;
        sum.unknown.retain(|key| next.unknown.contains(key));
        sum
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn retried(keys: usize, unknown: &[&str]) -> Retried {
        let unknown = unknown.iter().map(|key| (*key).to_owned()).collect();
        Retried {
            keys,
            unknown,
            has_others: true,
        }
    }

    #[test]
    fn key_is_unknown_if_no_replica_has_it() {
        let sum = sum(vec![
            retried(2, &["a", "b", "c"]),
            retried(1, &["c", "b", "d"]),
        ])
        .expect("a sum");
        assert_eq!(
            (sum.keys, sum.unknown),
            (3, vec!["b".to_owned(), "c".to_owned()])
        );
    }

    #[tokio::test]
    async fn result_of_an_error_is_its_response() {
        let refused = result((http::StatusCode::CONFLICT, "does not run").into_response()).await;
        assert_eq!(
            refused.expect_err("an error").status(),
            http::StatusCode::CONFLICT
        );
        let found = result(Json(retried(2, &[])).into_response())
            .await
            .expect("a result");
        assert_eq!(found, retried(2, &[]));
    }
}
