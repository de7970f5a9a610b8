//! The little that the host reads of Kubernetes' Protobuf encoding: which object the answer to a
//! write is, who has set its finalizers, and what a Status says. Everything else of such bodies
//! passes through unread.
//!
//! A body is [`runtime.Unknown`] behind a magic number. All kinds of the API have their ObjectMeta
//! in field 1.
//!
//! [`runtime.Unknown`]: https://github.com/kubernetes/apimachinery/blob/v0.36.2/pkg/runtime/generated.proto

use serde_json::{Value, json};

/// What every body begins with.
const MAGIC: &[u8] = b"k8s\0";

/// The media type.
pub(crate) const MEDIA_TYPE: &str = "application/vnd.kubernetes.protobuf";

/// An encoded object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Envelope<'a> {
    pub kind: &'a str,
    object: &'a [u8],
}

/// The parts of an ObjectMeta that name an object's state. Missing ones are empty.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ObjectMeta<'a> {
    pub namespace: &'a str,
    pub name: &'a str,
    pub resource_version: &'a str,
}

/// The parts of a metav1.Status. Missing ones are empty.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Status<'a> {
    pub message: &'a str,
    pub reason: &'a str,
    /// The uid of the object that it is about.
    pub uid: &'a str,
}

impl<'a> Envelope<'a> {
    /// Reads the envelope of a body; None if it has none.
    pub fn read(body: &'a [u8]) -> Option<Self> {
        let unknown = body.strip_prefix(MAGIC)?;
        Some(Self {
            kind: text(field(unknown, 1)?, 2)?,
            object: field(unknown, 2).unwrap_or_default(),
        })
    }

    /// Reads the object's metadata.
    pub fn metadata(&self) -> Option<ObjectMeta<'a>> {
        let metadata = field(self.object, 1)?;
        Some(ObjectMeta {
            name: text(metadata, 1).unwrap_or_default(),
            namespace: text(metadata, 3).unwrap_or_default(),
            resource_version: text(metadata, 6).unwrap_or_default(),
        })
    }

    /// Reads who has set the object's finalizers, as the part of its metadata in JSON that says so;
    /// None if it has no finalizers.
    pub fn finalizers(&self) -> Option<String> {
        let metadata = field(self.object, 1)?;
        let finalizers: Vec<&str> = fields(metadata, 14)
            .filter_map(|name| std::str::from_utf8(name).ok())
            .collect();
        if finalizers.is_empty() {
            return None;
        }

        // A field set is JSON in this encoding as well.
        let entry = |entry| {
            let set: Value = serde_json::from_slice(field(field(entry, 7)?, 1)?).ok()?;
            Some(json!({"manager": text(entry, 1)?, "fieldsV1": set}))
        };
        let managed: Vec<Value> = fields(metadata, 17).filter_map(entry).collect();
        let metadata = json!({"finalizers": finalizers, "managedFields": managed});
        Some(json!({"metadata": metadata}).to_string())
    }

    /// Reads the object as a Status; None if it is another kind.
    pub fn status(&self) -> Option<Status<'a>> {
        (self.kind == "Status").then(|| Status {
            message: text(self.object, 3).unwrap_or_default(),
            reason: text(self.object, 4).unwrap_or_default(),
            uid: field(self.object, 5)
                .and_then(|details| text(details, 6))
                .unwrap_or_default(),
        })
    }
}

fn text(message: &[u8], number: u64) -> Option<&str> {
    std::str::from_utf8(field(message, number)?).ok()
}

/// The bytes of a message's first field of this number; None without one, or if the message is
/// malformed before it.
fn field(message: &[u8], number: u64) -> Option<&[u8]> {
    fields(message, number).next()
}

/// The bytes of a message's fields of this number, in order, as far as the message is well-formed.
fn fields(mut message: &[u8], number: u64) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        while !message.is_empty() {
            let tag = varint(&mut message)?;
            let bytes = match tag & 7 {
                0 => {
                    varint(&mut message)?;
                    continue;
                }
                1 => 8,
                2 => usize::try_from(varint(&mut message)?).ok()?,
                5 => 4,
                _ => return None,
            };

            let (value, rest) = message.split_at_checked(bytes)?;
            message = rest;
            if tag >> 3 == number && tag & 7 == 2 {
                return Some(value);
            }
        }
        None
    })
}

