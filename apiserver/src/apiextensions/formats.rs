//! The formats of strings that schemas can ask for, as kube-openapi's `strfmt` checks them.

use std::net::Ipv6Addr;
use std::sync::LazyLock;

use regex::Regex;

use crate::{
    apimachinery::names,
    golang::{
        duration,
        time::{is_date, is_time_of_day},
    },
};

/// The formats that the real server checks, without dashes.
const SUPPORTED: [&str; 26] = [
    "bsonobjectid",
    "uri",
    "email",
    "hostname",
    "ipv4",
    "ipv6",
    "cidr",
    "mac",
    "uuid",
    "uuid3",
    "uuid4",
    "uuid5",
    "isbn",
    "isbn10",
    "isbn13",
    "creditcard",
    "ssn",
    "hexcolor",
    "rgbcolor",
    "byte",
    "password",
    "date",
    "duration",
    "datetime",
    "k8sshortname",
    "k8slongname",
];

/// Returns the format that applies to a schema's type; the real server ignores those it does not
/// know.
pub fn effective<'a>(kinds: &[&str], format: &'a str) -> &'a str {
    let known = match kinds {
        ["integer"] => matches!(format, "int32" | "int64"),
        ["number"] => matches!(format, "float" | "double"),
        ["boolean" | "array" | "object"] => false,
        _ => SUPPORTED.contains(&format.replace('-', "").as_str()),
    };

    if known { format } else { "" }
}

/// Reports whether a format of strings is known, as the registry of formats spells it.
pub fn is_string_format(format: &str) -> bool {
    !format.is_empty() && SUPPORTED.contains(&format.replace('-', "").as_str())
}

static HOSTNAME: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(concat!(
        r"^([a-zA-Z0-9\p{S}\p{L}]((-?[a-zA-Z0-9\p{S}\p{L}]{0,62})?)|",
        r"([a-zA-Z0-9\p{S}\p{L}](([a-zA-Z0-9-\p{S}\p{L}]{0,61}[a-zA-Z0-9\p{S}\p{L}])?)(\.)){1,}([a-zA-Z\p{L}]){2,63})$"
    ))
    .ok()
});
static CARD: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(concat!(
        r"^(?:4[0-9]{12}(?:[0-9]{3})?|5[1-5][0-9]{14}|(222[1-9]|22[3-9][0-9]|2[3-6][0-9]{2}|27[01][0-9]|2720)",
        r"[0-9]{12}|6(?:011|5[0-9][0-9])[0-9]{12}|3[47][0-9]{13}|3(?:0[0-5]|[68][0-9])[0-9]{11}|",
        r"(?:2131|1800|35[0-9]{3})[0-9]{11}|6[27][0-9]{14})$"
    ))
    .ok()
});
static DURATION: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"([0-9]+)\s*([A-Za-zµ]+)").ok());

fn matches(pattern: &Option<Regex>, text: &str) -> bool {
    pattern
        .as_ref()
        .is_some_and(|pattern| pattern.is_match(text))
}

/// Reports whether a string has a format. Formats that nobody knows accept everything.
pub fn accepts(format: &str, text: &str) -> bool {
    match format.replace('-', "").as_str() {
        "bsonobjectid" => text.len() == 24 && is_hex(text),
        "uri" => is_request_uri(text),
        "email" => is_email(text),
        "hostname" => {
            matches(&HOSTNAME, text)
                && text.len() <= 255
                && text.split('.').all(|part| part.len() <= 63)
        }
        "ipv4" => text.contains('.') && (is_ipv4(text) || is_ipv6(text)),
        "ipv6" => text.contains(':') && is_ipv6(text),
        "cidr" => is_cidr(text),
        "mac" => is_mac(text),
        "uuid" => is_uuid(text, None),
        "uuid3" => is_uuid(text, Some('3')),
        "uuid4" => is_uuid(text, Some('4')),
        "uuid5" => is_uuid(text, Some('5')),
        "isbn" => is_isbn10(text) || is_isbn13(text),
        "isbn10" => is_isbn10(text),
        "isbn13" => is_isbn13(text),
        "creditcard" => is_credit_card(text),
        "ssn" => is_ssn(text),
        "hexcolor" => {
            let digits = text.strip_prefix('#').unwrap_or(text);
            matches!(digits.len(), 3 | 6) && is_hex(digits)
        }
        "rgbcolor" => is_rgb(text),
        "byte" => is_base64(text),
        "date" => is_date(text),
        "duration" => is_duration(text),
        "datetime" => is_datetime(text),
        "k8sshortname" => names::is_dns1123_label(text),
        "k8slongname" => names::is_dns1123_subdomain(text),
        _ => true,
    }
}

