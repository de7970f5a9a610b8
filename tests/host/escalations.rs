//! Attempts of a tenant to reach another one: other identities, other paths, other people's objects
//! and Events. Each is answered as its ServiceAccount would be, and the API server's audit log
//! shows as whom every request came.

use std::time::Duration;

use operetta_testkit::{
    AuditEvent, DropIn, Kind, TestNamespace, eventually, guest, kinds, throughout, wat_guest::Guest,
};
use serde_json::{Value, json};

use crate::Stage;

/// What the victim's Secret holds, as it is sent.
const LOOT: &str = "dGhlLWxvb3Q=";

/// An attacker who may do everything in its own namespace, and a victim.
struct Scene {
    stage: Stage,
    victim: TestNamespace<'static>,
}

/// What the host or the API server answered to a request.
struct Answer {
    request: Value,
    status: u16,
    body: String,
}

impl Scene {
    async fn new(prefix: &str) -> Self {
        let stage = Stage::new(prefix).await;

        let victim = stage
            .namespace
            .control_plane()
            .namespace(&format!("{prefix}-victim"))
            .await;
        victim.allow_all("boss").await;

        for namespace in [&stage.namespace, &victim] {
            namespace.create_touchable("target").await;
        }

        for (namespace, password) in [(&stage.namespace, "bWluZQ=="), (&victim, LOOT)] {
            let secret = json!({"metadata": {"name": "secret", "labels": {"a": "b"}}, "data": {"password": password}});
            namespace.create_object(kinds::SECRET, secret).await;
        }

        Self { stage, victim }
    }

    fn attacker(&self) -> String {
        format!(
            "system:serviceaccount:{}:plugin",
            self.stage.namespace.name()
        )
    }

    fn boss(&self) -> String {
        format!("system:serviceaccount:{}:boss", self.victim.name())
    }

    /// Sends raw requests from a plugin of the attacker.
    async fn send(&self, name: &str, requests: &[Value]) -> Vec<Answer> {
        let namespace = &self.stage.namespace;
        let config = json!({"do": "send", "requests": requests});
        namespace
            .drop_in(&DropIn::new(name, guest("fixture-misbehave")).config(config))
            .await;

        let lines = eventually("the answers", async || {
            let lines = self.stage.host.logs(namespace.name(), name);
            let end = lines
                .iter()
                .position(|line| line.message == "sent")
                .ok_or_else(|| format!("{lines:?}"))?;
            Ok(lines[..end].to_vec())
        })
        .await;

        let of_field = |line: &operetta_testkit::LogLine, wanted: &str| {
            let found = line.fields.iter().find(|(name, _)| name == wanted);
            found.and_then(|(_, value)| value.parse::<usize>().ok())
        };

        let answer = |line: &operetta_testkit::LogLine| {
            let request = requests[of_field(line, "at")?].clone();
            let status = u16::try_from(of_field(line, "status")?).ok()?;
            Some(Answer {
                request,
                status,
                body: line.message.clone(),
            })
        };

        let answers: Vec<Answer> = lines.iter().filter_map(answer).collect();
        assert_eq!(answers.len(), requests.len(), "{lines:?}");
        answers
    }

    /// Checks that nothing of the victim came back, and that nobody acted as the victim.
    async fn nothing_was_won(&self, answers: &[Answer]) {
        for Answer {
            request,
            status,
            body,
        } in answers
        {
            assert!(!body.contains(LOOT), "{request}: {status} {body}");
            assert!(*status >= 400, "{request}: {status} {body}");
            println!("{request}: {status}");
        }

        let audit = self.stage.namespace.control_plane().audit();
        let as_boss = |event: &AuditEvent| {
            [&event.user, &event.impersonated_user]
                .iter()
                .any(|user| user.username == self.boss())
        };

        assert_eq!(
            audit.done_by(as_boss).next(),
            None,
            "somebody acted as the victim"
        );

        let from_host = |event: &AuditEvent| {
            event.user.username == "system:serviceaccount:operetta-system:operetta"
        };

        for event in audit.done_by(from_host) {
            let AuditEvent {
                impersonated_user: user,
                ..
            } = event;
            assert!(
                user.username.is_empty() || user.username.starts_with("system:serviceaccount:"),
                "{event:?}"
            );
            assert!(
                user.groups
                    .iter()
                    .all(|group| is_of_service_accounts(group)),
                "{event:?}"
            );

            if event.request_uri.contains(self.victim.name()) && !user.username.is_empty() {
                assert_eq!(
                    (&user.username, event.response_status.code >= 400),
                    (&self.attacker(), true),
                    "{event:?}"
                );
            }
        }

        self.stage.others_keep_working().await;
    }
}

