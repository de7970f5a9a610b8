//! `operetta rbac PLUGIN`: prints the minimal roles for what a plugin has done, and how they differ
//! from the permissions of its ServiceAccount.
//!
//! The host that runs the plugin reports the permissions that it needs and whether they are
//! granted. The command reads the roles and bindings with the caller's permissions, to find unused
//! permissions. It prints the difference as comments, so that the output can be applied.
//!
//! A plugin that has run for less than an hour may not have used all the permissions it needs.
//! Until then, the roles keep the rules of the current roles that they replace.

pub(super) mod held;
mod least;

use std::process::ExitCode;

use anyhow::{Result, bail};
use http::StatusCode;
use k8s_openapi::jiff::Timestamp;
use kube::Client;
use operetta_api::reasons;
use operetta_core::authz::{access_review::ServiceAccount, recorded_permissions::Need};
use operetta_host::{describe, print_error, terminal};
use operetta_kube::authz::{
    difference::{Difference, lacks, one_line, unused},
    granted_roles::GrantedRole,
};

use super::{
    host_client::{address, connect, get, plugin},
    print, print_document,
};
use crate::args::ObservedArgs;
use operetta_manager::{authz::permissions::Permissions, plugin::crd::Plugin};

/// The printed roles have only used permissions once the plugin's calls have been recorded for this
/// long.
const YOUNG_SECONDS: i64 = 60 * 60;

/// Prints the roles, or the difference alone.
///
/// # Errors
/// Returns an error if the requests to the API server or the host fail. With `--diff` the error is
/// printed here, because exit code 1 means a difference there.
pub async fn rbac(args: &ObservedArgs) -> Result<ExitCode> {
    match run(args).await {
        Err(error) if args.diff => {
            print_error(&error);
            Ok(ExitCode::from(2))
        }
        done => done,
    }
}

async fn run(args: &ObservedArgs) -> Result<ExitCode> {
    let (client, namespace) = connect(&args.plugin).await?;
    let found = plugin(client.clone(), &namespace, &args.plugin.name).await?;
    let mut rights = ask(args, &client, &namespace, &found).await?;

    let account = ServiceAccount {
        namespace: rights.namespace.clone(),
        name: rights.service_account.clone(),
    };

    let held = held::held(&client, &account).await;
    let has = held.as_deref().unwrap_or_default();
    rights.needs = least::with_all_parts(std::mem::take(&mut rights.needs), has);

    let mut differences = lacks(&rights.needs);
    differences.extend(unused(&rights.needs, has));

    for warning in warnings(&rights) {
        terminal::note(format_args!("warning: {warning}"));
    }

    if args.diff {
        held?;
        print(
            &differences
                .iter()
                .map(|line| format!("{line}\n"))
                .collect::<String>(),
        )?;

        return Ok(if differences.is_empty() {
            ExitCode::SUCCESS
        } else {
            ExitCode::from(1)
        });
    }
    let unknown = held.as_ref().err().map(describe);
    if let Some(error) = &unknown {
        terminal::note(format_args!("warning: {error}"));
    }

    let name = args.role.as_deref().unwrap_or(&args.plugin.name);
    let plugin = format!("{namespace}/{}", args.plugin.name);
    let current = is_default(&rights, held);
    let mut least = least::least(&rights.needs, &current, args.all_namespaces);
    let mut comments = head(&plugin, &rights);

    if args.add || (!args.exact && is_young(&rights.since)) {
        let is_kept = least::keep_current(&mut least, &current, &account, name);
        comments.extend(kept(is_kept, unknown.is_some(), args.add).map(str::to_owned));
    }

    comments.extend(compared(&differences, unknown.as_deref()));
    let comments: String = comments
        .iter()
        .map(|line| {
            format!("# {}", terminal::line(&one_line(line)))
                .trim_end()
                .to_owned()
                + "\n"
        })
        .collect();

    print_document(&(comments + &least::documents(&least, &account, name).join("---\n")))?;
    Ok(ExitCode::SUCCESS)
}

