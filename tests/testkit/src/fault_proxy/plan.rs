//! Assigns faults to requests.

use std::collections::{HashMap, VecDeque};

use hyper::{Method, Request, Uri, header};
use rand::{SeedableRng, rngs::StdRng};

use super::Fault;

/// The kind of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ask {
    /// A list, or a watch with `sendInitialEvents`, by which an informer gets the initial state.
    /// Every other read that is not a watch also counts as one.
    Sync,
    /// A watch from a resourceVersion.
    Watch,
    /// Any request. Only writes are of this kind and of no other.
    Any,
    /// Any request whose method, path and query contain this text, as in `PATCH /api/v1/`.
    To(&'static str),
}

impl Ask {
    pub(super) fn of<B>(request: &Request<B>) -> Self {
        if request.method() != Method::GET {
            return Self::Any;
        }

        let initial = pairs(request.uri())
            .any(|(name, value)| name == "sendInitialEvents" && value == "true");

        if is_watch(request.uri()) && !initial {
            Self::Watch
        } else {
            Self::Sync
        }
    }

    /// Reports whether this kind includes a request of the kind `of`. `text` is its method, path
    /// and query.
    pub(super) fn includes(self, of: Self, text: &str) -> bool {
        match self {
            Self::Any => true,
            Self::To(part) => text.contains(part),
            kind => kind == of,
        }
    }
}

/// The source of faults.
pub(super) struct Plan {
    seed: Option<u64>,
    /// Queued faults, each for the next request of its kind.
    script: VecDeque<(Ask, Fault)>,
    /// The number of requests of each resource.
    counts: HashMap<String, u64>,
}

impl Plan {
    pub(super) fn scripted() -> Self {
        Self {
            seed: None,
            script: VecDeque::new(),
            counts: HashMap::new(),
        }
    }

    pub(super) fn seeded(seed: u64) -> Self {
        Self {
            seed: Some(seed),
            ..Self::scripted()
        }
    }

    pub(super) fn line_up(&mut self, ask: Ask, fault: Fault) {
        self.script.push_back((ask, fault));
    }

    pub(super) fn fault_for<B>(&mut self, ask: Ask, request: &Request<B>) -> Fault {
        let text = format!("{} {}", request.method(), request.uri());

        if let Some(at) = self
            .script
            .iter()
            .position(|(wanted, _)| wanted.includes(ask, &text))
        {
            return self
                .script
                .remove(at)
                .map_or(Fault::None, |(_, fault)| fault);
        }

        let Some(seed) = self.seed.filter(|_| ask != Ask::Any) else {
            return Fault::None;
        };

        let thing = thing(ask, request);
        let count = self.counts.entry(thing.clone()).or_default();
        let text = format!("{seed} {count} {thing}");
        *count += 1;

        Fault::draw(
            &mut StdRng::seed_from_u64(fnv(text.as_bytes())),
            ask,
            is_watch(request.uri()),
        )
    }
}

/// Identifies the requested resource across runs: without the namespace, whose name differs in each
/// run.
fn thing<B>(ask: Ask, request: &Request<B>) -> String {
    let path = request.uri().path();

    let path = namespace_of(path).map_or_else(
        || path.to_owned(),
        |name| path.replace(&format!("/{name}/"), "/"),
    );

    let labels = pairs(request.uri())
        .find(|(name, _)| *name == "labelSelector")
        .map_or("", |(_, value)| value);

    let accept = request
        .headers()
        .get(header::ACCEPT)
        .and_then(|accept| accept.to_str().ok())
        .unwrap_or_default();

    format!("{ask:?} {path} {labels} {accept}")
}

/// Returns the namespace of a path, or None for a path without one.
pub(super) fn namespace_of(path: &str) -> Option<&str> {
    let (_, rest) = path.split_once("/namespaces/")?;
    rest.split_once('/').map(|(name, _)| name)
}

pub(super) fn is_watch(uri: &Uri) -> bool {
    pairs(uri).any(|(name, value)| name == "watch" && ["1", "true"].contains(&value))
}

fn pairs(uri: &Uri) -> impl Iterator<Item = (&str, &str)> {
    uri.query()
        .unwrap_or_default()
        .split('&')
        .filter_map(|pair| pair.split_once('='))
}

/// Hashes bytes with FNV-1a, which never changes, unlike the standard library's hash.
fn fnv(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(uri: &str) -> Request<()> {
        Request::get(uri).body(()).expect("a request")
    }

    #[test]
    fn distinguishes_lists_streamed_lists_and_watches() {
        for (uri, ask) in [
            ("/api/v1/configmaps?limit=500", Ask::Sync),
            (
                "/api/v1/configmaps?watch=1&sendInitialEvents=true",
                Ask::Sync,
            ),
            (
                "/api/v1/configmaps?watch=true&sendInitialEvents=false",
                Ask::Watch,
            ),
            (
                "/api/v1/configmaps?&watch=true&resourceVersion=7",
                Ask::Watch,
            ),
        ] {
            assert_eq!(Ask::of(&request(uri)), ask, "{uri}");
        }
    }

    #[test]
    fn seed_repeats_the_same_faults() {
        let faults = |namespace: &str, first: &str, second: &str| {
            let mut plan = Plan::seeded(7);

            let mut of = |kind: &str| -> Vec<Fault> {
                let request = request(&format!(
                    "/api/v1/namespaces/{namespace}/{kind}?watch=1&resourceVersion=3"
                ));
                (0..50)
                    .map(|_| plan.fault_for(Ask::Watch, &request))
                    .collect()
            };

            let mut found = [
                (first.to_owned(), of(first)),
                (second.to_owned(), of(second)),
            ];

            found.sort_by(|one, other| one.0.cmp(&other.0));
            found
        };

        assert_eq!(
            faults("a", "pods", "configmaps"),
            faults("b", "configmaps", "pods")
        );

        let [one, other] = faults("a", "pods", "configmaps");
        assert_ne!(one.1, other.1);
    }

    #[test]
    fn queued_faults_come_once_in_order() {
        let mut plan = Plan::scripted();
        plan.line_up(Ask::Watch, Fault::status(410));
        plan.line_up(Ask::Any, Fault::status(500));

        let list = request("/api/v1/pods");
        let mut drawn = |ask| plan.fault_for(ask, &list);
        let drawn = [
            drawn(Ask::Sync),
            drawn(Ask::Sync),
            drawn(Ask::Watch),
            drawn(Ask::Watch),
        ];

        assert_eq!(
            drawn,
            [
                Fault::status(500),
                Fault::None,
                Fault::status(410),
                Fault::None
            ]
        );
    }
}