fn is_of_service_accounts(group: &str) -> bool {
    group.starts_with("system:serviceaccounts") || group == "system:authenticated"
}

fn get(path: impl Into<String>) -> Value {
    json!({"method": "GET", "path": path.into()})
}

fn with(mut request: Value, fields: Value) -> Value {
    for (name, value) in fields.as_object().into_iter().flatten() {
        request[name] = value.clone();
    }
    request
}

#[tokio::test]
async fn no_request_of_a_plugin_is_made_as_somebody_else() {
    let scene = Scene::new("identity").await;
    let boss = scene.boss();
    let victim = scene.victim.name();
    let secret = || get(format!("/api/v1/namespaces/{victim}/secrets/secret"));

    let mut requests = vec![secret(), with(secret(), json!({"cached": true}))];
    for name in [
        "Impersonate-User",
        "impersonate-user",
        "as",
        "userName",
        "user",
        "access_token",
        "authorization",
    ] {
        requests.push(with(secret(), json!({"query": format!("{name}={boss}")})));
    }

    // Headers, where a header's value can be given.
    for header in [
        format!("Impersonate-User: {boss}"),
        "Impersonate-Group: system:masters".to_owned(),
        "Impersonate-Extra-scopes: all".to_owned(),
        "Impersonate-Uid: 1".to_owned(),
        "Authorization: Bearer x".to_owned(),
        "Host: elsewhere".to_owned(),
        format!("X-Remote-User: {boss}"),
        "X-Remote-Group: system:masters".to_owned(),
        "X-Forwarded-For: 127.0.0.1".to_owned(),
    ] {
        for end in ["\r\n", "\n", "\r"] {
            let value = format!("application/json{end}{header}");
            requests.push(with(secret(), json!({"accept": value})));

            let body = json!({"contentType": value, "body": "{}", "method": "POST"});
            requests.push(with(
                get(format!("/api/v1/namespaces/{victim}/configmaps")),
                body,
            ));
        }

        requests.push(with(
            secret(),
            json!({"accept": format!("application/json, {header}")}),
        ));
        requests.push(with(
            secret(),
            json!({"accept": format!("application/json;{header}")}),
        ));
        requests.push(with(
            secret(),
            json!({"method": format!("GET /version HTTP/1.1\r\n{header}\r\n\r\nGET")}),
        ));
        requests.push(with(
            secret(),
            json!({"query": format!("a=b HTTP/1.1\r\n{header}\r\n")}),
        ));
    }

    // What the API server itself offers for this.
    let post = |path: String, body: Value| {
        with(
            get(path),
            json!({"method": "POST", "body": body.to_string()}),
        )
    };
    let kind = |api_version: &str, kind: &str, spec: Value| json!({"apiVersion": api_version, "kind": kind, "spec": spec});
    let asked = json!({"verb": "get", "resource": "secrets", "namespace": victim});

    requests.extend([
        post(
            format!("/api/v1/namespaces/{victim}/serviceaccounts/boss/token"),
            kind("authentication.k8s.io/v1", "TokenRequest", json!({})),
        ),
        post(
            "/apis/authorization.k8s.io/v1/subjectaccessreviews".to_owned(),
            kind(
                "authorization.k8s.io/v1",
                "SubjectAccessReview",
                json!({"user": boss, "resourceAttributes": asked}),
            ),
        ),
        post(
            format!("/apis/authorization.k8s.io/v1/namespaces/{victim}/localsubjectaccessreviews"),
            kind(
                "authorization.k8s.io/v1",
                "LocalSubjectAccessReview",
                json!({"user": boss, "resourceAttributes": asked}),
            ),
        ),
        post(
            "/apis/authentication.k8s.io/v1/tokenreviews".to_owned(),
            kind(
                "authentication.k8s.io/v1",
                "TokenReview",
                json!({"token": "x"}),
            ),
        ),
    ]);

    let answers = scene.send("attack", &requests).await;
    scene.nothing_was_won(&answers).await;

    // What the API server says to a question that anyone may ask: who am I?
    let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
    let who = post(
        "/apis/authentication.k8s.io/v1/selfsubjectreviews".to_owned(),
        review,
    );

    let asked = [
        who.clone(),
        with(
            who,
            json!({"query": format!("Impersonate-User={boss}&as={boss}")}),
        ),
    ];
    for answer in scene.send("who", &asked).await {
        let body: Value = serde_json::from_str(&answer.body).expect("JSON");
        assert_eq!(
            body["status"]["userInfo"]["username"],
            scene.attacker(),
            "{}: {body}",
            answer.request
        );

        let groups = body["status"]["userInfo"]["groups"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        assert!(
            groups
                .iter()
                .all(|group| is_of_service_accounts(group.as_str().unwrap_or_default())),
            "{body}"
        );
    }
}

#[tokio::test]
async fn path_means_the_same_to_host_and_api_server() {
    let scene = Scene::new("paths").await;
    let own = scene.stage.namespace.name();
    let victim = scene.victim.name();

    let mut requests = Vec::new();
    for path in [
        format!("/api/v1/namespaces/{victim}/secrets/secret"),
        format!("/api/v1/namespaces/{victim}/secrets"),
        format!("/api/v1/namespaces/{victim}/configmaps/target"),
        format!("/api/v1/namespaces/{own}/../{victim}/secrets/secret"),
        format!("/api/v1/namespaces/{own}/secrets/../../{victim}/secrets/secret"),
        format!("/api/v1/namespaces/{own}/%2e%2e/{victim}/secrets/secret"),
        format!("/api/v1/namespaces/{own}%2f..%2f{victim}/secrets/secret"),
        format!("/api/v1/namespaces/{own}/..%2f{victim}/secrets/secret"),
        format!("/api/v1/namespaces/{own}/./../{victim}/secrets/secret"),
        format!("/api/v1/namespaces/{own}//secrets/secret"),
        format!("//api/v1/namespaces/{victim}/secrets/secret"),
        format!("/api//v1/namespaces/{victim}/secrets/secret"),
        format!("/api/v1/namespaces/{own};x={victim}/secrets/secret"),
        format!("/api/v1/namespaces/{own}/secrets;/../{victim}/secret"),
        format!("/api/v1/namespaces/{own}/namespaces/{victim}/secrets/secret"),
        format!("/api/v1/namespaces/{own}/namespaces/{victim}"),
        format!("/api/v1/namespaces/{own}/nodes"),
        format!("/api/v1/namespaces/{own}/clusterroles"),
        format!("/apis/rbac.authorization.k8s.io/v1/namespaces/{own}/clusterroles"),
        format!("/api/v1/namespaces/{victim}/secrets/secret?impersonate={own}"),
        format!("/api/v1/namespaces/{victim}/secrets/secret#{own}"),
        format!("/api/v1/namespaces/{victim}\\..\\{own}/secrets/secret"),
        format!("http://127.0.0.1/api/v1/namespaces/{victim}/secrets/secret"),
        format!("/api/v1/namespaces/{own}/secrets/secret/../../../{victim}/secrets/secret"),
        format!("/api/v1/namespaces/{own}/pods/x/proxy/api/v1/namespaces/{victim}/secrets"),
        format!(
            "/api/v1/namespaces/{own}/services/https:kubernetes:443/proxy/api/v1/namespaces/{victim}/secrets"
        ),
        format!("/api/v1/proxy/namespaces/{victim}/services/x"),
        format!("/api/v1/namespaces/{victim}/pods/x/exec"),
        format!("/api/v1/namespaces/{victim}/pods/x/attach"),
        format!("/api/v1/namespaces/{victim}/pods/x/portforward"),
        format!("/api/v1/namespaces/{victim}/pods/x/log"),
        format!("/api/v1/watch/namespaces/{victim}/secrets"),
        "/api/v1/secrets/secret".to_owned(),
        "/api/v1/nodes".to_owned(),
        "/metrics".to_owned(),
        "/logs/".to_owned(),
        "/debug/pprof/".to_owned(),
    ] {
        requests.extend([get(path.clone()), with(get(path), json!({"cached": true}))]);
    }

    for query in [
        "watch=true",
        "watch=1&watch=0",
        "watch=0&watch=1",
        "%77atch=true",
        "watch=true;&limit=1",
    ] {
        let secrets = format!("/api/v1/namespaces/{own}/secrets");
        requests.push(with(get(secrets), json!({"query": query, "cached": true})));
    }

    let answers = scene.send("attack", &requests).await;
    scene.nothing_was_won(&answers).await;

    // Lists that are answered, and hold nothing of the victim: whatever the selectors and tokens of
    // a page say.
    let mut lists = Vec::new();
    for query in [
        "",
        &format!("fieldSelector=metadata.namespace%3D{victim}"),
        &format!("fieldSelector=metadata.name%3Dsecret,metadata.namespace%3D{victim}"),
        &format!("continue={victim}%2Fa"),
        "limit=1&limit=1000",
        "labelSelector=a%3Db&labelSelector=",
    ] {
        for path in [
            format!("/api/v1/namespaces/{own}/secrets"),
            "/api/v1/secrets".to_owned(),
        ] {
            lists.push(with(get(path), json!({"query": query, "cached": true})));
        }
    }

    for Answer {
        request,
        status,
        body,
    } in scene.send("lists", &lists).await
    {
        assert!(
            status == 200 && !body.contains(LOOT),
            "{request}: {status} {body}"
        );
    }
}

#[tokio::test]
async fn an_event_about_another_namespace_s_object_is_written_nowhere() {
    let scene = Scene::new("event").await;
    let config = json!({"do": "event-elsewhere", "namespace": scene.victim.name()});
    scene
        .stage
        .namespace
        .drop_in(&DropIn::new("attack", guest("fixture-misbehave")).config(config))
        .await;

    // The recorder writes in order: when the second one is there, the first was dealt with.
    scene
        .stage
        .namespace
        .until_event(kinds::CONFIG_MAP, "target", "Here")
        .await;

    for namespace in [&scene.stage.namespace, &scene.victim] {
        let events = namespace.list(kinds::EVENT).await;
        assert!(
            !events.iter().any(|event| event["reason"] == "Elsewhere"),
            "{events:?}"
        );
    }

    let audit = scene.stage.namespace.control_plane().audit();
    let refused = audit
        .done("create", "events")
        .find(|event| event.object_ref.namespace == scene.victim.name());
    let refused = refused.expect("it was tried as the plugin's ServiceAccount");
    assert_eq!(
        (
            &refused.impersonated_user.username,
            refused.response_status.code
        ),
        (&scene.attacker(), 403)
    );

    // By hand, in its own namespace: Kubernetes keeps an Event where its object is.
    let event = json!({
        "apiVersion": "v1", "kind": "Event", "metadata": {"name": "elsewhere"}, "reason": "Elsewhere", "type": "Warning",
        "involvedObject": {"apiVersion": "v1", "kind": "ConfigMap", "namespace": scene.victim.name(), "name": "target"},
    });

    let path = format!("/api/v1/namespaces/{}/events", scene.stage.namespace.name());
    let post = with(
        get(path),
        json!({"method": "POST", "body": event.to_string()}),
    );
    let answers = scene.send("by-hand", &[post]).await;
    assert!(
        answers[0].body.contains("involvedObject.namespace"),
        "{}",
        answers[0].body
    );

    scene.nothing_was_won(&answers).await;
}

#[tokio::test]
async fn an_owner_reference_into_another_namespace_wakes_nobody_there() {
    let Scene {
        stage,
        victim: attacker,
    } = Scene::new("owner").await;

    let home = stage.namespace.name();
    // The victim's plugin is about its own namespace, but sees children everywhere: it asks for
    // them, and may see them.
    let rights = json!({
        "metadata": {"name": "shows-its-config-maps"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "ServiceAccount", "namespace": home, "name": "plugin"}],
    });
    attacker
        .create_object(Kind("rbac.authorization.k8s.io/v1", "RoleBinding"), rights)
        .await;

    let map = |selector: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "labelSelector": selector});
    let own = with(map("operetta-fixture=true"), json!({"namespaces": "Own"}));
    let by_field =
        json!({"type": "FieldPath", "path": ".data.name", "namespacePath": ".data.namespace"});
    let watches = json!([{"source": map("child=true"), "map": by_field}]);
    let controllers =
        json!([{"name": "c", "for": own, "owns": [map("child=true")], "watches": watches}]);

    let failing = Guest::default()
        .controllers(&controllers)
        .reconcile("(call $retry (i32.const 64) (i32.const 2))");

    stage
        .namespace
        .drop_in(&DropIn::new("plugin", failing.build()))
        .await;

    let failing = async || {
        let plugin = stage
            .namespace
            .get(kinds::PLUGIN, "plugin")
            .await
            .unwrap_or_default();
        plugin["status"]["controllers"][0]["failing"]
            .as_u64()
            .unwrap_or_default()
    };

    let until = async |count: u64| {
        eventually(&format!("{count} keys"), async || match failing().await {
            now if now == count => Ok(()),
            now => Err(format!("{now} keys")),
        })
        .await;
    };

    until(1).await;
    // The attacker's object says that the victim's own `target` controls it, and names keys.
    let target = stage
        .namespace
        .get(kinds::CONFIG_MAP, "target")
        .await
        .expect("there");
    let uid = target["metadata"]["uid"].as_str().expect("a uid");

    let child = |name: &str, owner: &str, to: &str| {
        json!({
            "metadata": {"name": name, "labels": {"child": "true"}, "ownerReferences": [
                {"apiVersion": "v1", "kind": "ConfigMap", "name": owner, "uid": uid, "controller": true}]},
            "data": {"name": owner, "namespace": to},
        })
    };

    for to in [attacker.name(), "nowhere"] {
        attacker
            .create_object(kinds::CONFIG_MAP, child(&format!("to-{to}"), "target", to))
            .await;
    }

    throughout(
        Duration::from_secs(2),
        "no key of another namespace",
        async || match failing().await {
            1 => Ok(()),
            now => Err(format!("{now} keys")),
        },
    )
    .await;

    // The same from its own namespace does wake it: the test can fail.
    stage
        .namespace
        .create_object(kinds::CONFIG_MAP, child("own", "another", home))
        .await;

    until(2).await;
    stage.others_keep_working().await;
}

