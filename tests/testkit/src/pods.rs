//! Pods of a large cluster for measurements, the same in each run and for each peer.
//!
//! [`pod`] returns one Pod of a Deployment as the API server sends it: 5.7 KB of compact JSON, of
//! which managedFields take 1.4 KB. Values that repeat in a cluster repeat here (images, probes,
//! mounts); values that are random there are random here (uids, container ids, addresses, times).
//! So the Pods compress as in a cluster. [`write()`] writes them to a file, one per line, for peers
//! that are measured beside the host.

use std::{
    fs::File,
    io::{self, BufWriter, Write},
    path::Path,
};

/// The number of Pods of a ReplicaSet.
const REPLICAS: usize = 8;
/// The number of applications; each has its own names, images and settings.
const APPS: usize = 60;
/// The number of namespaces.
const NAMESPACES: usize = 40;
/// The number of nodes.
const NODES: usize = 500;

/// A pseudorandom generator with a fixed seed (SplitMix64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() % bound as u64).unwrap_or_default()
    }

    /// Letters and digits from the alphabet of the API server's name suffixes.
    fn suffix(&mut self, length: usize) -> String {
        const LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
        (0..length)
            .map(|_| char::from(LETTERS[self.below(LETTERS.len())]))
            .collect()
    }

    fn hex(&mut self, length: usize) -> String {
        (0..length)
            .map(|_| char::from(b"0123456789abcdef"[self.below(16)]))
            .collect()
    }

    fn uid(&mut self) -> String {
        let a = self.hex(8);
        let b = self.hex(4);
        let c = self.hex(3);
        let d = self.hex(3);
        let e = self.hex(12);

        format!("{a}-{b}-4{c}-a{d}-{e}")
    }
}

