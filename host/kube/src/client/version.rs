//! The version of the API server.

use kube::Client;

/// The oldest minor version of Kubernetes 1 that the host supports: ValidatingAdmissionPolicies are
/// served since then.
pub const OLDEST_MINOR: u32 = 30;

/// Reads the version of the API server. Returns it if it is older than [`OLDEST_MINOR`]; an unknown
/// one, as of a build without a version, is not.
///
/// # Errors
/// The error of the request.
pub async fn too_old(client: &Client) -> kube::Result<Option<String>> {
    let version = client.apiserver_version().await?;
    Ok(is_too_old(&version.major, &version.minor).then_some(version.git_version))
}

/// Compares the numbers, which some providers write as `29+`.
fn is_too_old(major: &str, minor: &str) -> bool {
    let number = |text: &str| text.trim_end_matches('+').parse::<u32>().ok();
    number(major) == Some(1) && number(minor).is_some_and(|minor| minor < OLDEST_MINOR)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_before_the_oldest_supported_one_are_too_old() {
        for (major, minor) in [("1", "29"), ("1", "29+"), ("1", "9")] {
            assert!(is_too_old(major, minor), "{major}.{minor}");
        }
        for (major, minor) in [("1", "30"), ("1", "36+"), ("2", "0"), ("", ""), ("1", "x")] {
            assert!(!is_too_old(major, minor), "{major}.{minor}");
        }
    }
}
