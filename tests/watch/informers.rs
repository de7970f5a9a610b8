//! Reports of a host on its informers, at /informers, by `operetta informers` and in its metrics.

use operetta_testkit::{
    ControlPlane, DropIn, Host, HostOptions, eventually, kinds, wat_guest::Guest,
};
use serde_json::{Value, json};

/// Returns a guest that watches ControllerRevisions.
fn guest() -> Guest {
    let source =
        json!({"apiVersion": "apps/v1", "kind": "ControllerRevision", "namespaces": "Own"});
    Guest::default().controllers(&json!([{"name": "c", "for": source}]))
}

/// The informers of a kind.
fn of_kind<'a>(view: &'a Value, kind: &str) -> Vec<&'a Value> {
    view["informers"]
        .as_array()
        .expect("informers")
        .iter()
        .filter(|one| one["kind"] == kind)
        .collect()
}

#[tokio::test]
async fn informers_show_plugins_and_progress() {
    const KIND: &str = "ControllerRevision.apps/v1";
    let control_plane = ControlPlane::shared().await;
    let host = Host::start(control_plane, &HostOptions::default()).await;
    let namespace = control_plane.namespace("informers").await;
    namespace.allow_all("plugin").await;

    for name in ["first", "second"] {
        namespace.drop_in(&DropIn::new(name, guest().build())).await;
        namespace
            .until_condition(name, "Ready", "True", "Running")
            .await;
    }

    let revision = json!({"metadata": {"name": "r"}, "data": {}, "revision": 1});
    let made = namespace
        .create_object(
            operetta_testkit::Kind("apps/v1", "ControllerRevision"),
            revision,
        )
        .await;
    let made: u64 = made["metadata"]["resourceVersion"]
        .as_str()
        .and_then(|text| text.parse().ok())
        .expect("a version");

    let address = host.admin_address().to_owned();
    let view = eventually("the informer has the object", async || {
        let output = host.run(&["informers", "--host", &address, "-o", "json"]);
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        let view: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        let found = of_kind(&view, KIND);
        if found.len() == 1 && found[0]["objects"] == 1 {
            Ok(view)
        } else {
            Err(view.to_string())
        }
    })
    .await;

    let found = of_kind(&view, KIND)[0];
    let users = json!(["first", "second"].map(|name| format!("{}/{name}", namespace.name())));
    assert_eq!(
        (&found["users"], &found["synced"], &found["error"]),
        (&users, &json!(true), &json!(null)),
        "{found}"
    );
    assert_eq!(found["namespace"], json!(null), "{found}");

    let number = |field: &str| {
        found[field]
            .as_u64()
            .unwrap_or_else(|| panic!("{field} of {found}"))
    };
    assert!(
        number("bytes") > 0 && number("watches") > 0 && number("heardSeconds") < 60,
        "{found}"
    );
    assert!(
        number("revision") >= made && number("serverRevision") >= made,
        "{found}"
    );
    assert_eq!(
        found["current"],
        number("revision") >= number("serverRevision"),
        "{found}"
    );

    // Objects that are selected are shown apart, and the host is named where it watches for itself.
    let maps = of_kind(&view, "ConfigMap.v1");
    let dropped = maps
        .iter()
        .find(|one| one["labelSelector"] == "operetta.dev/plugin=true")
        .expect("the host's own");
    assert_eq!(
        (&dropped["users"], &dropped["metadataOnly"]),
        (&json!(["host"]), &json!(true)),
        "{dropped}"
    );

    // The Plugins name the host, and the table for people has the same content.
    for (args, words) in [
        (&[][..], &["USERS", "CURRENT"][..]),
        (&["-o", "wide"], &["SERVER", "operetta.dev/plugin=true"]),
    ] {
        let output = host.run(&[&["informers"], args].concat());
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        let line = text
            .lines()
            .find(|line| line.starts_with(KIND))
            .unwrap_or_else(|| panic!("no {KIND} in {text}"));
        assert!(
            line.ends_with(&format!("{0}/first,{0}/second", namespace.name())),
            "{line}"
        );
        assert!(words.iter().all(|word| text.contains(word)), "{text}");
    }

    let nobody = host.run(&["informers", "--host", "127.0.0.1:1"]);
    assert_eq!(nobody.status.code(), Some(1));
    let url = host.run(&[
        "informers",
        "--host",
        &format!("http://{address}/"),
        "-o",
        "json",
    ]);
    assert!(
        url.status.success(),
        "{}",
        String::from_utf8_lossy(&url.stderr)
    );

    let secure = host.run(&["informers", "--host", &format!("https://{address}")]);
    let refused = String::from_utf8_lossy(&secure.stderr);
    assert!(
        secure.status.code() == Some(2) && refused.contains("the host serves plain HTTP"),
        "{refused}"
    );

    // Metrics are by kind alone.
    let kind = format!("kind=\"{KIND}\"");
    assert!((host.metric("operetta_informer_objects", &[&kind]) - 1.0).abs() < 0.5);
    let watches = host.metric("operetta_informer_watches_total", &[&kind]);

    assert!(watches >= 1.0, "{watches}");
    let metrics = host.metrics();
    let lines: Vec<_> = metrics
        .lines()
        .filter(|line| line.starts_with("operetta_informer"))
        .collect();
    let series: std::collections::BTreeSet<_> = lines
        .iter()
        .filter_map(|line| line.rsplit_once(' '))
        .map(|(series, _)| series)
        .collect();
    assert_eq!(series.len(), lines.len(), "a series twice: {lines:?}");
    assert!(
        lines
            .iter()
            .all(|line| !line.contains("namespace=") && !line.contains("labels=")),
        "{lines:?}"
    );

    // They end with their last plugin; what was counted stays.
    for name in ["first", "second"] {
        namespace.delete(kinds::CONFIG_MAP, name).await;
        namespace.until_gone(kinds::PLUGIN, name).await;
    }
    eventually("the informer is gone", async || {
        let output = host.run(&["informers", "--host", &address, "-o", "json"]);
        let view: Value =
            serde_json::from_slice(&output.stdout).map_err(|error| error.to_string())?;
        if of_kind(&view, KIND).is_empty() {
            Ok(())
        } else {
            Err(view.to_string())
        }
    })
    .await;

    assert!(host.metric("operetta_informer_watches_total", &[&kind]) >= watches);
}
