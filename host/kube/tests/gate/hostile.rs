//! Malformed calls. The gate must refuse each of them, whatever permissions the tenant has, and the
//! error must reveal nothing.

use operetta_core::{
    gate::{
        Session,
        operation::{Get, List, ListOptions, PatchBody, Read, Write, WriteAction, WriteOptions},
        raw_request::RawRequest,
    },
    object::{ObjectKey, kind::GroupVersionKind},
};
use rand::{Rng, rngs::StdRng, seq::IndexedRandom};

use crate::call::Answer;

/// Hostile values of an apiVersion. `NS` stands for the victim's namespace.
const API_VERSIONS: &[&str] = &[
    "v1/namespaces/NS",
    "v1/namespaces/NS/secrets",
    "apps/v1/watch",
    "../api/v1",
    "v1/watch/namespaces/NS",
    "v1?watch=1",
    "",
    "/",
];

/// Hostile values of an object's name.
const NAMES: &[&str] = &[
    "../secrets/one",
    "one/status",
    "one?pretty=1",
    "one%2f..",
    "..",
    "",
    "one\0",
    "one\nHost: x",
];

/// Hostile paths of raw requests.
const PATHS: &[&str] = &[
    "/api/v1/namespaces/NS/secrets/../secrets/one",
    "/api/v1/namespaces/NS/secrets/%2e%2e/secrets/one",
    "/api/v1/namespaces/NS/secrets%2fone",
    "/api/v1/namespaces/NS/secrets/one%2fstatus",
    "/api/v1/namespaces/NS/secrets/%ffone",
    "/api/v1//namespaces/NS/secrets/one",
    "/api/v1/namespaces/NS/secrets/one/",
    "/api/v1/watch/namespaces/NS/secrets",
    "/api/v1/namespaces/NS/secrets?watch=1",
    "/api/v1/namespaces/NS/pods/one/exec",
    "/api/v1/nodes/one/proxy/metrics",
    "/metrics",
    "/logs/",
    "/debug/pprof/heap",
    "http://127.0.0.1/api/v1/secrets",
    "api/v1/secrets",
    "",
];

/// Makes one malformed call against a victim's namespace, and returns its description and the
/// response.
pub async fn call(random: &mut StdRng, session: &mut Session, victim: &str) -> (String, Answer) {
    let mut choose = |of: &[&str]| of.choose(random).expect("texts").replace("NS", victim);
    let (api_version, name, path) = (choose(API_VERSIONS), choose(NAMES), choose(PATHS));
    let key = |name: &str| ObjectKey {
        namespace: Some(victim.to_owned()),
        name: name.to_owned(),
    };
    let kind = |api_version: &str| GroupVersionKind::new(api_version, "Secret");
    let read = if random.random_bool(0.5) {
        Read::Cached
    } else {
        Read::Live
    };
    match random.random_range(0..5) {
        0 => {
            let got = session
                .get(Get {
                    kind: kind(&api_version),
                    key: key("one"),
                    read,
                })
                .await;
            (
                format!("get of apiVersion {api_version:?}"),
                Answer::of(got.map(|object| object.json().to_owned())),
            )
        }
        1 => {
            let got = session
                .get(Get {
                    kind: kind("v1"),
                    key: key(&name),
                    read,
                })
                .await;
            (
                format!("get of name {name:?}"),
                Answer::of(got.map(|object| object.json().to_owned())),
            )
        }
        2 => {
            let options = ListOptions::all(Some(format!("{victim}/secrets/one?")), read);
            let page = session
                .list(List {
                    kind: kind("v1"),
                    options,
                })
                .await;
            (
                "list of a path as namespace".to_owned(),
                Answer::of(page.map(|page| format!("{page:?}"))),
            )
        }
        3 => {
            let body = PatchBody::Merge("{}".to_owned());
            let action = WriteAction::Patch {
                key: key(&name),
                subresource: Some("../x".to_owned()),
                body,
                force: false,
            };
            let written = session
                .write(Write {
                    kind: kind("v1"),
                    action,
                    options: WriteOptions::default(),
                })
                .await;
            (
                format!("patch of name {name:?}"),
                Answer::of(written.map(|object| object.json().to_owned())),
            )
        }
        _ => {
            let cached = read == Read::Cached;
            let query = path
                .split_once('?')
                .map_or("", |(_, query)| query)
                .to_owned();
            let path = path.split('?').next().unwrap_or_default().to_owned();
            let request = RawRequest {
                method: "GET".to_owned(),
                path,
                query,
                cached,
                ..RawRequest::default()
            };
            let what = format!("raw {request:?}");
            (what, Answer::of_raw(session.raw(request).await))
        }
    }
}
