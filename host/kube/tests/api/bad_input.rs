//! Input that an API server should never send, one thing at a time: the informer reports what and
//! of which object, in its state or as a warning, and goes on with the others.

use std::{
    io,
    sync::{Arc, OnceLock},
    time::Duration,
};

use operetta_kube::informer::Informer;
use operetta_testkit::{Ask, BadEvent, Fault, eventually};
use parking_lot::Mutex;
use tokio::task::JoinHandle;
use tracing::Level;

use crate::rig::{Rig, until_stored};

/// The warnings of this program.
#[derive(Clone, Default)]
struct Warnings(Arc<Mutex<Vec<u8>>>);

impl io::Write for Warnings {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn warnings() -> &'static Warnings {
    static WARNINGS: OnceLock<Warnings> = OnceLock::new();
    WARNINGS.get_or_init(|| {
        let warnings = Warnings::default();
        let writer = warnings.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_max_level(Level::WARN)
            .with_ansi(false);
        subscriber.with_writer(move || writer.clone()).init();
        warnings
    })
}

/// Everything that an informer says of errors, as it comes.
struct Said {
    from_state: Arc<Mutex<Vec<String>>>,
    task: JoinHandle<()>,
}

impl Said {
    fn by(informer: &Arc<Informer>) -> Self {
        warnings();
        let from_state: Arc<Mutex<Vec<String>>> = Arc::default();
        let mut state = informer.state();
        let kept = from_state.clone();
        let task = tokio::spawn(async move {
            loop {
                let error = state.borrow_and_update().error.clone();
                kept.lock().extend(error);
                if state.changed().await.is_err() {
                    return;
                }
            }
        });
        Self { from_state, task }
    }

    /// Waits for one line that has all these words.
    async fn until(&self, what: BadEvent, words: &[&str]) {
        eventually(
            &format!("{what:?} is delivered with {words:?}"),
            async || {
                let logged = warnings().0.lock().clone();
                let logged = String::from_utf8_lossy(&logged).into_owned();
                let mut lines = self.from_state.lock().clone();
                lines.extend(logged.lines().map(str::to_owned));
                let has_all = |line: &String| words.iter().all(|word| line.contains(word));
                if lines.iter().any(has_all) {
                    Ok(())
                } else {
                    Err(format!("{lines:#?}"))
                }
            },
        )
        .await;
    }
}

impl Drop for Said {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// What the words about it have to contain: the kind, and the key as far as there is one. None:
/// there is nothing to say.
fn words(what: BadEvent, namespace: &str) -> Option<Vec<String>> {
    let kind = "ConfigMap".to_owned();
    match what {
        BadEvent::Unnamed => Some(vec![kind, "name".to_owned()]),
        BadEvent::NotJson => Some(vec![kind]),
        _ if what.comes_and_goes() => None,
        _ => Some(vec![kind, format!("{namespace}/{}", what.name())]),
    }
}

/// Something bad in the middle of a watch.
async fn on_a_watch(what: BadEvent) {
    let rig = Rig::new("bad").await;
    rig.create("before").await;
    let informer = rig.config_maps().await;
    let said = Said::by(&informer);
    informer.synced().await;
    rig.watch_anew(Fault::Bad { what, after: 1 }).await;
    rig.create("with").await;
    rig.create("after").await;
    rig.delete("before").await;
    until_stored(&rig, &informer, "after").await;
    if let Some(words) = words(what, rig.stage.namespace.name()) {
        said.until(what, &words.iter().map(String::as_str).collect::<Vec<_>>())
            .await;
    }
    eventually(&format!("the others, after {what:?}"), async || {
        let names: Vec<String> = informer
            .cache
            .store
            .keys()
            .into_iter()
            .map(|key| key.name)
            .collect();
        if names == ["after", "with"] {
            Ok(())
        } else {
            Err(format!("{names:?}"))
        }
    })
    .await;
}

/// Something bad among what there is at first.
async fn in_a_list(what: BadEvent, rig: Rig) {
    let streams = rig.timing.streaming_lists;
    rig.create("a").await;
    rig.create("b").await;
    rig.proxy.next(Ask::Sync, Fault::Bad { what, after: 1 });
    let informer = rig.config_maps().await;
    let said = Said::by(&informer);
    let synced = tokio::time::timeout(Duration::from_secs(60), informer.synced()).await;
    assert!(
        synced.is_ok(),
        "{what:?}: never synced: {:#?}",
        rig.proxy.asked()
    );
    let names: Vec<String> = informer
        .cache
        .store
        .keys()
        .into_iter()
        .map(|key| key.name)
        .collect();
    assert_eq!(names, ["a", "b"], "{what:?}");
    // A plain list has no events, and so none of an unknown type.
    let words = words(what, rig.stage.namespace.name())
        .filter(|_| streams || what != BadEvent::UnknownType);
    if let Some(words) = words {
        said.until(what, &words.iter().map(String::as_str).collect::<Vec<_>>())
            .await;
    }
}

/// Each is a test of its own, by the name of what is bad.
macro_rules! each {
    ($($name:ident: $what:ident)*) => {$(
        mod $name {
            use super::*;

            #[tokio::test]
            async fn between_two_events_is_told_and_the_others_keep_working() {
                on_a_watch(BadEvent::$what).await;
            }

            #[tokio::test]
            async fn bad_object_in_first_list_is_reported() {
                in_a_list(BadEvent::$what, Rig::new("bad").await).await;
            }

            #[tokio::test]
            async fn bad_object_in_streaming_list_is_reported() {
                in_a_list(BadEvent::$what, Rig::streaming("bad").await).await;
            }
        }
    )*};
}

each! {
    an_object_without_a_name: Unnamed
    an_object_without_a_resource_version: NoResourceVersion
    an_object_with_metadata_of_a_wrong_type: WrongType
    an_object_that_is_not_utf8: InvalidUtf8
    an_event_of_an_unknown_type: UnknownType
    a_line_that_is_not_json: NotJson
    an_object_with_fields_twice: DuplicateKeys
    an_object_that_is_nested_deeply: Deep
    an_object_with_unknown_fields: UnknownFields
    an_object_of_three_mebibytes: Large
}
