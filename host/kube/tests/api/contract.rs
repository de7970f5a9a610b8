//! The promises of client-go's shared informer, in the contract of its shared_informer.go and in
//! what its DeltaFIFO leaves out, one test for each. What is not here is in informer.rs: that
//! additions, changes and deletions are delivered in order, that a late handler gets the store
//! first, that a removed one receives nothing more, and that what leaves the selector is delivered
//! as deleted.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    time::Duration,
};

use operetta_core::{handler::event::Event, manifest::IndexKey, object::Object};
use operetta_kube::{
    informer::Handler,
    store::{Lookup, overlay::Author},
};
use operetta_testkit::{Ask, Fault, eventually};
use parking_lot::Mutex;
use tokio::time::sleep;

use crate::{
    config_map,
    informer::Notes,
    rig::{Rig, n_of, until_end, until_stored},
};

/// A handler that keeps what `pick` makes of events.
fn keep<T: Send + 'static>(
    pick: impl Fn(&Event) -> Option<T> + Send + Sync + 'static,
) -> (Handler, Arc<Mutex<Vec<T>>>) {
    let kept: Arc<Mutex<Vec<T>>> = Arc::default();
    let keep = kept.clone();
    let handler: Handler = Arc::new(move |event| {
        if let Some(picked) = pick(event) {
            keep.lock().push(picked);
        }
    });
    (handler, kept)
}

fn revision(object: &Object) -> u64 {
    object.revision().expect("a resourceVersion")
}

#[tokio::test]
async fn cache_starts_empty_then_holds_the_collection() {
    let rig = Rig::new("starts").await;
    rig.create("a").await;
    rig.create("b").await;
    let late = Fault::Delay(Duration::from_millis(300));
    rig.proxy.next(Ask::Sync, late.clone());
    let informer = rig.config_maps().await;
    rig.until_met(&late, 1).await;
    assert!(informer.cache.store.is_empty() && !informer.state().borrow().synced);
    informer.synced().await;
    let names: Vec<String> = informer
        .cache
        .store
        .keys()
        .into_iter()
        .map(|key| key.name)
        .collect();
    assert_eq!(names, ["a", "b"]);
}

#[tokio::test]
async fn a_list_that_breaks_off_does_not_count_as_synced() {
    let rig = Rig::new("breaks").await;
    rig.create("a").await;
    for fault in [
        Fault::Cut { after: 100 },
        Fault::Html { code: 200 },
        Fault::CloseBeforeHead,
        Fault::status(500),
    ] {
        rig.proxy.next(Ask::Sync, fault);
    }
    let informer = rig.config_maps().await;
    informer.synced().await;
    assert_eq!(
        informer.cache.store.len(),
        1,
        "synced with everything, or not at all"
    );
    assert!(rig.proxy.count(Ask::Sync) >= 5, "{}", rig.proxy.schedule());
}

#[tokio::test]
async fn an_empty_collection_syncs_also_when_it_comes_as_null() {
    let rig = Rig::new("empty").await;
    rig.proxy.next(Ask::Sync, Fault::NullItems);
    let informer = rig.config_maps().await;
    informer.synced().await;
    assert!(informer.cache.store.is_empty());
    let notes = Notes::default();
    let _subscription = informer.subscribe(notes.handler(&informer), None);
    rig.create("a").await;
    notes.until(&["+a"]).await;
}

#[tokio::test]
async fn every_handler_is_told_every_change() {
    let rig = Rig::new("every").await;
    let informer = rig.config_maps().await;
    informer.synced().await;
    let all: Vec<Notes> = (0..3).map(|_| Notes::default()).collect();
    let _subscriptions: Vec<_> = all
        .iter()
        .map(|notes| informer.subscribe(notes.handler(&informer), None))
        .collect();
    rig.create("a").await;
    rig.change("a", 1).await;
    rig.delete("a").await;
    for notes in &all {
        notes.until(&["+a", "~a", "-a"]).await;
    }
}

