//! The host's readiness: one check per dependency, in the format of the API server's
//! `/readyz?verbose`.

use std::{
    collections::HashMap,
    fmt,
    path::Path,
    sync::{Arc, OnceLock},
    time::Duration,
};

use operetta_api::reasons;

use crate::{
    context::Context,
    plugin::host_informers::HostInformers,
    replicas::{ReplicaState, Replicas, Standing},
};

/// How soon a change is logged.
const INTERVAL: Duration = Duration::from_millis(500);

/// How long startup takes: only failures after that are logged.
const START: Duration = Duration::from_secs(1);

const INFORMERS: &str = reasons::INFORMERS.as_str();

/// The token of the Pod's ServiceAccount.
const TOKEN: &str = "/var/run/secrets/kubernetes.io/serviceaccount/token";

/// The result of one check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// The name of the part.
    pub name: &'static str,
    /// Why it doesn't work; None if it does.
    pub failure: Option<String>,
    /// True if the host works without this part.
    pub optional: bool,
}

impl Check {
    /// Reports whether this part allows the host to be ready.
    pub fn passes(&self) -> bool {
        self.optional || self.failure.is_none()
    }

    fn required(name: &'static str, failure: Option<String>) -> Self {
        Self {
            name,
            failure,
            optional: false,
        }
    }
}

impl fmt::Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.failure {
            None => write!(f, "[+]{} ok", self.name),
            Some(reason) => write!(f, "[-]{} failed: {reason}", self.name),
        }
    }
}

/// The parts a host depends on.
pub struct Readiness {
    context: Arc<Context>,
    replicas: Arc<Replicas>,
    /// The manager's own informers, once they run.
    informers: OnceLock<Arc<HostInformers>>,
    /// The outcome of the compile worker's sandbox check, once it has ended: a description, or the
    /// problem.
    sandbox: OnceLock<Result<String, String>>,
}

impl Readiness {
    /// Creates the checks of a host that hasn't started yet.
    pub fn new(context: Arc<Context>, replicas: Arc<Replicas>) -> Arc<Self> {
        Arc::new(Self {
            context,
            replicas,
            informers: OnceLock::new(),
            sandbox: OnceLock::new(),
        })
    }

    /// Adds the manager's own informers.
    pub fn watch(&self, informers: Arc<HostInformers>) {
        let _first = self.informers.set(informers);
    }

    /// Runs all checks.
    pub fn checks(&self) -> Vec<Check> {
        let lease = self.replicas.state().borrow().clone();
        let cache = self.context.engine.code().cache_problem();
        vec![
            Check::required(reasons::API_SERVER.as_str(), api_server(&lease)),
            Check::required(reasons::LEASE.as_str(), self.standing(&lease)),
            Check::required(INFORMERS, self.informers()),
            Check::required(
                reasons::COMPILE_SANDBOX.as_str(),
                self.sandbox.get().and_then(|checked| checked.clone().err()),
            ),
            Check {
                name: reasons::CONFINEMENT.as_str(),
                failure: self.context.config.confinement.problem.clone(),
                optional: true,
            },
            Check {
                name: reasons::CODE_CACHE.as_str(),
                failure: cache,
                optional: true,
            },
        ]
    }

    fn standing(&self, lease: &ReplicaState) -> Option<String> {
        let group = self.replicas.group_key();
        match &lease.standing {
            Standing::Member if self.replicas.is_current() => None,
            Standing::Member => Some(
                "the Lease of this replica was not renewed in time: plugins may send nothing"
                    .to_owned(),
            ),
            Standing::Joining => Some(format!(
                "this replica has not joined the group of Lease {group} yet"
            )),
            Standing::Lost { reason } => Some(format!(
                "this replica is not in the group of Lease {group} any more: {reason}"
            )),
        }
    }

    fn informers(&self) -> Option<String> {
        let Some(informers) = self.informers.get() else {
            return Some("not started yet".to_owned());
        };
        let failing = informers.all().into_iter().find_map(|informer| {
            let error = informer.state().borrow().error.clone()?;
            Some(format!("{}: {error}", informer.resource.kind))
        });
        let waiting = || "waiting for the first list of Plugins and ConfigMaps".to_owned();
        failing.or_else(|| (!informers.are_synced()).then(waiting))
    }

    /// Logs each check when it starts or stops failing.
    pub async fn log_changes(self: Arc<Self>) {
        let mut lease = self.replicas.state();
        let mut logged: HashMap<&'static str, String> = HashMap::new();
        let began = tokio::time::Instant::now();

        loop {
            let _changed_or_timed_out = tokio::time::timeout(INTERVAL, lease.changed()).await;
            let is_starting = began.elapsed() < START && lease.borrow().problem.is_none();
            let checks = self.checks();
            if checks
                .iter()
                .any(|check| check.name == INFORMERS && check.failure.is_some())
            {
                self.replicas.probe();
            }

            for Check { name, failure, .. } in checks {
                match failure {
                    Some(reason) if !is_starting && logged.get(name) != Some(&reason) => {
                        tracing::warn!(check = name, "readyz check failed: {reason}");
                        logged.insert(name, reason);
                    }
                    None if logged.remove(name).is_some() => {
                        tracing::info!(check = name, "readyz check passed again");
                    }
                    _ => {}
                }
            }
        }
    }

    /// Checks the compile worker's sandbox once, with the host's own files as bait.
    pub async fn check_sandbox(self: Arc<Self>) {
        let baits = [Path::new(TOKEN), Path::new("/proc/self/exe")].map(|path| path.canonicalize());
        let baits: Vec<_> = baits.into_iter().flatten().collect();
        let Some(checked) = self.context.engine.code().check_sandbox(&baits).await else {
            return;
        };

        match &checked {
            Ok(description) if description.contains("Landlock (ABI") => {
                tracing::info!("compile worker: {description}");
            }
            Ok(description) => tracing::warn!("compile worker: {description}"),
            Err(problem) => tracing::error!("compile worker: {problem}"),
        }

        let _first = self.sandbox.set(checked);
    }
}

fn api_server(lease: &ReplicaState) -> Option<String> {
    let unknown = || {
        (lease.standing == Standing::Joining)
            .then(|| "the API server has not answered yet".to_owned())
    };
    lease.problem.clone().or_else(unknown)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_those_of_an_api_server() {
        let failed = Check::required("lease", Some("another host holds it".to_owned()));
        assert_eq!(failed.to_string(), "[-]lease failed: another host holds it");
        assert!(!failed.passes());

        let degraded = Check {
            optional: true,
            ..failed
        };
        assert!(degraded.passes(), "the host works without it");
        assert_eq!(
            Check::required("informers", None).to_string(),
            "[+]informers ok"
        );
    }
}
