//! A namespace with one SDK's plugin at work, and the objects that the behaviours are about.

use operetta_testkit::{
    ControlPlane, DropIn, Host, HostOptions, Kind, TestNamespace, crd, eventually, kinds, plugin,
    webhook, with_status,
};
use serde_json::{Value, json};
use tokio::sync::OnceCell;

pub const WIDGET: Kind = Kind("conformance.operetta.dev/v1", "Widget");

/// What a plugin made of a behaviour.
#[derive(Clone, Debug, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
pub enum Outcome {
    /// It was shown.
    Shown,
    /// The SDK says that it cannot, and why.
    Unsupported(String),
    /// It went wrong.
    Failed(String),
}

/// What ends a behaviour early.
pub enum Ended {
    Unsupported(String),
    Failed(String),
}

impl From<String> for Ended {
    fn from(why: String) -> Self {
        Self::Failed(why)
    }
}

/// One SDK's plugin in a namespace of its own.
pub struct Stage {
    pub sdk: &'static str,
    pub host: &'static Host,
    pub namespace: TestNamespace<'static>,
    /// Set once the API server refuses the objects of [`refusals`] in the namespace.
    refuses: OnceCell<()>,
}

/// Returns the host of this test program, on a control plane with the kinds that all SDKs need.
async fn host() -> &'static Host {
    static HOST: OnceCell<Host> = OnceCell::const_new();
    let start = async || {
        let control_plane = ControlPlane::shared().await;
        control_plane.apply(&widgets().to_string());
        Host::shared(control_plane, &HostOptions::default()).await
    };
    HOST.get_or_init(start).await
}

impl Stage {
    pub async fn new(sdk: &'static str) -> Self {
        let host = host().await;
        let control_plane = ControlPlane::shared().await;
        let namespace = control_plane.namespace(&format!("conformance-{sdk}")).await;
        let stage = Self {
            sdk,
            host,
            namespace,
            refuses: OnceCell::new(),
        };

        stage.prepare().await;
        let component = plugin(&format!("conformance-{sdk}"));
        let drop_in = DropIn::compressed("conformance", &component).service_account("conformance");
        for part in drop_in
            .config(json!({"word": "from the config"}))
            .split(900_000)
        {
            stage.namespace.create_object(kinds::CONFIG_MAP, part).await;
        }
        stage
            .namespace
            .until_condition("conformance", "Ready", "True", "Running")
            .await;
        stage
    }

    /// Creates the ServiceAccount's Role, a Secret that it may not read, and five objects to read.
    async fn prepare(&self) {
        let all = |group: &str, resources: &[&str]| json!({"apiGroups": [group], "resources": resources, "verbs": ["*"]});
        let rules = [
            all("", &["configmaps", "events"]),
            all("apps", &["deployments", "deployments/scale"]),
            all("conformance.operetta.dev", &["widgets", "widgets/status"]),
        ];
        let rbac = |kind: &'static str| Kind("rbac.authorization.k8s.io/v1", kind);
        self.namespace.consenting("conformance").await;

        let named = json!({"name": "conformance"});
        self.namespace
            .create_object(rbac("Role"), json!({"metadata": named, "rules": rules}))
            .await;

        let binding = json!({
            "metadata": named,
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "conformance"},
            "subjects": [{"kind": "ServiceAccount", "namespace": self.namespace.name(), "name": "conformance"}],
        });
        self.namespace
            .create_object(rbac("RoleBinding"), binding)
            .await;
        self.namespace
            .create_object(kinds::SECRET, json!({"metadata": {"name": "hidden"}}))
            .await;

