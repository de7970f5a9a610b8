//! Reconcilers that were written for kube-rs, over the host and a real API server: server-side
//! apply, a finalizer, a status and lists through kube-rs's own client.

use operetta_testkit::{
    ControlPlane, DropIn, Host, HostOptions, Kind, TestNamespace, guest, kinds,
};
use serde_json::{Value, json};
use tokio::sync::OnceCell;

const GENERATOR: Kind = Kind("nullable.se/v1", "ConfigMapGenerator");

/// The plugin at work in a namespace of its own.
async fn running() -> (&'static Host, TestNamespace<'static>) {
    static HOST: OnceCell<Host> = OnceCell::const_new();
    let control_plane = ControlPlane::with_controllers().await;
    let start = async || Host::shared(control_plane, &HostOptions::default()).await;
    let host = HOST.get_or_init(start).await;

    control_plane.apply(include_str!("../tests/guests/kube-rs/crd.yaml"));
    let namespace = control_plane.namespace("kube-rs").await;
    namespace.allow_all("plugin").await;
    namespace
        .drop_in(&DropIn::compressed("kube-rs", &guest("fixture-kube-rs")))
        .await;

    namespace
        .until_condition("kube-rs", "Ready", "True", "Running")
        .await;

    (host, namespace)
}

fn content_is(wanted: &str) -> impl Fn(&Value) -> Result<(), String> {
    move |map| match map["data"]["content"].as_str() {
        Some(now) if now == wanted => Ok(()),
        now => Err(format!("the content is {now:?}, not {wanted}")),
    }
}

#[tokio::test]
async fn generator_applies_owns_and_restores_its_config_map() {
    let (host, namespace) = running().await;

    let spec = json!({"content": "hello"});
    let generator = namespace
        .create_object(
            GENERATOR,
            json!({"metadata": {"name": "one"}, "spec": spec}),
        )
        .await;
    namespace
        .until(kinds::CONFIG_MAP, "one", content_is("hello"))
        .await;

    let map = namespace.get(kinds::CONFIG_MAP, "one").await.expect("made");
    assert_eq!(
        map["metadata"]["ownerReferences"][0]["uid"],
        generator["metadata"]["uid"]
    );

    let manager = &map["metadata"]["managedFields"][0];
    assert_eq!(manager["manager"], "configmapgenerator.kube-rt.nullable.se");
    assert_eq!(manager["operation"], "Apply");

    // The list right after the apply came from the cache, and held the ConfigMap.
    namespace
        .until(GENERATOR, "one", |found| {
            match found["status"]["made"].as_u64() {
                Some(1) => Ok(()),
                made => Err(format!("status.made is {made:?}")),
            }
        })
        .await;
    assert_eq!(
        namespace.until_event(GENERATOR, "one", "Generated").await,
        "ConfigMap one is there"
    );

    namespace
        .patch(GENERATOR, "one", json!({"spec": {"content": "changed"}}))
        .await;
    namespace
        .until(kinds::CONFIG_MAP, "one", content_is("changed"))
        .await;

    namespace.delete(kinds::CONFIG_MAP, "one").await;
    namespace
        .until(kinds::CONFIG_MAP, "one", content_is("changed"))
        .await;

    namespace.delete(GENERATOR, "one").await;
    namespace.until_gone(kinds::CONFIG_MAP, "one").await;

    host.assert_sound();
}

#[tokio::test]
async fn finalizer_removes_synced_secret() {
    let (host, namespace) = running().await;
    let metadata = json!({"name": "source", "labels": {"sync": "secret"}});
    namespace
        .create_object(
            kinds::CONFIG_MAP,
            json!({"metadata": metadata, "data": {"user": "root"}}),
        )
        .await;

    let wanted = json!("cm9vdA==");
    let synced = |secret: &Value| {
        if secret["data"]["user"] == wanted {
            Ok(())
        } else {
            Err("another user".to_owned())
        }
    };

    namespace
        .until(kinds::SECRET, "cmsyncer-source", synced)
        .await;
    let source = namespace
        .get(kinds::CONFIG_MAP, "source")
        .await
        .expect("there");
    assert_eq!(
        source["metadata"]["finalizers"],
        json!(["configmap-secret-syncer.nullable.se/cleanup"])
    );

    namespace.delete(kinds::CONFIG_MAP, "source").await;
    namespace.until_gone(kinds::CONFIG_MAP, "source").await;
    assert!(
        namespace
            .get(kinds::SECRET, "cmsyncer-source")
            .await
            .is_none(),
        "the cleanup came before the finalizer went"
    );

    host.assert_sound();
}

