//! The attributes of a request, from its method and URL.

use percent_encoding::percent_decode_str;

use crate::{
    apimachinery::{attributes::Attributes, names, selector::FieldSelector},
    authn::user::User,
};

/// Subresources of a Namespace; any other path below a Namespace is a resource in it.
const NAMESPACE_SUBRESOURCES: [&str; 2] = ["status", "finalize"];

/// Returns the attributes of a request from its method, its path and its decoded query parameters.
/// As in kube-apiserver this comes before authentication, and doesn't know which resources exist:
/// <https://github.com/kubernetes/apiserver/blob/v0.36.2/pkg/endpoints/request/requestinfo.go>.
///
/// Returns None for a path `/api/VERSION/watch` or `…/proxy` that names no resource, which the API
/// server answers with an internal error.
pub fn attributes(
    user: User,
    method: &str,
    path: &str,
    query: &[(String, String)],
) -> Option<Attributes> {
    let mut attributes = Attributes {
        user,
        verb: method.to_ascii_lowercase(),
        path: percent_decode_str(path).decode_utf8_lossy().into_owned(),
        ..Attributes::default()
    };

    let parts = split_path(path);
    let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
    let (group, version, rest) = match parts.as_slice() {
        ["api", version, rest @ ..] if !rest.is_empty() => ("", *version, rest),
        ["apis", group, version, rest @ ..] if !rest.is_empty() => (*group, *version, rest),
        _ => return Some(attributes),
    };
    attributes.is_resource = true;
    attributes.group = group.to_owned();
    attributes.version = version.to_owned();

    let has_verb = matches!(rest[0], "watch" | "proxy");
    let rest = if has_verb {
        attributes.verb = rest[0].to_owned();
        &rest[1..]
    } else {
        attributes.verb = verb(method).to_owned();
        rest
    };
    set_resource(&mut attributes, rest)?;
    set_list_verb(&mut attributes, query);

    // The endpoints whose path has the verb treat selectors differently.
    if !has_verb && matches!(&*attributes.verb, "list" | "watch" | "deletecollection") {
        let selector = |name: &str| parameter(query, name).unwrap_or_default().to_owned();
        attributes.field_selector = selector("fieldSelector");
        attributes.label_selector = selector("labelSelector");
    }

    Some(attributes)
}

/// Splits the path of a URL into its parts, and decodes them.
pub(crate) fn split_path(path: &str) -> Vec<String> {
    path.split('/')
        .filter(|part| !part.is_empty())
        .map(|part| percent_decode_str(part).decode_utf8_lossy().into_owned())
        .collect()
}

fn set_resource(attributes: &mut Attributes, mut parts: &[&str]) -> Option<()> {
    if let ["namespaces", namespace, rest @ ..] = parts {
        attributes.namespace = (*namespace).to_owned();
        if rest
            .first()
            .is_some_and(|next| !NAMESPACE_SUBRESOURCES.contains(next))
        {
            parts = rest;
        }
    }

    let part = |at: usize| parts.get(at).copied().unwrap_or_default().to_owned();
    attributes.resource = (*parts.first()?).to_owned();
    attributes.name = part(1);
    if attributes.verb != "proxy" {
        attributes.subresource = part(2);
    }
    Some(())
}

fn verb(method: &str) -> &'static str {
    match method {
        "POST" => "create",
        "GET" | "HEAD" => "get",
        "PUT" => "update",
        "PATCH" => "patch",
        "DELETE" => "delete",
        _ => "",
    }
}

fn parameter<'a>(query: &'a [(String, String)], name: &str) -> Option<&'a str> {
    query
        .iter()
        .find(|(key, _)| key == name)
        .map(|(_, value)| value.as_str())
}

/// Makes a `get` or `delete` without a name a `list`, `watch` or `deletecollection`. A field
/// selector for one name is as good as the name.
fn set_list_verb(attributes: &mut Attributes, query: &[(String, String)]) {
    if !attributes.name.is_empty() {
        return;
    }

    match attributes.verb.as_str() {
        "get" => {
            let is_watch = parameter(query, "watch")
                .is_some_and(|value| !matches!(value.to_lowercase().as_str(), "false" | "0"));
            attributes.verb = if is_watch { "watch" } else { "list" }.to_owned();

            if let Some(name) = parameter(query, "fieldSelector").and_then(required_name) {
                attributes.name = name;
            }
        }
        "delete" => attributes.verb = "deletecollection".to_owned(),
        _ => {}
    }
}

/// Returns the only name that a field selector lets through, if it is a valid name.
fn required_name(selector: &str) -> Option<String> {
    let selector = FieldSelector::parse(selector).ok()?;
    let name = selector.required_name()?;
    names::path_segment_name(name)
        .is_empty()
        .then(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn summary(method: &str, path: &str, query: &str) -> String {
        let query: Vec<(String, String)> = query
            .split('&')
            .filter_map(|pair| pair.split_once('='))
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .collect();
        match attributes(User::default(), method, path, &query) {
            None => "error".to_owned(),
            Some(it) if !it.is_resource => format!("{} {}", it.verb, it.path),
            Some(it) => format!(
                "{} {}.{} {}/{}",
                it.verb,
                it.combined_resource(),
                it.group,
                it.namespace,
                it.name
            ),
        }
    }

    #[test]
    fn attributes_follow_paths() {
        for (method, path, query, expected) in [
            ("GET", "/", "", "get /"),
            ("GET", "/api/v1", "", "get /api/v1"),
            ("GET", "/apis/apps/v1", "", "get /apis/apps/v1"),
            ("POST", "/healthz/ping", "", "post /healthz/ping"),
            ("GET", "/api/v1/pods", "", "list pods. /"),
            ("GET", "/api/v1/namespaces", "", "list namespaces. /"),
            ("GET", "/api/v1/namespaces/a", "", "get namespaces. a/a"),
            (
                "PUT",
                "/api/v1/namespaces/a/finalize",
                "",
                "update namespaces/finalize. a/a",
            ),
            (
                "GET",
                "/api/v1/namespaces/a/pods/p/log",
                "",
                "get pods/log. a/p",
            ),
            (
                "GET",
                "/apis/apps/v1/namespaces/a/deployments",
                "watch=true",
                "watch deployments.apps a/",
            ),
            ("GET", "/api/v1/pods", "watch=0", "list pods. /"),
            (
                "GET",
                "/api/v1/pods",
                "fieldSelector=metadata.name=x",
                "list pods. /x",
            ),
            (
                "GET",
                "/api/v1/pods",
                "watch=1&fieldSelector=metadata.name==x,spec.a=b",
                "watch pods. /x",
            ),
            (
                "DELETE",
                "/api/v1/namespaces/a/pods",
                "",
                "deletecollection pods. a/",
            ),
            (
                "GET",
                "/api/v1/watch/namespaces/a/pods/x",
                "",
                "watch pods. a/x",
            ),
            (
                "GET",
                "/api/v1/proxy/namespaces/a/pods/x/y",
                "",
                "proxy pods. a/x",
            ),
            ("GET", "/api/v1/watch", "", "error"),
            ("OPTIONS", "/api/v1/pods", "", " pods. /"),
            (
                "PATCH",
                "/apis/a.b/v1/namespaces/n/cs/x/status",
                "",
                "patch cs/status.a.b n/x",
            ),
        ] {
            assert_eq!(
                summary(method, path, query),
                expected,
                "{method} {path} {query}"
            );
        }
    }
}
