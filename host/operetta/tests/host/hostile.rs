//! Guests of the hostile corpus whose words pass the sandbox: what they name reaches no other path of the API server.

use operetta_testkit::{DropIn, hostile::Fixture};

use crate::Stage;

#[tokio::test]
async fn hostile_names_reach_no_other_path() {
    let stage = Stage::new("hostile-names").await;
    stage.namespace.create_touchable("target").await;
    for (fixture, words) in [
        ("name_with_slashes", r#""../../kube-system/secrets/x" cannot be a name"#),
        ("name_with_line_breaks", r#"Impersonate-User: admin\r\n" cannot be a name"#),
        ("namespace_of_dots", r#"".." cannot be a namespace"#),
        ("kind_of_a_path", "ConfigMap/../Secret"),
        ("version_of_a_path", r#"".." cannot be"#),
        ("raw_path_with_dots", "is no path of the API"),
        ("raw_header_with_line_breaks", "cannot be answered"),
        ("raw_method_with_line_breaks", "is not GET, POST, PUT, PATCH or DELETE"),
    ] {
        let name = fixture.replace('_', "-");
        stage.namespace.drop_in(&DropIn::new(&name, Fixture::of(fixture).build())).await;
        stage.namespace.until_degraded(&name, "ReconcileFailing", &[words]).await;
    }
    let audit = stage.namespace.control_plane().audit();
    let as_them = format!("system:serviceaccount:{}:plugin", stage.namespace.name());
    let reads = audit.done_by(|event| event.impersonated_user.username == as_them && event.verb == "get");
    assert_eq!(reads.map(|event| &event.request_uri).next(), None, "no read of theirs went out");
    stage.others_go_on().await;
}