#[tokio::test]
async fn handler_runs_after_the_index_update() {
    let rig = Rig::new("index").await;
    let informer = rig.config_maps().await;
    informer.synced().await;
    let by_n = IndexKey::Path(".data.n".into());
    let _used = informer.cache.store.declare_index(&by_n);
    let store = informer.cache.store.clone();
    let name = by_n.clone();
    let in_index = move |n: &str| {
        store
            .list(
                &Lookup::Index {
                    key: name.clone(),
                    value: n.into(),
                },
                None,
                None,
            )
            .len()
            > 0
    };
    let (handler, kept) = keep(move |_| Some((in_index("1"), in_index("2"))));
    let _subscription = informer.subscribe(handler, None);
    rig.create("a").await;
    rig.change("a", 1).await;
    rig.change("a", 2).await;
    rig.delete("a").await;
    let wanted = [(false, false), (true, false), (false, true), (false, false)];
    eventually("all is delivered", async || {
        let kept = kept.lock().clone();
        if kept == wanted {
            Ok(())
        } else {
            Err(format!("{kept:?}"))
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_handler_is_never_called_twice_at_once() {
    let rig = Rig::new("sequential").await;
    let informer = rig.config_maps().await;
    let busy = AtomicBool::new(false);
    let overlaps = Arc::new(AtomicU32::new(0));
    let calls = Arc::new(AtomicU32::new(0));
    let found = overlaps.clone();
    let called = calls.clone();
    let handler: Handler = Arc::new(move |_| {
        if busy.swap(true, Ordering::SeqCst) {
            found.fetch_add(1, Ordering::SeqCst);
        }
        std::thread::sleep(Duration::from_millis(1));
        called.fetch_add(1, Ordering::SeqCst);
        busy.store(false, Ordering::SeqCst);
    });
    // Resyncs come from a task of their own.
    let _subscription = informer.subscribe(handler, Some(Duration::from_millis(3)));
    for at in 0..40 {
        rig.create(&format!("a{at}")).await;
    }
    eventually("many calls", async || {
        let calls = calls.load(Ordering::SeqCst);
        if calls > 500 {
            Ok(())
        } else {
            Err(calls.to_string())
        }
    })
    .await;
    assert_eq!(overlaps.load(Ordering::SeqCst), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn cache_list_is_one_snapshot_during_relist() {
    let rig = Rig::new("snapshot").await;
    for at in 0..100 {
        rig.create(&format!("a{at}")).await;
    }
    let informer = rig.config_maps().await;
    informer.synced().await;
    let store = informer.cache.store.clone();
    // Dropped with the test, however that ends.
    let (over, mut done) = tokio::sync::oneshot::channel::<()>();
    let reader = tokio::task::spawn_blocking(move || {
        let mut sizes = std::collections::BTreeSet::new();
        while done.try_recv() == Err(tokio::sync::oneshot::error::TryRecvError::Empty) {
            let names = store.list(&Lookup::All, None, None);
            let names = names.filter(|object| object.key().name.starts_with('a'));
            sizes.insert(names.count());
            std::thread::sleep(Duration::from_micros(50));
        }
        sizes
    });
    let synced = rig.proxy.count(Ask::Sync);
    for at in 0..20 {
        if rig.proxy.count(Ask::Sync) >= synced + 5 {
            break;
        }
        rig.watch_anew(Fault::Gone { after: 0 }).await;
        let name = format!("listed-{at}");
        rig.create(&name).await;
        until_stored(&rig, &informer, &name).await;
    }
    assert!(
        rig.proxy.count(Ask::Sync) >= synced + 5,
        "each watch that ends with 410 is followed by a list"
    );
    drop(over);
    assert_eq!(Vec::from_iter(reader.await.expect("it reads")), [100]);
}

#[tokio::test]
async fn deletion_has_last_state_and_newer_resource_version() {
    let rig = Rig::new("deletion").await;
    let informer = rig.config_maps().await;
    informer.synced().await;
    let (handler, kept) = keep(|event| {
        Some((
            matches!(event, Event::Deleted { .. }),
            event.object().clone(),
        ))
    });
    let _subscription = informer.subscribe(handler, None);
    rig.create("a").await;
    rig.change("a", 7).await;
    rig.delete("a").await;
    eventually("all is delivered", async || {
        let delivered = kept.lock().len();
        if delivered == 3 {
            Ok(())
        } else {
            Err(delivered.to_string())
        }
    })
    .await;
    let kept = kept.lock().clone();
    let [_, (false, changed), (true, deleted)] = kept.as_slice() else {
        panic!("{kept:?}")
    };
    assert_eq!(n_of(deleted), "7");
    assert!(
        revision(deleted) > revision(changed),
        "{} after {}",
        revision(deleted),
        revision(changed)
    );
}

#[tokio::test]
async fn resync_repeats_objects_without_requests() {
    let rig = Rig::new("resync").await;
    rig.create("a").await;
    rig.create("b").await;
    let informer = rig.config_maps().await;
    informer.synced().await;
    let (handler, kept) = keep(|event| {
        let object = event.object();
        event
            .old()
            .map(|old| (object.key().name.clone(), Arc::ptr_eq(old, object)))
    });
    let _subscription = informer.subscribe(handler, Some(Duration::from_millis(20)));
    // The watch that follows a list comes a moment after it.
    sleep(Duration::from_millis(200)).await;
    let asked = rig.proxy.asked().len();
    let delivered = kept.lock().len();
    eventually("three more resyncs", async || {
        let now = kept.lock().len();
        if now >= delivered + 6 {
            Ok(())
        } else {
            Err(now.to_string())
        }
    })
    .await;
    assert_eq!(rig.proxy.asked().len(), asked);
    let kept = kept.lock().clone();
    assert!(kept.iter().all(|(_, itself)| *itself), "{kept:?}");
    assert_eq!(
        kept.iter().filter(|(name, _)| name == "a").count(),
        kept.len() / 2
    );
}

#[tokio::test]
async fn broken_watch_resumes_and_reports_each_change() {
    let rig = Rig::new("resume").await;
    rig.create("a").await;
    let (notes, _subscription) = rig.delivered().await;
    let synced = rig.proxy.count(Ask::Sync);
    rig.proxy.outage();
    rig.change("a", 1).await;
    rig.change("a", 2).await;
    rig.create("b").await;
    rig.delete("b").await;
    rig.proxy.restore();
    notes.until(&["+a (initial)", "~a", "~a", "+b", "-b"]).await;
    assert_eq!(
        rig.proxy.count(Ask::Sync),
        synced,
        "nothing was relisted: {:#?}",
        rig.proxy.asked()
    );
}

#[tokio::test]
async fn watch_expired_midway_relists() {
    let rig = Rig::new("gone").await;
    let (notes, _subscription) = rig.delivered().await;
    let synced = rig.proxy.count(Ask::Sync);
    rig.watch_anew(Fault::Gone { after: 1 }).await;
    rig.create("a").await;
    rig.create("b").await;
    notes.until(&["+a", "+b"]).await;
    assert_eq!(rig.proxy.count(Ask::Sync), synced + 1);
}

#[tokio::test]
async fn watch_refused_as_expired_relists() {
    let rig = Rig::new("refused").await;
    let informer = rig.config_maps().await;
    informer.synced().await;
    let synced = rig.proxy.count(Ask::Sync);
    rig.watch_anew(Fault::status(410)).await;
    rig.create("a").await;
    until_stored(&rig, &informer, "a").await;
    assert_eq!(
        rig.proxy.count(Ask::Sync),
        synced + 1,
        "{:#?}",
        rig.proxy.asked()
    );
}

/// As client-go's REST client does.
#[tokio::test]
async fn a_retry_after_is_heeded() {
    let rig = Rig::new("later").await;
    let busy = Fault::Status {
        code: 429,
        retry_after: Some(2),
    };
    rig.proxy.next(Ask::Sync, busy);
    let informer = rig.config_maps().await;

    let mut state = informer.state();
    let throttled = state.wait_for(|state| state.error.is_some()).await;
    assert!(
        throttled.expect("an informer").throttled,
        "it is asked to wait, and nothing is broken"
    );
    informer.synced().await;
    let now = informer.state().borrow().clone();
    assert_eq!((now.error, now.throttled), (None, false));

    let asked = rig.proxy.asked();
    let pause = asked[1].at - asked[0].at;
    assert!(
        pause >= Duration::from_millis(1900),
        "{pause:?}: {asked:#?}"
    );
}

#[tokio::test]
async fn object_vanished_in_gap_is_reported_deleted() {
    let rig = Rig::new("vanished").await;
    rig.create("a").await;
    rig.change("a", 1).await;
    let (notes, subscription) = rig.delivered().await;
    let informer = subscription.informer();
    let (handler, kept) =
        keep(|event| matches!(event, Event::Deleted { .. }).then(|| event.object().clone()));
    let _keeps = informer.subscribe(handler, None);
    rig.gap(async || {
        rig.change("a", 2).await;
        rig.delete("a").await;
    })
    .await;
    assert_eq!(until_end(&notes).await, ["+a (initial)", "-a"]);
    let kept = kept.lock().clone();
    assert_eq!(
        kept.iter().map(|object| n_of(object)).collect::<Vec<_>>(),
        ["1"]
    );
}

#[tokio::test]
async fn transient_and_unchanged_objects_are_not_reported() {
    let rig = Rig::new("untold").await;
    rig.create("a").await;
    let (notes, _subscription) = rig.delivered().await;
    rig.gap(async || {
        rig.create("b").await;
        rig.delete("b").await;
    })
    .await;
    assert_eq!(until_end(&notes).await, ["+a (initial)"]);
}

#[tokio::test]
async fn own_write_that_vanished_in_gap_is_reported_deleted() {
    let rig = Rig::new("own-vanished").await;
    let (notes, subscription) = rig.delivered().await;
    let informer = subscription.informer();
    let author = Author::unique();
    let mut late = None;
    rig.gap(async || {
        informer.wrote(
            &rig.stage.create(config_map("a")).await.expect("created"),
            author,
        );
        rig.delete("a").await;
        informer.wrote(
            &rig.stage.create(config_map("kept")).await.expect("created"),
            author,
        );
        informer.wrote(
            &rig.stage
                .create(config_map("replaced"))
                .await
                .expect("created"),
            author,
        );
        rig.delete("replaced").await;
        rig.create("replaced").await;
        late = Some(rig.stage.create(config_map("late")).await.expect("created"));
        rig.delete("late").await;
    })
    .await;
    let mut told = until_end(&notes).await;
    told.sort();
    assert_eq!(told, ["+kept", "+replaced", "-a", "-replaced"]);
    let late = late.expect("created");
    informer.wrote(&late, author);
    assert_eq!(
        notes.all().last().map(String::as_str),
        Some("-late"),
        "the response came after the list"
    );
    assert!(informer.cache.get(late.key()).is_none());
}

#[tokio::test]
async fn changes_in_a_gap_are_one_event() {
    let rig = Rig::new("compressed").await;
    rig.create("a").await;
    rig.change("a", 1).await;
    let (notes, subscription) = rig.delivered().await;
    let informer = subscription.informer();
    let (handler, kept) = keep(|event| event.old().map(|old| (n_of(old), n_of(event.object()))));
    let _keeps = informer.subscribe(handler, None);
    rig.gap(async || {
        for n in 2..5 {
            rig.change("a", n).await;
        }
    })
    .await;
    assert_eq!(until_end(&notes).await, ["+a (initial)", "~a"]);
    assert_eq!(*kept.lock(), [("1".into(), "4".into())]);
}

/// client-go may tell this as one update from the old object to the new one; here it is delivered
/// as it was.
#[tokio::test]
async fn recreated_object_is_reported_deleted_and_added() {
    let rig = Rig::new("anew").await;
    rig.create("a").await;
    let (notes, _subscription) = rig.delivered().await;
    rig.gap(async || {
        rig.delete("a").await;
        rig.create("a").await;
    })
    .await;
    assert_eq!(until_end(&notes).await, ["+a (initial)", "-a", "+a"]);
}

#[tokio::test]
async fn a_deletion_that_comes_twice_is_told_once() {
    let rig = Rig::new("twice").await;
    rig.create("a").await;
    let (notes, _subscription) = rig.delivered().await;
    rig.watch_anew(Fault::Duplicate { line: 0 }).await;
    rig.delete("a").await;
    rig.create("b").await;
    notes.until(&["+a (initial)", "-a", "+b"]).await;
}

#[tokio::test]
async fn repeated_addition_is_reported_once() {
    let rig = Rig::new("twice").await;
    let (notes, _subscription) = rig.delivered().await;
    rig.watch_anew(Fault::Duplicate { line: 0 }).await;
    rig.create("a").await;
    rig.create("end").await;
    let delivered = until_end(&notes).await;
    assert_eq!(
        delivered.iter().filter(|line| *line == "+a").count(),
        1,
        "{delivered:?}"
    );
    assert_eq!(
        (delivered[0].as_str(), delivered.len() <= 2),
        ("+a", true),
        "{delivered:?}"
    );
}

#[tokio::test]
async fn refusal_shows_in_state_until_next_success() {
    let rig = Rig::new("errors").await;
    rig.proxy.next(Ask::Sync, Fault::status(500));
    rig.proxy
        .next(Ask::Sync, Fault::Delay(Duration::from_millis(400)));
    let informer = rig.config_maps().await;
    let mut state = informer.state();
    let said = state
        .wait_for(|state| state.error.is_some())
        .await
        .expect("it runs")
        .clone();
    assert!(
        !said.synced
            && said
                .error
                .as_ref()
                .is_some_and(|error| error.contains("injected by the fault proxy")),
        "{said:?}"
    );
    informer.synced().await;
    let mut state = informer.state();
    state
        .wait_for(|state| state.error.is_none())
        .await
        .expect("it runs");
}

#[tokio::test]
async fn a_watch_that_stalls_is_noticed() {
    let rig = Rig::impatient("stalls").await;
    let informer = rig.config_maps().await;
    informer.synced().await;
    for stall in [
        Fault::Stall { after: 0 },
        Fault::StallBeforeHead,
        Fault::Stall { after: 10 },
    ] {
        rig.watch_anew(stall).await;
    }
    rig.create("a").await;
    until_stored(&rig, &informer, "a").await;
}
