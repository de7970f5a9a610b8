//! The default pull policy of an image. Upstream is `ParseImageName` in
//! <https://github.com/kubernetes/kubernetes/blob/v1.36.2/pkg/util/parsers/parsers.go>.

/// Returns the default pull policy of an image: `Always` for the tag `latest`, which is implied if
/// there is neither a tag nor a digest.
pub(super) fn image_pull_policy(image: &str) -> &'static str {
    let (name, digest) = match image.split_once('@') {
        Some((name, _)) => (name, true),
        None => (image, false),
    };

    if !is_reference(name) {
        return "IfNotPresent";
    }

    let last = name.rsplit_once('/').map_or(name, |(_, last)| last);
    match last.split_once(':') {
        Some((_, "latest")) => "Always",
        None if !digest => "Always",
        _ => "IfNotPresent",
    }
}

/// Reports whether a name without a digest is an image reference: a registry, if any, and a path in
/// lower case.
fn is_reference(name: &str) -> bool {
    let path = match name.split_once('/') {
        Some((domain, rest)) if domain.contains(['.', ':']) || domain == "localhost" => rest,
        _ => name,
    };

    let (path, tag) = path
        .split_once(':')
        .map_or((path, None), |(path, tag)| (path, Some(tag)));

    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let component = |part: &str| {
        let bytes = part.as_bytes();
        let valid = bytes
            .iter()
            .all(|byte| inner(*byte) || b"._-".contains(byte));

        valid
            && bytes.first().is_some_and(|byte| inner(*byte))
            && bytes.last().is_some_and(|byte| inner(*byte))
    };

    path.split('/').all(component) && tag.is_none_or(|tag| !tag.is_empty())
}

#[cfg(test)]
mod tests {
    use super::image_pull_policy;

    #[test]
    fn pull_policy_depends_on_the_tag() {
        let table = [
            ("nginx", "Always"),
            ("nginx:latest", "Always"),
            ("nginx:1.25", "IfNotPresent"),
            ("example.com:5000/nginx", "Always"),
            ("example.com:5000/nginx:1", "IfNotPresent"),
            ("nginx@sha256:abc", "IfNotPresent"),
            ("Nginx", "IfNotPresent"),
            ("example.com/Nginx", "IfNotPresent"),
            ("localhost/nginx", "Always"),
        ];

        for (image, policy) in table {
            assert_eq!(image_pull_policy(image), policy, "{image}");
        }
    }
}
