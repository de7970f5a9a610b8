//! Reads objects in Kubernetes' protobuf encoding, which typed clients and `kubectl create` send.
//!
//! Objects in answers are never in this encoding: these clients accept JSON too. The OpenAPI
//! document of version 2 is. `messages.txt` has the field numbers; `scripts/apiserver-protobuf.py`
//! writes it from the Go modules of Kubernetes.

mod decode;
mod openapi;
mod schema;
#[cfg(test)]
mod tests;
mod wire;

use serde_json::Value;

pub(super) use self::openapi::openapi;
use self::wire::{Field, Reader};
use crate::apimachinery::json;

/// The bytes with which an encoded object begins.
const MAGIC: &[u8] = b"k8s\0";
const TYPE_META: u64 = 1;
const RAW: u64 = 2;

/// A body that is not an encoded object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProtobufError {
    /// The body does not begin as an encoded object does.
    #[error(
        "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]"
    )]
    NoPrefix,
    /// A message ends in the middle of a field.
    #[error("unexpected EOF")]
    Truncated,
    /// A field has another type than its message says.
    #[error("proto: wrong wireType")]
    WrongType,
    /// A text is not UTF-8, or a part in JSON is malformed.
    #[error("proto: malformed text")]
    Malformed,
    /// Messages are nested too deeply.
    #[error("proto: messages are nested too deeply")]
    TooDeep,
    /// The kind has no known message.
    #[error("no protobuf message is known for this kind")]
    UnknownKind,
}

/// Returns the JSON of an encoded object.
///
/// # Errors
///
/// [`ProtobufError`].
pub fn to_json(body: &[u8]) -> Result<Vec<u8>, ProtobufError> {
    let mut envelope = Reader::new(body.strip_prefix(MAGIC).ok_or(ProtobufError::NoPrefix)?);
    let mut api_version = String::new();
    let mut kind = String::new();
    let mut raw: &[u8] = &[];
    while let Some((number, field)) = envelope.next()? {
        match (number, field) {
            (TYPE_META, Field::Bytes(bytes)) => {
                let mut type_meta = Reader::new(bytes);
                while let Some((number, field)) = type_meta.next()? {
                    let text = field.text()?.to_owned();
                    *(if number == 1 {
                        &mut api_version
                    } else {
                        &mut kind
                    }) = text;
                }
            }
            (RAW, Field::Bytes(bytes)) => raw = bytes,
            _ => {}
        }
    }
    let message = schema::message_of(&api_version, &kind).ok_or(ProtobufError::UnknownKind)?;
    let mut object = decode::decode(message, raw)?;
    if let Value::Object(members) = &mut object {
        members.insert("kind".into(), kind.into());
        members.insert("apiVersion".into(), api_version.into());
    }
    Ok(json::to_vec(&object))
}
