//! `operetta informers`: prints the informers of a host, by default those of the replica that the
//! Service picks.

use anyhow::{Result, bail};
use kube::Client;
use operetta_api::reasons;
use operetta_host::{cluster::connect, terminal};

use super::{
    HostAddress,
    host_client::{any_host, get, get_from},
    print, print_document,
    tab_writer::TabWriter,
    watch::human_age,
};
use crate::args::{InformersArgs, InformersOutput};
use operetta_manager::admin::informers::{InformerView, Informers};

/// Prints the informers.
///
/// # Errors
/// Returns an error if the host cannot be found or reached, or responds with an error.
pub async fn informers(args: InformersArgs) -> Result<()> {
    let path = args
        .replica
        .as_ref()
        .map_or("/informers".to_owned(), |replica| {
            format!("/informers?replica={replica}")
        });

    let response = match &args.host.host {
        // Needs no API server.
        Some(address) => get_from(address, &path).await?,
        None => {
            let client = connect(&args.cluster).await?;
            let namespace = client.default_namespace().to_owned();
            get(&client, &args.host, &namespace, &path, async || {
                find(&args, client.clone()).await
            })
            .await?
        }
    };

    if let Some(replica) = response
        .replica
        .as_deref()
        .filter(|_| args.replica.is_none())
    {
        terminal::note(format_args!(
            "informers of replica {replica}; --replica selects another one"
        ));
    }

    let view: Informers = response.decoded().await?;
    if args.output == Some(InformersOutput::Json) {
        return print_document(&(serde_json::to_string_pretty(&view)? + "\n"));
    }

    print(&table(&view, args.output.is_some()))?;

    if !view.being_set_up.is_empty() {
        terminal::note(format_args!(
            "warning: still starting, so not among the users yet: {}",
            view.being_set_up.join(", ")
        ));
    }

    Ok(())
}

/// The address of the host outside the cluster that the Plugins name.
async fn find(args: &InformersArgs, client: Client) -> Result<HostAddress> {
    if let Some(replica) = &args.replica {
        let message = format!(
            "the cluster has no Service of the host, which --replica {replica} needs: use --host"
        );
        bail!(reasons::SERVICE_NOT_FOUND.error(message));
    }

    any_host(client).await
}

/// Formats the informers as a table.
fn table(view: &Informers, wide: bool) -> String {
    let mut header = vec![
        "KIND",
        "NAMESPACE",
        "FOR",
        "STATE",
        "OBJECTS",
        "BYTES",
        "WATCHES",
        "RELISTS",
        "EVENTS",
        "HEARD",
        "CURRENT",
    ];

    if wide {
        header.extend([
            "REVISION", "SERVER", "METADATA", "LABELS", "FIELDS", "ERROR",
        ]);
    }
    header.push("USERS");

    let header = header.into_iter().map(str::to_owned).collect();
    let lines: Vec<_> = std::iter::once(header)
        .chain(view.informers.iter().map(|one| cells(one, wide)))
        .collect();
    TabWriter::default().lines(&lines)
}

fn cells(view: &InformerView, wide: bool) -> Vec<String> {
    let InformerView {
        scope, counts, lag, ..
    } = view;

    let none = || "<none>".to_owned();
    let text = |text: &str| {
        if text.is_empty() {
            none()
        } else {
            text.to_owned()
        }
    };
    let yes = |yes: bool| if yes { "yes" } else { "no" }.to_owned();

    let state = match (&view.error, view.synced) {
        (Some(_), _) => "Failing",
        (None, true) => "Synced",
        (None, false) => "Listing",
    };

    let heard = counts
        .heard_seconds
        .map(|seconds| human_age(i64::try_from(seconds).unwrap_or(i64::MAX)));

    let mut cells = vec![
        scope.kind.clone(),
        scope
            .namespace
            .clone()
            .unwrap_or_else(|| "<all>".to_owned()),
        if scope.for_processes {
            "processes"
        } else {
            "plugins"
        }
        .to_owned(),
        state.to_owned(),
        counts.objects.to_string(),
        counts.bytes.to_string(),
        counts.watches.to_string(),
        counts.relists.to_string(),
        counts.events.to_string(),
        heard.unwrap_or_else(none),
        lag.current.map_or_else(|| "<unknown>".to_owned(), yes),
    ];

    if wide {
        let error = view
            .error
            .as_deref()
            .or(lag.server_error.as_deref())
            .unwrap_or_default();
        cells.extend([
            lag.revision.to_string(),
            lag.server_revision
                .map_or_else(|| "<unknown>".to_owned(), |revision| revision.to_string()),
            yes(scope.metadata_only),
            text(&scope.label_selector),
            text(&scope.field_selector),
            text(error),
        ]);
    }

    cells.push(view.users.join(","));
    cells
}

#[cfg(test)]
mod tests {
    use operetta_manager::admin::informers::{InformerCounts, InformerScope};

    use super::*;

    #[test]
    fn table_shows_unknown_and_wide_shows_why() {
        let one = InformerView {
            scope: InformerScope {
                kind: "Pod.v1".to_owned(),
                ..InformerScope::default()
            },
            counts: InformerCounts {
                objects: 3,
                heard_seconds: Some(130),
                ..InformerCounts::default()
            },
            error: Some("no answer".to_owned()),
            users: vec!["host".to_owned(), "team/a".to_owned()],
            ..InformerView::default()
        };

        let of_process = InformerView {
            scope: InformerScope {
                for_processes: true,
                ..one.scope.clone()
            },
            users: vec!["team/operator".to_owned()],
            ..InformerView::default()
        };

        let view = Informers {
            informers: vec![one, of_process],
            being_set_up: vec![],
        };

        let words = |wide, line| {
            table(&view, wide)
                .lines()
                .nth(line)
                .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
        };

        assert_eq!(
            words(false, 1).as_deref(),
            Some("Pod.v1 <all> plugins Failing 3 0 0 0 0 2m10s <unknown> host,team/a")
        );

        assert_eq!(
            words(false, 2).as_deref(),
            Some("Pod.v1 <all> processes Listing 0 0 0 0 0 <none> <unknown> team/operator")
        );

        let wide = "Pod.v1 <all> plugins Failing 3 0 0 0 0 2m10s <unknown> 0 <unknown> no <none> <none> no answer host,team/a";
        assert_eq!(words(true, 1).as_deref(), Some(wide));
    }
}
