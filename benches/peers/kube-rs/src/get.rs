//! A read of one Pod by its key out of a reflector's store. There is no list by index to measure:
//! it has none.

use std::{
    fs::File,
    hint::black_box,
    io::{BufRead, BufReader},
    time::Instant,
};

use k8s_openapi::api::core::v1::Pod;
use kube::runtime::{
    reflector::{ObjectRef, Store, store::Writer},
    watcher,
};
use serde::Deserialize;

use crate::Outcome;

/// Asks for one round: the median of so many `passes` over `size` keys, one after the other of the
/// first `among` of all.
#[derive(Deserialize)]
pub struct Question {
    file: String,
    size: usize,
    passes: usize,
    among: usize,
}

/// The Pods of the file that was asked for first.
#[derive(Default)]
pub struct Held {
    pods: Option<(Store<Pod>, Vec<ObjectRef<Pod>>)>,
    next: usize,
}

impl Held {
    /// Microseconds of a read, until the object is at hand.
    pub fn round(&mut self, question: &Question) -> Outcome<f64> {
        let (store, keys) = match &mut self.pods {
            Some(pods) => pods,
            none => none.insert(read(&question.file)?),
        };
        let among = question.among.min(keys.len());
        let mut passes: Vec<f64> = (0..question.passes.max(1))
            .map(|_| {
                let start = Instant::now();
                for _ in 0..question.size {
                    let pod = store.get(&keys[self.next % among]);
                    black_box(
                        pod.and_then(|pod| Some(pod.spec.as_ref()?.node_name.as_ref()?.len())),
                    );
                    self.next += 1;
                }
                start.elapsed().as_secs_f64() * 1e6 / question.size as f64
            })
            .collect();
        passes.sort_by(f64::total_cmp);
        Ok(passes[passes.len() / 2])
    }
}

fn read(file: &str) -> Outcome<(Store<Pod>, Vec<ObjectRef<Pod>>)> {
    let mut writer = Writer::<Pod>::new(());
    writer.apply_watcher_event(&watcher::Event::Init);
    writer.apply_watcher_event(&watcher::Event::InitDone);
    for line in BufReader::new(File::open(file)?).lines() {
        writer.apply_watcher_event(&watcher::Event::Apply(serde_json::from_str(&line?)?));
    }
    let store = writer.as_reader();
    // Of a map: in no order.
    let keys = store
        .state()
        .iter()
        .map(|pod| ObjectRef::from_obj(pod.as_ref()))
        .collect();
    Ok((store, keys))
}
