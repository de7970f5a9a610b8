//! Guests of the hostile corpus whose words pass the sandbox: what they name reaches no other path
//! of the API server.

use operetta_testkit::{AuditEvent, DropIn, hostile::Fixture};

use crate::Stage;

#[tokio::test]
async fn hostile_names_reach_no_other_path() {
    let stage = Stage::new("hostile-names").await;
    stage.namespace.create_touchable("target").await;
    for (fixture, words) in [
        (
            "name_with_slashes",
            r#"no object can have the name "../../kube-system/secrets/x""#,
        ),
        ("name_with_line_breaks", r#"Impersonate-User: admin\r\n""#),
        ("namespace_of_dots", r#"".." is not a valid namespace"#),
        ("kind_of_a_path", "ConfigMap/../Secret"),
        ("version_of_a_path", "invalid apiVersion"),
        (
            "version_of_a_collection",
            "\"apps/v1/namespaces/victim/deployments\" is not `version` or `group/version`",
        ),
        (
            "version_of_a_watch",
            "\"apps/v1/watch/deployments\" is not `version` or `group/version`",
        ),
        ("raw_path_with_dots", "is not an API path"),
        ("raw_header_with_line_breaks", "is not supported"),
        ("patch_of_a_proxy", "proxy needs a stream"),
        ("patch_of_a_path", "is not a valid subresource"),
        ("name_of_a_query", "no object can have the name"),
        ("list_of_a_path", "is not a valid namespace"),
        ("raw_path_of_a_url", "is not an API path"),
        ("raw_query_of_semicolons", "the query has an unencoded ';'"),
        (
            "raw_delete_of_duplicate_fields",
            "is not DeleteOptions in JSON",
        ),
        ("raw_watch_escaped", "a watch needs a stream"),
        (
            "raw_method_with_line_breaks",
            "is not GET, POST, PUT, PATCH or DELETE",
        ),
    ] {
        let name = fixture.replace('_', "-");
        stage
            .namespace
            .drop_in(&DropIn::new(&name, Fixture::of(fixture).build()))
            .await;

        // An object of an impossible name will never exist.
        let reason = if fixture.starts_with("name_") {
            "TerminalError"
        } else {
            "ReconcileFailing"
        };
        let message = stage
            .namespace
            .until_degraded(&name, reason, &[words])
            .await;
        println!("{fixture}: {message}");
    }

    let audit = stage.namespace.control_plane().audit();
    let as_them = format!("system:serviceaccount:{}:plugin", stage.namespace.name());
    let reads =
        audit.done_by(|event| event.impersonated_user.username == as_them && event.verb == "get");
    assert_eq!(
        reads.map(|event| &event.request_uri).next(),
        None,
        "no read of theirs went out"
    );

    let of_victim = |event: &&AuditEvent| {
        ["namespaces/victim", "/watch/"]
            .iter()
            .any(|part| event.request_uri.contains(part))
    };
    let by_anybody = audit.done_by(|_| true).find(of_victim);
    assert_eq!(
        by_anybody.map(|event| &event.request_uri),
        None,
        "the host asked for none of it either"
    );

    stage.others_keep_working().await;
}
