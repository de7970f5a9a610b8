//! The Plugins that each user sees.

use std::time::Duration;

use operetta_testkit::eventually;
use serde_json::{Value, json};

use crate::Stage;

fn find<'a>(plugins: &'a Value, namespace: &str, name: &str) -> Option<&'a Value> {
    plugins["plugins"]
        .as_array()?
        .iter()
        .find(|plugin| plugin["namespace"] == namespace && plugin["name"] == name)
}

#[tokio::test]
async fn user_sees_plugins_of_the_namespaces_where_it_may_list_them() {
    let stage = Stage::new("own").await;
    let other = Stage::new("other").await;
    stage.plugin().await;
    other.plugin().await;

    let administrator = stage.administrator("administrator");
    // Summaries are up to a second old.
    let all = eventually("both Plugins are listed as running", async || {
        let all = administrator.get("/page/api/plugins").await.json();
        let running = |stage: &Stage| {
            find(&all, stage.namespace.name(), "touch")
                .is_some_and(|plugin| plugin["state"] == "Running")
        };
        if running(&stage) && running(&other) {
            Ok(all)
        } else {
            Err(all.to_string())
        }
    })
    .await;

    assert_eq!(
        (&all["hidden"], all.get("forbidden")),
        (&json!(0), None),
        "{all}"
    );

    let nobody = stage.user("nobody", &[]);
    let none = nobody.get("/page/api/plugins").await.json();
    assert_eq!(none["plugins"], json!([]));
    assert!(none["hidden"].as_u64() >= Some(2), "{none}");

    let user = format!(
        "User \"system:serviceaccount:{}:nobody\" cannot list resource \"plugins\"",
        stage.namespace.name()
    );
    assert!(
        none["forbidden"]
            .as_str()
            .is_some_and(|text| text.starts_with(&user)),
        "{none}"
    );

    let html = nobody.get("/page/plugins").await.body;
    assert!(
        html.contains("cannot list resource &quot;plugins&quot;"),
        "{html}"
    );

    let tenant = stage.user("tenant", &["plugins.operetta.dev"]);
    let seen = tenant.get("/page/api/plugins").await.json();
    let own = find(&seen, stage.namespace.name(), "touch").expect("its own");
    assert_eq!(
        (own["state"].as_str(), own["needsAttention"].as_bool()),
        (Some("Running"), Some(false)),
        "{own}"
    );
    assert_eq!(own["runsOn"].as_array().map(Vec::len), Some(1), "{own}");

    assert!(
        own["digest"]
            .as_str()
            .is_some_and(|digest| digest.starts_with("sha256:")),
        "{own}"
    );
    assert!(
        find(&seen, other.namespace.name(), "touch").is_none()
            && seen["hidden"].as_u64() >= Some(1),
        "{seen}"
    );

    stage.host.assert_sound();
}

#[tokio::test]
async fn stream_has_the_rates_of_a_working_plugin() {
    let stage = Stage::new("rates").await;
    stage.plugin().await;
    let administrator = stage.administrator("administrator");
    let mut events = administrator.events("/page/api/plugins").await;
    let (name, _) = events.next().await;
    assert_eq!(name, "plugins");

    let work = async {
        for number in 0.. {
            stage
                .namespace
                .create_touchable(&format!("target-{number}"))
                .await;
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
    };

    let worked = |plugins: &Value| {
        find(plugins, stage.namespace.name(), "touch").is_some_and(|plugin| {
            plugin["reconcilesPerSecond"].as_f64() > Some(0.0) && plugin["p99Ms"].is_number()
        })
    };

    tokio::select! {
        _ = events.until("plugins", worked) => {}
        () = work => unreachable!("it has no end"),
    }
}

#[tokio::test]
async fn eleventh_stream_of_a_user_is_refused() {
    let stage = Stage::new("streams").await;
    let user = stage.user("user", &[]);
    let other = stage.user("other", &[]);

    let mut open = Vec::new();
    for _ in 0..10 {
        let mut events = user.events("/page/api/plugins").await;
        assert_eq!(events.next().await.0, "plugins");
        open.push(events);
    }

    let refused = user
        .request(
            "GET",
            "/page/api/plugins",
            &[("accept", "text/event-stream")],
            "",
        )
        .await;

    let reason = refused.json();
    assert_eq!(
        (refused.status, reason["reason"].as_str()),
        (429, Some("TooManyStreams")),
        "{reason}"
    );
    assert!(
        reason["message"]
            .as_str()
            .is_some_and(|text| text.contains("10 open streams")),
        "{reason}"
    );

    assert_eq!(
        other.events("/page/api/plugins").await.status,
        200,
        "another user is not affected"
    );

    drop(open.pop());
    eventually("a stream that was closed makes room", async || {
        match user.events("/page/api/plugins").await.status {
            200 => Ok(()),
            status => Err(status.to_string()),
        }
    })
    .await;
}
