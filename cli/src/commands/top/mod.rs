//! `operetta top`: the Plugins by what they use of the host, or live rows of any kind, on a
//! terminal.
//!
//! The state of the screen (`app.rs`), its rows and its drawing do no I/O. Tasks read from the API
//! server (`feed.rs`), from the host (`scrape.rs`, `pages.rs`) and from the keyboard (`keys.rs`);
//! `session.rs` connects them. If stdout is not a terminal, `once.rs` prints one table.

mod access;
mod app;
mod details;
mod document;
mod draw;
mod feed;
mod filter;
mod format;
mod help;
#[cfg(test)]
mod k9s;
mod keys;
mod layout;
mod metrics;
mod objects;
mod once;
mod page;
mod pages;
mod plugins;
mod rates;
mod scrape;
#[cfg(test)]
mod screens;
mod session;
mod style;
mod table;
mod text;
mod view;

use std::io::{IsTerminal, stdin, stdout};

use anyhow::Result;

use self::view::Target;
use crate::args::TopArgs;

/// Shows the objects until the user quits, or prints them once if there is no terminal.
///
/// # Errors
/// Returns an error if the kubeconfig cannot be read, or the terminal fails. Printing once also
/// fails if the objects cannot be read.
pub async fn top(args: TopArgs) -> Result<()> {
    let target = Target {
        kind: args.kind.clone().unwrap_or_else(|| "plugins".to_owned()),
        namespace: args.namespace.clone(),
        all_namespaces: args.all_namespaces,
        labels: args.selector.clone().unwrap_or_default(),
    };

    let has_terminal = stdin().is_terminal() && stdout().is_terminal();
    if args.once || args.output.is_some() || !has_terminal {
        return once::print(&args, &target).await;
    }

    session::run(&args, target).await
}
