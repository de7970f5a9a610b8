//! The program `operetta-apiserver`: a Kubernetes API server in memory on a loopback address.

use std::{io, net::SocketAddr, path::PathBuf, process::ExitCode, str::FromStr};

use clap::{Args, Parser, Subcommand};
use operetta_apiserver::{
    ControllerName, Controllers, Credentials, EmbeddedServer, Options, server::Environment,
};
use tokio::{
    net::TcpListener,
    signal::unix::{SignalKind, signal},
};

/// A test suite makes thousands of objects and deletes them; glibc's allocator would keep most of
/// their memory.
#[cfg(feature = "jemalloc")]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

type BoxError = Box<dyn std::error::Error>;

/// The name of the context in the kubeconfig.
const CONTEXT: &str = "operetta-apiserver";

/// A Kubernetes API server in memory, for tests and development
#[derive(Parser)]
#[command(version)]
struct Program {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Serve the API with TLS until SIGINT or SIGTERM
    ///
    /// Prints one line, `ready https://ADDRESS`, when clients can connect.
    Serve(ServeArgs),
}

#[derive(Args)]
struct ServeArgs {
    /// Loopback address to listen on; port 0 picks a free one
    #[arg(long, default_value = "127.0.0.1:0")]
    address: SocketAddr,

    /// File to write the administrator's kubeconfig to
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,

    /// File to keep the objects in; without it they are gone when the server ends
    #[arg(long, value_name = "FILE")]
    data: Option<PathBuf>,

    /// Controllers to run: `all`, `none`, or names such as `deployments,replica-sets`
    #[arg(long, value_name = "NAMES", default_value = "all", value_parser = parse_controllers)]
    controllers: Controllers,
}

fn parse_controllers(names: &str) -> Result<Controllers, String> {
    match names {
        "all" => Ok(Controllers::all()),
        "none" => Ok(Controllers::none()),
        names => {
            let names: Result<Vec<_>, _> = names.split(',').map(ControllerName::from_str).collect();
            names.map(Controllers::only)
        }
    }
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> ExitCode {
    tracing_subscriber::fmt().with_writer(io::stderr).init();

    let Command::Serve(args) = Program::parse().command;
    match serve(args).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn serve(args: ServeArgs) -> Result<(), BoxError> {
    // Both are caught before the server is ready, so that no signal is lost.
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;

    if !args.address.ip().is_loopback() {
        return Err(format!("{} is not a loopback address", args.address).into());
    }
    let listener = TcpListener::bind(args.address)
        .await
        .map_err(|error| format!("failed to listen on {}: {error}", args.address))?;
    let address = listener.local_addr()?;
    let credentials = Credentials::generate()?;
    let server = EmbeddedServer::start(Options {
        data: args.data,
        ..Options::on_socket(
            Environment::system(),
            &credentials,
            address,
            args.controllers,
        )
    })?;

    if let Some(file) = &args.kubeconfig {
        credentials
            .write_kubeconfig(file, address, CONTEXT)
            .map_err(|error| format!("failed to write {}: {error}", file.display()))?;
    }
    println!("ready https://{address}");

    let shutdown = async {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
    };
    server.serve(listener, &credentials, shutdown).await?;
    Ok(())
}
