//! The API server's version.

use kube::Client;

/// The oldest supported minor version of Kubernetes 1, and the first with
/// ValidatingAdmissionPolicies.
pub const OLDEST_MINOR: u32 = 30;

/// Reads the API server's version and returns it if it is older than [`OLDEST_MINOR`]. An unknown
/// version, as in a build without one, is not.
///
/// # Errors
/// The error of the request.
pub async fn too_old(client: &Client) -> kube::Result<Option<String>> {
    let version = client.apiserver_version().await?;
    Ok(is_too_old(&version.major, &version.minor).then_some(version.git_version))
}

/// Compares the numbers; some providers write them as `29+`.
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