#[tokio::test]
async fn error_policy_decides_the_retry() {
    let (host, namespace) = running().await;
    // A ConfigMap that no apply can change.
    let metadata = json!({"name": "fixed"});
    let fixed = json!({"metadata": metadata, "immutable": true, "data": {"content": "fixed"}});
    namespace.create_object(kinds::CONFIG_MAP, fixed).await;

    let spec = json!({"content": "hello"});
    namespace
        .create_object(
            GENERATOR,
            json!({"metadata": {"name": "fixed"}, "spec": spec}),
        )
        .await;

    operetta_testkit::eventually("the failure is told twice", async || {
        let logs = host.logs(namespace.name(), "kube-rs");
        let failed = |line: &&operetta_testkit::LogLine| {
            let told = |(name, value): &(String, String)| {
                name == "error" && value.contains("Failed to create ConfigMap")
            };
            line.level == "error" && line.fields.iter().any(told)
        };
        if logs.iter().filter(failed).count() >= 2 {
            Ok(())
        } else {
            Err(format!("{logs:?}"))
        }
    })
    .await;

    namespace.delete(kinds::CONFIG_MAP, "fixed").await;
    namespace
        .until(kinds::CONFIG_MAP, "fixed", content_is("hello"))
        .await;
}

#[tokio::test]
async fn refused_finalizer_counts_as_failed_and_names_the_cure() {
    let (host, _) = running().await;
    let namespace = ControlPlane::with_controllers()
        .await
        .namespace("kube-rs-refused")
        .await;

    namespace.consenting("plugin").await;
    let resources = "--resource=configmaps,secrets,configmapgenerators.nullable.se";
    namespace.kubectl(&[
        "create",
        "role",
        "reads",
        "--verb=get,list,watch",
        resources,
    ]);
    let account = format!("--serviceaccount={}:plugin", namespace.name());
    namespace.kubectl(&["create", "rolebinding", "reads", "--role=reads", &account]);

    namespace
        .drop_in(&DropIn::compressed("kube-rs", &guest("fixture-kube-rs")))
        .await;

    let metadata = json!({"name": "source", "labels": {"sync": "secret"}});
    namespace
        .create_object(
            kinds::CONFIG_MAP,
            json!({"metadata": metadata, "data": {"user": "root"}}),
        )
        .await;

    let denied = "cannot patch resource \"configmaps\"";
    namespace
        .until_degraded(
            "kube-rs",
            "ReconcileFailing",
            &[denied, "kubectl create role"],
        )
        .await;

    let syncer = |plugin: &Value| {
        let controllers = plugin["status"]["controllers"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        let syncer = controllers
            .into_iter()
            .find(|controller| controller["name"] == "syncer")
            .unwrap_or_default();
        let errors = syncer["errors"].as_u64().unwrap_or_default();
        if errors >= 3 && syncer["failing"] == 1 {
            Ok(())
        } else {
            Err(syncer.to_string())
        }
    };

    namespace.until(kinds::PLUGIN, "kube-rs", syncer).await;
    let lines = host.logs(namespace.name(), "kube-rs");
    let field = |line: &operetta_testkit::LogLine, name: &str| {
        line.fields
            .iter()
            .find(|(field, _)| field == name)
            .map(|(_, value)| value.clone())
            .unwrap_or_default()
    };

    let failed = lines
        .iter()
        .find(|line| field(line, "error").contains(denied))
        .expect("a failed reconcile");
    assert_eq!(failed.message, "reconcile failed, retrying");
    let error = field(failed, "error");
    assert!(
        error.len() < 300 && error.matches(denied).count() == 1 && !error.contains("Status {"),
        "{error}"
    );

    let cure = format!(
        "operetta rbac kube-rs -n {} | kubectl apply -f -",
        namespace.name()
    );
    assert_eq!(field(failed, "cure"), cure);

    // The refused request can be found in the API server's audit log.
    let audit_id = field(failed, "auditID");
    let audit = namespace.control_plane().audit();
    let refused = audit
        .done_by(|event| event.audit_id == audit_id)
        .next()
        .unwrap_or_else(|| panic!("no request {audit_id:?}"));
    assert_eq!(
        (refused.verb.as_str(), refused.response_status.code),
        ("patch", 403)
    );
    let why = host.run(&["why", "kube-rs", "source", "-n", namespace.name()]);
    let why = String::from_utf8_lossy(&why.stdout);
    assert!(why.contains(": Forbidden (audit ID "), "{why}");

    // The cure in the message heals it.
    let printed = host.run(&["rbac", "kube-rs", "-n", namespace.name()]);
    let roles = String::from_utf8_lossy(&printed.stdout).into_owned();
    assert!(
        printed.status.success() && roles.contains("patch"),
        "{printed:?}"
    );

    namespace.control_plane().apply(&roles);
    let with_finalizer = |map: &Value| match map["metadata"]["finalizers"][0].as_str() {
        Some(_) => Ok(()),
        None => Err("no finalizer yet".to_owned()),
    };
    namespace
        .until(kinds::CONFIG_MAP, "source", with_finalizer)
        .await;
}
