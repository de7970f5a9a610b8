//! Quotas of processors and of requests: a plugin over its quota waits, is counted and loses
//! nothing, and the others do not notice. Also the quota of cached bytes, and the audit of what
//! plugins write meanwhile.

use std::time::{Duration, Instant};

use operetta_testkit::{
    AuditEvent, ControlPlane, DropIn, Host, HostOptions, Kind, LogLine, TestNamespace, any_schema,
    crd, eventually, guest, kinds, wat_guest::Guest,
};
use serde_json::{Value, json};

const CLAIM: Kind = Kind("test.operetta.dev/v1", "Claim");
const OWNED: Kind = Kind("test.operetta.dev/v1", "Owned");
const SPARE: Kind = Kind("test.operetta.dev/v1", "Spare");

/// The workers of a plugin that all wait for its quota of requests.
const WORKERS: usize = 64;
/// The longest time from the withdrawal of consent until the last write of the plugin, by the API
/// server's clock.
const LIMIT: Duration = Duration::from_secs(1);

async fn stage(control_plane: &'static ControlPlane, prefix: &str) -> TestNamespace<'static> {
    let namespace = control_plane.namespace(prefix).await;
    namespace.allow_all("plugin").await;
    namespace.create_touchable("target").await;
    namespace
}

#[tokio::test]
async fn plugin_over_quota_waits_alone() {
    let control_plane = ControlPlane::shared().await;
    let audit = control_plane.folder().join("audit-of-plugins.jsonl");
    // The plugins watch ConfigMaps, so the host also caches those with code for them: about two
    // megabytes.
    // One request after another reaches five a second even where everything else is slow.
    let plugin = format!("{{cpu: {CPU}, apiQps: 5, apiBurst: 5, cacheBytes: 3000000}}");
    let namespace = "{cpu: 1, plugins: 3, controllers: 4, queuedKeys: 300}";
    let config = format!(
        "quotas: {{plugin: {plugin}, namespace: {namespace}}}\nauditFile: {}",
        audit.display()
    );

    let options = HostOptions {
        config,
        ..HostOptions::default()
    };

    let mut host = Host::start(control_plane, &options).await;
    let noisy = stage(control_plane, "noisy").await;

    let misbehaving = |name: &str, what: &str| {
        DropIn::new(name, guest("fixture-misbehave")).config(json!({"do": what}))
    };
    noisy.drop_in(&misbehaving("spins", "loop")).await;
    noisy.drop_in(&misbehaving("floods", "call-flood")).await;
    let of = |plugin: &str| format!("plugin=\"{plugin}\"");

    let began = Instant::now();
    for (plugin, quota) in [("spins", "quota=\"cpu\""), ("floods", "quota=\"api\"")] {
        eventually(&format!("{plugin} is throttled"), async || {
            let throttled = host.metric(
                "operetta_plugin_throttled_seconds_total",
                &[&of(plugin), quota],
            );
            let used = host.metric("operetta_plugin_cpu_seconds_total", &[&of(plugin)]);
            // On a busy machine a guest that spins may get less than its quota.
            let is_short = began.elapsed() > Duration::from_secs(30)
                && used < CPU * began.elapsed().as_secs_f64();
            if throttled > 0.5 || (plugin == "spins" && used > 0.0 && is_short) {
                return Ok(());
            }
            Err(format!("{throttled} s, used {used} s"))
        })
        .await;
    }

    let calls = host.metric(
        "operetta_plugin_calls_total",
        &[&of("floods"), "verb=\"get\""],
    );
    assert!(calls > 5.0, "{calls} calls");
    println!("a flood of requests was throttled after {calls} calls");

    let quiet = stage(control_plane, "quiet").await;
    quiet
        .drop_in(&DropIn::new("touch", guest("fixture-touch-v1")))
        .await;

    for number in 0..20 {
        quiet.create_touchable(&format!("target-{number}")).await;
    }
    for number in 0..20 {
        quiet.until_touched(&format!("target-{number}"), "v1").await;
    }

    // Each write is in the audit: who, as whom, what, and which fields.
    for number in 0..20 {
        let object = format!("{}/target-{number}", quiet.name());
        // The plugin's object can be seen before the host has its response and writes the line.
        let line = eventually(
            &format!("the audit has a line about {object}"),
            async || {
                let text = std::fs::read_to_string(&audit).map_err(|error| error.to_string())?;
                let whole = text
                    .lines()
                    .filter_map(|line| serde_json::from_str::<Value>(line).ok());
                let of_object =
                    |line: &Value| line["object"] == object.as_str() && line["result"] == "ok";
                whole
                    .into_iter()
                    .find(of_object)
                    .ok_or_else(|| "none yet".to_owned())
            },
        )
        .await;

        assert_eq!(line["plugin"], format!("{}/touch", quiet.name()));
        assert_eq!(
            line["serviceAccount"],
            format!("system:serviceaccount:{}:plugin", quiet.name())
        );
        assert_eq!(
            (&line["verb"], &line["changed"]),
            (&json!("update"), &json!([".data"]))
        );
        assert_eq!(line["key"], object.as_str());
    }

    let seconds = host.metric("operetta_plugin_cpu_seconds_total", &[&of("touch")]);
    assert!(seconds > 0.0, "what it took is counted");
    waiting_requests_end_with_consent(control_plane, &host).await;
    who_makes_the_host_cache_too_much(control_plane, &host).await;
    invented_owners_wait_for_room(control_plane, &host).await;
    throttled_plugin_says_what_it_waits_for(control_plane).await;
    older_plugins_stay_when_the_host_restarts(control_plane, &mut host).await;

    host.assert_sound();
}

/// A quota that bites is seen where people look: many workers wait for five requests a second.
async fn throttled_plugin_says_what_it_waits_for(control_plane: &'static ControlPlane) {
    let namespace = stage(control_plane, "throttled").await;
    let path = format!("/api/v1/namespaces/{}/configmaps/target", namespace.name());
    let requests = vec![json!({"method": "GET", "path": path}); 20];
    for number in 0..16 {
        namespace
            .create_touchable(&format!("target-{number}"))
            .await;
    }
    let code = DropIn::new("code", guest("fixture-misbehave")).code();
    namespace.create_object(kinds::CONFIG_MAP, code).await;
    let spec = json!({
        "source": {"configMap": {"name": "code"}}, "serviceAccountName": "plugin",
        "config": {"do": "send", "requests": requests}, "controllers": [{"name": "misbehave", "workers": 16}],
    });
    let plugin = json!({"metadata": {"name": "asks"}, "spec": spec});
    namespace.create_object(kinds::PLUGIN, plugin).await;

    let message = namespace
        .until_condition("asks", "Throttled", "True", "Throttled")
        .await;
    assert!(
        message.contains("its requests waited") && message.contains("(quotas.plugin.apiQps)"),
        "{message}"
    );
    let event = namespace
        .until_event(kinds::PLUGIN, "asks", "Throttled")
        .await;
    assert_eq!(event, message);
}

/// Requests that wait for their quota when consent is withdrawn are not sent. Those of all workers
/// would take thirteen seconds.
async fn waiting_requests_end_with_consent(control_plane: &'static ControlPlane, host: &Host) {
    let namespace = stage(control_plane, "waiting").await;
    let path = format!("/api/v1/namespaces/{}/configmaps/written", namespace.name());
    let write = |number: u32| {
        json!({
            "method": "PATCH", "path": path, "contentType": "application/merge-patch+json",
            "body": format!(r#"{{"data":{{"number":"{number}"}}}}"#),
        })
    };

    let requests: Vec<Value> = (0..100).map(write).collect();
    namespace
        .create_object(kinds::CONFIG_MAP, json!({"metadata": {"name": "written"}}))
        .await;

    for number in 0..WORKERS {
        namespace
            .create_touchable(&format!("target-{number}"))
            .await;
    }

    let code = DropIn::new("code", guest("fixture-misbehave")).code();
    namespace.create_object(kinds::CONFIG_MAP, code).await;

    let spec = json!({
        "source": {"configMap": {"name": "code"}}, "serviceAccountName": "plugin",
        "config": {"do": "send", "requests": requests}, "controllers": [{"name": "misbehave", "workers": WORKERS}],
    });
    namespace
        .create_object(
            kinds::PLUGIN,
            json!({"metadata": {"name": "waits"}, "spec": spec}),
        )
        .await;

    // The sum over all requests: for sixty-four of them it is a hundred seconds.
    let labels = ["plugin=\"waits\"", "quota=\"api\""];
    eventually("most workers wait for the quota", async || {
        let waiting = host.metric("operetta_plugin_throttled_seconds_total", &labels);
        let sent = control_plane.audit().writes_in(namespace.name()).count();
        if waiting > 60.0 && sent > 20 {
            Ok(())
        } else {
            Err(format!("{waiting} s of waiting, {sent} writes"))
        }
    })
    .await;

    let withdrawal = json!({"metadata": {"annotations": {"operetta.dev/allow-plugins": null}}});
    namespace
        .patch(kinds::SERVICE_ACCOUNT, "plugin", withdrawal)
        .await;
    namespace
        .until_degraded("waits", "ConsentMissing", &["operetta.dev/allow-plugins"])
        .await;

    tokio::time::sleep(Duration::from_secs(4)).await;
    let audit = control_plane.audit();
    let of_namespace = |event: &&AuditEvent| event.object_ref.namespace == namespace.name();
    let patches = audit.done("patch", "serviceaccounts").filter(of_namespace);
    let withdrawn = patches.map(AuditEvent::at).max().expect("a patch");

    let last = audit
        .writes_in(namespace.name())
        .map(AuditEvent::received)
        .max()
        .expect("writes");
    let later = audit
        .writes_in(namespace.name())
        .filter(|event| event.received() > withdrawn)
        .count();

    let late = last.duration_since(withdrawn).as_secs_f64();
    println!(
        "{later} of {WORKERS} waiting writes were sent after the withdrawal, the last {late:.3} s after it"
    );
    assert!(
        late <= LIMIT.as_secs_f64(),
        "{later} writes after the withdrawal, the last {late} s after it"
    );
}

/// The processor seconds of a plugin in each second.
const CPU: f64 = 0.1;

/// The Secrets of 100 kB, together more than a plugin may make the host cache.
const LARGE: usize = 36;

/// First its reads go to the API server; if what its controllers watch is too much by itself, they
/// stop.
async fn who_makes_the_host_cache_too_much(control_plane: &'static ControlPlane, host: &Host) {
    let namespace = stage(control_plane, "large").await;

    for number in 0..LARGE {
        let data = json!({"large": "x".repeat(100_000)});
        let secret = json!({"metadata": {"name": format!("large-{number}")}, "stringData": data});
        namespace.create_object(kinds::SECRET, secret).await;
    }

    let path = format!("/api/v1/namespaces/{}/secrets/large-0", namespace.name());
    let config =
        json!({"do": "send", "requests": [{"method": "GET", "path": path, "cached": true}]});
    namespace
        .drop_in(&DropIn::new("reads", guest("fixture-misbehave")).config(config))
        .await;

    let cached = |plugin: &str| {
        let labels = [
            format!("plugin=\"{plugin}\""),
            format!("namespace=\"{}\"", namespace.name()),
        ];
        host.metric("operetta_plugin_cached_bytes", &[&labels[0], &labels[1]])
    };

    let answers = || {
        let lines = host.logs(namespace.name(), "reads");
        let status = |line: &LogLine| {
            line.fields
                .iter()
                .any(|(name, value)| name == "status" && value == "200")
        };
        lines.iter().filter(|line| status(line)).count()
    };

    let words = "reads of kinds that it does not watch are answered by the API server, because its cacheBytes quota is used up";
    namespace
        .until(
            kinds::PLUGIN,
            "reads",
            |plugin| match plugin["status"]["message"].as_str() {
                Some(message) if message.contains(words) => Ok(()),
                other => Err(format!("{other:?}")),
            },
        )
        .await;
    let throttled = namespace
        .until_condition("reads", "Throttled", "True", "Throttled")
        .await;
    assert!(
        throttled.contains("cacheBytes of the host's configuration"),
        "{throttled}"
    );
    eventually("its informer is given up", async || match cached("reads") {
        bytes if bytes < 3_000_000.0 => Ok(()),
        bytes => Err(format!("{bytes} bytes")),
    })
    .await;

    let before = answers();
    assert!(before > 0, "the cache answered");
    namespace.create_touchable("another").await;
    eventually("the API server answers", async || {
        if answers() > before {
            Ok(())
        } else {
            Err(before.to_string())
        }
    })
    .await;

    let controllers =
        json!([{"name": "c", "for": {"apiVersion": "v1", "kind": "Secret", "namespaces": "Own"}}]);
    let watches = Guest::default().controllers(&controllers).build();
    namespace.drop_in(&DropIn::new("watches", watches)).await;
    let words = ["quotas.plugin.cacheBytes is 3000000"];
    namespace
        .until_degraded("watches", "CacheQuotaExceeded", &words)
        .await;
    namespace
        .until_condition("watches", "Ready", "False", "CacheQuotaExceeded")
        .await;
    namespace
        .until_event(kinds::PLUGIN, "watches", "CacheQuotaExceeded")
        .await;

    // What it watches has become less, and a person touches the Plugin to say so.
    for number in 1..LARGE {
        namespace
            .delete(kinds::SECRET, &format!("large-{number}"))
            .await;
    }
    namespace
        .patch(
            kinds::PLUGIN,
            "watches",
            json!({"spec": {"limits": {"hostCalls": 9}}}),
        )
        .await;
    namespace
        .until_condition("watches", "Ready", "True", "Running")
        .await;
}

/// Objects name far more owners than the queues of the namespace may hold: all are reconciled, one
/// after another.
async fn invented_owners_wait_for_room(control_plane: &'static ControlPlane, host: &Host) {
    let namespace = stage(control_plane, "owners").await;

    // ConfigMaps would not do: their informer also has those with code, which are more than the
    // quota of cached bytes.
    for (kind, plural) in [("Claim", "claims"), ("Owned", "owneds")] {
        control_plane.apply(
            &crd(
                "test.operetta.dev",
                kind,
                plural,
                "Namespaced",
                &any_schema(),
            )
            .to_string(),
        );
    }

    let own = |kind: Kind| json!({"apiVersion": kind.0, "kind": kind.1, "namespaces": "Own"});
    let watches = json!([{"source": own(OWNED), "map": {"type": "Owner", "allOwners": true}}]);
    let controllers = json!([{"name": "c", "for": own(CLAIM), "watches": watches}]);
    namespace
        .drop_in(&DropIn::new(
            "claims",
            Guest::default().controllers(&controllers).build(),
        ))
        .await;

    namespace
        .until_condition("claims", "Ready", "True", "Running")
        .await;

    let labels = [
        "plugin=\"claims\"".to_owned(),
        format!("namespace=\"{}\"", namespace.name()),
    ];
    let metric = |name: &str| host.metric(name, &[&labels[0], &labels[1]]);
    let mut deepest: f64 = 0.0;

    for object in 0..4 {
        let owner = |at: usize| {
            let name = format!("invented-{object}-{at}");
            json!({"apiVersion": CLAIM.0, "kind": CLAIM.1, "name": name, "uid": name})
        };
        let owners: Vec<_> = (0..300).map(owner).collect();
        let metadata = json!({"name": format!("owned-{object}"), "ownerReferences": owners});
        namespace
            .create_object(OWNED, json!({"metadata": metadata}))
            .await;
        // A fast host has reconciled them when the last object is there.
        for _ in 0..5 {
            deepest = deepest.max(metric("workqueue_depth"));
        }
    }

    eventually("all invented owners are reconciled", async || {
        deepest = deepest.max(metric("workqueue_depth"));
        match metric("controller_runtime_reconcile_total") {
            1_200.0 => Ok(()),
            count => Err(format!(
                "{count} reconciles, {} keys in the queue",
                metric("workqueue_depth")
            )),
        }
    })
    .await;

    println!("of 1,200 keys of invented owners, {deepest} waited at once");
    assert!(
        deepest > 100.0 && deepest <= 300.0,
        "{deepest} keys waited at once"
    );
}

/// Over a quota of Plugins or controllers the older ones run, even after the host has died. The
/// others run once the quota is raised.
async fn older_plugins_stay_when_the_host_restarts(
    control_plane: &'static ControlPlane,
    host: &mut Host,
) {
    let namespace = stage(control_plane, "restart").await;
    control_plane.apply(
        &crd(
            "test.operetta.dev",
            "Spare",
            "spares",
            "Namespaced",
            &any_schema(),
        )
        .to_string(),
    );

    let code = |kind: Kind, controllers: usize| {
        let controller = |at: usize| json!({"name": format!("c-{at}"), "for": {"apiVersion": kind.0, "kind": kind.1, "namespaces": "Own"}});
        let controllers: Value = (0..controllers).map(controller).collect();
        Guest::default().controllers(&controllers).build()
    };

    for (name, kind, controllers) in [("a", OWNED, 3), ("b", SPARE, 2), ("c", OWNED, 1)] {
        namespace
            .drop_in(&DropIn::new(name, code(kind, controllers)))
            .await;
        namespace
            .until_condition(name, "Loaded", "True", "Loaded")
            .await;
    }

    namespace.drop_in(&DropIn::new("d", code(SPARE, 1))).await;
    let verdicts = async || {
        for name in ["a", "c"] {
            namespace
                .until_condition(name, "Ready", "True", "Running")
                .await;
        }
        namespace
            .until_degraded(
                "b",
                "QuotaExceeded",
                &["it has 2 controllers", "quotas.namespaces"],
            )
            .await;
        namespace
            .until_degraded("d", "QuotaExceeded", &["may have 3 Plugins"])
            .await;
    };

    verdicts().await;
    let labels = [
        format!("namespace=\"{}\"", namespace.name()),
        "quota=\"controllers\"".to_owned(),
    ];

    for _ in 0..2 {
        host.kill();
        host.start_again();
        host.until_listening().await;
        eventually("the older ones run again", async || {
            match host.metric("operetta_quota_used", &[&labels[0], &labels[1]]) {
                4.0 => Ok(()),
                used => Err(format!("{used} controllers")),
            }
        })
        .await;
        verdicts().await;
    }

    let audit = control_plane.audit();
    let watched = audit.open_watches("spares").len() + audit.done("watch", "spares").count();
    println!("Plugins over their quota made the host watch {watched} times");
    assert_eq!(watched, 0, "a Plugin over its quota ran");

    let config = host.folder().join("config.yaml");
    let text = std::fs::read_to_string(&config).expect("a configuration");
    let raised = text.replace("plugins: 3, controllers: 4", "plugins: 4, controllers: 7");
    assert_ne!(raised, text);
    std::fs::write(config, raised).expect("a configuration");

    host.kill();
    host.start_again();
    host.until_listening().await;

    for name in ["a", "b", "c", "d"] {
        namespace
            .until_condition(name, "Ready", "True", "Running")
            .await;
    }
}
