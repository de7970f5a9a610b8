//! `operetta grant NAME -n NAMESPACE`: lets the host act as ServiceAccounts that consent, and watch
//! what they may watch.
//!
//! An administrator runs it. It reads the roles of each ServiceAccount and grants the host the same
//! permissions in the same namespaces, for requests as that account. The grant is a snapshot: run
//! the command again when the roles change.

mod cluster;
mod mirror;

use anyhow::{Context, Result, bail};
use k8s_openapi::api::core::v1::ServiceAccount as Object;
use kube::{Api, Client, ResourceExt, api::ListParams};
use operetta_api::reasons;
use operetta_core::authz::access_review::ServiceAccount;
use operetta_host::cluster::connect_to_apply;
use operetta_manager::authz::consent::{self, ALLOW_PLUGINS};

use self::mirror::Choices;
use super::{print, print_document, rbac::held};
use crate::args::GrantArgs;

/// Grants the host the permissions that it needs for the ServiceAccounts, or prints them.
///
/// # Errors
/// Returns an error if a ServiceAccount does not exist or consent, the namespace is reserved, or
/// the API server refuses.
pub async fn grant(args: &GrantArgs) -> Result<()> {
    let client = connect_to_apply(&args.cluster).await?;

    let namespace = args
        .namespace
        .clone()
        .unwrap_or_else(|| client.default_namespace().to_owned());

    let host = host(&args.host_service_account)?;

    if consent::check_not_reserved(&namespace, Some(&host.namespace), &[]).is_err() && !args.revoke
    {
        bail!(reasons::NAMESPACE_RESERVED.error(format!(
            "namespace {namespace:?} is reserved: the host may never act as its ServiceAccounts; use another namespace"
        )));
    }

    let accounts = accounts(&client, &namespace, args).await?;

    let mode = match args.impersonation {
        Some(mode) => mode,
        None => cluster::mode(&client).await?,
    };

    let choices = Choices {
        mode,
        allow: args.allow.clone(),
    };

    let served = if args.revoke {
        Default::default()
    } else {
        cluster::served(&client).await?
    };

    for account in accounts {
        let mut granted = mirror::Granted::new();
        if !args.revoke {
            let held = held::held(&client, &account).await?;
            granted = mirror::mirror(&account, &held, &served, &choices);
            leave_out_reserved(&account, &host, &mut granted);
        }

        let yaml = cluster::documents(&account, &host, &granted);

        if args.output.is_some() {
            print_document(&yaml)?;
            continue;
        }

        let lines = cluster::apply(&client, &account, &yaml, &granted).await?;
        print(
            &lines
                .iter()
                .map(|line| format!("{line}\n"))
                .collect::<String>(),
        )?;
    }

    Ok(())
}

/// Reads the name of the host's ServiceAccount.
fn host(text: &str) -> Result<ServiceAccount> {
    let parts = text
        .split_once('/')
        .filter(|(namespace, name)| !namespace.is_empty() && !name.is_empty());

    let (namespace, name) =
        parts.with_context(|| format!("--host-service-account {text:?} is not NAMESPACE/NAME"))?;

    Ok(ServiceAccount {
        namespace: namespace.to_owned(),
        name: name.to_owned(),
    })
}

/// Finds the selected ServiceAccounts, and checks that they consent unless their grants are
/// revoked.
async fn accounts(
    client: &Client,
    namespace: &str,
    args: &GrantArgs,
) -> Result<Vec<ServiceAccount>> {
    let account = |name: &str| ServiceAccount {
        namespace: namespace.to_owned(),
        name: name.to_owned(),
    };

    if args.revoke {
        if args.names.is_empty() {
            bail!("name the ServiceAccounts whose grants to revoke");
        }
        return Ok(args.names.iter().map(|name| account(name)).collect());
    }

    let api = Api::<Object>::namespaced(client.clone(), namespace);
    if args.names.is_empty() {
        let all = api
            .list(&ListParams::default())
            .await
            .context("failed to list ServiceAccounts")?;

        let names = all
            .items
            .iter()
            .filter(|one| consents(one))
            .map(ResourceExt::name_any);
        let accounts: Vec<_> = names.map(|name| account(&name)).collect();

        if accounts.is_empty() {
            bail!(reasons::NOT_GRANTABLE.error(format!(
                "no ServiceAccount in namespace {namespace:?} consents to a plugin: kubectl annotate serviceaccount NAME -n \
                 {namespace} {ALLOW_PLUGINS}=PLUGIN"
            )));
        }

        return Ok(accounts);
    }

    for name in &args.names {
        let found = api
            .get_opt(name)
            .await
            .with_context(|| format!("failed to get ServiceAccount {namespace}/{name}"))?;

        let found = found.with_context(|| {
            let message = format!("ServiceAccount {name:?} not found in namespace {namespace:?}");
            reasons::SERVICE_ACCOUNT_NOT_FOUND.error(message)
        })?;

        if !consents(&found) {
            bail!(reasons::NOT_GRANTABLE.error(format!(
                "ServiceAccount {name:?} consents to no plugin: kubectl annotate serviceaccount {name} -n {namespace} \
                 {ALLOW_PLUGINS}=PLUGIN"
            )));
        }
    }

    Ok(args.names.iter().map(|name| account(name)).collect())
}

/// Reports whether a ServiceAccount consents to any plugin. `default` never does: all Pods share
/// it.
fn consents(account: &Object) -> bool {
    let allowed = account
        .annotations()
        .get(ALLOW_PLUGINS)
        .map(|text| text.trim());
    allowed.is_some_and(|text| !text.is_empty()) && account.name_any() != "default"
}

/// Removes the ServiceAccount's permissions in reserved namespaces.
fn leave_out_reserved(
    account: &ServiceAccount,
    host: &ServiceAccount,
    granted: &mut mirror::Granted,
) {
    granted.retain(|namespace, _| {
        let reserved = namespace.as_deref().filter(|namespace| {
            consent::check_not_reserved(namespace, Some(&host.namespace), &[]).is_err()
        });

        if let Some(reserved) = reserved {
            let ServiceAccount { namespace, name } = account;
            eprintln!("warning: the permissions of ServiceAccount {namespace}/{name} in the reserved namespace {reserved} are not granted");
        }

        reserved.is_none()
    });
}
