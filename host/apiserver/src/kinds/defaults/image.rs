//! The pull policy of images.

/// Returns the pull policy of an image without one: `Always` for the tag `latest`, also where it is left out.
pub(super) fn image_pull_policy(image: &str) -> &'static str {
    let (name, digest) = match image.split_once('@') {
        Some((name, _)) => (name, true),
        None => (image, false),
    };
    let last = name.rsplit_once('/').map_or(name, |(_, last)| last);
    match last.split_once(':') {
        Some((_, "latest")) => "Always",
        None if !digest => "Always",
        _ => "IfNotPresent",
    }
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
        ];
        for (image, policy) in table {
            assert_eq!(image_pull_policy(image), policy, "{image}");
        }
    }
}
