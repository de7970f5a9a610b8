//! The OpenAPI v2 document, compared with that of a real API server (`openapi_v2/record.py`).

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use crate::client::Client;

const DEFINITIONS: &str = include_str!("openapi_v2/definitions.yaml");
const RECORDED: &[u8] = include_bytes!("openapi_v2/definitions.zst");
const DICTIONARY: &[u8] = include_bytes!("../../data/schemas.zst");
const CUSTOM: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const PROTOBUF: &str = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";
/// The definitions whose group versions are not compared: the real server's name groups without
/// kinds.
const ALL_GROUPS: [&str; 2] = [
    "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions",
    "io.k8s.apimachinery.pkg.apis.meta.v1.WatchEvent",
];
const KINDS: &str = "x-kubernetes-group-version-kind";

#[derive(Deserialize)]
struct Recorded {
    definitions: Map<String, Value>,
    /// The SHA-256 of each definition's protobuf, with one kind of quotes.
    protobuf: BTreeMap<String, String>,
}

fn recorded() -> Recorded {
    let decompress = |frame: &[u8], dictionary: &[u8]| {
        let mut decompressor =
            zstd::bulk::Decompressor::with_dictionary(dictionary).expect("a dictionary");
        decompressor.decompress(frame, 16 << 20).expect("a frame")
    };
    let text = decompress(RECORDED, &decompress(DICTIONARY, &[]));
    serde_json::from_slice(&text).expect("JSON")
}

/// Starts a server with the recorded definitions of custom resources.
async fn started() -> Client {
    let client = Client::new();
    for document in serde_yaml_ng::Deserializer::from_str(DEFINITIONS) {
        let definition = Value::deserialize(document).expect("a definition");
        client.create(CUSTOM, &definition).await;

        let path = format!(
            "{CUSTOM}/{}",
            definition["metadata"]["name"].as_str().expect("a name")
        );
        client
            .wait(&path, "/status/conditions/1/type", &json!("Established"))
            .await;
    }

    client
        .wait(
            "/apis/things.example.com/v1alpha1",
            "/kind",
            &json!("APIResourceList"),
        )
        .await;

    client
}

/// The fields of a protobuf message that consists of length-delimited values.
fn fields(mut rest: &[u8]) -> Vec<(u64, &[u8])> {
    fn varint(rest: &mut &[u8]) -> u64 {
        let mut value = 0;
        for shift in (0..).step_by(7) {
            let (byte, tail) = rest.split_first().expect("a byte");
            *rest = tail;
            value |= u64::from(byte & 0x7f) << shift;
            if *byte < 0x80 {
                break;
            }
        }
        value
    }

    let mut found = Vec::new();
    while !rest.is_empty() {
        let tag = varint(&mut rest);
        assert_eq!(tag & 7, 2, "a value with a length");

        let length = usize::try_from(varint(&mut rest)).expect("a length");
        let (value, tail) = rest.split_at(length);
        found.push((tag >> 3, value));
        rest = tail;
    }

    found
}

#[tokio::test]
async fn definitions_are_those_of_the_real_server() {
    let client = started().await;
    let real = recorded().definitions;

    let (code, mut document) = client.get("/openapi/v2").await;
    assert_eq!((code, &document["swagger"]), (200, &json!("2.0")));

    for name in ALL_GROUPS {
        let definition = document["definitions"][name]
            .as_object_mut()
            .expect("a definition");
        assert!(definition.remove(KINDS).is_some());
    }

    let own = document["definitions"].as_object().expect("definitions");
    assert_eq!(
        own.keys().collect::<Vec<_>>(),
        real.keys().collect::<Vec<_>>()
    );

    for (name, definition) in &real {
        assert_eq!(&own[name], definition, "{name}");
    }
}

#[tokio::test]
async fn protobuf_is_that_of_the_real_server() {
    let client = started().await;
    let document = client.bytes("/openapi/v2", PROTOBUF).await;

    let definitions = fields(&document)
        .into_iter()
        .find(|(number, _)| *number == 9)
        .expect("definitions")
        .1;

    let own: BTreeMap<String, String> = fields(definitions)
        .into_iter()
        .map(|(_, entry)| {
            let parts = fields(entry);
            let name = String::from_utf8(parts[0].1.to_vec()).expect("a name");

            let definition: Vec<u8> = parts[1]
                .1
                .iter()
                .map(|byte| if *byte == b'"' { b'\'' } else { *byte })
                .collect();

            let hash: String = Sha256::digest(definition)
                .iter()
                .map(|byte| format!("{byte:02x}"))
                .collect();

            (name, hash)
        })
        .filter(|(name, _)| !ALL_GROUPS.contains(&name.as_str()))
        .collect();

    let real = recorded().protobuf;
    let differing: Vec<_> = real
        .iter()
        .filter(|(name, hash)| own.get(*name) != Some(hash))
        .collect();
    assert!(differing.is_empty(), "{differing:?}");
    assert_eq!(own.len(), real.len());
}

#[tokio::test]
async fn document_follows_the_definitions() {
    let client = started().await;
    let (_, before) = client.get("/openapi/v2").await;
    assert!(before["definitions"]["com.example.v2.Widget"].is_object());

    client
        .delete(&format!("{CUSTOM}/widgets.example.com"), "")
        .await;

    let pointer = "/definitions/com.example.things.v1alpha1.Gadget/type";
    for _ in 0..1000 {
        let (_, after) = client.get("/openapi/v2").await;
        if after["definitions"]["com.example.v2.Widget"].is_null() {
            assert_eq!(after.pointer(pointer), Some(&json!("object")));
            return;
        }
        tokio::task::yield_now().await;
    }
    panic!("the definitions of a deleted kind stay");
}
