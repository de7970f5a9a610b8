//! What happens when the operator loses its rights: nothing more is sent, and streams end.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use bytes::Bytes;
use operetta_core::{
    authz::bindings::BindingText, gate::permit::RequestPermit, object::ObjectKey, replicas::Fence,
};

use crate::stage::{Options, Stage, Stream, get, once, piece, request, response};

const CONFIG_MAPS: &str = "/api/v1/namespaces/team/configmaps";
const WATCH: &str = "/api/v1/namespaces/team/configmaps?watch=true";

/// Within which time a stream must end.
const LIMIT: Duration = Duration::from_secs(2);

/// Opens a watch, takes a right away, and checks that the watch ends cleanly and in time.
async fn watch_ends(options: Options, is_http2: bool, revoke: impl AsyncFnOnce(&Stage)) -> Stage {
    let (stream, events, watched) = Stream::new();
    let stage = Stage::with(options, once(stream));
    stage.grants.set_watched(true);
    let response = if is_http2 {
        stage
            .http2()
            .await
            .send_request(get(WATCH))
            .await
            .expect("a response")
    } else {
        stage.send(get(WATCH)).await
    };
    let mut watch = response.into_body();
    events.send(Bytes::from_static(b"event")).expect("read");
    assert_eq!(
        piece(&mut watch).await.expect("open").expect("open"),
        "event"
    );

    let began = Instant::now();
    revoke(&stage).await;
    assert!(
        piece(&mut watch).await.is_none(),
        "it ends as by the API server's timeout"
    );
    assert!(began.elapsed() < LIMIT, "after {:?}", began.elapsed());
    assert!(watched.is_dropped.load(Ordering::Acquire));
    stage
}

#[tokio::test]
async fn revoked_permit_ends_a_watch_and_refuses_the_next() {
    for is_http2 in [false, true] {
        let revoke =
            async |stage: &Stage| stage.permit.revoke("the ServiceAccount does not consent");
        let stage = watch_ends(Options::default(), is_http2, revoke).await;
        for method in ["GET", "PUT"] {
            let (code, status) = stage
                .send_for_json(request(method, &format!("{CONFIG_MAPS}/a"), "{}"))
                .await;
            assert_eq!(
                (code, &status["message"]),
                (403, &"the ServiceAccount does not consent".into())
            );
        }
        assert_eq!(stage.received().len(), 1, "only the watch");
    }
}

#[tokio::test]
async fn paused_permit_ends_a_watch_until_it_is_resumed() {
    let revoke = async |stage: &Stage| stage.permit.pause("the watch of consent is stale");
    let stage = watch_ends(Options::default(), false, revoke).await;
    assert_eq!(stage.send(get(CONFIG_MAPS)).await.status(), 503);
    stage.permit.resume();
    assert_eq!(stage.send(get(CONFIG_MAPS)).await.status(), 200);
}

/// Adds or removes a binding of the operator's account.
fn change_rights(stage: &Stage, is_bound: bool) {
    let binding = ObjectKey::namespaced("team", "binding");
    let text = BindingText {
        subjects: r#"[{"kind":"ServiceAccount","namespace":"team","name":"operator"}]"#,
        role: r#"{"kind":"Role","name":"reader"}"#,
    };
    let text = is_bound.then_some(text);
    stage.grants.binding_changed(&binding, text);
}

#[tokio::test]
async fn lost_right_ends_a_watch_and_another_change_does_not() {
    let revoke = async |stage: &Stage| {
        change_rights(stage, true);
        tokio::time::sleep(Duration::from_millis(100)).await;
        assert_eq!(stage.endpoint.requests(), 1, "it may still watch");
        stage.allows.store(false, Ordering::Release);
        change_rights(stage, false);
    };
    watch_ends(Options::default(), false, revoke).await;
}

#[tokio::test]
async fn list_that_is_revoked_in_its_middle_is_no_whole_one() {
    let (stream, pieces, _) = Stream::new();
    let stage = Stage::with(Options::default(), once(stream));
    let mut list = stage.send(get(CONFIG_MAPS)).await.into_body();
    pieces
        .send(Bytes::from_static(b"{\"items\":["))
        .expect("read");
    piece(&mut list).await.expect("open").expect("open");
    stage.permit.revoke("no consent");
    assert!(matches!(piece(&mut list).await, Some(Err(_))));
}

#[tokio::test]
async fn endpoint_that_is_gone_ends_its_streams() {
    let (stream, _events, watched) = Stream::new();
    let stage = Stage::with(Options::default(), once(stream));
    let mut watch = stage.send(get(WATCH)).await.into_body();
    drop(stage);
    assert!(piece(&mut watch).await.is_none());
    assert!(watched.is_dropped.load(Ordering::Acquire));
}

static NOW: AtomicU64 = AtomicU64::new(10_000);

fn clock() -> Duration {
    Duration::from_millis(NOW.load(Ordering::Acquire))
}

#[tokio::test]
async fn nothing_is_written_once_the_lease_may_have_ended() {
    let fence = Fence::new(clock);
    fence.extend(Duration::from_secs(14));
    let options = Options {
        permit: RequestPermit::fenced(fence.clone()).child(),
        ..Options::default()
    };
    let stage = Stage::with(options, |_| {
        Box::pin(async { response(200, "application/json", "{}") })
    });
    let put = || request("PUT", &format!("{CONFIG_MAPS}/a"), "{}");
    assert_eq!(stage.send(put()).await.status(), 200);
    // The API server is asked to end it in time.
    let timeout = format!("PUT {CONFIG_MAPS}/a?timeout=3850ms");
    assert_eq!(stage.received(), [timeout]);

    NOW.fetch_add(4_000, Ordering::AcqRel);
    let (code, status) = stage.send_for_json(put()).await;
    let message = status["message"].as_str().unwrap_or_default();
    assert!(
        code == 503 && message.contains("has not renewed its Lease in time"),
        "{status}"
    );
    assert_eq!(stage.received().len(), 1);
    assert_eq!(
        stage.audited.all().len(),
        1,
        "what the gate refuses is no write"
    );

    fence.extend(Duration::from_secs(20));
    assert_eq!(stage.send(put()).await.status(), 200);
}

#[tokio::test]
async fn closed_fence_ends_a_watch() {
    let fence = Fence::new(|| Duration::ZERO);
    fence.extend(Duration::from_secs(14));
    let permit: Arc<RequestPermit> = RequestPermit::fenced(fence.clone()).child();
    let options = Options {
        permit,
        ..Options::default()
    };
    watch_ends(options, true, async |_| fence.close()).await;
}
