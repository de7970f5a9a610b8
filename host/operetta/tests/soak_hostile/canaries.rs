//! Canaries: Secrets and ConfigMaps of the honest namespaces whose texts are nowhere else. A hostile tenant that received
//! one of them has read what it may not read.

use operetta_testkit::{Host, Kind, TestNamespace, kinds};
use serde_json::json;

const EVENT: Kind = kinds::EVENT;
const SECRET: Kind = Kind("v1", "Secret");

pub struct Canaries {
    /// The namespace of the first honest plugin.
    pub namespace: String,
    /// The Secret there whose name attackers know, and its content.
    pub known: String,
    pub content: String,
    /// Texts that nobody outside the honest namespaces may receive.
    texts: Vec<String>,
}

impl Canaries {
    /// Creates a Secret and a ConfigMap of random names and contents in each namespace, and a Secret of a known name.
    pub async fn plant(honest: &[TestNamespace<'_>]) -> Self {
        let mut texts = Vec::new();
        // Letters and digits, as many as base64 takes: the same text in a Secret and elsewhere.
        let mut random = |what: &str| {
            let text = format!("canary{what}{:016x}", rand::random::<u64>());
            texts.push(text.clone());
            text
        };
        for namespace in honest {
            for kind in [SECRET, kinds::CONFIG_MAP] {
                let (name, content) = (random("na"), random("co"));
                namespace.create_object(kind, json!({"metadata": {"name": name}, "data": {"canary": content}})).await;
            }
        }
        let content = random("co");
        let known = json!({"metadata": {"name": "known"}, "data": {"canary": content}});
        honest[0].create_object(SECRET, known).await;
        Self { namespace: honest[0].name().to_owned(), known: "known".to_owned(), content, texts }
    }

    /// Checks that nothing that this namespace's people and plugins received has a canary in it.
    pub async fn assert_unknown_to(&self, host: &Host, namespace: &TestNamespace<'_>) {
        let mut received = vec![("metrics".to_owned(), host.metrics())];
        for kind in [EVENT, kinds::PLUGIN, kinds::CONFIG_MAP] {
            for object in namespace.list(kind).await {
                let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
                if kind == kinds::PLUGIN {
                    let lines = host.run(&["logs", &name, "-n", namespace.name(), "-o", "json"]);
                    received.push((format!("log of {name}"), String::from_utf8_lossy(&lines.stdout).into_owned()));
                }
                // The attacker's own configuration has the guess in it.
                let mut object = object;
                object["spec"] = json!(null);
                received.push((format!("{} {name}", kind.1), object.to_string()));
            }
        }
        for (what, text) in received {
            let learnt = self.texts.iter().find(|canary| text.contains(*canary));
            assert_eq!(learnt, None, "{what} in {} has a canary in it", namespace.name());
        }
    }
}
