//! What a process is started with: the program, and what a container would get.

use std::{collections::BTreeMap, future::Future, sync::Arc, time::Duration};

use operetta_core::{
    authz::access_review::ServiceAccount,
    gate::{Gate, permit::RequestPermit},
    object::ObjectKey,
};
use operetta_kube::{
    client::object_api::PluginApi,
    endpoint::{Endpoint, EndpointLimits},
};
use operetta_scheduler::Account;
use operetta_wasm::process::{
    EmptyDir, Exit, FileError, Files, Process, ProcessConfig, ProcessProgram, Projected,
};
use tokio::sync::watch;

use super::{
    inputs::{self, Fields, NO_TOKEN, expand, impossible_mount},
    network::{API_SERVER, ApiServerOnly, ApiServerTls, OWN, PORT},
    volumes::{EmptyDirs, LiveVolumes},
};
use crate::{
    logs::store::PluginLog,
    plugin::{config::references::Contents, crd::ProcessSpec},
    problem::Problem,
};

/// Where clients look for the files of their ServiceAccount.
const ACCOUNT_FILES: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
/// The folder of the kubeconfig, by which clients reach the API server without TLS.
pub const OWN_FILES: &str = "/var/run/operetta";

/// The name of the program, its first argument.
const PROGRAM: &str = "/manager";

/// The grace period of a Pod without one, in seconds.
const DEFAULT_GRACE: u32 = 30;

/// The folder for temporary files, as in a container's image.
const TMP: &str = "/tmp";
/// Its size in bytes, and the number of its files and folders.
const TMP_LIMITS: (u64, u64) = (16 << 20, 1_000);

/// A program, with the identity and the limits of its Plugin.
pub struct Definition {
    /// The program.
    pub program: Arc<ProcessProgram>,
    /// How it is run.
    pub spec: ProcessSpec,
    /// The Plugin.
    pub plugin: ObjectKey,
    /// The Plugin's uid.
    pub uid: String,
    /// The Plugin's labels when it was set up.
    pub labels: BTreeMap<String, String>,
    /// The Plugin's annotations when it was set up.
    pub annotations: BTreeMap<String, String>,
    /// The ServiceAccount that it acts as.
    pub service_account: ServiceAccount,
    /// The maximum size of its memory, in bytes.
    pub memory_bytes: usize,
    /// The permit that its gate depends on.
    pub permit: Arc<RequestPermit>,
    /// The contents of the ConfigMaps and Secrets that the spec names.
    pub sources: watch::Receiver<Arc<Contents>>,
    /// The volumes that outlive a process.
    pub empty_dirs: EmptyDirs,
    /// The gate that its requests pass.
    pub gate: Arc<Gate>,
    /// Sends its requests.
    pub api: Arc<PluginApi>,
    /// Charged for processor time.
    pub account: Arc<Account>,
    /// The certificate of the API server that it sees.
    pub tls: Arc<ApiServerTls>,
    /// Its log.
    pub log: Arc<PluginLog>,
}

impl Definition {
    /// Returns the digest of the program.
    pub fn digest(&self) -> &str {
        self.program.digest()
    }

    /// Reports whether a process of this definition may go on as one of the other.
    pub fn is_same(&self, other: &Self) -> bool {
        self.digest() == other.digest()
            && self.spec == other.spec
            && self.service_account == other.service_account
            && self.memory_bytes == other.memory_bytes
            && Arc::ptr_eq(&self.permit, &other.permit)
            && self.sources.same_channel(&other.sources)
    }

    /// How long a process has to end after SIGTERM.
    pub fn grace(&self) -> Duration {
        let seconds = self.spec.termination_grace_period_seconds;
        Duration::from_secs(seconds.unwrap_or(DEFAULT_GRACE).into())
    }

    /// Starts a process with what its sources have now. It lives while the future is polled.
    ///
    /// # Errors
    /// What it lacks, or why its files cannot be mounted.
    pub fn start(
        &self,
    ) -> Result<
        (
            Process,
            impl Future<Output = Exit> + Send + use<>,
            LiveVolumes,
        ),
        Problem,
    > {
        let mut sources = self.sources.clone();
        let contents = sources.borrow_and_update().clone();
        let fields = self.fields();

        let env = inputs::environment(self.own_env(), &self.spec, &contents, fields)?;
        let expanded = self.spec.args.iter().map(|text| expand(text, &env));
        let args = std::iter::once(PROGRAM.to_owned())
            .chain(expanded)
            .collect();

        let mut files = Files::default();
        let live = LiveVolumes::mount(self, &mut files, sources, &contents)?;

        self.mount_own(&mut files)
            .map_err(|error| impossible_mount(&error))?;

        let config = ProcessConfig {
            args,
            env: env.into_iter().collect(),
            files,
            memory_bytes: self.memory_bytes,
            memory: self.gate.memory(),
            meter: Some(self.gate.meter().clone()),
            address: OWN,
            tenant: self.namespace().to_owned(),
            ..ProcessConfig::default()
        };

        let endpoint = Endpoint::new(
            self.gate.clone(),
            self.api.clone(),
            self.tls.tls.clone(),
            EndpointLimits::default(),
        );
        let network = ApiServerOnly::new(endpoint, self.log.clone());

        let (process, running) = Process::start(&self.program, config, network, self.log.clone());
        Ok((process, self.account.run(running), live))
    }

