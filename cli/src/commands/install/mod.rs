//! `operetta install` applies the manifests of `deploy/` that the program contains; `operetta
//! uninstall` deletes them.

mod class;
mod finalizers;
mod leftovers;
mod manifests;

use anyhow::{Result, bail};
use kube::api::PropagationPolicy;
use operetta_host::cluster::connect_to_apply;
use serde_json::Value;

use self::manifests::Choices;
use super::{
    objects::{self, Write},
    print, print_document,
};
use crate::args::{Component, DryRun, InstallArgs, Output, UninstallArgs};

/// Applies the objects, or prints them.
///
/// # Errors
/// Returns an error if the API server refuses an object, or the replicas do not become available in
/// time.
pub async fn install(args: &InstallArgs) -> Result<()> {
    let choices = Choices {
        image: args.image.as_deref(),
        replicas: args.replicas,
        components: &args.components,
    };

    let objects = match &args.class {
        Some(class) => class::objects(class, &choices)?,
        None => manifests::objects(&choices)?,
    };

    if args.dry_run == DryRun::Client {
        return print_document(&text(&objects, args.output)?);
    }

    if args.output.is_some() {
        bail!("--output needs --dry-run=client");
    }

    let client = connect_to_apply(&args.cluster).await?;
    let dry_run = args.dry_run == DryRun::Server;
    let suffix = if dry_run { " (server dry run)" } else { "" };

    let write = Write {
        manager: "operetta-install",
        force: args.force_conflicts,
        dry_run,
    };

    for object in &objects {
        objects::apply(&client, object, write).await?;
        print(&format!(
            "{} serverside-applied{suffix}\n",
            objects::display(object)
        ))?;
    }

    if args.wait && !dry_run {
        for deployment in objects
            .iter()
            .filter(|object| object["kind"] == "Deployment")
        {
            objects::until_available(&client, deployment, args.timeout).await?;
            print(&format!("{} is available\n", objects::display(deployment)))?;
        }
    }

    Ok(())
}

/// Deletes an installation with all its optional parts, or the hosts of a trust class, the host
/// first, and prints what is left.
///
/// # Errors
/// Returns an error if the API server refuses a deletion, or the host does not stop in time.
pub async fn uninstall(args: &UninstallArgs) -> Result<()> {
    let objects = match &args.class {
        Some(class) => class::own_objects(class)?,
        None => manifests::objects(&Choices {
            components: &[Component::Unrestricted, Component::Monitoring],
            ..Choices::default()
        })?,
    };

    let client = connect_to_apply(&args.cluster).await?;

    // While the host runs: a plugin may have to clean up.
    if args.delete_plugins {
        let left = finalizers::delete_plugins(&client, args.timeout).await?;
        if left > 0 {
            eprintln!(
                "warning: {left} Plugins still clean up after {} s, and are deleted without it",
                args.timeout.as_secs()
            );
        }
    }

    for object in objects.iter().rev() {
        if object["kind"] == "CustomResourceDefinition" && !args.delete_plugins {
            continue;
        }

        if !objects::delete(&client, object, PropagationPolicy::Foreground).await? {
            continue;
        }

        print(&format!("{} deleted\n", objects::display(object)))?;

        // The host still needs its permissions while it stops.
        if object["kind"] == "Deployment" {
            objects::until_deleted(&client, object, args.timeout).await?;
        }
    }

    let released = finalizers::release(&client, args.class.as_ref()).await?;
    if released > 0 {
        print(&format!(
            "the host's finalizer removed from {released} objects\n"
        ))?;
    }
    print(&match &args.class {
        Some(class) => leftovers::describe_class(&client, class).await?,
        None => leftovers::describe(&client).await?,
    })
}

/// The CustomResourceDefinitions of an installation.
///
/// # Errors
/// Returns an error if a file of `deploy/` has an unknown form.
pub fn definitions() -> Result<Vec<Value>> {
    let mut objects = manifests::objects(&Choices::default())?;
    objects.retain(|object| object["kind"] == "CustomResourceDefinition");
    Ok(objects)
}

/// Formats objects, by default as their names.
fn text(objects: &[Value], output: Option<Output>) -> Result<String> {
    Ok(match output {
        None => objects
            .iter()
            .map(|object| format!("{} (dry run)\n", objects::display(object)))
            .collect(),
        Some(Output::Yaml) => {
            let documents: Result<Vec<_>, _> =
                objects.iter().map(serde_yaml_ng::to_string).collect();
            documents?.join("---\n")
        }
        Some(Output::Json) => {
            let list = serde_json::json!({"apiVersion": "v1", "kind": "List", "items": objects});
            format!("{}\n", serde_json::to_string_pretty(&list)?)
        }
    })
}
