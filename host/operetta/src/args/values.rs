//! Parsers of arguments that would otherwise fail later, at the API server or the host.

use operetta_api::names::{is_dns_label, is_dns_subdomain};
use operetta_core::object::selector::{LabelSelector, SelectorError};

/// Checks the name of an object.
pub(super) fn object_name(text: &str) -> Result<String, &'static str> {
    match is_dns_subdomain(text) {
        true => Ok(text.to_owned()),
        false => Err("a name has lower case letters, digits, '-' and '.', at most 253"),
    }
}

/// Checks the name of a namespace.
pub(super) fn namespace(text: &str) -> Result<String, &'static str> {
    match is_dns_label(text) {
        true => Ok(text.to_owned()),
        false => Err("a namespace has lower case letters, digits and '-', at most 63"),
    }
}

/// Checks a label selector and returns it as it was typed.
pub(super) fn label_selector(text: &str) -> Result<String, SelectorError> {
    LabelSelector::parse(text).map(|_| text.to_owned())
}
