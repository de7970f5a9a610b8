//! `operetta why`: explains the changes of an object, or a plugin's reconciles of a key, from the
//! host's flight recorder.

mod key;
mod sequence;
mod text;

use std::sync::Arc;

use anyhow::{Result, bail};
use operetta_core::{gate::path::encoded, object::ObjectKey, recorder::explain::Explanation};
use operetta_host::cluster::connect;
use operetta_kube::{
    client::api_client::{ApiClient, Identity},
    discovery::{ApiResource, Discovery},
};
use operetta_manager::{admin::object_path::object_path, plugin::history::History};

use super::{
    host_client::{any_host, get, plugin},
    print, print_document,
};
use crate::args::{WhyArgs, WhyOutput};

/// Asks the host, and prints its answer.
///
/// # Errors
/// Returns an error if the kind or the Plugin is unknown, the host cannot be found or reached, or
/// the user may not read the object.
pub async fn why(args: WhyArgs) -> Result<()> {
    let client = connect(&args.cluster).await?;
    let namespace = args
        .namespace
        .clone()
        .unwrap_or_else(|| client.default_namespace().to_owned());

    match (args.target.split_once('/'), &args.key) {
        (Some((kind, name)), None) => object(&args, client, &namespace, kind, name).await,
        (Some(_), Some(_)) => bail!("too many names: use KIND/NAME, or PLUGIN and KEY"),
        (None, Some(key)) => reconciles(&args, client, &namespace, key).await,
        (None, None) => bail!(
            "no object: use KIND/NAME such as deploy/{}, or PLUGIN and KEY",
            args.target
        ),
    }
}

/// Explains the changes of an object.
async fn object(
    args: &WhyArgs,
    client: kube::Client,
    namespace: &str,
    kind: &str,
    name: &str,
) -> Result<()> {
    let api_client = ApiClient::new(client.clone(), &Identity::Host)?;
    let Some(resource) = Discovery::new(api_client).resolve_name(kind).await? else {
        bail!("the server doesn't have a resource type {kind:?}");
    };

    operetta_core::gate::path::check_name(name)?;

    let key = ObjectKey {
        namespace: resource.namespaced.then(|| namespace.to_owned()),
        name: name.to_owned(),
    };

    let path = path(&resource, &key, args);

    let outside = async || any_host(client.clone()).await;
    let explanation: Explanation = get(&client, &args.host, namespace, &path, outside)
        .await?
        .decoded()
        .await?;

    match args.output {
        Some(WhyOutput::Json) => {
            print_document(&(serde_json::to_string_pretty(&explanation)? + "\n"))
        }
        Some(WhyOutput::Mermaid) => {
            print_document(&sequence::mermaid(&sequence::messages(&explanation)))
        }
        None => print(&text::explanation(&resource.kind.kind, &key, &explanation)),
    }
}

fn path(resource: &Arc<ApiResource>, key: &ObjectKey, args: &WhyArgs) -> String {
    let object = object_path(&resource.kind.api_version, &resource.plural, key);

    let mut path = format!("/why/{object}?limit={}", args.limit);

    if let Some(field) = &args.field {
        path.push_str("&field=");
        path.push_str(&encoded(field));
    }

    path
}

/// Prints the state of a plugin's key, and its last reconciles.
async fn reconciles(
    args: &WhyArgs,
    client: kube::Client,
    namespace: &str,
    key: &str,
) -> Result<()> {
    if matches!(args.output, Some(WhyOutput::Mermaid)) || args.field.is_some() {
        bail!("--field and a diagram are for objects: use KIND/NAME");
    }

    let name = &args.target;
    let path = format!(
        "/reconciles/{namespace}/{name}?key={}&limit={}",
        encoded(key),
        args.limit
    );

    let outside = async || any_host(client.clone()).await;

    let plugin = plugin(client.clone(), namespace, name).await?;

    let history: History = get(&client, &args.host, namespace, &path, outside)
        .await?
        .decoded()
        .await?;

    match args.output {
        Some(_) => print_document(&(serde_json::to_string_pretty(&history)? + "\n")),
        None => print(&key::describe(&plugin, key, &history)),
    }
}
