//! The functions of the behaviours.

use operetta_sdk::Error;

use crate::{Case, Seen, data, errors, reads, watches, writes};

pub(crate) fn run(case: &Case<'_>) -> Seen {
    match operetta_sdk::Object::name(&case.map) {
        "get-cached" => reads::get_cached(case),
        "get-live" => reads::get_live(case),
        "list-labels" => reads::list_labels(case),
        "list-fields" => reads::list_fields(case),
        "list-empty" => reads::list_empty(case),
        "list-paged" => reads::list_paged(case),
        "list-index" => reads::list_index(case),
        "list-label-index" => reads::list_label_index(case),
        "list-owner-index" => reads::list_owner_index(case),
        "list-owner" => reads::list_owner(case),
        "list-projection" => reads::list_projection(case),
        "read-own-write" => reads::read_own_write(case),
        "create" => writes::create(case),
        "create-dry-run" => writes::create_dry_run(case),
        "create-strict" => writes::create_strict(case),
        "create-warning" => writes::create_warning(case),
        "update" => writes::update(case),
        "update-status" => writes::update_status(case),
        "patch-merge" => writes::patch_merge(case),
        "patch-json" => writes::patch_json(case),
        "patch-apply" => writes::patch_apply(case),
        "patch-scale" => writes::patch_scale(case),
        "delete" => writes::delete(case),
        "delete-precondition" => writes::delete_precondition(case),
        "delete-orphan" => writes::delete_orphan(case),
        "error-not-found" => errors::not_found(case),
        "error-already-exists" => errors::already_exists(case),
        "error-conflict" => errors::conflict(case),
        "error-invalid" => errors::invalid(case),
        "error-bad-request" => errors::bad_request(case),
        "error-forbidden" => errors::forbidden(case),
        "error-expired" | "error-unavailable" | "error-timed-out" | "error-other" => {
            errors::refused(case)
        }
        "error-too-many-requests" => errors::too_many_requests(case),
        "raw-get" => data::raw_get(case),
        "raw-post" => data::raw_post(case),
        "raw-error" => data::raw_error(case),
        "raw-watch" => data::raw_watch(case),
        "event" => data::event(case),
        "log" => data::log(case),
        "config" => data::config(case),
        "create-or-update" => writes::create_or_update(case),
        "owner-reference" => writes::owner_reference(case),
        "get-pruned" => watches::get_pruned(case),
        "unicode" => data::unicode(case),
        "big" => data::big(case),
        "null-or-missing" => data::null_or_missing(case),
        "int64" => data::int64(case),
        "quantity" => data::quantity(case),
        other => Err(Error::msg(format!("this plugin has no behaviour {other}"))),
    }
}