/// Requests the permissions from the host.
async fn ask(
    args: &ObservedArgs,
    client: &Client,
    namespace: &str,
    found: &Plugin,
) -> Result<Permissions> {
    let name = &args.plugin.name;

    if found.spec.suspend {
        let message = format!(
            "Plugin {name:?} is suspended, which clears its recorded calls: set spec.suspend to false"
        );
        bail!(reasons::NOTHING_RECORDED.error(message));
    }

    let path = format!("/rbac/{namespace}/{name}");
    let response = get(client, &args.plugin.host, namespace, &path, async || {
        address(found)
    })
    .await?;

    if response.status == StatusCode::CONFLICT {
        let why = found
            .status
            .as_ref()
            .and_then(|status| status.message.as_deref())
            .unwrap_or("see its status");
        let message =
            format!("Plugin {name:?} does not run, which clears its recorded calls: {why}");
        bail!(reasons::NOTHING_RECORDED.error(message));
    }

    let rights: Permissions = response.decoded().await?;
    if !rights.called {
        let message = format!(
            "Plugin {name:?} has not used any permission yet (recorded since {}): let it reconcile an object, \
             or use `operetta generate rbac FILE.wasm`, which reads its manifest",
            rights.since
        );
        bail!(reasons::NOTHING_RECORDED.error(message));
    }

    Ok(rights)
}

fn warnings(rights: &Permissions) -> Vec<String> {
    let mut warnings = Vec::new();
    if rights.missed > 0 {
        warnings.push(format!(
            "incomplete: {} calls are missing, because there were too many different ones",
            rights.missed
        ));
    }

    if !rights.missing_kinds.is_empty() {
        let kinds = rights.missing_kinds.join(", ");
        warnings.push(one_line(&format!(
            "incomplete: the permissions for {kinds} are unknown, because the API server does not serve it"
        )));
    }

    warnings
}

/// The ServiceAccount's roles. If they cannot be read, non-resource paths count as granted to
/// everybody, as those of discovery are.
fn is_default(rights: &Permissions, held: Result<Vec<GrantedRole>>) -> Vec<GrantedRole> {
    held.unwrap_or_else(|_| {
        let paths = rights
            .needs
            .iter()
            .filter(|needed| needed.allowed && !needed.need.path.is_empty());

        let rules = paths.map(|needed| k8s_openapi::api::rbac::v1::PolicyRule {
            non_resource_urls: Some(vec![needed.need.path.clone()]),
            verbs: vec![needed.need.verb.clone()],
            ..Default::default()
        });

        let role = String::new();
        let binding = String::new();
        vec![GrantedRole {
            role,
            binding,
            namespace: None,
            rules: rules.collect(),
            is_default: true,
        }]
    })
}

fn head(plugin: &str, rights: &Permissions) -> Vec<String> {
    let mut lines = vec![
        format!(
            "The permissions that Plugin {plugin} needs for its watches, and for its calls since {}.",
            rights.since
        ),
        "Calls that it has not made since then are not included.".to_owned(),
    ];

    lines.extend(
        warnings(rights)
            .into_iter()
            .map(|warning| format!("WARNING: {warning}")),
    );

    let followed = |need: &Need| need.namespace.is_none() && need.cached && need.verb == "watch";
    let elsewhere = |need: &Need| {
        need.namespace
            .as_ref()
            .is_some_and(|namespace| *namespace != rights.namespace)
    };

    let needs = || rights.needs.iter().map(|needed| &needed.need);
    if needs().any(followed) && needs().any(elsewhere) {
        lines.push(
            "It watches all namespaces, but has only acted in these: use -A to grant the same in all namespaces."
                .to_owned(),
        );
    }

    lines
}

/// Reports whether the plugin's calls have been recorded for too short a time to show all its
/// needs.
fn is_young(since: &str) -> bool {
    since
        .parse::<Timestamp>()
        .is_ok_and(|since| Timestamp::now().as_second() - since.as_second() < YOUNG_SECONDS)
}

/// The line about current rules that are kept.
fn kept(is_kept: bool, is_unknown: bool, is_asked: bool) -> Option<&'static str> {
    match (is_kept, is_unknown) {
        (_, true) => Some(
            "WARNING: its current rules are unknown. Applying this may take away permissions that it has not used since then.",
        ),
        (true, false) if is_asked => {
            Some("The rules of the current roles with these names are kept (--add).")
        }
        (true, false) => Some(
            "It has run for less than an hour, so the rules of the current roles with these names are kept (--exact leaves them out).",
        ),
        (false, false) => None,
    }
}

fn compared(differences: &[Difference], unknown: Option<&str>) -> Vec<String> {
    let mut lines = vec![String::new()];
    match unknown {
        Some(why) => lines.push(format!(
            "The permissions of its ServiceAccount are unknown: {why}"
        )),
        None if differences.is_empty() => {
            lines.push("Its ServiceAccount has exactly these permissions.".to_owned());
        }
        None => lines.push("Its ServiceAccount differs:".to_owned()),
    }

    lines.extend(
        differences
            .iter()
            .map(|difference| format!("  {difference}")),
    );

    lines
}