        for (letter, colour, app) in [
            ("a", "red", "x"),
            ("b", "blue", "x"),
            ("c", "red", "x"),
            ("d", "blue", "y"),
            ("e", "red", "y"),
        ] {
            let owner = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "o", "uid": "uid-o", "controller": true});
            let owners = if ["a", "b"].contains(&letter) {
                json!([owner])
            } else {
                json!([])
            };

            let metadata = json!({
                "name": format!("item-{letter}"), "labels": {"conformance": "item", "app": app}, "ownerReferences": owners,
            });
            let data = json!({"word": format!("word-{letter}"), "colour": colour, "other": "x"});
            self.namespace
                .create_object(
                    kinds::CONFIG_MAP,
                    json!({"metadata": metadata, "data": data}),
                )
                .await;
        }
    }

    /// Makes the API server refuse the objects of the behaviours `error-*` that it would not refuse
    /// by itself.
    pub async fn refuse(&self) {
        self.refuses
            .get_or_init(async || webhook::refuse(&self.namespace, refusals()))
            .await;
    }

    /// Creates a ConfigMap to work on.
    pub async fn config_map(&self, name: &str, data: Value) {
        self.namespace
            .create_object(
                kinds::CONFIG_MAP,
                json!({"metadata": {"name": name}, "data": data}),
            )
            .await;
    }

    /// Creates a Widget.
    pub async fn widget(&self, name: &str, spec: Value) {
        self.namespace
            .create_object(WIDGET, json!({"metadata": {"name": name}, "spec": spec}))
            .await;
    }

    /// Creates the case of a behaviour.
    pub async fn begin(&self, id: &str, arguments: Value) -> Value {
        let metadata = json!({"name": id, "labels": {"conformance": "case"}});
        self.namespace
            .create_object(
                kinds::CONFIG_MAP,
                json!({"metadata": metadata, "data": arguments}),
            )
            .await
    }

    /// Creates the case of a behaviour and waits for what the plugin saw.
    ///
    /// The informer of the target's kind may not have heard of the target when the one of the cases
    /// has heard of this: each is a watch of its own. Such a case starts over.
    pub async fn case(&self, id: &str, arguments: Value) -> Result<String, Ended> {
        self.begin(id, arguments).await;
        let mut anew = 0;

        let (result, saw) = loop {
            let found = self.look(id, |case| match case["data"]["result"].as_str() {
                Some(result) => Ok((
                    result.to_owned(),
                    case["data"]["saw"].as_str().unwrap_or_default().to_owned(),
                )),
                None => Err("it has no result".to_owned()),
            });
            let (result, saw) = found.await?;
            if anew == 20 || !result.contains(&format!("{id}-target\" not found")) {
                break (result, saw);
            }
            anew += 1;
            self.namespace
                .patch(
                    kinds::CONFIG_MAP,
                    id,
                    json!({"data": {"result": null, "saw": null}}),
                )
                .await;
        };

        match result.split_once(": ") {
            _ if result == "ok" => Ok(saw),
            Some(("unsupported", why)) => Err(Ended::Unsupported(why.to_owned())),
            _ => Err(Ended::Failed(format!(
                "the plugin says {result:?}, saw {saw:?}"
            ))),
        }
    }

    /// Waits until a ConfigMap is as `look` wants it.
    pub async fn look<T>(
        &self,
        name: &str,
        look: impl Fn(&Value) -> Result<T, String>,
    ) -> Result<T, String> {
        let mut last = String::new();

        for _ in 0..400 {
            match self
                .namespace
                .get(kinds::CONFIG_MAP, name)
                .await
                .map(|found| look(&found).map_err(|why| (why, found)))
            {
                Some(Ok(seen)) => return Ok(seen),
                Some(Err((why, _))) => last = why,
                None => last = "it does not exist".to_owned(),
            }
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }

        let log = self.host.logs(self.namespace.name(), "conformance");
        let about = log
            .iter()
            .rev()
            .filter(|line| line.key.ends_with(&format!("/{name}")))
            .take(3);
        let said: Vec<String> = about
            .map(|line| format!("{}: {}", line.level, line.message))
            .collect();

        Err(format!(
            "ConfigMap {name}: {last} after 20 s; the plugin's log: {said:?}"
        ))
    }

    /// Waits until the plugin has logged a line like this.
    pub async fn until_logged(
        &self,
        what: &str,
        wanted: impl Fn(&operetta_testkit::LogLine) -> bool,
    ) {
        eventually(what, async || {
            let lines = self.host.logs(self.namespace.name(), "conformance");
            if lines.iter().any(&wanted) {
                Ok(())
            } else {
                Err(format!("{lines:?}"))
            }
        })
        .await;
    }
}

/// The Statuses of the behaviours `error-*` that the API server would not return by itself.
fn refusals() -> Vec<(String, Value)> {
    let of = |(id, code, reason): (&str, u16, &str)| {
        let mut status = json!({"status": "Failure", "code": code, "reason": reason, "message": "refused by a test"});
        if code == 429 {
            status["details"] = json!({"retryAfterSeconds": 7});
        }
        (format!("refused-{id}"), status)
    };

    let all = [
        ("expired", 410, "Expired"),
        ("too-many-requests", 429, "TooManyRequests"),
        ("unavailable", 503, "ServiceUnavailable"),
        ("timed-out", 504, "Timeout"),
        ("other", 405, "MethodNotAllowed"),
    ];
    all.map(of).into()
}

fn widgets() -> Value {
    let spec = json!({"type": "object", "properties": {
        "big": {"type": "integer", "format": "int64"},
        "size": {"x-kubernetes-int-or-string": true},
        "note": {"type": "string", "nullable": true},
        "touched": {"type": "boolean"},
    }});
    let status = json!({"type": "object", "properties": {"phase": {"type": "string"}}});
    let schema = json!({"type": "object", "properties": {"spec": spec, "status": status}});
    with_status(crd(
        "conformance.operetta.dev",
        "Widget",
        "widgets",
        "Namespaced",
        &schema,
    ))
}
