//! The order of version names: stable before beta before alpha, and newer before older.
//! The warning of deprecated versions follows it.

use std::cmp::Ordering;

use super::model::{Spec, Version};

/// Compares version names as Kubernetes does, as in `v1beta2` < `v1` < `v2`. Other names come
/// first, `a` after `b`.
pub fn compare(left: &str, right: &str) -> Ordering {
    match (parse(left), parse(right)) {
        (Some(left), Some(right)) => left.cmp(&right),
        (Some(_), None) => Ordering::Greater,
        (None, Some(_)) => Ordering::Less,
        (None, None) => right.cmp(left),
    }
}

/// Says that a version is deprecated, and names the newest one that is not.
pub fn deprecation(spec: &Spec, version: &Version) -> String {
    let group = &spec.group;
    let kind = &spec.names.kind;
    let newer = spec
        .versions
        .iter()
        .filter(|other| other.served && !other.deprecated);
    let newer = newer
        .map(|other| &other.name)
        .filter(|name| compare(&version.name, name).is_lt());

    let text = format!("{group}/{} {kind} is deprecated", version.name);
    match newer.max_by(|a, b| compare(a, b)) {
        Some(best) => format!("{text}; use {group}/{best} {kind}"),
        None => text,
    }
}

/// Returns the stability, the major number and the number of the pre-release.
fn parse(name: &str) -> Option<(u8, u64, u64)> {
    let rest = name.strip_prefix('v')?;
    let end = rest
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(rest.len());
    let (major, rest) = rest.split_at(end);
    if major.starts_with('0') {
        return None;
    }

    let major = major.parse().ok()?;
    if rest.is_empty() {
        return Some((2, major, 0));
    }

    let (stability, minor) = match rest.strip_prefix("beta") {
        Some(minor) => (1, minor),
        None => (0, rest.strip_prefix("alpha")?),
    };
    if minor.starts_with('0') {
        return None;
    }

    Some((stability, major, minor.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_versions_by_stability_and_age() {
        let ordered = [
            "foo10", "foo1", "v1alpha1", "v2alpha1", "v1beta1", "v1beta2", "v3beta1", "v1", "v2",
            "v10",
        ];
        for pair in ordered.windows(2) {
            assert_eq!(compare(pair[0], pair[1]), Ordering::Less, "{pair:?}");
        }
    }
}
