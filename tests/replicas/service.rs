//! `operetta logs` through the API server: the Service picks any of two replicas, and the tenant
//! gets the log of the one that runs the plugin, with its own kubeconfig and nothing else.

use std::{
    io::{BufRead, BufReader, Read},
    net::TcpListener,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    sync::mpsc,
    thread,
    time::Duration,
};

use operetta_testkit::{
    ControlPlane, HostOptions, TestNamespace,
    egress::{Egress, Endpoint, set_endpoints},
    eventually, https, kinds, needs_real_server, throughout,
};
use serde_json::{Value, json};

use crate::stage::{Replica, drop_in, names_for, until_run_by};

/// The line that the log of each plugin has.
const FIRST_LINE: &str = "log level is debug";
const SYSTEM: &str = "operetta-system";
/// The longest time until a line arrives.
const PATIENCE: Duration = Duration::from_secs(30);
/// Renewals are rare, so that a forged status is not corrected because of them.
const CONFIG: &str = "{replicas: {leaseSeconds: 15}, secureEndpoints: {address: '127.0.0.1:0'}}";
const PODS: [Endpoint<'static>; 2] = [
    Endpoint {
        namespace: SYSTEM,
        name: "operetta-1",
        ip: "203.0.113.1",
    },
    Endpoint {
        namespace: SYSTEM,
        name: "operetta-2",
        ip: "203.0.113.2",
    },
];

/// Two replicas behind a Service, and the API server's way to them.
struct Stage {
    control_plane: ControlPlane,
    replicas: [Replica; 2],
    egress: Egress,
}

impl Stage {
    async fn new() -> Self {
        let egress = Egress::start();
        let control_plane = egress.control_plane();
        let options = HostOptions {
            config: CONFIG.to_owned(),
            ..HostOptions::default()
        };

        let replicas = [
            Replica::start_with(&control_plane, options.clone()).await,
            Replica::start_with(&control_plane, options).await,
        ];

        for (replica, pod) in replicas.iter().zip(PODS) {
            egress.create_pod(&control_plane, pod, &secure(replica));
        }
        let service = operetta_testkit::repository().join("deploy/base/service.yaml");
        control_plane.apply(&std::fs::read_to_string(service).expect("a manifest"));

        Self {
            control_plane,
            replicas,
            egress,
        }
    }

