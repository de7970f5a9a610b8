//! The messages and their fields.

use std::{collections::HashMap, sync::OnceLock};

const TEXT: &str = include_str!("messages.txt");

/// A field of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FieldType {
    /// The name in JSON.
    pub name: &'static str,
    /// Reports whether the field is a list.
    pub repeated: bool,
    /// Reports whether it is a map of strings.
    pub map: bool,
    /// Reports whether its members belong to the message around it in JSON.
    pub embedded: bool,
    /// Reports whether it is left out of JSON when it is empty or 0.
    pub omit_empty: bool,
    /// `string`, `bool` and so on, or the name of a message.
    pub kind: &'static str,
}

fn messages() -> &'static HashMap<&'static str, &'static str> {
    static MESSAGES: OnceLock<HashMap<&'static str, &'static str>> = OnceLock::new();

    MESSAGES.get_or_init(|| {
        TEXT.lines()
            .filter_map(|line| line.split_once(' '))
            .collect()
    })
}

/// Returns the fields of a message, by their numbers; `None` when it is not known.
pub(super) fn fields_of(message: &str) -> Option<HashMap<u64, FieldType>> {
    Some(
        messages()
            .get(message)?
            .split(';')
            .filter_map(parse_field)
            .collect(),
    )
}

fn parse_field(text: &'static str) -> Option<(u64, FieldType)> {
    let mut parts = text.split(' ');
    let (number, name, flags, kind) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    let field = FieldType {
        name,
        repeated: flags.contains('r'),
        map: flags.contains('m'),
        embedded: flags.contains('i'),
        omit_empty: flags.contains('z'),
        kind,
    };

    Some((number.parse().ok()?, field))
}

/// Returns the message of a kind.
pub(super) fn message_of(api_version: &str, kind: &str) -> Option<&'static str> {
    if kind == "DeleteOptions" {
        return messages()
            .get_key_value("meta/v1.DeleteOptions")
            .map(|(name, _)| *name);
    }

    let (group, version) = api_version.split_once('/').unwrap_or(("core", api_version));
    // The packages of messages have the first part of the group's name, but for three groups.
    let package = match group {
        "flowcontrol.apiserver.k8s.io" => "flowcontrol",
        "rbac.authorization.k8s.io" => "rbac",
        "internal.apiserver.k8s.io" => "apiserverinternal",
        group => group.split('.').next()?,
    };
    let name = format!("{package}/{version}.{kind}");

    messages()
        .get_key_value(name.as_str())
        .map(|(name, _)| *name)
}