    /// Refuses all further requests.
    pub fn retire(&self) {
        self.gate.close("the process has ended");
    }

    /// The fields that variables and files may have.
    pub(super) fn fields(&self) -> Fields<'_> {
        Fields {
            plugin: &self.plugin,
            uid: &self.uid,
            labels: &self.labels,
            annotations: &self.annotations,
            service_account: &self.service_account.name,
            memory_bytes: self.memory_bytes,
        }
    }

    fn namespace(&self) -> &str {
        self.plugin.namespace.as_deref().unwrap_or_default()
    }

    /// The environment beside the spec's: what a Pod has, and what the host adds.
    fn own_env(&self) -> BTreeMap<String, String> {
        let (host, port) = (API_SERVER.to_string(), PORT.to_string());
        let memory = go_memory_limit(self.memory_bytes, self.program.initial_memory_bytes());
        // Go resolves relative paths itself, by this folder.
        let working_dir = self.spec.working_dir.clone();
        let working_dir = working_dir.map(|folder| ("PWD", folder));
        [
            ("HOSTNAME", self.plugin.name.clone()),
            ("HOME", "/tmp".to_owned()),
            ("KUBERNETES_SERVICE_HOST", host),
            ("KUBERNETES_SERVICE_PORT", port.clone()),
            ("KUBERNETES_SERVICE_PORT_HTTPS", port),
            ("KUBECONFIG", format!("{OWN_FILES}/kubeconfig")),
            ("GOMEMLIMIT", memory.to_string()),
        ]
        .into_iter()
        .chain(working_dir)
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
    }

    /// Mounts what every process has, unless the spec mounts something in its place, as a Pod may.
    fn mount_own(&self, files: &mut Files) -> Result<(), FileError> {
        let namespace = self.namespace();
        if !files.has_mount(ACCOUNT_FILES) {
            let account = Projected::new(BTreeMap::from([
                ("ca.crt".to_owned(), self.tls.ca.clone().into_bytes()),
                ("namespace".to_owned(), namespace.as_bytes().to_vec()),
                ("token".to_owned(), NO_TOKEN.as_bytes().to_vec()),
            ]))?;
            files.mount(ACCOUNT_FILES, &account, "")?;
        }
        if !files.has_mount(TMP) {
            let (bytes, entries) = TMP_LIMITS;
            let tmp = EmptyDir::charged(bytes, entries, self.gate.memory());
            files.mount_empty_dir(TMP, &tmp, "")?;
        }

        let own = Projected::new(BTreeMap::from([(
            "kubeconfig".to_owned(),
            kubeconfig(namespace).into_bytes(),
        )]))?;
        files.mount(OWN_FILES, &own, "")
    }
}

/// The limit near which Go's runtime collects garbage more often, instead of failing at the real one.
/// It counts what the runtime has allocated, but not what the compiler put into memory, which is some
/// 45 MiB in an operator with controller-runtime.
fn go_memory_limit(limit_bytes: usize, initial_bytes: u64) -> u64 {
    (limit_bytes as u64).saturating_sub(initial_bytes) / 10 * 9
}

/// A kubeconfig without TLS: the connection does not leave the host's process.
fn kubeconfig(namespace: &str) -> String {
    let text = serde_json::json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{
            "name": "operetta",
            "cluster": {"server": format!("http://kubernetes.default.svc:{PORT}")},
        }],
        "users": [{"name": "operetta", "user": {}}],
        "contexts": [{
            "name": "operetta",
            "context": {"cluster": "operetta", "user": "operetta", "namespace": namespace},
        }],
        "current-context": "operetta",
    });
    text.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_limit_of_go_leaves_room_for_what_the_compiler_put_there() {
        let mib = |number: u64| number << 20;
        for (limit, initial) in [(100, 45), (256, 45), (46, 45), (10, 45)] {
            let limit_bytes = usize::try_from(mib(limit)).expect("a size");
            let garbage = go_memory_limit(limit_bytes, mib(initial));
            assert!(garbage <= mib(limit.saturating_sub(initial)), "{limit}");
        }
        assert!(go_memory_limit(100 << 20, mib(45)) > mib(49));
    }

    #[test]
    fn kubeconfig_is_one_that_clients_read() {
        let config: kube::config::Kubeconfig =
            serde_json::from_str(&kubeconfig("team")).expect("a kubeconfig");
        assert_eq!(config.current_context.as_deref(), Some("operetta"));
        let cluster = config.clusters[0].cluster.as_ref().expect("a cluster");
        assert_eq!(
            cluster.server.as_deref(),
            Some("http://kubernetes.default.svc:443")
        );
    }
}