    /// Lets the Service pick these replicas alone.
    fn pick(&self, pods: &[Endpoint<'_>]) {
        set_endpoints(&self.control_plane, SYSTEM, "operetta", pods);
    }

    /// Drops a plugin in that the first replica runs, and waits until it has logged.
    async fn plugin(&self, namespace: &TestNamespace<'_>) -> String {
        let [first, second] = &self.replicas;
        let name = names_for(first, &[first, second], namespace.name(), 1).remove(0);

        namespace.allow_all("plugin").await;
        drop_in(namespace, &name).await;
        until_run_by(namespace, &name, first).await;
        namespace.create_touchable("before").await;
        namespace.until_touched("before", "v1").await;
        set_level(namespace, &name, "debug");
        let path = format!("/logs/{}/{name}", namespace.name());

        eventually("a line in the log", async || match first.host.get(&path) {
            Ok(log) if log.contains(FIRST_LINE) => Ok(()),
            log => Err(format!("{log:?}")),
        })
        .await;
        name
    }

    /// Returns the kubeconfig of a new ServiceAccount, which may read logs in its namespace.
    fn reader(&self, namespace: &TestNamespace<'_>, name: &str) -> PathBuf {
        namespace.kubectl(&["create", "serviceaccount", name]);
        let account = format!("--serviceaccount={}:{name}", namespace.name());
        namespace.kubectl(&[
            "create",
            "rolebinding",
            name,
            "--clusterrole=operetta-log-reader",
            &account,
        ]);
        self.control_plane.kubeconfig_of(namespace.name(), name)
    }

    /// Lets a ServiceAccount use the Service through the API server, as deploy/rbac has it.
    fn let_through(&self, namespace: &TestNamespace<'_>, name: &str) {
        let account = format!("--serviceaccount={}:{name}", namespace.name());
        let role = [
            "create",
            "rolebinding",
            name,
            "-n",
            SYSTEM,
            "--role=operetta-proxy",
            &account,
        ];
        self.control_plane.kubectl(&role);
    }

    /// Returns the numbers of requests that each replica has forwarded.
    fn forwarded(&self) -> [u64; 2] {
        self.replicas.each_ref().map(|replica| {
            replica
                .host
                .metric("operetta_user_requests_forwarded_total", &[]) as u64
        })
    }

    fn open_streams(&self) -> f64 {
        self.replicas
            .iter()
            .map(|replica| replica.host.metric("operetta_user_streams", &[]))
            .sum()
    }
}

/// Changes the log level of a plugin, which is a line of its log.
fn set_level(namespace: &TestNamespace<'_>, plugin: &str, level: &str) {
    namespace.kubectl(&[
        "annotate",
        "plugin",
        plugin,
        "--overwrite",
        &format!("operetta.dev/log-level={level}"),
    ]);
}

fn secure(replica: &Replica) -> String {
    replica.host.logged("secure").expect("an address")
}

/// Returns the command `operetta ARGS` with a kubeconfig.
fn command(kubeconfig: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(operetta_testkit::program("operetta"));
    command
        .args(args)
        .env("KUBECONFIG", kubeconfig)
        .env_remove("OPERETTA_TOKEN")
        .stdin(Stdio::null());
    command
}

fn run(kubeconfig: &Path, args: &[&str]) -> Output {
    command(kubeconfig, args)
        .output()
        .expect("the program runs")
}

fn read(kubeconfig: &Path, args: &[&str]) -> String {
    let output = run(kubeconfig, args);
    assert!(
        output.status.success(),
        "{args:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Runs a command that fails, and returns its error, which is one line.
fn refused(kubeconfig: &Path, args: &[&str]) -> String {
    let output = run(kubeconfig, args);
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        output.status.code() == Some(1) && output.stdout.is_empty() && error.lines().count() == 1,
        "{output:?}"
    );
    error
}

#[tokio::test]
async fn tenant_reads_its_log_whichever_replica_the_service_picks() {
    if needs_real_server("its API server proxies requests to a Service") {
        return;
    }
    let stage = Stage::new().await;
    let [own, other] = [
        stage.control_plane.namespace("own").await,
        stage.control_plane.namespace("other").await,
    ];

    let plugin = stage.plugin(&own).await;
    let others_plugin = stage.plugin(&other).await;
    let kubeconfig = stage.reader(&own, "reader");
    let logs = ["logs", &plugin, "-n", own.name()];

    stage.pick(&PODS[..1]);
    let forbidden = refused(&kubeconfig, &logs);
    assert!(
        forbidden.contains("operetta-proxy") && forbidden.trim_end().ends_with("(ProxyForbidden)"),
        "{forbidden}"
    );
    stage.let_through(&own, "reader");
    eventually("the role is in effect", async || {
        match run(&kubeconfig, &logs) {
            output if output.status.success() => Ok(()),
            output => Err(format!("{output:?}")),
        }
    })
    .await;

    assert_eq!(stage.forwarded(), [0, 0], "the first replica runs it");
    let direct = read(&kubeconfig, &logs);
    assert!(direct.contains(FIRST_LINE), "{direct}");

    stage.pick(&PODS[1..]);
    assert_eq!(read(&kubeconfig, &logs), direct);
    assert_eq!(stage.forwarded(), [0, 1]);
    stage.pick(&PODS);
    for _ in 0..8 {
        assert_eq!(read(&kubeconfig, &logs), direct);
    }
    let [first, second] = stage.forwarded();
    assert!(
        first == 0 && (1..=9).contains(&second),
        "at most one hop each: {first} {second}"
    );
    println!(
        "the Service picked the other replica for {} of 8 requests",
        second - 1
    );

    for (pod, level) in PODS.iter().zip(["warn", "error"]) {
        stage.pick(std::slice::from_ref(pod));
        let others = ["logs", &others_plugin, "-n", other.name()];
        let error = refused(&kubeconfig, &others);
        assert!(
            error.contains("operetta-log-reader")
                && error.trim_end().ends_with("(EndpointForbidden)"),
            "{error}"
        );
        follow(&stage, &own, &kubeconfig, &plugin, level).await;
    }

    // The permissions of a plugin take the same way.
    stage.pick(&PODS[1..]);
    let rbac = read(&kubeconfig, &["rbac", &plugin, "-n", own.name()]);
    assert!(rbac.contains("configmaps"), "{rbac}");

    // So does a retry, with a permission of its own.
    let retry = ["retry", &plugin, "-n", own.name()];
    let error = refused(&kubeconfig, &retry);
    assert!(
        error.contains("operetta-retrier") && error.trim_end().ends_with("(EndpointForbidden)"),
        "{error}"
    );
    let account = format!("--serviceaccount={}:reader", own.name());
    own.kubectl(&[
        "create",
        "rolebinding",
        "retrier",
        "--clusterrole=operetta-retrier",
        &account,
    ]);

    let retried = eventually("a retry through the API server", async || {
        match run(&kubeconfig, &retry) {
            output if output.status.success() => {
                Ok(String::from_utf8_lossy(&output.stdout).into_owned())
            }
            output => Err(format!("{output:?}")),
        }
    });
    assert_eq!(
        retried.await,
        format!("plugin.operetta.dev/{plugin} retried (0 keys)\n")
    );

    retry_split(&stage, &own, &kubeconfig, &plugin).await;
    for Replica { host, .. } in &stage.replicas {
        host.assert_sound();
    }
}

/// Splits a plugin, and retries keys of both shards: each replica retries its own, whichever gets
/// the request.
async fn retry_split(stage: &Stage, own: &TestNamespace<'_>, kubeconfig: &Path, plugin: &str) {
    own.patch(kinds::PLUGIN, plugin, json!({"spec": {"shards": 2}}))
        .await;
    eventually("each replica runs a shard", async || {
        let status = own.get(kinds::PLUGIN, plugin).await.ok_or("no Plugin")?["status"].take();
        let owner = |shard: usize| status["shards"][shard]["replica"].as_str();
        match (owner(0), owner(1)) {
            (Some(first), Some(second)) if first != second => Ok(()),
            _ => Err(status.to_string()),
        }
    })
    .await;

    let names: Vec<String> = (0..8).map(|number| format!("split-{number}")).collect();
    for name in &names {
        own.create_touchable(name).await;
        own.until_touched(name, "v1").await;
    }

    let mut retry = vec!["retry", plugin, "-n", own.name()];
    retry.extend(names.iter().map(String::as_str));
    for pod in &PODS {
        stage.pick(std::slice::from_ref(pod));
        let output = run(kubeconfig, &retry);
        let printed = String::from_utf8_lossy(&output.stdout);
        assert_eq!(
            printed,
            format!("plugin.operetta.dev/{plugin} retried (8 keys)\n"),
            "{output:?}"
        );

        assert!(
            output.status.success() && output.stderr.is_empty(),
            "{output:?}"
        );
    }
}

/// Follows a log, and gets a line that is written later. When the reader goes, so do the streams of
/// all replicas.
async fn follow(
    stage: &Stage,
    own: &TestNamespace<'_>,
    kubeconfig: &Path,
    plugin: &str,
    level: &str,
) {
    let args = ["logs", plugin, "-n", own.name(), "-f", "--tail", "1"];
    let mut follower = command(kubeconfig, &args)
        .stdout(Stdio::piped())
        .spawn()
        .expect("the program runs");

    let (sender, lines) = mpsc::channel();
    let stdout = BufReader::new(follower.stdout.take().expect("a pipe"));
    thread::spawn(move || {
        stdout
            .lines()
            .map_while(Result::ok)
            .try_for_each(|line| sender.send(line))
    });

    lines.recv_timeout(PATIENCE).expect("the last line");
    set_level(own, plugin, level);
    let line = lines.recv_timeout(PATIENCE).expect("the next line");
    assert!(line.contains(&format!("log level is {level}")), "{line}");

    let expected = if level == "warn" { 1.0 } else { 2.0 };
    assert!(
        (stage.open_streams() - expected).abs() < 0.5,
        "{level}: {} streams",
        stage.open_streams()
    );

    follower.kill().expect("it runs");
    follower.wait().expect("it ends");
    eventually("the streams end with their reader", async || {
        match stage.open_streams() {
            open if open < 0.5 => Ok(()),
            open => Err(format!("{open} streams")),
        }
    })
    .await;
}

#[tokio::test]
async fn token_goes_to_replicas_only_and_once() {
    if needs_real_server("its API server proxies requests to a Service") {
        return;
    }
    let stage = Stage::new().await;
    let own = stage.control_plane.namespace("own").await;
    let plugin = stage.plugin(&own).await;
    let kubeconfig = stage.reader(&own, "reader");
    stage.let_through(&own, "reader");

    let logs = ["logs", &plugin, "-n", own.name()];
    stage.pick(&PODS[1..]);
    eventually("the role is in effect", async || {
        match run(&kubeconfig, &logs) {
            output if output.status.success() => Ok(()),
            output => Err(format!("{output:?}")),
        }
    })
    .await;

    // A request that claims to be forwarded is never forwarded again, so no request can go round.
    let token = own
        .kubectl(&["create", "token", "reader"])
        .trim()
        .to_owned();

    let before = stage.forwarded();
    let authorization = format!("Bearer {token}");
    let path = format!("/logs/{}/{plugin}", own.name());

    let headers = [
        ("authorization", authorization.as_str()),
        ("x-operetta-forwarded-by", "anybody"),
    ];

    let (status, text) = https::get(&secure(&stage.replicas[1]), &path, &headers).await;
    assert!(
        status == 404 && text.contains("runs no plugin"),
        "{status} {text}"
    );
    assert_eq!(stage.forwarded(), before);

    // A tenant forges the status of its Plugin: another host, and the other replica as its owner.
    let trap = TcpListener::bind("127.0.0.1:0").expect("a port");
    trap.set_nonblocking(true).expect("non-blocking");
    let address = trap.local_addr().expect("an address").to_string();
    let forged =
        json!({"status": {"host": address, "replica": address, "epoch": 1, "successor": 7}})
            .to_string();
    let patch = [
        "patch",
        "plugin",
        &plugin,
        "--subresource=status",
        "--type=merge",
        "-p",
        &forged,
    ];

    throughout(
        Duration::from_secs(3),
        "nobody connects to the forged address",
        async || {
            own.kubectl(&patch);
            let _either_way = run(&kubeconfig, &logs);
            trap.accept()
                .map_or(Ok(()), |_| Err("a connection".to_owned()))
        },
    )
    .await;

    // Without a Service the command goes where the status says, and without a token, as for a host
    // outside of the cluster.
    stage
        .control_plane
        .kubectl(&["delete", "service", "operetta", "-n", SYSTEM]);
    stage.control_plane.kubectl(&[
        "delete",
        "endpoints",
        "operetta",
        "-n",
        SYSTEM,
        "--ignore-not-found",
    ]);

    let named = refused(
        &kubeconfig,
        &[&logs[..], &["--host-namespace", SYSTEM]].concat(),
    );
    assert!(named.trim_end().ends_with("(ServiceNotFound)"), "{named}");

    for replica in &stage.replicas {
        replica.host.signal("STOP");
    }
    own.kubectl(&patch);
    trap.set_nonblocking(false).expect("blocking");

    let sent = thread::spawn(move || {
        let (mut connection, _) = trap.accept().expect("a connection");
        connection
            .set_read_timeout(Some(Duration::from_secs(2)))
            .expect("a timeout");
        let mut sent = Vec::new();
        let _timed_out = connection.read_to_end(&mut sent);
        String::from_utf8_lossy(&sent).into_owned()
    });

    let unanswered = refused(&kubeconfig, &logs);
    assert!(
        unanswered.trim_end().ends_with("(HostUnreachable)"),
        "{unanswered}"
    );
    let sent = sent.join().expect("a request").to_lowercase();
    assert!(
        sent.starts_with("get /logs/")
            && !sent.contains("authorization")
            && !sent.contains("bearer"),
        "{sent}"
    );
}

#[tokio::test]
async fn refusal_names_its_cure() {
    if needs_real_server("its API server proxies requests to a Service") {
        return;
    }
    let stage = Stage::new().await;
    let own = stage.control_plane.namespace("own").await;
    let plugin = stage.plugin(&own).await;
    let reader = stage.reader(&own, "reader");
    stage.let_through(&own, "reader");
    let logs = ["logs", &plugin, "-n", own.name()];

    let code = |error: String| {
        error
            .trim_end()
            .rsplit('(')
            .next()
            .unwrap_or_default()
            .trim_end_matches(')')
            .to_owned()
    };

    stage.pick(&[]);
    eventually("no endpoint", async || match refused(&reader, &logs) {
        error
            if error.contains("Pods of namespace operetta-system")
                && code(error.clone()) == "NoReadyReplica" =>
        {
            Ok(())
        }
        error => Err(error),
    })
    .await;

    // No process has this address.
    let gone = Endpoint {
        namespace: SYSTEM,
        name: "operetta-3",
        ip: "203.0.113.3",
    };
    stage
        .egress
        .create_pod(&stage.control_plane, gone, "127.0.0.1:1");

    stage.pick(&[gone]);
    let error = refused(&reader, &logs);
    assert_eq!(code(error.clone()), "ServiceUnreachable", "{error}");

    stage.pick(&PODS[1..]);
    let error = refused(&reader, &["logs", "nobody", "-n", own.name()]);
    assert_eq!(code(error.clone()), "PluginNotAssigned", "{error}");

    // A user without a token, such as one with a client certificate: here it is the anonymous one.
    let anonymous = anonymous(&stage.control_plane);
    let account = [
        "create",
        "rolebinding",
        "anonymous",
        "-n",
        SYSTEM,
        "--role=operetta-proxy",
        "--user=system:anonymous",
    ];
    stage.control_plane.kubectl(&account);

    eventually("a token is missing", async || {
        match refused(&anonymous, &logs) {
            error
                if error.contains("--service-account") && code(error.clone()) == "TokenMissing" =>
            {
                Ok(())
            }
            error => Err(error),
        }
    })
    .await;

    let token = own
        .kubectl(&["create", "token", "reader"])
        .trim()
        .to_owned();
    assert!(read(&anonymous, &[&logs[..], &["--token", &token]].concat()).contains(FIRST_LINE));
    let error = refused(&anonymous, &[&logs[..], &["--token", "expired"]].concat());
    assert_eq!(code(error.clone()), "TokenRefused", "{error}");
    for (audience, is_accepted) in [("operetta.dev", true), ("elsewhere", false)] {
        let token = own
            .kubectl(&["create", "token", "reader", "--audience", audience])
            .trim()
            .to_owned();
        let output = run(&anonymous, &[&logs[..], &["--token", &token]].concat());
        assert_eq!(
            output.status.success(),
            is_accepted,
            "{audience}: {output:?}"
        );
    }

    // An administrator may create tokens of others.
    let administrator = stage.control_plane.kubeconfig().to_owned();
    let as_reader = [&logs[..], &["--service-account", "reader"]].concat();
    assert!(read(&administrator, &as_reader).contains(FIRST_LINE));

    let [first, second] = &stage.replicas;
    let informers = run(&administrator, &["informers", "--replica", &first.identity]);
    assert!(informers.status.success(), "{informers:?}");
    let informers = run(&administrator, &["informers"]);
    let note = String::from_utf8_lossy(&informers.stderr).into_owned();
    assert!(
        informers.status.success() && note.contains(&second.identity),
        "{informers:?}"
    );

    // When the replica that runs the plugin is stopped, the other one says so.
    first.host.signal("STOP");
    let error = refused(&reader, &logs);
    first.host.signal("CONT");
    assert_eq!(code(error.clone()), "ReplicaUnreachable", "{error}");
}

/// Returns a kubeconfig without credentials.
fn anonymous(control_plane: &ControlPlane) -> PathBuf {
    let text = std::fs::read_to_string(control_plane.kubeconfig()).expect("a kubeconfig");
    let mut kubeconfig: Value = serde_yaml_ng::from_str(&text).expect("a kubeconfig");
    kubeconfig["users"][0]["user"] = json!({});
    let path = control_plane.folder().join("kubeconfig-anonymous");
    std::fs::write(&path, kubeconfig.to_string()).expect("written");
    path
}
