//! Cheap probes of a collection: its current resourceVersion, and whether it can be listed and
//! watched.

use std::time::Duration;

use operetta_core::{
    object::selector::required_name,
    status::{ApiError, ErrorKind},
};
use serde::Deserialize;

use crate::{
    client::{api_client::ApiClient, requests},
    discovery::ApiResource,
    informer::Scope,
};

const PARTIAL: &str = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io";

/// A collection's current resourceVersion, from a list of one object's metadata. Omits the label
/// selector: it doesn't affect the version, and the API server would search for a matching object.
///
/// # Errors
/// The API server's error, or `TimedOut` after `deadline`.
pub async fn revision(
    api_client: &ApiClient,
    resource: &ApiResource,
    scope: &Scope,
    deadline: Duration,
) -> Result<String, ApiError> {
    // If permission is limited to one name, the request must name it.
    let fields = if required_name(&scope.fields).is_some() {
        scope.fields.clone()
    } else {
        String::new()
    };

    ask(
        api_client,
        resource,
        &Scope {
            labels: String::new(),
            fields,
            ..scope.clone()
        },
        deadline,
    )
    .await
}

/// Whether the objects of a scope can be listed now.
///
/// # Errors
/// Same as [`revision`].
pub async fn listable(
    api_client: &ApiClient,
    resource: &ApiResource,
    scope: &Scope,
    deadline: Duration,
) -> Result<(), ApiError> {
    ask(api_client, resource, scope, deadline).await.map(drop)
}

/// Whether the objects of a scope can be watched as well. Takes a second.
///
/// # Errors
/// Same as [`revision`].
pub async fn watchable(
    api_client: &ApiClient,
    resource: &ApiResource,
    scope: &Scope,
    deadline: Duration,
) -> Result<(), ApiError> {
    let from = ask(api_client, resource, scope, deadline).await?;
    let pairs = [
        ("watch", "true"),
        ("timeoutSeconds", "1"),
        ("resourceVersion", &from),
    ];
    let request = requests::collection(resource, scope, &pairs, "application/json")?;
    within(deadline, api_client.send(request)).await.map(drop)
}

async fn ask(
    api_client: &ApiClient,
    resource: &ApiResource,
    scope: &Scope,
    deadline: Duration,
) -> Result<String, ApiError> {
    #[derive(Deserialize)]
    struct List {
        metadata: Metadata,
    }

    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Metadata {
        resource_version: String,
    }

    let request = requests::collection(resource, scope, &[("limit", "1")], PARTIAL)?;
    let text = within(deadline, api_client.send(request)).await?;
    let list: Result<List, _> = serde_json::from_str(&text);
    let list = list.map_err(|error| {
        ApiError::new(
            ErrorKind::Other,
            format!("list of {}: {error}", resource.plural),
        )
    })?;

    Ok(list.metadata.resource_version)
}

async fn within(
    deadline: Duration,
    answer: impl Future<Output = Result<String, ApiError>>,
) -> Result<String, ApiError> {
    let timed_out = |_| {
        ApiError::new(
            ErrorKind::TimedOut,
            format!("no response from the API server within {deadline:?}"),
        )
    };
    tokio::time::timeout(deadline, answer)
        .await
        .map_err(timed_out)?
}
