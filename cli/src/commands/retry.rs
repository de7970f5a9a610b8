//! `operetta retry PLUGIN [KEY...]`: reconciles failed keys of a plugin now, without the delay that
//! grew with their failures.

use anyhow::{Result, bail};
use http::{Method, StatusCode};
use operetta_api::reasons;
use operetta_core::gate::path::encoded;
use operetta_manager::plugin::retry::Retried;

use super::{
    host_client::{address, connect, plugin, send, send_to},
    print,
};
use crate::args::RetryArgs;

/// Asks the host that runs the plugin to retry, and prints the number of keys.
///
/// # Errors
/// Returns an error if the host cannot be found or reached, the plugin does not run, or no
/// controller has a named key.
pub async fn retry(args: RetryArgs) -> Result<()> {
    let name = &args.plugin.name;

    let path = |namespace: &str| path(namespace, name, &args.keys);

    let response = match (&args.plugin.namespace, &args.plugin.host.host) {
        // Needs no API server.
        (Some(namespace), Some(address)) => {
            send_to(address, Method::POST, &path(namespace)).await?
        }
        _ => {
            let (client, namespace) = connect(&args.plugin).await?;
            let outside = async || address(&plugin(client.clone(), &namespace, name).await?);
            send(
                &client,
                &args.plugin.host,
                &namespace,
                (Method::POST, &path(&namespace)),
                outside,
            )
            .await?
        }
    };

    if response.status == StatusCode::CONFLICT {
        bail!("Plugin {name:?} does not run: `kubectl describe plugin {name}` shows why");
    }

    let retried: Retried = response.decoded().await?;
    print(&format!(
        "plugin.operetta.dev/{name} retried ({})\n",
        count(retried.keys)
    ))?;

    if retried.has_others {
        eprintln!(
            "warning: other replicas run shards of Plugin {name:?}, whose keys were not retried"
        );
    }

    if !retried.unknown.is_empty() {
        let message = format!(
            "no controller of Plugin {name:?} has the keys {}: a key is NAMESPACE/NAME, or NAME in the Plugin's namespace",
            retried.unknown.join(", ")
        );
        bail!(reasons::KEY_NOT_FOUND.error(message));
    }

    Ok(())
}

fn path(namespace: &str, name: &str, keys: &[String]) -> String {
    let query: Vec<String> = keys
        .iter()
        .map(|key| format!("key={}", encoded(key)))
        .collect();
    let mark = if query.is_empty() { "" } else { "?" };
    format!("/retry/{namespace}/{name}{mark}{}", query.join("&"))
}

fn count(keys: usize) -> String {
    format!("{keys} {}", if keys == 1 { "key" } else { "keys" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_names_the_keys() {
        assert_eq!(path("team", "p", &[]), "/retry/team/p");
        assert_eq!(
            path("team", "p", &["a/b c".to_owned(), "c&d".to_owned()]),
            "/retry/team/p?key=a%2Fb%20c&key=c%26d"
        );
    }
}
