//! The controllers that are compared, each as its users run it.

use std::{fmt, fs::File, io, path::PathBuf, time::Duration};

use operetta_testkit::{
    Host, HostOptions, TestNamespace,
    bench::{is_chosen, number},
    peers::{Native, Peers},
    usage,
};

use crate::subject::{SERVICE_ACCOUNT, Subject};

/// A controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Name {
    /// The host with the plugin.
    Operetta,
    /// A program in benches/peers/go or benches/peers/cloud-manager.
    ControllerRuntime,
    /// A program in benches/peers/kube-rs.
    KubeRs,
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Operetta => "operetta",
            Self::ControllerRuntime => "controller-runtime",
            Self::KubeRs => "kube-rs",
        })
    }
}

/// The built programs.
pub struct Programs {
    peers: Peers,
    subject: Subject,
}

impl Programs {
    /// Builds them with `scripts/peers.sh e2e`, which reports what it cannot build.
    pub fn build(subject: Subject) -> Self {
        Self {
            peers: Peers::build_part(&["e2e"]),
            subject,
        }
    }

    /// Returns those to measure: all that were built, or what `ONLY` names of them.
    ///
    /// # Errors
    /// Returns an error if that is none.
    pub fn names(&self) -> anyhow::Result<Vec<Name>> {
        let is_there = |name: &Name| is_chosen(&name.to_string()) && self.path(*name).is_some();
        let names: Vec<Name> = self
            .subject
            .controllers()
            .iter()
            .copied()
            .filter(is_there)
            .collect();
        anyhow::ensure!(
            !names.is_empty(),
            "nothing to measure: ONLY names no controller, or none was built"
        );
        Ok(names)
    }

    fn path(&self, name: Name) -> Option<PathBuf> {
        self.peers
            .program(&name.to_string(), self.subject.program(name))
    }
}

/// A running controller, which ends with this.
pub struct Contestant {
    pid: u32,
    running: Running,
    rss_idle: Option<u64>,
}

enum Running {
    Host(Box<Host>),
    /// It ends with this.
    Native {
        _process: Native,
    },
}

/// Memory in bytes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Memory {
    /// Resident memory.
    pub rss: u64,
    /// The part of it that no file backs.
    pub anonymous: u64,
}

impl Contestant {
    /// Starts a controller for a namespace, whose requests are authorized as those of its
    /// ServiceAccount. An administrator's would cost the API server less.
    pub async fn start(name: Name, programs: &Programs, namespace: &TestNamespace<'_>) -> Self {
        let program = programs.path(name).expect("built: see `names`");
        namespace.allow_all(SERVICE_ACCOUNT).await;
        if name != Name::Operetta {
            let control_plane = namespace.control_plane();
            let kubeconfig = control_plane.kubeconfig_of(namespace.name(), SERVICE_ACCOUNT);
            let log = File::create(control_plane.folder().join("native.log")).expect("a log");
            let process = Native::start(&program, &kubeconfig, namespace.name(), log);
            let process = process.unwrap_or_else(|error| panic!("{}: {error}", program.display()));
            return Self {
                pid: process.pid(),
                running: Running::Native { _process: process },
                rss_idle: None,
            };
        }
        let recorder = number("RECORDER_MIB", 16);
        let config = format!("flightRecorder: {{sizeMiB: {recorder}}}");
        let options = HostOptions {
            config,
            program: Some(program.clone()),
            ..HostOptions::default()
        };
        let host = Host::start(namespace.control_plane(), &options).await;
        let rss_idle = Some(host.memory_bytes());
        programs.subject.install(&host, namespace).await;
        Self {
            pid: host.pid(),
            running: Running::Host(Box::new(host)),
            rss_idle,
        }
    }

    /// Returns the resident memory of the host before it had a plugin.
    pub fn rss_idle(&self) -> Option<u64> {
        self.rss_idle
    }

    /// Returns the processor time so far.
    pub fn cpu_time(&self) -> Duration {
        usage::cpu_time(self.pid)
    }

    /// Returns the memory now.
    pub fn memory(&self) -> Memory {
        Memory {
            rss: usage::memory_bytes(self.pid),
            anonymous: usage::anonymous_bytes(self.pid),
        }
    }

    /// With `HOLD=1`, prints the process and waits for a line, so that a profiler can be attached.
    pub fn hold(&self, load: &str) {
        if number("HOLD", 0) > 0 {
            println!("held before the load {load}: process {}", self.pid);
            let _either_way = io::stdin().read_line(&mut String::new());
        }
    }

    /// Panics if the host reports an internal error.
    pub fn assert_sound(&self) {
        if let Running::Host(host) = &self.running {
            host.assert_sound();
        }
    }
}