#[tokio::test]
async fn racing_code_changes_run_by_digest_only() {
    let stage = Stage::new("pinned-flips").await;
    let code = |version: &str| DropIn::new("code", guest(version)).code();

    let pin = operetta_testkit::digest(&guest("fixture-touch-v1"));
    stage
        .namespace
        .create_object(kinds::CONFIG_MAP, code("fixture-touch-v2"))
        .await;
    stage.namespace.create_touchable("target").await;

    let spec = json!({"source": {"configMap": {"name": "code"}}, "serviceAccountName": "plugin", "digest": pin});
    stage
        .namespace
        .create_object(
            kinds::PLUGIN,
            json!({"metadata": {"name": "touch"}, "spec": spec}),
        )
        .await;

    for round in 0..20 {
        let version = if round % 2 == 0 {
            "fixture-touch-v1"
        } else {
            "fixture-touch-v2"
        };
        let patch = json!({"binaryData": code(version)["binaryData"]});
        stage
            .namespace
            .patch(kinds::CONFIG_MAP, "code", patch)
            .await;

        let plugin = stage
            .namespace
            .get(kinds::PLUGIN, "touch")
            .await
            .expect("there");
        let digest = &plugin["status"]["digest"];
        assert!(
            digest.is_null() || *digest == pin,
            "round {round}: {}",
            plugin["status"]
        );
    }

    // In the end v2 is in place: it is refused, or v1 from before goes on.
    stage
        .namespace
        .until_degraded("touch", "DigestMismatch", &[&pin])
        .await;

    let patch = json!({"binaryData": code("fixture-touch-v1")["binaryData"]});
    stage
        .namespace
        .patch(kinds::CONFIG_MAP, "code", patch)
        .await;
    stage.namespace.until_touched("target", "v1").await;

    let of_plugin = stage.host.logs(stage.namespace.name(), "touch");
    let v2 = operetta_testkit::digest(&guest("fixture-touch-v2"));
    assert!(
        !of_plugin
            .iter()
            .any(|line| line.message.contains(&format!("loaded {v2}"))),
        "{of_plugin:?}"
    );
}