fn varint(message: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = message.split_first()?;
        *message = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Encodes a field of bytes.
    pub(crate) fn encoded(number: u8, value: &[u8]) -> Vec<u8> {
        let mut bytes = match number {
            0..16 => vec![number << 3 | 2],
            // The tag takes two bytes.
            _ => vec![number << 3 | 2 | 0x80, number >> 4],
        };
        let mut length = value.len();
        while length >= 0x80 {
            bytes.push((length & 0x7f) as u8 | 0x80);
            length >>= 7;
        }
        bytes.push(length as u8);
        bytes.extend_from_slice(value);
        bytes
    }

    /// Encodes an object of this kind.
    pub(crate) fn body(kind: &str, object: &[u8]) -> Vec<u8> {
        let type_meta = [encoded(1, b"v1"), encoded(2, kind.as_bytes())].concat();
        [MAGIC.to_vec(), encoded(1, &type_meta), encoded(2, object)].concat()
    }

    #[test]
    fn metadata_of_an_object_is_read() {
        // A field of each other wire type comes before those that are read.
        let others = [
            vec![7 << 3, 0x96, 0x01],
            vec![9 << 3 | 1; 9],
            vec![8 << 3 | 5; 5],
        ]
        .concat();
        let long = "n".repeat(300);
        let metadata = [
            others,
            encoded(1, b"a"),
            encoded(3, long.as_bytes()),
            encoded(6, b"42"),
        ]
        .concat();
        let bytes = body("ConfigMap", &encoded(1, &metadata));

        let envelope = Envelope::read(&bytes).expect("an envelope");
        let expected = ObjectMeta {
            namespace: &long,
            name: "a",
            resource_version: "42",
        };
        assert_eq!(
            (envelope.kind, envelope.metadata()),
            ("ConfigMap", Some(expected))
        );
        assert_eq!(envelope.status(), None);
    }

    #[test]
    fn owners_of_finalizers_are_read() {
        let set = r#"{"f:metadata":{"f:finalizers":{"v:\"x/a\"":{}}}}"#;
        let entry = [
            encoded(1, b"manager"),
            encoded(2, b"Update"),
            encoded(7, &encoded(1, set.as_bytes())),
        ]
        .concat();
        let others = encoded(17, &encoded(1, b"no fields"));
        let metadata = [
            encoded(1, b"a"),
            encoded(14, b"x/a"),
            encoded(14, b"x/b"),
            others,
            encoded(17, &entry),
        ]
        .concat();
        let bytes = body("ConfigMap", &encoded(1, &metadata));
        let read = Envelope::read(&bytes).and_then(|envelope| envelope.finalizers());
        let read: Value = serde_json::from_str(&read.expect("finalizers")).expect("JSON");
        let set: Value = serde_json::from_str(set).expect("JSON");
        let managed = json!([{"manager": "manager", "fieldsV1": set}]);
        assert_eq!(
            read,
            json!({"metadata": {"finalizers": ["x/a", "x/b"], "managedFields": managed}})
        );

        let without = body("ConfigMap", &encoded(1, &encoded(1, b"a")));
        let without = Envelope::read(&without).and_then(|envelope| envelope.finalizers());
        assert_eq!(without, None);
    }

    #[test]
    fn status_is_read() {
        let object = [
            encoded(1, b""),
            encoded(3, b"not allowed"),
            encoded(4, b"Forbidden"),
            encoded(5, &encoded(6, b"u")),
        ]
        .concat();
        let bytes = body("Status", &object);
        let status = Envelope::read(&bytes).and_then(|envelope| envelope.status());
        let expected = Status {
            message: "not allowed",
            reason: "Forbidden",
            uid: "u",
        };
        assert_eq!(status, Some(expected));
    }

    #[test]
    fn malformed_bodies_are_read_as_far_as_they_go() {
        let whole = body("ConfigMap", &encoded(1, &encoded(1, b"a")));
        for length in 0..whole.len() {
            let cut = Envelope::read(&whole[..length]).and_then(|envelope| envelope.metadata());
            assert_eq!(cut, None, "{length} bytes");
        }
        for bytes in [
            &b"k8s\0\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"[..],
            b"k8s\0\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
            b"k8s\0\x0b",
            b"{}",
        ] {
            assert_eq!(Envelope::read(bytes), None, "{bytes:?}");
        }
    }
}
