//! Malformed events and list items, and some that are valid but rare.
//!
//! None of them changes the final state of an informer. An event that an informer must reject is
//! sent once. A valid object, such as one with unknown fields, is transient: it is added and
//! deleted at once.

use serde_json::{Value, json};

/// A line that the proxy inserts between the events of a watch. [`BadEvent::name`] is the name of
/// its object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadEvent {
    /// An object without metadata.name.
    Unnamed,
    /// An object without metadata.resourceVersion.
    NoResourceVersion,
    /// An object whose labels are a number.
    WrongType,
    /// An object with a byte that is not UTF-8.
    InvalidUtf8,
    /// An event of a type that does not exist, with a valid object.
    UnknownType,
    /// A line that is not JSON.
    NotJson,
    /// An object with duplicate fields.
    DuplicateKeys,
    /// An object that is nested 2000 levels deep.
    Deep,
    /// An object and an event with unknown fields.
    UnknownFields,
    /// An object of 3 MiB, more than etcd accepts.
    Large,
}

impl BadEvent {
    /// All variants.
    pub const ALL: [Self; 10] = [
        Self::Unnamed,
        Self::NoResourceVersion,
        Self::WrongType,
        Self::InvalidUtf8,
        Self::UnknownType,
        Self::NotJson,
        Self::DuplicateKeys,
        Self::Deep,
        Self::UnknownFields,
        Self::Large,
    ];

    /// Returns the name of its object, or an empty text if the object has no name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Unnamed | Self::NotJson => "",
            Self::NoResourceVersion => "bad-no-resource-version",
            Self::WrongType => "bad-wrong-type",
            Self::InvalidUtf8 => "bad-invalid-utf8",
            Self::UnknownType => "bad-unknown-type",
            Self::DuplicateKeys => "bad-duplicate-keys",
            Self::Deep => "bad-deep",
            Self::UnknownFields => "bad-unknown-fields",
            Self::Large => "bad-large",
        }
    }

    /// Reports whether its object is valid, so that the proxy must delete it again.
    pub fn comes_and_goes(self) -> bool {
        matches!(
            self,
            Self::DuplicateKeys | Self::Deep | Self::UnknownFields | Self::Large
        )
    }

    /// Reports whether its object is malformed, so that it can also be sent as an item of a list.
    fn spoils_a_list(self) -> bool {
        !self.comes_and_goes() && self != Self::UnknownType
    }

    /// Returns the lines to insert after the event that `like` was made from.
    pub(super) fn lines(self, like: &Template) -> Vec<u8> {
        let object = self.object(like);

        let event = |type_: &str| {
            let unknown = if self == Self::UnknownFields {
                r#","unknown":{"a":[1]}"#
            } else {
                ""
            };
            [
                format!(r#"{{"type":"{type_}","object":"#).as_bytes(),
                &object,
                unknown.as_bytes(),
                b"}\n",
            ]
            .concat()
        };

        match self {
            Self::NotJson => b"{\"type\":\"ADDED\",\"object\":{]\n".to_vec(),
            Self::UnknownType => event("RENAMED"),
            _ if self.comes_and_goes() => [event("ADDED"), event("DELETED")].concat(),
            _ => event("ADDED"),
        }
    }

    fn object(self, like: &Template) -> Vec<u8> {
        let name = self.name();

        let mut metadata = json!({
            "name": name, "uid": format!("uid-of-{name}"), "resourceVersion": like.resource_version,
            "labels": {"app": "x"},
        });

        if let Some(namespace) = &like.namespace {
            metadata["namespace"] = json!(namespace);
        }
        let fields = metadata.as_object_mut().expect("an object");
        let mut data = json!({"n": "1"}).to_string();

        match self {
            Self::Unnamed => drop(fields.remove("name")),
            Self::NoResourceVersion => drop(fields.remove("resourceVersion")),
            Self::WrongType => drop(fields.insert("labels".to_owned(), json!(7))),
            Self::Deep => data = format!("{}1{}", "{\"a\":".repeat(2000), "}".repeat(2000)),
            Self::Large => data = json!({"n": "x".repeat(3 << 20)}).to_string(),
            Self::InvalidUtf8 => data = json!({"n": "HERE"}).to_string(),
            _ => {}
        }

        let kind = json!(like.kind);
        let api_version = json!(like.api_version);
        let mut text = format!(
            r#"{{"kind":{kind},"apiVersion":{api_version},"metadata":{metadata},"data":{data}"#
        );

        match self {
            Self::DuplicateKeys => text.push_str(&format!(
                r#","data":{{}},"kind":{kind},"metadata":{metadata}"#
            )),
            Self::UnknownFields => {
                text.push_str(r#","unknown":{"a":[1,{"b":null}]},"élève":"\u0000""#);
            }
            _ => {}
        }

        text.push('}');

        let mut bytes = text.into_bytes();

        if self == Self::InvalidUtf8 {
            let at = bytes
                .windows(4)
                .position(|window| window == b"HERE")
                .expect("it is there");
            bytes[at] = 0xff;
        }

        bytes
    }
}

/// The fields that an inserted object copies from its neighbors.
pub(super) struct Template {
    kind: Value,
    api_version: Value,
    resource_version: Value,
    namespace: Option<String>,
    pub(super) is_bookmark: bool,
    /// The line is the bookmark after the last initial event.
    pub(super) ends_initial_events: bool,
}

impl Template {
    /// Makes a template from a line of a watch.
    pub(super) fn of(line: &[u8], namespace: Option<&str>) -> Self {
        let mut event: Value = serde_json::from_slice(line).unwrap_or_default();
        let is_bookmark = event["type"] == "BOOKMARK";

        let object = &mut event["object"];
        let annotation = &object["metadata"]["annotations"]["k8s.io/initial-events-end"];
        let ends_initial_events = annotation == "true";

        Self {
            is_bookmark,
            ends_initial_events,
            kind: object["kind"].take(),
            api_version: object["apiVersion"].take(),
            resource_version: object["metadata"]["resourceVersion"].take(),
            namespace: namespace.map(str::to_owned),
        }
    }
}

/// Returns the ERROR event that ends a watch whose resourceVersion has expired.
pub(super) fn gone() -> Vec<u8> {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "code": 410, "reason": "Expired",
        "message": "too old resource version: injected by the fault proxy",
    });
    format!("{}\n", json!({"type": "ERROR", "object": status})).into_bytes()
}

