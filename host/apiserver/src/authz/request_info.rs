//! The attributes of a request, from its method and URL.

use crate::authz::{attributes::Attributes, names, user::User};

/// Subresources of a Namespace; any other path below a Namespace is a resource in it.
const NAMESPACE_SUBRESOURCES: [&str; 2] = ["status", "finalize"];

/// Parses the method, the decoded path and the decoded query parameters of a request, as kube-apiserver does before it
/// authenticates: without knowledge of the resources that exist.
///
/// Returns None for a path `/api/VERSION/watch` or `…/proxy` that names no resource, which the API server answers with
/// an internal error.
pub fn attributes(user: User, method: &str, path: &str, query: &[(String, String)]) -> Option<Attributes> {
    let mut attributes =
        Attributes { user, verb: method.to_ascii_lowercase(), path: path.to_owned(), ..Attributes::default() };
    let trimmed = path.trim_matches('/');
    let parts: Vec<&str> = if trimmed.is_empty() { Vec::new() } else { trimmed.split('/').collect() };
    let (group, rest) = match parts.as_slice() {
        ["api", rest @ ..] if rest.len() >= 2 => ("", rest),
        ["apis", group, rest @ ..] if rest.len() >= 2 => (*group, rest),
        _ => return Some(attributes),
    };
    attributes.is_resource = true;
    attributes.group = group.to_owned();
    attributes.version = rest[0].to_owned();
    set_resource(&mut attributes, method, &rest[1..])?;
    set_list_verb(&mut attributes, query);
    Some(attributes)
}

fn set_resource(attributes: &mut Attributes, method: &str, mut parts: &[&str]) -> Option<()> {
    if let ["watch" | "proxy", rest @ ..] = parts {
        attributes.verb = parts[0].to_owned();
        if rest.is_empty() {
            return None;
        }
        parts = rest;
    } else {
        attributes.verb = verb(method).to_owned();
    }
    if let ["namespaces", namespace, rest @ ..] = parts {
        attributes.namespace = (*namespace).to_owned();
        if rest.first().is_some_and(|next| !NAMESPACE_SUBRESOURCES.contains(next)) {
            parts = rest;
        }
    }
    attributes.resource = parts.first().copied().unwrap_or_default().to_owned();
    attributes.name = parts.get(1).copied().unwrap_or_default().to_owned();
    if attributes.verb != "proxy" {
        attributes.subresource = parts.get(2).copied().unwrap_or_default().to_owned();
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

/// Makes a `get` or `delete` without a name a `list`, `watch` or `deletecollection`. A field selector for one name is
/// as good as the name.
fn set_list_verb(attributes: &mut Attributes, query: &[(String, String)]) {
    if !attributes.name.is_empty() {
        return;
    }
    let parameter = |name: &str| query.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str());
    match attributes.verb.as_str() {
        "get" => {
            let is_watch =
                parameter("watch").is_some_and(|value| !matches!(value.to_lowercase().as_str(), "false" | "0"));
            attributes.verb = if is_watch { "watch" } else { "list" }.to_owned();
            if let Some(name) = parameter("fieldSelector").and_then(required_name) {
                attributes.name = name;
            }
        }
        "delete" => attributes.verb = "deletecollection".to_owned(),
        _ => {}
    }
}

/// Returns the only name that a field selector lets through, if it is a valid name.
pub(crate) fn required_name(selector: &str) -> Option<String> {
    let name = selector.split(',').find_map(|term| {
        let value = term.strip_prefix("metadata.name=")?;
        Some(value.strip_prefix('=').unwrap_or(value))
    })?;
    (!name.contains('\\') && names::path_segment_errors(name).is_empty()).then(|| name.to_owned())
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
            Some(it) => format!("{} {}.{} {}/{}", it.verb, it.combined_resource(), it.group, it.namespace, it.name),
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
            ("PUT", "/api/v1/namespaces/a/finalize", "", "update namespaces/finalize. a/a"),
            ("GET", "/api/v1/namespaces/a/pods/p/log", "", "get pods/log. a/p"),
            ("GET", "/apis/apps/v1/namespaces/a/deployments", "watch=true", "watch deployments.apps a/"),
            ("GET", "/api/v1/pods", "watch=0", "list pods. /"),
            ("GET", "/api/v1/pods", "fieldSelector=metadata.name=x", "list pods. /x"),
            ("GET", "/api/v1/pods", "watch=1&fieldSelector=metadata.name==x,spec.a=b", "watch pods. /x"),
            ("DELETE", "/api/v1/namespaces/a/pods", "", "deletecollection pods. a/"),
            ("GET", "/api/v1/watch/namespaces/a/pods/x", "", "watch pods. a/x"),
            ("GET", "/api/v1/proxy/namespaces/a/pods/x/y", "", "proxy pods. a/x"),
            ("GET", "/api/v1/watch", "", "error"),
            ("OPTIONS", "/api/v1/pods", "", " pods. /"),
            ("PATCH", "/apis/a.b/v1/namespaces/n/cs/x/status", "", "patch cs/status.a.b n/x"),
        ] {
            assert_eq!(summary(method, path, query), expected, "{method} {path} {query}");
        }
    }
}
