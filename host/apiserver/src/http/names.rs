//! The rules for names, in the API server's words.

const LABEL_FORM: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start \
    and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is \
    '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const SUBDOMAIN_FORM: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', \
    and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
    '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const QUALIFIED_FORM: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an \
    alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is \
    '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const QUALIFIED_SUFFIX: &str = "with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')";
const VALUE_FORM: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and \
    must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for \
    validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";

/// Returns what is wrong with a DNS label, or with the prefix of one.
#[must_use]
pub fn label_errors(name: &str, is_prefix: bool) -> Vec<String> {
    let name = &masked(name, is_prefix);
    let mut errors = Vec::new();
    if name.len() > 63 {
        errors.push(too_long(63));
        return errors;
    }
    if !is_label(name) {
        errors.push(LABEL_FORM.into());
    }
    errors
}

/// Returns what is wrong with a DNS subdomain, or with the prefix of one.
#[must_use]
pub fn subdomain_errors(name: &str, is_prefix: bool) -> Vec<String> {
    let name = &masked(name, is_prefix);
    if name.len() > 253 {
        return vec![too_long(253)];
    }
    if name.split('.').all(is_label) { Vec::new() } else { vec![SUBDOMAIN_FORM.into()] }
}

/// Returns what is wrong with a name that becomes part of a path.
#[must_use]
pub fn path_segment_errors(name: &str, is_prefix: bool) -> Vec<String> {
    if !is_prefix && matches!(name, "." | "..") {
        return vec![format!("may not be '{name}'")];
    }
    let contains = |character| name.contains(character).then(|| format!("may not contain '{character}'"));
    ['/', '%'].into_iter().filter_map(contains).collect()
}

/// Returns what is wrong with the key of a label or an annotation, or with a finalizer.
#[must_use]
pub fn qualified_name_errors(name: &str, subject: &str) -> Vec<String> {
    let mut errors = Vec::new();
    let parts: Vec<&str> = name.split('/').collect();
    let part = match parts.as_slice() {
        [part] => *part,
        [prefix, part] => {
            if prefix.is_empty() {
                errors.push("prefix part must be non-empty".into());
            } else {
                errors.extend(prefix_errors(prefix).into_iter().map(|text| format!("prefix part {text}")));
            }
            *part
        }
        _ => return vec![format!("{subject} {QUALIFIED_FORM} {QUALIFIED_SUFFIX}")],
    };
    if part.is_empty() {
        errors.push("name part must be non-empty".into());
    } else if part.len() > 63 {
        errors.push(format!("name part {}", too_many_bytes(63)));
    }
    if !is_qualified_part(part) {
        errors.push(format!("name part {QUALIFIED_FORM}"));
    }
    errors
}

/// Returns what is wrong with the value of a label.
#[must_use]
pub fn label_value_errors(value: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if value.len() > 63 {
        errors.push(too_many_bytes(63));
    }
    if !value.is_empty() && !is_qualified_part(value) {
        errors.push(VALUE_FORM.into());
    }
    errors
}

fn prefix_errors(prefix: &str) -> Vec<String> {
    if prefix.len() > 253 { vec![too_many_bytes(253)] } else { subdomain_errors(prefix, false) }
}

/// Replaces the end of a prefix, which may be `-`, as the API server does before it checks one.
fn masked(name: &str, is_prefix: bool) -> String {
    match name.strip_suffix('-') {
        Some(start) if is_prefix && !start.is_empty() => format!("{start}a"),
        _ => name.to_owned(),
    }
}

fn too_long(limit: usize) -> String {
    format!("must be no more than {limit} characters")
}

/// Returns the message for keys and values of labels, which counts bytes in words too.
fn too_many_bytes(limit: usize) -> String {
    format!("must be no more than {limit} bytes")
}

fn is_label(name: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let bytes = name.as_bytes();
    let ends = bytes.first().is_some_and(|byte| inner(*byte)) && bytes.last().is_some_and(|byte| inner(*byte));
    ends && bytes.iter().all(|byte| inner(*byte) || *byte == b'-')
}

fn is_qualified_part(name: &str) -> bool {
    let bytes = name.as_bytes();
    let ends = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    ends(bytes.first())
        && ends(bytes.last())
        && bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'))
}