fn is_hex(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn is_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Follows Go's `url.ParseRequestURI`: an absolute URI or an absolute path.
fn is_request_uri(text: &str) -> bool {
    if text.is_empty() || text.chars().any(|c| c < ' ' || c == '\u{7f}') {
        return false;
    }
    if text == "*" {
        return true;
    }

    let letters = text
        .find(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.')))
        .unwrap_or(text.len());
    let scheme = &text[..letters];
    let has_scheme =
        text[letters..].starts_with(':') && scheme.starts_with(|c: char| c.is_ascii_alphabetic());

    if text.starts_with(':')
        || (text[letters..].starts_with(':')
            && !has_scheme
            && letters > 0
            && !text.starts_with('/'))
    {
        return false;
    }

    let rest = if has_scheme {
        &text[letters + 1..]
    } else {
        text
    };
    let (rest, _query) = rest.split_once('?').unwrap_or((rest, ""));
    if !rest.starts_with('/') {
        return has_scheme;
    }
    let Some(after) = rest.strip_prefix("//").filter(|_| has_scheme) else {
        return has_valid_escapes(rest);
    };
    let (authority, path) = after.split_at(after.find('/').unwrap_or(after.len()));

    has_valid_escapes(path) && is_authority(authority)
}

fn has_valid_escapes(text: &str) -> bool {
    let mut parts = text.split('%');
    parts.next();
    parts.all(|part| part.len() >= 2 && part.is_char_boundary(2) && is_hex(&part[..2]))
}

fn is_authority(text: &str) -> bool {
    let host = text.rsplit_once('@').map_or(text, |(_, host)| host);
    let port = if host.starts_with('[') {
        let Some((_, after)) = host.rsplit_once(']') else {
            return false;
        };
        after
    } else {
        let at = host.rfind(':').unwrap_or(host.len());
        if host[..at].contains([' ', '<', '>', '"', '^', '`', '{', '}', '|', '\\']) {
            return false;
        }
        &host[at..]
    };

    port.is_empty()
        || port
            .strip_prefix(':')
            .is_some_and(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Follows Go's `mail.ParseAddress` for the usual forms: `a@b` and `Name <a@b>`.
fn is_email(text: &str) -> bool {
    let text = text.trim();
    let address = match text.strip_suffix('>') {
        Some(begin) => match begin.rsplit_once('<') {
            Some((_, address)) => address,
            None => return false,
        },
        None => text,
    };
    let Some((local, domain)) = address.rsplit_once('@') else {
        return false;
    };

    let is_atom = |part: &str| {
        let special = |c: char| {
            c.is_ascii() && !c.is_ascii_alphanumeric() && !"!#$%&'*+-/=?^_`{|}~".contains(c)
        };
        !part.is_empty() && !part.chars().any(|c| special(c) || c.is_whitespace())
    };

    let quoted = local.len() > 2 && local.starts_with('"') && local.ends_with('"');
    (quoted || local.split('.').all(is_atom)) && domain.split('.').all(is_atom)
}

fn is_ipv4(text: &str) -> bool {
    let parts: Vec<_> = text.split('.').collect();
    // Leading zeros are tolerated, as by Go before 1.17.
    parts.len() == 4
        && parts
            .iter()
            .all(|part| is_digits(part) && part.parse::<u32>().is_ok_and(|n| n <= 255))
}

fn is_ipv6(text: &str) -> bool {
    text.parse::<Ipv6Addr>().is_ok()
}

fn is_cidr(text: &str) -> bool {
    let Some((address, bits)) = text.split_once('/') else {
        return false;
    };

    let max = if is_ipv4(address) {
        32
    } else if is_ipv6(address) {
        128
    } else {
        return false;
    };

    is_digits(bits) && bits.parse::<u32>().is_ok_and(|bits| bits <= max)
}

fn is_mac(text: &str) -> bool {
    let groups = |separator: char, digits: usize| {
        let parts: Vec<_> = text.split(separator).collect();
        let octets = parts.len() * digits / 2;
        matches!(octets, 6 | 8 | 20)
            && parts
                .iter()
                .all(|part| part.len() == digits && is_hex(part))
    };

    groups(':', 2) || groups('-', 2) || groups('.', 4)
}

/// Accepts UUIDs with or without dashes.
fn is_uuid(text: &str, version: Option<char>) -> bool {
    let mut rest = text;
    for (at, length) in [8, 4, 4, 4, 12].into_iter().enumerate() {
        if at > 0 {
            rest = rest.strip_prefix('-').unwrap_or(rest);
        }

        let Some(group) = rest.get(..length).filter(|group| is_hex(group)) else {
            return false;
        };
        let first = group.chars().next();
        if at == 2 && version.is_some() && first != version {
            return false;
        }

        let variant = first.is_some_and(|c| "89abAB".contains(c));
        if at == 3 && matches!(version, Some('4' | '5')) && !variant {
            return false;
        }

        rest = &rest[length..];
    }

    rest.is_empty()
}

fn without_gaps(text: &str) -> String {
    text.chars()
        .filter(|c| !c.is_whitespace() && *c != '-')
        .collect()
}

fn digit_values(text: &str) -> Vec<u32> {
    text.chars().filter_map(|c| c.to_digit(10)).collect()
}

fn is_isbn10(text: &str) -> bool {
    let text = without_gaps(text);
    if text.len() != 10
        || !is_digits(&text[..9])
        || !text.ends_with(|c: char| c.is_ascii_digit() || c == 'X')
    {
        return false;
    }

    let last = if text.ends_with('X') {
        10
    } else {
        digit_values(&text)[9]
    };

    let sum: u32 = digit_values(&text)
        .iter()
        .take(9)
        .zip(1..)
        .map(|(digit, weight)| digit * weight)
        .sum();

    (sum + 10 * last).is_multiple_of(11)
}

fn is_isbn13(text: &str) -> bool {
    let text = without_gaps(text);
    if text.len() != 13 || !is_digits(&text) {
        return false;
    }

    let digits = digit_values(&text);
    let sum: u32 = digits
        .iter()
        .take(12)
        .zip([1, 3].into_iter().cycle())
        .map(|(digit, weight)| digit * weight)
        .sum();

    digits[12] == (10 - sum % 10) % 10
}

fn is_credit_card(text: &str) -> bool {
    let text = without_gaps(text);
    if !matches(&CARD, &text) {
        return false;
    }

    let mut digits = digit_values(&text);
    let last = digits.pop().unwrap_or(0);
    let doubled = digits.iter().rev().enumerate().map(|(at, digit)| {
        let twice = digit * if at % 2 == 0 { 2 } else { 1 };
        if twice > 9 { twice - 9 } else { twice }
    });

    (doubled.sum::<u32>() + last).is_multiple_of(10)
}

fn is_ssn(text: &str) -> bool {
    let gap = |rest: &str| rest.strip_prefix(['-', ' ']).unwrap_or(rest).to_owned();
    let Some(begin) = text.get(..3) else {
        return false;
    };
    let rest = gap(&text[3..]);
    let Some(middle) = rest.get(..2) else {
        return false;
    };
    let end = gap(&rest[2..]);

    is_digits(begin) && is_digits(middle) && end.len() == 4 && is_digits(&end)
}

fn is_rgb(text: &str) -> bool {
    let Some(inner) = text
        .strip_prefix("rgb(")
        .and_then(|rest| rest.strip_suffix(')'))
    else {
        return false;
    };

    let parts: Vec<_> = inner.split(',').map(str::trim).collect();
    let plain = |part: &str| is_digits(part) && (part == "0" || !part.starts_with('0'));
    parts.len() == 3
        && parts
            .iter()
            .all(|part| plain(part) && part.parse::<u32>().is_ok_and(|n| n <= 255))
}

fn is_base64(text: &str) -> bool {
    let body = text.trim_end_matches('=');
    let padding = text.len() - body.len();
    let letters = body
        .bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/'));

    !text.is_empty() && text.len().is_multiple_of(4) && padding <= 2 && letters
}

fn is_datetime(text: &str) -> bool {
    let lower = text.to_lowercase();
    let mut parts = lower.split('t');
    let (Some(date), Some(time)) = (parts.next(), parts.next()) else {
        return false;
    };
    is_date(date) && is_time_of_day(time)
}

/// Accepts Go's durations and those of Scala, as in `3 days`.
fn is_duration(text: &str) -> bool {
    const UNITS: [&[&str]; 8] = [
        &["ns", "nano"],
        &["us", "µs", "micro"],
        &["ms", "milli"],
        &["s", "sec"],
        &["m", "min"],
        &["h", "hr", "hour"],
        &["d", "day"],
        &["w", "wk", "week"],
    ];

    if duration::is_valid(text) {
        return true;
    }
    let Some(pattern) = DURATION.as_ref() else {
        return false;
    };
    let mut found = false;

    for part in pattern.captures_iter(text) {
        if part[1].parse::<i64>().is_err() {
            return false;
        }

        let unit = part[2].to_lowercase();
        found |= UNITS.iter().any(|names| {
            names.contains(&unit.as_str())
                || names.last().is_some_and(|last| unit.starts_with(last))
        });
    }

    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepts_and_refuses_strings_by_format() {
        let cases = [
            ("ipv4", "010.0.0.1", true),
            ("ipv4", "1.2.3", false),
            ("ipv6", "::1", true),
            ("ipv6", "1.2.3.4", false),
            ("cidr", "10.0.0.0/8", true),
            ("cidr", "10.0.0.0/33", false),
            ("cidr", "::/129", false),
            ("mac", "01:23:45:67:89:ab", true),
            ("mac", "0123.4567.89ab", true),
            ("mac", "01:23", false),
            ("uuid", "f47ac10b58cc4372a5670e02b2c3d479", true),
            ("uuid3", "f47ac10b-58cc-4372-a567-0e02b2c3d479", false),
            ("uuid4", "f47ac10b-58cc-4372-a567-0e02b2c3d479", true),
            ("uuid4", "f47ac10b-58cc-4372-c567-0e02b2c3d479", false),
            ("isbn", "978-0321751041", true),
            ("isbn10", "0321751043", true),
            ("isbn13", "0321751043", false),
            ("creditcard", "4111 1111 1111 1111", true),
            ("creditcard", "4111111111111112", false),
            ("ssn", "111-22-3333", true),
            ("ssn", "11-22-3333", false),
            ("hexcolor", "#fff", true),
            ("hexcolor", "#ffff", false),
            ("rgbcolor", "rgb(0, 255, 1)", true),
            ("rgbcolor", "rgb(256,0,0)", false),
            ("byte", "aGk=", true),
            ("byte", "aGk", false),
            ("date", "2024-02-29", true),
            ("date", "2023-02-29", false),
            ("duration", "1h30m", true),
            ("duration", "3 days", true),
            ("duration", "x", false),
            ("date-time", "2014-12-15T19:30:20.000Z", true),
            ("date-time", "2014-12-15", false),
            ("uri", "https://a.b/c", true),
            ("uri", "a b", false),
            ("uri", "/x", true),
            ("uri", "", false),
            ("email", "a@b.c", true),
            ("email", "a", false),
            ("hostname", "a.example.com", true),
            ("hostname", "-a", false),
            ("bsonobjectid", "507f1f77bcf86cd799439011", true),
            ("k8s-short-name", "A", false),
            ("k8s-long-name", "a.b", true),
            ("password", "", true),
        ];
        for (format, text, expected) in cases {
            assert_eq!(accepts(format, text), expected, "{format} {text}");
        }
    }

    #[test]
    fn ignores_formats_of_other_types() {
        assert_eq!(effective(&["integer"], "int32"), "int32");
        assert_eq!(effective(&["integer"], "uuid"), "");
        assert_eq!(effective(&["integer", "string"], "int32"), "");
        assert_eq!(effective(&[], "date-time"), "date-time");
        assert_eq!(effective(&["object"], "uuid"), "");
    }

    #[test]
    fn reads_times_and_durations_as_go_does() {}
}
