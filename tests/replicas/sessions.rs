//! The page's sessions behind a Service: a browser signs in at one replica, and its next requests
//! reach others.

use std::time::{Duration, Instant};

use http_body_util::BodyExt;
use operetta_testkit::{
    ControlPlane, DropIn, HostOptions, TestNamespace, eventually, guest, https,
};
use serde_json::{Value, json};

use crate::stage::{Replica, control_plane, drop_in, names_for, until_run_by};

/// How long a member that was stopped stays one is up to the Lease.
const CONFIG: &str = "{replicas: {leaseSeconds: 4}, secureEndpoints: {address: '127.0.0.1:0'}}";

/// The longest time until an event of a stream arrives.
const PATIENCE: Duration = Duration::from_secs(30);

/// Where a browser sends requests that change something.
const SAME_ORIGIN: (&str, &str) = ("sec-fetch-site", "same-origin");

/// A whole response.
#[derive(Debug)]
struct Answer {
    status: u16,
    headers: http::HeaderMap,
    body: String,
}

impl Answer {
    fn header(&self, name: &str) -> &str {
        let value = self.headers.get(name);
        value
            .and_then(|value| value.to_str().ok())
            .unwrap_or_default()
    }

    fn json(&self) -> Value {
        serde_json::from_str(&self.body)
            .unwrap_or_else(|error| panic!("{}: {error}: {}", self.status, self.body))
    }
}

/// What a browser keeps of a sign-in.
#[derive(Clone)]
struct Session {
    cookie: String,
    secret: String,
}

impl Session {
    async fn sign_in(replica: &Replica, token: &str) -> Self {
        let form = format!("token={token}&next=/page/plugins");
        let answer = send("POST", replica, "/page/sign-in", &[SAME_ORIGIN], &form).await;
        assert_eq!(answer.status, 200, "{answer:?}");

        let cookie = answer.header("set-cookie").split(';').next();
        let secret = answer.body.split("data-secret=\"").nth(1);
        let secret = secret.and_then(|rest| rest.split('"').next());
        Self {
            cookie: cookie.expect("a cookie").to_owned(),
            secret: secret.expect("a secret").to_owned(),
        }
    }

    fn both(&self) -> [(&str, &str); 2] {
        [
            ("cookie", self.cookie.as_str()),
            ("x-operetta-session", self.secret.as_str()),
        ]
    }

    async fn get(&self, replica: &Replica, path: &str) -> Answer {
        send("GET", replica, path, &self.both(), "").await
    }
}

fn secure(replica: &Replica) -> String {
    replica.host.logged("secure").expect("an address")
}

