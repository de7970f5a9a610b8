//! `operetta test [DIR]`: runs a project's tests against the test server, an embedded API server
//! for each test.
//!
//! The server speaks the line protocol of [`protocol`] on a loopback port. SDKs find it by the
//! variable OPERETTA_TEST_ADDRESS, or start `operetta test --serve` themselves. Each connection
//! gets a [`cluster`] of its own. It behaves like the host and the API server, but has no RBAC, and
//! only the controllers that `--controllers` names: without it nothing is garbage collected, and no
//! Pod becomes ready.

mod cluster;
mod connection;
mod definitions;
mod dump;
mod premise;
mod protocol;
mod runner;
mod server;
mod template;

use std::process::ExitCode;

use anyhow::{Context, Result};
use operetta_apiserver::Controllers;
use tokio::io::AsyncReadExt;

use self::{definitions::Definitions, server::Server, template::Template};
use super::build::Project;
use crate::args::TestArgs;

/// The variable that names the server.
const ADDRESS: &str = "OPERETTA_TEST_ADDRESS";

/// Runs the tests of a project, or serves until stdin is closed. Returns the exit code of the
/// tests.
///
/// # Errors
/// Returns an error if there is no project, the API server refuses one of its definitions, or it
/// has no tests that can be run.
pub async fn test(args: &TestArgs) -> Result<ExitCode> {
    let controllers = args.controllers.clone().unwrap_or_else(Controllers::none);
    if args.serve {
        let definitions = Definitions::near(&args.dir, args.manifests.as_deref())?;
        let server = start(&definitions, controllers).await?;
        return serve(&server).await;
    }

    let project = Project::find(&args.dir)?;

    let runner = runner::of(&project, &args.runner_args)?;
    let definitions = Definitions::of(&project.dir, args.manifests.as_deref())?;
    let server = start(&definitions, controllers).await?;

    runner.run(&server.address).await
}

async fn start(definitions: &Definitions, controllers: Controllers) -> Result<Server> {
    Server::start(Template::new(definitions, controllers).await?).await
}

/// Prints the address, and serves until stdin is closed.
async fn serve(server: &Server) -> Result<ExitCode> {
    super::print(&format!("{}\n", server.address))?;

    let mut stdin = tokio::io::stdin();
    let mut ignored = [0; 256];

    while stdin
        .read(&mut ignored)
        .await
        .context("failed to read stdin")?
        > 0
    {}
    Ok(ExitCode::SUCCESS)
}
