//! The two kinds of operators: plugins of one host, and a process for each tenant. They end with
//! their values.

use std::{
    fs::{self, File},
    path::PathBuf,
};

use anyhow::Context;
use operetta_testkit::{ControlPlane, Host, HostOptions, peers::Native};

/// A namespace of one operator.
pub struct Tenant {
    pub namespace: String,
    /// The kubeconfig of the namespace's ServiceAccount, for a process.
    pub kubeconfig: Option<PathBuf>,
}

/// A kind of operator.
pub enum Operator {
    /// A plugin of the host, which is this program.
    Plugin(PathBuf),
    /// A process of this program.
    Process(PathBuf),
}

/// Running operators.
pub enum Operators {
    Host(Box<Host>),
    Processes {
        processes: Vec<Native>,
        log: PathBuf,
    },
}

impl Operator {
    /// Returns the seconds after which operators that are ready are idle.
    pub fn settle_seconds(&self) -> usize {
        match self {
            // The host unmaps code five minutes after the last call, and has renewed most decisions
            // of its first minute by then.
            Self::Plugin(_) => 360,
            // Go collects garbage after two minutes at the latest.
            Self::Process(_) => 150,
        }
    }

    /// Starts the operators of all tenants.
    ///
    /// # Errors
    /// Returns an error if a process cannot be started. Those that were started end.
    pub fn start(
        &self,
        control_plane: &ControlPlane,
        tenants: &[Tenant],
    ) -> anyhow::Result<Operators> {
        let program = match self {
            Self::Plugin(program) => {
                let options = HostOptions {
                    is_installed: true,
                    compiles_anew: true,
                    program: Some(program.clone()),
                    ..HostOptions::default()
                };
                let host = Host::spawn(control_plane, &options);
                return Ok(Operators::Host(Box::new(host)));
            }
            Self::Process(program) => program,
        };
        let log = control_plane.folder().join("operators.log");
        let stderr = File::options().create(true).append(true).open(&log)?;
        let mut processes = Vec::with_capacity(tenants.len());
        for tenant in tenants {
            let kubeconfig = tenant.kubeconfig.as_ref().context("a kubeconfig")?;
            let process =
                Native::start(program, kubeconfig, &tenant.namespace, stderr.try_clone()?);
            processes.push(process.with_context(|| program.display().to_string())?);
        }
        Ok(Operators::Processes { processes, log })
    }
}

impl Operators {
    /// Returns the ids of the processes.
    pub fn pids(&self) -> Vec<u32> {
        match self {
            // The host's processes for compilations have ended.
            Self::Host(host) => vec![host.pid()],
            Self::Processes { processes, .. } => processes.iter().map(Native::pid).collect(),
        }
    }

    /// Checks that all processes run.
    ///
    /// # Errors
    /// Returns the status of one that has ended.
    pub fn check(&mut self) -> anyhow::Result<()> {
        match self {
            Self::Host(host) => host.assert_sound(),
            Self::Processes { processes, .. } => {
                for process in processes {
                    if let Some(status) = process.ended()? {
                        anyhow::bail!("an operator has ended with {status}");
                    }
                }
            }
        }
        Ok(())
    }

    /// Returns the end of the log.
    pub fn log_tail(&self) -> String {
        let log = match self {
            Self::Host(host) => host.log(),
            Self::Processes { log, .. } => fs::read_to_string(log).unwrap_or_default(),
        };
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(20)..].join("\n")
    }
}
