//! Hashes of templates in names.

use serde_json::Value;

/// The characters of hashes and generated names: no vowels, so that they spell no words.
const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";

/// Hashes a template.
///
/// kube-controller-manager hashes a dump of its Go objects, this hashes their JSON: the names have
/// the same form but differ.
pub(super) fn of_template(template: &Value, collisions: i64) -> String {
    let mut text = template.to_string();
    if collisions > 0 {
        text = format!("{text}{collisions}");
    }
    encode(fnv1a(text.as_bytes()))
}

fn fnv1a(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0x811c_9dc5, |hash, byte| {
        (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193)
    })
}

/// Encodes a hash for a name, by the digits of its decimal form. Upstream is `SafeEncodeString` in
/// <https://github.com/kubernetes/kubernetes/blob/v1.36.2/staging/src/k8s.io/apimachinery/pkg/util/rand/rand.go>.
fn encode(hash: u32) -> String {
    hash.to_string()
        .bytes()
        .map(|digit| char::from(ALPHABET[usize::from(digit) % ALPHABET.len()]))
        .collect()
}

/// Hashes a ControllerRevision's data exactly like kube-controller-manager.
pub(super) fn of_revision(data: &str, collisions: i64) -> String {
    let text = format!("{data}{collisions}");
    let hash = text.bytes().fold(0x811c_9dc5_u32, |hash, byte| {
        hash.wrapping_mul(0x0100_0193) ^ u32::from(byte)
    });
    encode(hash)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_encoded_as_kubernetes_does() {
        assert_eq!(encode(1_234_567_890), "56789bcdf4");
        assert_eq!(fnv1a(b"a"), 0xe40c_292c);
    }

    #[test]
    fn revision_has_the_hash_of_kube_controller_manager() {
        let container =
            r#"{"image":"nginx:1","imagePullPolicy":"IfNotPresent","name":"c","resources":{},"#
                .to_owned()
                + r#""terminationMessagePath":"/dev/termination-log","terminationMessagePolicy":"File"}"#;

        let spec = format!(
            r#"{{"containers":[{container}],"dnsPolicy":"ClusterFirst","restartPolicy":"Always","#
        ) + r#""schedulerName":"default-scheduler","securityContext":{},"terminationGracePeriodSeconds":30}"#;
        let metadata = r#"{"labels":{"app":"db"}}"#;
        let data = format!(
            r#"{{"spec":{{"template":{{"$patch":"replace","metadata":{metadata},"spec":{spec}}}}}}}"#
        );

        assert_eq!(of_revision(&data, 0), "57679dd759");
    }
}