/// Returns the Pod of this number as one line of compact JSON. Each number has its own namespace
/// and name.
pub fn pod(number: usize) -> String {
    let set = number / REPLICAS;

    // The values that the Pods of a ReplicaSet share, those that an application's share, and those
    // of the Pod alone.
    let mut of_set = Random(set as u64 ^ 0x5e7);
    let mut of_app = Random((set % APPS) as u64 ^ 0xa99);
    let mut own = Random(number as u64 ^ 0x90d);

    let app = format!(
        "{}-{}",
        ["web", "api", "worker", "cache", "gateway", "billing"][set % 6],
        set % APPS
    );

    let image = of_app.hex(64);
    let sidecar = Random(7).hex(64);
    let version = of_app.below(40);
    let port = 8000 + of_app.below(900);
    let cpu = 100 + 50 * of_app.below(8);

    let hash = of_set.suffix(10);
    let set_uid = of_set.uid();
    let namespace = format!("team-{:02}", set % NAMESPACES);
    let name = format!("{app}-{hash}-{}", own.suffix(5));

    // A letter for the number within the ReplicaSet guarantees that the name is unique.
    let name = format!(
        "{name}{}",
        ["b", "c", "d", "f", "g", "h", "j", "k"][number % REPLICAS]
    );

    let uid = own.uid();
    let node = own.below(NODES);
    let token = own.suffix(5);
    let first = own.hex(64);
    let second = own.hex(64);
    let revision = 1_000_000 + number * 7;

    let time = |seconds: usize| {
        let day = 1 + number / 5_000 % 28;
        let hour = number / 200 % 24;
        let minute = number / 4 % 59;
        format!(
            "2026-10-{day:02}T{hour:02}:{minute:02}:{:02}Z",
            number % 4 * 10 + seconds
        )
    };

    let created = time(0);
    let started = time(3);
    let ready = time(9);

    let host_ip = format!("10.20.{}.{}", node / 250, node % 250);
    let pod_ip = format!(
        "10.{}.{}.{}",
        64 + number / 62_500,
        number / 250 % 250,
        number % 250
    );

    let account = format!(
        r#"{{"name":"kube-api-access-{token}","readOnly":true,"mountPath":"/var/run/secrets/kubernetes.io/serviceaccount"}}"#
    );
    let probe = |path: &str| {
        format!(
            r#"{{"httpGet":{{"path":"{path}","port":"http","scheme":"HTTP"}},"timeoutSeconds":1,"periodSeconds":10,"successThreshold":1,"failureThreshold":3}}"#
        )
    };
    let live = probe("/healthz");
    let is_ready = probe("/readyz");

    let condition = |type_: &str, time: &str| {
        format!(
            r#"{{"type":"{type_}","status":"True","lastProbeTime":null,"lastTransitionTime":"{time}"}}"#
        )
    };

    let conditions = [
        ("Initialized", &started),
        ("Ready", &ready),
        ("ContainersReady", &ready),
        ("PodScheduled", &created),
    ]
    .map(|(type_, time)| condition(type_, time))
    .join(",");

    let managed = managed_fields(&created, &ready, &set_uid);
    format!(
        r#"{{"kind":"Pod","apiVersion":"v1","metadata":{{"name":"{name}","generateName":"{app}-{hash}-","namespace":"{namespace}","uid":"{uid}","resourceVersion":"{revision}","generation":1,"creationTimestamp":"{created}","labels":{{"app.kubernetes.io/instance":"{app}","app.kubernetes.io/name":"{app}","pod-template-hash":"{hash}"}},"annotations":{{"prometheus.io/port":"{port}","prometheus.io/scrape":"true"}},"ownerReferences":[{{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"{app}-{hash}","uid":"{set_uid}","controller":true,"blockOwnerDeletion":true}}],"managedFields":{managed}}},"spec":{{"volumes":[{{"name":"config","configMap":{{"name":"{app}-config","defaultMode":420}}}},{{"name":"kube-api-access-{token}","projected":{{"sources":[{{"serviceAccountToken":{{"expirationSeconds":3607,"path":"token"}}}},{{"configMap":{{"name":"kube-root-ca.crt","items":[{{"key":"ca.crt","path":"ca.crt"}}]}}}}],"defaultMode":420}}}}],"containers":[{{"name":"app","image":"registry.example.com/{app}:v1.{version}.0","args":["--listen=:{port}","--config=/etc/app/config.yaml"],"ports":[{{"name":"http","containerPort":{port},"protocol":"TCP"}}],"env":[{{"name":"POD_NAME","valueFrom":{{"fieldRef":{{"apiVersion":"v1","fieldPath":"metadata.name"}}}}}},{{"name":"LOG_LEVEL","value":"info"}}],"resources":{{"limits":{{"cpu":"{}m","memory":"512Mi"}},"requests":{{"cpu":"{cpu}m","memory":"256Mi"}}}},"volumeMounts":[{{"name":"config","mountPath":"/etc/app"}},{account}],"livenessProbe":{live},"readinessProbe":{is_ready},"terminationMessagePath":"/dev/termination-log","terminationMessagePolicy":"File","imagePullPolicy":"IfNotPresent"}},{{"name":"proxy","image":"registry.example.com/proxy:v2.4.1","resources":{{"requests":{{"cpu":"50m","memory":"64Mi"}}}},"volumeMounts":[{account}],"terminationMessagePath":"/dev/termination-log","terminationMessagePolicy":"File","imagePullPolicy":"IfNotPresent"}}],"restartPolicy":"Always","terminationGracePeriodSeconds":30,"dnsPolicy":"ClusterFirst","serviceAccountName":"{app}","serviceAccount":"{app}","nodeName":"node-{node:03}.example.internal","securityContext":{{}},"schedulerName":"default-scheduler","tolerations":[{{"key":"node.kubernetes.io/not-ready","operator":"Exists","effect":"NoExecute","tolerationSeconds":300}},{{"key":"node.kubernetes.io/unreachable","operator":"Exists","effect":"NoExecute","tolerationSeconds":300}}]}},"status":{{"phase":"Running","conditions":[{conditions}],"hostIP":"{host_ip}","hostIPs":[{{"ip":"{host_ip}"}}],"podIP":"{pod_ip}","podIPs":[{{"ip":"{pod_ip}"}}],"startTime":"{created}","containerStatuses":[{{"name":"app","state":{{"running":{{"startedAt":"{started}"}}}},"lastState":{{}},"ready":true,"restartCount":0,"image":"registry.example.com/{app}:v1.{version}.0","imageID":"registry.example.com/{app}@sha256:{image}","containerID":"containerd://{first}","started":true}},{{"name":"proxy","state":{{"running":{{"startedAt":"{started}"}}}},"lastState":{{}},"ready":true,"restartCount":0,"image":"registry.example.com/proxy:v2.4.1","imageID":"registry.example.com/proxy@sha256:{sidecar}","containerID":"containerd://{second}","started":true}}],"qosClass":"Burstable"}}}}"#,
        cpu * 2
    )
}