/// Inserts a malformed item before the items of a list. Returns the list unchanged if the item
/// would be a valid object.
pub(super) fn with_item(list: &str, what: BadEvent, namespace: Option<&str>) -> Vec<u8> {
    let mut value: Value = serde_json::from_str(list).unwrap_or_default();

    let Some((before, after)) = list
        .split_once("\"items\":[")
        .filter(|_| what.spoils_a_list())
    else {
        return list.as_bytes().to_vec();
    };

    let kind = value["kind"]
        .as_str()
        .unwrap_or_default()
        .trim_end_matches("List")
        .to_owned();

    let like = Template {
        kind: json!(kind),
        api_version: value["apiVersion"].take(),
        resource_version: value["metadata"]["resourceVersion"].take(),
        namespace: namespace.map(str::to_owned),
        is_bookmark: false,
        ends_initial_events: false,
    };

    let item = if what == BadEvent::NotJson {
        b"{]".to_vec()
    } else {
        what.object(&like)
    };
    let comma = if after.starts_with(']') { "" } else { "," };

    [
        before.as_bytes(),
        b"\"items\":[",
        &item,
        comma.as_bytes(),
        after.as_bytes(),
    ]
    .concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn template() -> Template {
        let line = r#"{"type":"ADDED","object":{"kind":"ConfigMap","apiVersion":"v1","metadata":{"resourceVersion":"7"}}}"#;
        Template::of(line.as_bytes(), Some("n"))
    }

    #[test]
    fn bad_event_is_malformed_as_named() {
        for what in BadEvent::ALL {
            let lines = what.lines(&template());

            assert_eq!(
                lines.iter().filter(|byte| **byte == b'\n').count(),
                if what.comes_and_goes() { 2 } else { 1 }
            );

            let text = String::from_utf8_lossy(&lines).into_owned();
            assert!(text.contains(what.name()), "{text}");

            let first: Result<Value, _> =
                serde_json::from_str(text.lines().next().expect("a line"));
            let is_json = first.is_ok();

            assert_eq!(
                is_json,
                ![BadEvent::NotJson, BadEvent::Deep].contains(&what),
                "{text}"
            );

            assert_eq!(
                String::from_utf8(lines).is_err(),
                what == BadEvent::InvalidUtf8
            );
        }

        assert!(BadEvent::Large.lines(&template()).len() > 6 << 20);
    }

    #[test]
    fn inserts_bad_item_before_others_of_list() {
        let list = r#"{"kind":"ConfigMapList","apiVersion":"v1","metadata":{"resourceVersion":"9"},"items":[{"a":1}]}"#;
        let bad = with_item(list, BadEvent::NoResourceVersion, Some("n"));
        let bad: Value = serde_json::from_slice(&bad).expect("JSON");

        assert_eq!(
            (
                &bad["items"][0]["metadata"]["namespace"],
                &bad["items"][1]["a"]
            ),
            (&json!("n"), &json!(1))
        );

        assert_eq!(with_item(list, BadEvent::Deep, None), list.as_bytes());
    }
}
