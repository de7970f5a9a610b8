//! Names in Kubernetes: checks, and names that are made from others.

use std::path::Path;

use anyhow::{Result, bail};
use kube::core::{ApiResource, GroupVersionKind};
use operetta_api::names::is_dns_subdomain;

/// Returns the plugin name that a component's file name gives. Compilers write underscores into
/// file names; names in Kubernetes have none.
pub fn plugin_name(file: &Path) -> String {
    let stem = file.file_stem().and_then(|stem| stem.to_str());
    stem.unwrap_or("plugin").replace('_', "-").to_lowercase()
}

/// Checks an API group: at least two labels joined by dots, and not one of Kubernetes' own.
///
/// # Errors
/// Returns the rule that the group breaks.
pub fn check_group(group: &str) -> Result<()> {
    if !group.contains('.') || !is_dns_subdomain(group) {
        bail!(
            "{group:?} is not a valid API group: use a domain of yours, such as \"example.com\", in lower case"
        );
    }

    if ["k8s.io", "kubernetes.io"]
        .iter()
        .any(|own| group == *own || group.ends_with(&format!(".{own}")))
    {
        bail!(
            "{group:?} is not allowed as an API group: *.k8s.io and *.kubernetes.io are reserved for Kubernetes"
        );
    }

    Ok(())
}

/// Checks an API version, such as `v1` or `v1beta2`.
///
/// # Errors
/// Returns an error if it has another form.
pub fn check_version(version: &str) -> Result<()> {
    let digits = |text: &str| {
        !text.is_empty() && !text.starts_with('0') && text.bytes().all(|c| c.is_ascii_digit())
    };

    let rest = version.strip_prefix('v').unwrap_or_default();
    let stable = digits(rest);
    let early = ["alpha", "beta"].iter().any(|stage| {
        rest.split_once(stage)
            .is_some_and(|(major, minor)| digits(major) && digits(minor))
    });

    if !stable && !early {
        bail!(
            "{version:?} is not a valid API version: use one such as \"v1\", \"v1beta1\" or \"v1alpha1\""
        );
    }

    Ok(())
}

/// Checks a kind: CamelCase, and a DNS label in lower case.
///
/// # Errors
/// Returns an error if it has another form.
pub fn check_kind(kind: &str) -> Result<()> {
    let camel = kind.starts_with(|first: char| first.is_ascii_uppercase())
        && kind.bytes().all(|byte| byte.is_ascii_alphanumeric());

    // The plural must be a label as well, and is at most two letters longer.
    if !camel || kind.len() > 61 {
        bail!(
            "{kind:?} is not a valid kind: use letters and digits in CamelCase, such as \"CronTab\", at most 61"
        );
    }

    Ok(())
}

/// Returns `my-plugin` as `MyPlugin`, without characters other than letters and digits.
pub fn camel_case(name: &str) -> String {
    let words = name
        .split(|c: char| !c.is_ascii_alphanumeric())
        .filter(|word| !word.is_empty());
    words
        .map(|word| word[..1].to_ascii_uppercase() + &word[1..])
        .collect()
}

/// Returns the plural of a kind by the rules of English, as kubectl and controller-gen guess it.
pub fn plural(kind: &str) -> String {
    ApiResource::from_gvk(&GroupVersionKind::gvk("", "v1", kind)).plural
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_follow_kubernetes_rules() {
        for group in ["example.com", "a.b.example.com"] {
            check_group(group).expect(group);
        }
        for group in ["example", "Example.com", "a..b", "x.k8s.io", "k8s.io", ""] {
            check_group(group).expect_err(group);
        }

        for version in ["v1", "v2beta10", "v1alpha1"] {
            check_version(version).expect(version);
        }
        for version in ["1", "v", "v0", "v1gamma1", "v1alpha", "valpha1", "V1"] {
            check_version(version).expect_err(version);
        }

        check_kind("CronTab").expect("a kind");
        for kind in ["cronTab", "Cron-Tab", "", "Über"] {
            check_kind(kind).expect_err(kind);
        }
    }

    #[test]
    fn names_follow_from_one_another() {
        assert_eq!(camel_case("my-2nd-plugin"), "My2ndPlugin");
        for (kind, resource) in [
            ("Foo", "foos"),
            ("Policy", "policies"),
            ("Ingress", "ingresses"),
            ("CronTab", "crontabs"),
        ] {
            assert_eq!(plural(kind), resource);
        }
    }
}