/// The managedFields of the ReplicaSet controller and of the kubelet.
fn managed_fields(created: &str, ready: &str, owner: &str) -> String {
    format!(
        r#"[{{"manager":"kube-controller-manager","operation":"Update","apiVersion":"v1","time":"{created}","fieldsType":"FieldsV1","fieldsV1":{{"f:metadata":{{"f:annotations":{{".":{{}},"f:prometheus.io/port":{{}},"f:prometheus.io/scrape":{{}}}},"f:generateName":{{}},"f:labels":{{".":{{}},"f:app.kubernetes.io/instance":{{}},"f:app.kubernetes.io/name":{{}},"f:pod-template-hash":{{}}}},"f:ownerReferences":{{".":{{}},"k:{{\"uid\":\"{owner}\"}}":{{}}}}}},"f:spec":{{"f:containers":{{"k:{{\"name\":\"app\"}}":{{".":{{}},"f:args":{{}},"f:env":{{".":{{}},"k:{{\"name\":\"LOG_LEVEL\"}}":{{".":{{}},"f:name":{{}},"f:value":{{}}}}}},"f:image":{{}},"f:imagePullPolicy":{{}},"f:livenessProbe":{{".":{{}},"f:failureThreshold":{{}},"f:httpGet":{{".":{{}},"f:path":{{}},"f:port":{{}}}}}},"f:name":{{}},"f:ports":{{".":{{}},"k:{{\"containerPort\":8080,\"protocol\":\"TCP\"}}":{{".":{{}},"f:containerPort":{{}},"f:name":{{}},"f:protocol":{{}}}}}},"f:resources":{{}}}}}},"f:dnsPolicy":{{}},"f:enableServiceLinks":{{}},"f:restartPolicy":{{}},"f:schedulerName":{{}},"f:securityContext":{{}},"f:terminationGracePeriodSeconds":{{}}}}}}}},{{"manager":"kubelet","operation":"Update","apiVersion":"v1","time":"{ready}","fieldsType":"FieldsV1","fieldsV1":{{"f:status":{{"f:conditions":{{"k:{{\"type\":\"Ready\"}}":{{".":{{}},"f:status":{{}},"f:type":{{}}}}}},"f:containerStatuses":{{}},"f:hostIP":{{}},"f:phase":{{}},"f:podIP":{{}},"f:startTime":{{}}}}}},"subresource":"status"}}]"#
    )
}

/// Writes the first `count` Pods to a file, one per line.
///
/// # Errors
/// Returns an error if the file cannot be written.
pub fn write(path: &Path, count: usize) -> io::Result<()> {
    let mut file = BufWriter::new(File::create(path)?);
    for number in 0..count {
        writeln!(file, "{}", pod(number))?;
    }
    file.flush()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use serde_json::Value;

    use super::*;

    #[test]
    fn pods_are_realistic_and_reproducible() {
        let text = pod(12_345);
        assert_eq!(text, pod(12_345));
        assert!(!text.contains('\n'));

        let pod: Value = serde_json::from_str(&text).expect("JSON");
        let managed = pod["metadata"]["managedFields"].to_string().len();

        assert!(
            (5_500..=6_000).contains(&text.len()),
            "{} bytes",
            text.len()
        );
        assert!(
            (1_200..=1_500).contains(&managed),
            "{managed} bytes of managedFields"
        );
        assert!(
            (4_200..=4_400).contains(&(text.len() - managed)),
            "{} bytes without managedFields",
            text.len() - managed
        );

        assert_eq!(pod["metadata"]["ownerReferences"][0]["controller"], true);
        assert_eq!(
            pod["status"]["conditions"].as_array().map(Vec::len),
            Some(4)
        );
    }

    #[test]
    fn pods_have_unique_names_and_uids() {
        let field =
            |pod: &Value, name: &str| pod["metadata"][name].as_str().expect("a string").to_owned();

        let mut names = HashSet::new();
        let mut uids = HashSet::new();
        let mut owners = HashSet::new();

        for number in 0..2_000 {
            let pod: Value = serde_json::from_str(&pod(number)).expect("JSON");
            assert!(
                names.insert((field(&pod, "namespace"), field(&pod, "name"))),
                "{number}"
            );
            assert!(uids.insert(field(&pod, "uid")), "{number}");
            owners.insert(pod["metadata"]["ownerReferences"][0]["uid"].to_string());
        }

        assert_eq!(owners.len(), 2_000 / REPLICAS);
    }
}
