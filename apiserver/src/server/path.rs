//! The paths of the API: what a URL names.

use crate::authz::request_info::split_path;

/// A resource, object or subresource that a path names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResourcePath {
    /// The API group.
    pub group: String,
    /// The version.
    pub version: String,
    /// The namespace.
    pub namespace: Option<String>,
    /// The plural of the resource.
    pub resource: String,
    /// The name of the object.
    pub name: Option<String>,
    /// The subresource, or `""`.
    pub subresource: String,
    /// The path below the subresource, as of proxies.
    pub rest: String,
    /// Reports whether the path has the outdated prefix `watch/`.
    pub watch: bool,
}

/// A path, as far as it is understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Path {
    /// A resource or an object.
    Resource(ResourcePath),
    /// `/api`: the versions of the core group.
    CoreVersions,
    /// `/apis`: the groups.
    Groups,
    /// `/apis/GROUP`: a group.
    Group(String),
    /// `/api/v1` or `/apis/GROUP/VERSION`: the resources of a group version.
    Version(String, String),
    /// Any other path, such as `/healthz`.
    Other(String),
}

/// Parses a path.
#[must_use]
pub fn parse(path: &str) -> Path {
    let parts = split_path(path);
    let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
    match parts.as_slice() {
        ["api"] => Path::CoreVersions,
        ["api", version] => Path::Version(String::new(), (*version).into()),
        ["api", version, rest @ ..] => Path::Resource(parse_resource("", version, rest)),
        ["apis"] => Path::Groups,
        ["apis", group] => Path::Group((*group).into()),
        ["apis", group, version] => Path::Version((*group).into(), (*version).into()),
        ["apis", group, version, rest @ ..] => Path::Resource(parse_resource(group, version, rest)),
        _ => Path::Other(path.into()),
    }
}

fn parse_resource(group: &str, version: &str, rest: &[&str]) -> ResourcePath {
    let watch = rest.len() > 1 && rest[0] == "watch";
    let rest = if watch { &rest[1..] } else { rest };
    let found = ResourcePath {
        group: group.into(),
        version: version.into(),
        watch,
        ..ResourcePath::default()
    };

    match rest {
        // These are subresources of the namespace itself, not resources in it.
        [
            "namespaces",
            name,
            subresource @ ("status" | "finalize"),
            ..,
        ] => ResourcePath {
            resource: "namespaces".into(),
            name: Some((*name).into()),
            subresource: (*subresource).into(),
            ..found
        },
        ["namespaces", namespace, resource, rest @ ..] => with_name(
            ResourcePath {
                namespace: Some((*namespace).into()),
                resource: (*resource).into(),
                ..found
            },
            rest,
        ),
        [resource, rest @ ..] => with_name(
            ResourcePath {
                resource: (*resource).into(),
                ..found
            },
            rest,
        ),
        [] => found,
    }
}

fn with_name(mut path: ResourcePath, rest: &[&str]) -> ResourcePath {
    path.name = rest.first().map(|name| (*name).to_owned());
    path.subresource = rest
        .get(1)
        .map(|name| (*name).to_owned())
        .unwrap_or_default();
    path.rest = rest.get(2..).unwrap_or_default().join("/");

    path
}
