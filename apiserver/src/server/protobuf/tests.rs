//! Tests of the protobuf encoding.

use serde_json::{Value, json};

use super::{ProtobufError, schema::fields_of, to_json};

fn varint(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn number(field: u64, value: u64) -> Vec<u8> {
    let mut out = Vec::new();
    varint(field << 3, &mut out);
    varint(value, &mut out);
    out
}

fn bytes(field: u64, content: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    varint(field << 3 | 2, &mut out);
    varint(content.len() as u64, &mut out);
    out.extend_from_slice(content);
    out
}

fn message(parts: &[Vec<u8>]) -> Vec<u8> {
    parts.concat()
}

fn enveloped(api_version: &str, kind: &str, object: &[u8]) -> Vec<u8> {
    let type_meta = message(&[bytes(1, api_version.as_bytes()), bytes(2, kind.as_bytes())]);
    [
        b"k8s\0".to_vec(),
        bytes(1, &type_meta),
        bytes(2, object),
        bytes(3, b""),
        bytes(4, b""),
    ]
    .concat()
}

fn decoded(api_version: &str, kind: &str, object: &[u8]) -> Result<Value, ProtobufError> {
    to_json(&enveloped(api_version, kind, object))
        .map(|text| serde_json::from_slice(&text).expect("JSON"))
}

#[test]
fn configmap_is_read_without_empty_fields() {
    let labels = message(&[bytes(1, b"app"), bytes(2, b"web")]);
    let metadata = message(&[
        bytes(1, b"a"),
        bytes(2, b""),
        number(7, 0),
        bytes(8, b""),
        bytes(11, &labels),
        bytes(14, b"x.io/f"),
    ]);

    let data = message(&[bytes(1, b"k"), bytes(2, b"v")]);
    let binary = message(&[bytes(1, b"b"), bytes(2, &[0, 255])]);
    let object = message(&[
        bytes(1, &metadata),
        bytes(2, &data),
        bytes(3, &binary),
        number(4, 0),
        bytes(99, b"?"),
    ]);

    let expected = json!({
        "kind": "ConfigMap", "apiVersion": "v1", "data": {"k": "v"}, "binaryData": {"b": "AP8="}, "immutable": false,
        "metadata": {"name": "a", "labels": {"app": "web"}, "finalizers": ["x.io/f"]},
    });
    assert_eq!(decoded("v1", "ConfigMap", &object), Ok(expected));
}

#[test]
fn pod_template_has_embedded_and_special_messages() {
    let quantity = message(&[bytes(1, b"cpu"), bytes(2, &bytes(1, b"100m"))]);
    let port = message(&[number(1, 0), number(2, 8080), bytes(3, b"")]);
    let probe = message(&[
        bytes(
            1,
            &bytes(2, &message(&[bytes(1, b"/healthz"), bytes(2, &port)])),
        ),
        number(2, 5),
    ]);

    let container = message(&[
        bytes(1, b"c"),
        bytes(8, &bytes(1, &quantity)),
        bytes(10, &probe),
        bytes(2, b"image:1"),
    ]);

    let volume = message(&[
        bytes(1, b"v"),
        bytes(2, &bytes(6, &message(&[bytes(1, b"s")]))),
    ]);
    let spec = message(&[bytes(1, &volume), bytes(2, &container), bytes(3, b"Always")]);
    let object = message(&[
        bytes(
            1,
            &bytes(8, &message(&[number(1, 1_767_225_600), number(2, 5)])),
        ),
        bytes(2, &spec),
    ]);

    let pod = decoded("v1", "Pod", &object).expect("a Pod");
    assert_eq!(pod["metadata"]["creationTimestamp"], "2026-01-01T00:00:00Z");

    let container = &pod["spec"]["containers"][0];
    assert_eq!(container["resources"]["limits"]["cpu"], "100m");
    assert_eq!(
        container["livenessProbe"]["httpGet"],
        json!({"path": "/healthz", "port": 8080})
    );
    assert_eq!(container["livenessProbe"]["initialDelaySeconds"], 5);
    assert_eq!(
        pod["spec"]["volumes"][0],
        json!({"name": "v", "secret": {"secretName": "s"}})
    );
}

#[test]
fn negative_numbers_and_lists_of_texts_are_read() {
    let spec = message(&[number(1, u64::MAX), bytes(3, b"")]);
    let deployment = decoded("apps/v1", "Deployment", &bytes(2, &spec)).expect("a Deployment");
    assert_eq!(deployment["spec"]["replicas"], -1);

    let extra = message(&[
        bytes(1, b"k"),
        bytes(2, &message(&[bytes(1, b"a"), bytes(1, b"b")])),
    ]);
    let review = decoded(
        "authorization.k8s.io/v1",
        "SubjectAccessReview",
        &bytes(2, &bytes(5, &extra)),
    );

    assert_eq!(
        review.expect("a review")["spec"]["extra"],
        json!({"k": ["a", "b"]})
    );
}

#[test]
fn other_bodies_are_refused() {
    assert_eq!(to_json(b"{}"), Err(ProtobufError::NoPrefix));
    assert_eq!(to_json(b"k8s\0\x0a"), Err(ProtobufError::Truncated));
    assert_eq!(
        decoded("v1", "Nothing", b""),
        Err(ProtobufError::UnknownKind)
    );
    assert_eq!(
        decoded("v1", "ConfigMap", &number(1, 5)),
        Err(ProtobufError::WrongType)
    );

    assert_eq!(
        decoded("v1", "ConfigMap", &bytes(1, &bytes(1, b"\xff"))),
        Err(ProtobufError::Malformed)
    );
}

#[test]
fn every_message_of_a_field_is_known() {
    let scalars = [
        "string", "bytes", "bool", "int32", "int64", "uint32", "uint64", "double", "float",
    ];
    let missing: Vec<&str> = include_str!("messages.txt")
        .lines()
        .filter_map(|line| line.split_once(' ').map(|(name, _)| name))
        .flat_map(|name| fields_of(name).expect("a message").into_values())
        .map(|field| field.kind)
        .filter(|kind| !scalars.contains(kind) && fields_of(kind).is_none())
        .collect();

    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn cut_and_changed_messages_never_panic() {
    let metadata = message(&[bytes(1, b"a"), bytes(8, &number(1, u64::MAX))]);
    let whole = enveloped(
        "v1",
        "ConfigMap",
        &message(&[bytes(1, &metadata), bytes(2, &bytes(1, b"k"))]),
    );

    let mut seed = 3_u64;
    for length in 0..whole.len() {
        let _ = to_json(&whole[..length]);
        for _ in 0..50 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let mut changed = whole.clone();
            changed[length] = (seed >> 40) as u8;
            let _ = to_json(&changed);
        }
    }
}
