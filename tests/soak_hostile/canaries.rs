//! Canaries: Secrets and ConfigMaps in the namespaces of honest plugins, with texts that occur
//! nowhere else. A hostile tenant that received such a text has read an object that it may not
//! read.

use operetta_testkit::{Host, Kind, TestNamespace, kinds};
use serde_json::json;

const EVENT: Kind = kinds::EVENT;

pub struct Canaries {
    /// The namespace of the first honest plugin.
    pub namespace: String,
    /// The name of the Secret there that attackers know.
    pub known: String,
    /// The content of that Secret.
    pub content: String,
    /// The texts that nobody outside these namespaces may receive.
    texts: Vec<String>,
}

impl Canaries {
    /// Creates a Secret and a ConfigMap with random names and contents in each namespace, and a
    /// Secret with a known name in the first.
    pub async fn plant(honest: &[TestNamespace<'_>]) -> Self {
        let mut texts = Vec::new();

        // The texts are letters and digits in a multiple of four, which is valid base64. So a
        // Secret can hold them unchanged.
        let mut random = |what: &str| {
            let text = format!("canary{what}{:016x}", rand::random::<u64>());
            texts.push(text.clone());
            text
        };

        for namespace in honest {
            for kind in [kinds::SECRET, kinds::CONFIG_MAP] {
                let (name, content) = (random("na"), random("co"));
                namespace
                    .create_object(
                        kind,
                        json!({"metadata": {"name": name}, "data": {"canary": content}}),
                    )
                    .await;
            }
        }

        let content = random("co");
        let known = json!({"metadata": {"name": "known"}, "data": {"canary": content}});
        honest[0].create_object(kinds::SECRET, known).await;

        Self {
            namespace: honest[0].name().to_owned(),
            known: "known".to_owned(),
            content,
            texts,
        }
    }

    /// Checks that nothing that the users and plugins of this namespace can see contains a canary.
    ///
    /// # Panics
    /// Panics if an object, a log or the host's metrics contain a canary.
    pub async fn assert_unknown_to(&self, host: &Host, namespace: &TestNamespace<'_>) {
        let mut received = vec![("metrics".to_owned(), host.metrics())];

        for kind in [EVENT, kinds::PLUGIN, kinds::CONFIG_MAP] {
            for object in namespace.list(kind).await {
                let name = object["metadata"]["name"]
                    .as_str()
                    .unwrap_or_default()
                    .to_owned();
                if kind == kinds::PLUGIN {
                    let lines = host.run(&["logs", &name, "-n", namespace.name(), "-o", "json"]);
                    received.push((
                        format!("log of {name}"),
                        String::from_utf8_lossy(&lines.stdout).into_owned(),
                    ));
                }

                // The attacker's own configuration contains the right guess.
                let mut object = object;
                object["spec"] = json!(null);
                received.push((format!("{} {name}", kind.1), object.to_string()));
            }
        }

        for (what, text) in received {
            let learnt = self.texts.iter().find(|canary| text.contains(*canary));
            assert_eq!(
                learnt,
                None,
                "{what} in {} contains a canary",
                namespace.name()
            );
        }
    }
}