async fn send(
    method: &str,
    replica: &Replica,
    path: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> Answer {
    let response = https::open(method, &secure(replica), path, headers, body).await;
    let (head, body) = response.into_parts();
    let body = body.collect_bytes().await.expect("a body");
    Answer {
        status: head.status.as_u16(),
        headers: head.headers,
        body: String::from_utf8_lossy(&body).into_owned(),
    }
}

async fn three(control_plane: &ControlPlane) -> [Replica; 3] {
    let options = HostOptions {
        config: CONFIG.to_owned(),
        ..HostOptions::default()
    };
    [
        Replica::start_with(control_plane, options.clone()).await,
        Replica::start_with(control_plane, options.clone()).await,
        Replica::start_with(control_plane, options).await,
    ]
}

/// Creates a ServiceAccount that may read Plugins and ConfigMaps in its namespace. Returns a token of
/// it.
fn token(namespace: &TestNamespace<'_>) -> String {
    let account = format!("--serviceaccount={}:user", namespace.name());
    namespace.kubectl(&["create", "serviceaccount", "user"]);
    namespace.kubectl(&[
        "create",
        "role",
        "user",
        "--verb=get,list,watch",
        "--resource=plugins.operetta.dev,configmaps",
    ]);
    namespace.kubectl(&["create", "rolebinding", "user", "--role=user", &account]);
    namespace
        .kubectl(&["create", "token", "user"])
        .trim()
        .to_owned()
}

fn forwarded(replica: &Replica) -> u64 {
    replica
        .host
        .metric("operetta_user_requests_forwarded_total", &[]) as u64
}

fn reason_of(answer: &Answer) -> (u16, String) {
    let reason = answer.json()["reason"]
        .as_str()
        .unwrap_or_default()
        .to_owned();
    (answer.status, reason)
}

#[tokio::test]
async fn session_is_used_through_every_replica() {
    let control_plane = control_plane();
    let [first, second, third] = three(&control_plane).await;
    let namespace = control_plane.namespace("sessions").await;
    let token = token(&namespace);
    let user = format!("system:serviceaccount:{}:user", namespace.name());

    let session = Session::sign_in(&first, &token).await;
    for replica in [&first, &second, &third] {
        let me = session.get(replica, "/page/api/me").await;
        assert_eq!(me.status, 200, "{me:?}");
        let me = me.json();
        assert_eq!(
            (me["user"].as_str(), me["host"].as_str()),
            (Some(user.as_str()), Some(first.identity.as_str()))
        );
    }

    // A request about a Plugin goes on to the replica that runs it: here to the third one.
    namespace.allow_all("plugin").await;
    let all = [&first, &second, &third];
    let plugin = names_for(&third, &all, namespace.name(), 1).remove(0);
    drop_in(&namespace, &plugin).await;
    until_run_by(&namespace, &plugin, &third).await;
    let path = format!("/page/api/plugins/{}/{plugin}", namespace.name());
    eventually("the replicas know who runs it", async || {
        for replica in all {
            let answer = session.get(replica, &path).await;
            if answer.status != 200 || answer.header("x-operetta-replica") != third.identity {
                return Err(format!("{answer:?}"));
            }
            // Only the one that runs the Plugin knows its controllers.
            if answer.json()["controllers"][0]["name"].is_null() {
                return Err(format!("{answer:?}"));
            }
        }
        Ok(())
    })
    .await;

    // A stream comes through as it is sent.
    let accept = [&session.both()[..], &[("accept", "text/event-stream")]].concat();
    let stream = https::open("GET", &secure(&second), "/page/api/plugins", &accept, "").await;
    assert_eq!(stream.status(), 200);
    assert_eq!(stream.headers()["x-accel-buffering"], "no");
    let mut body = stream.into_body();
    let mut text = String::new();
    let until_event = async {
        while !text.contains(&plugin) {
            let frame = body.frame().await.expect("it goes on").expect("a frame");
            text += &String::from_utf8_lossy(frame.data_ref().expect("data"));
        }
    };
    tokio::time::timeout(PATIENCE, until_event)
        .await
        .expect("an event");
    let open = second.host.metric("operetta_user_streams", &[]);
    assert!((open - 1.0).abs() < 0.5, "{open} streams");
    drop(body);
    eventually("the stream ends with its reader", async || {
        match second.host.metric("operetta_user_streams", &[]) {
            open if open < 0.5 => Ok(()),
            open => Err(format!("{open} streams")),
        }
    })
    .await;

    // Signing out at any replica ends it at all.
    let headers = [&session.both()[..], &[SAME_ORIGIN]].concat();
    let out = send("POST", &third, "/page/sign-out", &headers, "").await;
    assert!(
        out.status == 303 && out.header("set-cookie").contains("Max-Age=0"),
        "{out:?}"
    );
    let me = session.get(&first, "/page/api/me").await;
    assert_eq!(reason_of(&me), (401, "TokenMissing".to_owned()));

    for replica in [&first, &second, &third] {
        replica.host.assert_sound();
    }
}

#[tokio::test]
async fn session_goes_to_its_replica_only_and_once() {
    let control_plane = control_plane();
    let [first, second, third] = three(&control_plane).await;
    let namespace = control_plane.namespace("sessions").await;
    let token = token(&namespace);
    let session = Session::sign_in(&first, &token).await;

    // Without its secret it opens nothing, and nothing is forwarded.
    let cookie_only = &session.both()[..1];
    let me = send("GET", &second, "/page/api/me", cookie_only, "").await;
    assert_eq!(reason_of(&me), (401, "TokenMissing".to_owned()));
    let page = send("GET", &second, "/page/plugins", cookie_only, "").await;
    assert!(
        page.status == 200 && page.body.contains("<script") && !page.body.contains(":user"),
        "{page:?}"
    );
    assert_eq!(forwarded(&second), 0);

    // With another secret, its replica refuses the question, and the request isn't forwarded.
    let forged = Session {
        secret: "0".repeat(64),
        ..session.clone()
    };
    let answer = forged.get(&second, "/page/api/plugins").await;
    assert_eq!(reason_of(&answer), (401, "TokenMissing".to_owned()));
    assert_eq!(forwarded(&second), 1, "the question");

    // Nor is one that claims to have been forwarded already.
    let headers = [
        &session.both()[..],
        &[("x-operetta-forwarded-by", "anybody")],
    ]
    .concat();
    let answer = send("GET", &second, "/page/api/me", &headers, "").await;
    assert_eq!(answer.status, 401, "{answer:?}");
    assert_eq!(forwarded(&second), 1);

    // What isn't an epoch of the group selects no replica.
    let (id, epoch) = session.cookie.rsplit_once('.').expect("an epoch");
    let later = epoch.parse::<u32>().expect("a number") + 1_000;
    for (cookie, status) in [
        (format!("{id}.127.0.0.1:1"), 401),
        (format!("{id}.{}", first.identity), 401),
        (format!("{id}.1"), 401),
        (format!("{id}.{later}"), 503),
    ] {
        let other = Session {
            cookie,
            ..session.clone()
        };
        let answer = other.get(&second, "/page/api/me").await;
        assert_eq!(answer.status, status, "{} {answer:?}", other.cookie);
    }
    assert_eq!(forwarded(&second), 1);

    // A replica that leaves takes its sessions along, and the others say so.
    first.host.signal("TERM");
    assert!(first.host.ended().await.success(), "{}", first.host.log());
    eventually("the session is gone", async || {
        for replica in [&second, &third] {
            let answer = session.get(replica, "/page/api/me").await;
            let is_told = answer
                .body
                .contains("sign in again: the replica of the host that had your session is gone");
            if answer.status != 401 || !is_told {
                return Err(format!("{answer:?}"));
            }
        }
        Ok(())
    })
    .await;

    let page = session.get(&second, "/page/plugins").await;
    assert_eq!(page.status, 303, "{page:?}");
    let form = session.get(&second, page.header("location")).await;
    assert!(
        form.status == 200 && form.body.contains("had your session is gone"),
        "{form:?}"
    );
    let again = Session::sign_in(&second, &token).await;
    assert_eq!(again.get(&third, "/page/api/me").await.status, 200);

    second.host.assert_sound();
    third.host.assert_sound();
}

/// Only the replica that runs a Plugin knows its failing keys, and each shows them. However many
/// tables are open, it is asked once in two seconds.
#[tokio::test]
async fn object_that_fails_on_another_replica_is_unhealthy_in_each_table() {
    const TABLES: usize = 4;
    let control_plane = control_plane();
    let [first, second, third] = three(&control_plane).await;
    let namespace = control_plane.namespace("unhealthy").await;
    let token = token(&namespace);
    namespace.allow_all("plugin").await;
    namespace.create_touchable("target").await;

    let all = [&first, &second, &third];
    let plugin = names_for(&second, &all, namespace.name(), 1).remove(0);
    let trap = DropIn::new(&plugin, guest("fixture-misbehave")).config(json!({"do": "trap"}));
    namespace.drop_in(&trap).await;

    let path = format!(
        "/page/api/kinds/core/v1/configmaps?namespace={}",
        namespace.name()
    );
    let of_first = Session::sign_in(&first, &token).await;
    let of_third = Session::sign_in(&third, &token).await;
    eventually("the object is unhealthy at each replica", async || {
        for (replica, session) in [(&first, &of_first), (&third, &of_third)] {
            let answer = session.get(replica, &path).await;
            let table = answer.json();
            let mut rows = table["rows"].as_array().into_iter().flatten();
            let row = rows.find(|row| row["name"] == "target");
            if row.is_none_or(|row| row["health"] != "bad") {
                return Err(format!("{}: {answer:?}", replica.identity));
            }
        }
        Ok(())
    })
    .await;

    let accept = [&of_third.both()[..], &[("accept", "text/event-stream")]].concat();
    let target = format!("\"{}/target\"", namespace.name());
    let mut tables = Vec::new();
    for _ in 0..TABLES {
        let stream = https::open("GET", &secure(&third), &path, &accept, "").await;
        let mut body = stream.into_body();
        let mut text = String::new();
        let until_told = async {
            while !text.contains("\"objects\":[") || !text.contains(&target) {
                let frame = body.frame().await.expect("it goes on").expect("a frame");
                text += &String::from_utf8_lossy(frame.data_ref().expect("data"));
            }
        };
        tokio::time::timeout(PATIENCE, until_told)
            .await
            .expect("an event");
        tables.push(body);
    }

    let before = forwarded(&third);
    let begin = Instant::now();
    tokio::time::sleep(Duration::from_secs(10)).await;
    let asked = forwarded(&third) - before;
    let rounds = begin.elapsed().as_secs() / 2;
    assert!(
        (1..=rounds + 1).contains(&asked),
        "{asked} questions in {rounds} rounds"
    );

    drop(tables);
    for replica in all {
        replica.host.assert_sound();
    }
}
