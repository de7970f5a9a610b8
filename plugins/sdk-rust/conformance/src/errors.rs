//! Errors, one for each variant of the contract.

use operetta_sdk::k8s_openapi::api::core::v1::{ConfigMap, Secret};
use operetta_sdk::{ApiError, Error, ListOptions, Object};

use crate::{Case, Seen, words};

pub(crate) fn not_found(case: &Case<'_>) -> Seen {
    words(
        case.ctx
            .get::<ConfigMap>(case.map.key().beside("no-such-object")),
    )
}

pub(crate) fn already_exists(case: &Case<'_>) -> Seen {
    words(
        case.ctx
            .create(&case.config_map(case.wanted("target")?, &[])),
    )
}

pub(crate) fn conflict(case: &Case<'_>) -> Seen {
    let mut map: ConfigMap = case.ctx.get(case.target()?)?;
    map.metadata.resource_version = Some("1".to_owned());
    words(case.ctx.update(&map))
}

pub(crate) fn invalid(case: &Case<'_>) -> Seen {
    let mut map = case.config_map("error-invalid-made", &[]);
    map.labels_mut()
        .insert("conformance".to_owned(), "not/a/label".to_owned());
    let result = case.ctx.create(&map);
    let field = result
        .as_ref()
        .err()
        .and_then(|error| Some(error.status().causes.first()?.field.clone()));
    Ok(format!("{} {}", words(result)?, field.unwrap_or_default()))
}

pub(crate) fn bad_request(case: &Case<'_>) -> Seen {
    let options = ListOptions::in_namespace(case.namespace()).index("no-such-index", "x");
    words(case.ctx.list::<ConfigMap>(options))
}

pub(crate) fn forbidden(case: &Case<'_>) -> Seen {
    words(case.ctx.get_live::<Secret>(case.map.key().beside("hidden")))
}

fn refusal(case: &Case<'_>) -> Result<ApiError, Error> {
    let mut map = case.config_map(case.wanted("target")?, &[]);
    map.labels_mut()
        .insert("conformance".to_owned(), "refuse".to_owned());
    case.ctx
        .create(&map)
        .err()
        .ok_or_else(|| Error::msg("the webhook admitted it"))
}

pub(crate) fn refused(case: &Case<'_>) -> Seen {
    words::<()>(Err(refusal(case)?))
}

pub(crate) fn too_many_requests(case: &Case<'_>) -> Seen {
    let error = refusal(case)?;
    let after = error
        .status()
        .retry_after_seconds
        .map(|seconds| seconds.to_string());
    Ok(format!(
        "{} {}",
        words::<()>(Err(error))?,
        after.unwrap_or_default()
    ))
}
