//! The host's own configuration: a YAML file in which every field has a default.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context, Result};
use operetta_api::{Class, reasons};
use operetta_core::{gate::GateLimits, hot_loop, ports::LogLevel};
use operetta_kube::store::Packing;
use operetta_wasm::{CallLimits, Code, CodeCache, EngineConfig, LoadLimits, Worker, WorkerLimits};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    admin::secure::SecureEndpoints,
    confinement::{Confine, Confinement},
    plugin::{crd::Limits, source::artifact::SizeLimit},
    recorder::config::FlightRecorderConfig,
    replicas::config::ReplicaConfig,
    tenancy::quotas::Quotas,
    traces::config::TracesConfig,
};

/// The most memory of a process whose Plugin has no limit, in bytes.
const PROCESS_MEMORY: usize = 256 << 20;

/// The memory of one compilation of a process unless the configuration says otherwise, in MiB.
/// kuberay's 77 MB needed more than 2048 and less than this.
const PROCESS_COMPILE_MIB: u64 = 8192;

/// The configuration that `--config FILE` of `operetta-host` and `operetta run` names.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct HostConfig {
    /// The address of /healthz, /readyz, /metrics and the plugins' logs. Everybody who can connect
    /// to it can read the logs of every plugin: use loopback unless access is restricted otherwise.
    pub admin_address: SocketAddr,
    /// The address of /healthz, /livez and /readyz alone, for the probes of a Pod.
    pub health_address: Option<SocketAddr>,
    /// The endpoints for users: metrics, logs and informers over TLS, for whom the API server
    /// authenticates and authorizes.
    pub secure_endpoints: Option<SecureEndpoints>,
    /// True to serve the page for people at /page/ on `adminAddress` and on the secure endpoints.
    /// Whoever opens it signs in with a token of the cluster, and sees what its user may read.
    pub page: bool,
    /// What compiles plugins: the program sets it, no file does.
    #[serde(skip)]
    pub compiler: Compiler,
    /// The folder of the interpreters of `operetta dev`, which run source; None runs none: no file
    /// sets it.
    #[serde(skip)]
    pub interpreters: Option<PathBuf>,
    /// The only namespace whose Plugins this host runs, for `operetta dev` on a cluster of others:
    /// no file sets it.
    #[serde(skip)]
    pub only_namespace: Option<String>,
    /// The maximum size of a plugin's component in bytes, decompressed; in a ConfigMap, that of a
    /// process's component as well.
    pub max_wasm_bytes: usize,
    /// The maximum size of a process's component in bytes, decompressed, if it comes by
    /// `spec.source.path`.
    pub max_process_bytes: usize,
    /// True if consent must name the digests of code in every namespace, not only in those labelled
    /// `operetta.dev/plugins: pinned`.
    pub require_digest: bool,
    /// True if the host checks each cached read by an access review of exactly that request. For
    /// clusters with an authorizer besides RBAC that denies. With RBAC alone, one review about all
    /// namespaces covers many requests.
    pub exact_access_reviews: bool,
    /// The directory of the files that `spec.source.path` of a Plugin names: every Plugin may run
    /// the files below it. If left out, no Plugin may run a file.
    pub plugin_directory: Option<PathBuf>,
    /// The host's own namespace, which holds the Leases of its replicas. If left out, that of the
    /// host's Pod, or `operetta-system` outside of a cluster.
    pub namespace: Option<String>,
    /// The trust class of this host. It runs the Plugins of namespaces with the label
    /// `operetta.dev/class: CLASS`, and shares Leases, compiled code and memory only with hosts of
    /// the same class. A host without a class runs those of namespaces without the label.
    #[schemars(with = "Option<String>")]
    pub class: Option<Class>,
    /// Whether the host confines its own process by seccomp and Landlock once it has read its
    /// configuration: `auto` by what the kernel has, `required` by both or it does not start, `off`
    /// not at all.
    pub confine: Confine,
    /// What confines this process: the program sets it, no file does.
    #[serde(skip)]
    pub confinement: Confinement,
    /// The directory of compiled plugins, so that each is compiled once: only this user may have
    /// access to it. If left out, `$XDG_CACHE_HOME/operetta/compiled` (`~/.cache` if that is not
    /// set), or a temporary directory if that cannot be used. A host of a class uses the folder
    /// `class-CLASS` in it.
    pub cache_dir: Option<PathBuf>,
    /// The maximum size of all compiled plugins on disk, in bytes; the least recently used ones are
    /// removed first.
    pub max_cache_bytes: u64,
    /// The address space that the code of all plugins may take. Beyond it, the code of the least
    /// recently called plugins is unmapped until their next call.
    #[serde(rename = "mappedCodeMiB")]
    pub mapped_code_mib: u64,
    /// The memory that the compilation of one plugin may take; a plugin that takes more is refused.
    /// Processes have `processCompileMemoryMiB`.
    #[serde(rename = "compileMemoryMiB")]
    pub compile_memory_mib: u64,
    /// The seconds of processor time that the compilation of one plugin or process may take; one
    /// that takes more is refused.
    pub compile_seconds: u64,
    /// The memory that the compilation of one process may take, in MiB; a process that takes more is
    /// refused. If left out, 8192, but at most half of the memory that the host may use, and at least
    /// `compileMemoryMiB`.
    #[serde(rename = "processCompileMemoryMiB")]
    pub process_compile_memory_mib: Option<u64>,
    /// Reserved namespaces in which plugins may run nevertheless: `kube-system`, `operetta-system`,
    /// or the host's own. Whoever may act in these controls the cluster or the host.
    pub allow_reserved_namespaces: Vec<String>,
    /// The limits of plugins that set none.
    pub default_limits: Limits,
    /// The maximum limits that a plugin may set.
    pub max_limits: Limits,
    /// The memory that the reconciles of all plugins may take at once, in MiB; half of the
    /// process's memory if left out.
    #[serde(rename = "pluginMemoryMiB")]
    pub plugin_memory_mib: Option<u64>,
    /// The maximum number of slots that instances kept between reconciles (`spec.runtime.warm`)
    /// hold, and at most a quarter of all slots: one each, or several for a component with many
    /// memories or tables. 0 keeps none.
    pub max_warm_instances: u32,
    /// The file to which each write of a plugin is appended as a line of JSON, besides the host's
    /// log.
    pub audit_file: Option<PathBuf>,
    /// The number of delays after which a key in a hot loop is quarantined. The first delay is 1 s;
    /// each next one is twice as long, up to 60 s.
    pub hot_loop_rounds: u32,
    /// The quotas of plugins and namespaces.
    pub quotas: Quotas,
    /// The compression of caches: `auto` compresses caches of more than 1,000 objects and 8 MiB if
    /// that at least halves them; `off` compresses none. A read of a compressed object takes some
    /// microseconds more.
    pub cache_compression: Packing,
    /// The least important level that plugins log: error, warn, info, debug or trace.
    pub plugin_log_level: Level,
    /// The seconds for which the host waits for reconciles in flight when it stops, and for other
    /// replicas to take its Plugins.
    pub shutdown_seconds: u64,
    /// The times of the Lease by which the replicas of the host notice each other.
    pub replicas: ReplicaConfig,
    /// Traces of reconciles, which the host sends to an OpenTelemetry Collector.
    pub traces: TracesConfig,
    /// The flight recorder, which `operetta why` and the page read.
    pub flight_recorder: FlightRecorderConfig,
}

/// What compiles plugins.
#[derive(Clone, Debug)]
pub enum Compiler {
    /// A confined program that is started for each component: `operetta-compiler`, or `operetta`
    /// with a hidden command.
    Worker {
        /// The program.
        program: PathBuf,
        /// Its arguments, before those of the worker.
        arguments: Vec<String>,
    },
    /// This process, which keeps compiled functions, for `operetta dev`. Needs operetta-wasm's
    /// feature `compiler`.
    InProcess,
}

impl Compiler {
    /// The worker of a host inside `operetta`.
    pub fn this_program() -> Self {
        Self::Worker {
            // Not our own path: a newer version may have replaced the file.
            program: "/proc/self/exe".into(),
            arguments: vec!["compile-worker".to_owned()],
        }
    }
}

impl Default for Compiler {
    fn default() -> Self {
        Self::this_program()
    }
}

/// A log level by name.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs, reason = "the levels every logger has")]
pub enum Level {
    Error,
    Warn,
    Info,
    Debug,
    Trace,
}

impl From<Level> for LogLevel {
    fn from(level: Level) -> Self {
        match level {
            Level::Error => Self::Error,
            Level::Warn => Self::Warn,
            Level::Info => Self::Info,
            Level::Debug => Self::Debug,
            Level::Trace => Self::Trace,
        }
    }
}

impl Default for HostConfig {
    fn default() -> Self {
        let limits = |memory: &str, timeout_seconds, host_calls| Limits {
            memory: Some(memory.to_owned()),
            timeout_seconds: Some(timeout_seconds),
            host_calls: Some(host_calls),
        };
        Self {
            admin_address: SocketAddr::from(([127, 0, 0, 1], 0)),
            health_address: None,
            secure_endpoints: None,
            page: true,
            compiler: Compiler::this_program(),
            interpreters: None,
            only_namespace: None,
            max_wasm_bytes: LoadLimits::default().max_wasm_bytes,
            max_process_bytes: LoadLimits::default().max_process_bytes,
            require_digest: false,
            exact_access_reviews: false,
            plugin_directory: None,
            namespace: None,
            class: None,
            confine: Confine::default(),
            confinement: Confinement::default(),
            cache_dir: None,
            max_cache_bytes: 2 << 30,
            mapped_code_mib: 4096,
            compile_memory_mib: 2048,
            compile_seconds: 300,
            process_compile_memory_mib: None,
            allow_reserved_namespaces: Vec::new(),
            default_limits: limits("64Mi", 30, 10_000),
            max_limits: limits("1Gi", 600, 100_000),
            plugin_memory_mib: None,
            max_warm_instances: EngineConfig::default().warm_instances,
            audit_file: None,
            hot_loop_rounds: hot_loop::ROUNDS,
            quotas: Quotas::default(),
            cache_compression: Packing::default(),
            plugin_log_level: Level::Info,
            shutdown_seconds: 20,
            replicas: ReplicaConfig::default(),
            traces: TracesConfig::default(),
            flight_recorder: FlightRecorderConfig::default(),
        }
    }
}

impl HostConfig {
    /// Reports whether a namespace whose label has this class is of the host's own class.
    pub fn is_own_class(&self, class: Option<&str>) -> bool {
        class == self.class.as_ref().map(Class::as_str)
    }

    /// Reads a configuration file, or returns the defaults if there is none.
    ///
    /// # Errors
    /// When the file can't be read, isn't YAML, or has an unknown field.
    pub fn read(path: Option<&Path>) -> Result<Self> {
        let Some(path) = path else {
            return Ok(Self::default());
        };
        let invalid = |message: String| reasons::INVALID_HOST_CONFIG.error(message);
        let text = std::fs::read_to_string(path)
            .with_context(|| invalid(format!("failed to read {}", path.display())))?;
        serde_yaml_ng::from_str(&text).with_context(|| {
            invalid(format!(
                "failed to decode the host configuration {}",
                path.display()
            ))
        })
    }

    /// Returns how many bytes the reconciles of all plugins may use at once.
    pub fn plugin_memory_bytes(&self) -> u64 {
        self.plugin_memory_mib
            .map_or_else(|| operetta_wasm::memory_bytes() / 2, |mib| mib << 20)
    }

    /// Returns the limits of a plugin's reconciles: its own or the default ones, capped at the
    /// host's maximum.
    pub fn limits(&self, own: &Limits) -> (CallLimits, GateLimits) {
        let pick = |of: &dyn Fn(&Limits) -> Option<usize>, fallback: usize| {
            let wanted = of(own)
                .or_else(|| of(&self.default_limits))
                .unwrap_or(fallback);
            wanted.min(of(&self.max_limits).unwrap_or(usize::MAX))
        };
        let call = CallLimits::default();
        let seconds = pick(
            &|limits| limits.timeout_seconds.map(|seconds| seconds as usize),
            30,
        );
        let timeout = Duration::from_secs(seconds as u64);
        let memory_bytes = pick(&Limits::memory_bytes, call.memory_bytes);

        let calls = pick(
            &|limits| limits.host_calls.map(|calls| calls as usize),
            10_000,
        );
        let gate = GateLimits::default();
        let call_timeout = gate.call_timeout.min(timeout);

        (
            CallLimits {
                memory_bytes,
                timeout,
                ..call
            },
            GateLimits {
                calls: u32::try_from(calls).unwrap_or(u32::MAX),
                call_timeout,
                ..gate
            },
        )
    }

    /// Says which limits of a Plugin are larger than the maximum, and what it gets instead.
    pub fn reduced_limits(&self, own: &Limits) -> Vec<String> {
        let most = &self.max_limits;
        let reduced = |field: &str, wanted: &str, most: &str| {
            format!(
                "spec.limits.{field} is {wanted}, but it gets {most} (maxLimits.{field} of the host's configuration)"
            )
        };
        let number = |field: &str, wanted: Option<u32>, most: Option<u32>| {
            let (wanted, most) = wanted.zip(most).filter(|(wanted, most)| wanted > most)?;
            Some(reduced(field, &wanted.to_string(), &most.to_string()))
        };

        let is_memory_reduced = own
            .memory_bytes()
            .zip(most.memory_bytes())
            .is_some_and(|(wanted, most)| wanted > most);
        let memory = is_memory_reduced
            .then(|| own.memory.as_deref().zip(most.memory.as_deref()))
            .flatten()
            .map(|(wanted, most)| reduced("memory", wanted, most));
        let timeout = number("timeoutSeconds", own.timeout_seconds, most.timeout_seconds);
        let calls = number("hostCalls", own.host_calls, most.host_calls);

        [memory, timeout, calls].into_iter().flatten().collect()
    }

    /// Returns the host's own namespace.
    pub fn own_namespace(&self) -> String {
        const POD: &str = "/var/run/secrets/kubernetes.io/serviceaccount/namespace";
        let pod = || {
            std::fs::read_to_string(POD)
                .ok()
                .map(|text| text.trim().to_owned())
                .filter(|name| !name.is_empty())
        };
        self.namespace
            .clone()
            .or_else(pod)
            .unwrap_or_else(|| "operetta-system".to_owned())
    }

    /// Returns the most memory of a process, in bytes: the Plugin's own limit or 256 MiB, within
    /// `maxLimits`.
    pub fn process_memory_bytes(&self, own: &Limits) -> usize {
        let most = self.max_limits.memory_bytes().unwrap_or(usize::MAX);
        own.memory_bytes().unwrap_or(PROCESS_MEMORY).min(most)
    }

    /// Returns the maximum size of a component in a ConfigMap, which a tenant writes.
    pub fn config_map_limit(&self) -> SizeLimit {
        SizeLimit {
            bytes: self.max_wasm_bytes,
            setting: "maxWasmBytes",
        }
    }

    /// Returns the maximum size of a component in a file, which an administrator has put there.
    /// Nobody knows yet whether it is a process.
    pub fn file_limit(&self) -> SizeLimit {
        let of_processes = SizeLimit {
            bytes: self.max_process_bytes,
            setting: "maxProcessBytes",
        };
        match self.config_map_limit() {
            limit if limit.bytes > of_processes.bytes => limit,
            _ => of_processes,
        }
    }

    /// Returns the limits for loading a plugin.
    pub fn load_limits(&self) -> LoadLimits {
        LoadLimits {
            max_wasm_bytes: self.max_wasm_bytes,
            max_process_bytes: self.max_process_bytes,
            ..LoadLimits::default()
        }
    }

    /// Returns the directory of compiled plugins: the configured one, or the default one. None if
    /// there is neither.
    pub fn cache_directory(&self) -> Option<PathBuf> {
        let configured = self.cache_dir.clone();
        let directory = configured.or_else(|| user_cache().map(|base| base.join("compiled")))?;
        Some(self.of_class(&directory))
    }

    /// Opens the cache of compiled code and configures the compile worker.
    ///
    /// # Errors
    /// When `cacheDir` is set and can't be used. The default directory falls back to a temporary
    /// one.
    pub fn code(&self) -> Result<Code> {
        let cache = match (&self.cache_dir, self.cache_directory()) {
            (Some(_), Some(directory)) => Some(
                CodeCache::open(&directory, self.max_cache_bytes)
                    .context(reasons::CACHE_DIR_UNUSABLE.error("cacheDir"))?,
            ),
            (_, default) => self.default_cache(default.as_deref()),
        };

        let limits = |memory_mib: u64| WorkerLimits {
            memory_bytes: memory_mib.saturating_mul(1 << 20),
            cpu_seconds: self.compile_seconds,
        };
        let worker = match &self.compiler {
            Compiler::InProcess => None,
            Compiler::Worker { program, arguments } => Some(Worker {
                program: program.clone(),
                arguments: arguments.clone(),
                limits: limits(self.compile_memory_mib),
                process_limits: limits(self.process_compile_mib(operetta_wasm::memory_bytes())),
            }),
        };
        Ok(Code::new(cache, worker))
    }

    /// Returns the memory of one compilation of a process, in MiB, on a host that may use this many
    /// bytes. The default leaves the other half to what runs meanwhile: a host whose control group
    /// runs out of memory is killed together with its compiler.
    fn process_compile_mib(&self, memory_bytes: u64) -> u64 {
        self.process_compile_memory_mib.unwrap_or_else(|| {
            PROCESS_COMPILE_MIB
                .min((memory_bytes >> 20) / 2)
                .max(self.compile_memory_mib)
        })
    }

    /// Returns the folder of this host's class in a directory, or the directory without a class.
    fn of_class(&self, directory: &Path) -> PathBuf {
        match &self.class {
            Some(class) => directory.join(format!("class-{class}")),
            None => directory.to_owned(),
        }
    }

    fn default_cache(&self, directory: Option<&Path>) -> Option<CodeCache> {
        let warn = |error: &dyn std::error::Error| {
            let why = error
                .source()
                .map_or_else(|| error.to_string(), |source| format!("{error}: {source}"));
            tracing::warn!("{why}; set cacheDir to keep compiled plugins");
        };
        if let Some(directory) = directory {
            match CodeCache::open(directory, self.max_cache_bytes) {
                Ok(cache) => return Some(cache),
                Err(error) => warn(&error),
            }
        }

        CodeCache::temporary(self.max_cache_bytes)
            .inspect_err(|error| warn(error))
            .ok()
    }

    /// Returns the engine's configuration. Its memories are as large as the largest limit.
    pub fn engine(&self) -> EngineConfig {
        let engine = EngineConfig::default();
        let most = self
            .max_limits
            .memory_bytes()
            .unwrap_or(engine.max_memory_bytes);
        let max_memory_bytes = most.max(LoadLimits::default().memory_bytes);
        let max_mapped_code_bytes = self.mapped_code_mib.saturating_mul(1 << 20);
        let in_process = matches!(self.compiler, Compiler::InProcess);
        EngineConfig {
            max_memory_bytes,
            warm_instances: self.max_warm_instances,
            max_mapped_code_bytes,
            keep_functions: in_process,
            // Optimize an interpreter: it is compiled once and runs in every reconcile.
            optimize: !in_process || self.interpreters.is_some(),
            interpreters: self.interpreters.clone(),
            ..engine
        }
    }
}

/// Returns the user's cache folder: `$XDG_CACHE_HOME/operetta`, or `~/.cache/operetta` if that
/// isn't set. None without a home directory.
pub fn user_cache() -> Option<PathBuf> {
    let variable = |name| {
        std::env::var_os(name)
            .map(PathBuf::from)
            .filter(|path| path.is_absolute())
    };
    let base = variable("XDG_CACHE_HOME").or_else(|| Some(variable("HOME")?.join(".cache")));
    base.map(|base| base.join("operetta"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plugin_limits_never_exceed_the_hosts() {
        let config = HostConfig::default();
        let (call, gate) = config.limits(&Limits::default());
        assert_eq!(
            (call.memory_bytes, call.timeout.as_secs(), gate.calls),
            (64 << 20, 30, 10_000)
        );

        let own = Limits {
            memory: Some("8Gi".into()),
            timeout_seconds: Some(5),
            host_calls: Some(7),
        };
        let (call, gate) = config.limits(&own);
        assert_eq!(
            (call.memory_bytes, call.timeout.as_secs(), gate.calls),
            (1 << 30, 5, 7)
        );
        assert_eq!(
            gate.call_timeout.as_secs(),
            5,
            "no host call outlives the reconcile"
        );
    }

    #[test]
    fn processes_compile_within_half_of_the_hosts_memory_unless_set() {
        let config = |text: &str| -> HostConfig { serde_yaml_ng::from_str(text).expect("yaml") };
        let gib = 1 << 30;
        for (text, memory_bytes, mib) in [
            ("{}", 64 * gib, 8192),
            ("{}", 12 * gib, 6144),
            ("{}", 2 * gib, 2048),
            ("{compileMemoryMiB: 9000}", 64 * gib, 9000),
            ("{processCompileMemoryMiB: 12000}", 4 * gib, 12_000),
            ("{processCompileMemoryMiB: 512}", 64 * gib, 512),
        ] {
            assert_eq!(
                config(text).process_compile_mib(memory_bytes),
                mib,
                "{text}"
            );
        }
    }

    #[test]
    fn limits_above_the_maximum_are_named() {
        let config = HostConfig::default();
        let limits = |memory: &str, timeout_seconds, host_calls| Limits {
            memory: Some(memory.to_owned()),
            timeout_seconds: Some(timeout_seconds),
            host_calls: Some(host_calls),
        };
        let most = config.reduced_limits(&limits("1024Mi", 600, 100_000));
        assert!(most.is_empty(), "{most:?}");

        let reduced = config.reduced_limits(&limits("2Gi", 601, 100_001));
        assert_eq!(
            reduced[0],
            "spec.limits.memory is 2Gi, but it gets 1Gi (maxLimits.memory of the host's configuration)"
        );
        assert!(
            reduced[1].contains("601, but it gets 600 (maxLimits.timeoutSeconds")
                && reduced[2].contains("100001, but it gets 100000 (maxLimits.hostCalls"),
            "{reduced:?}"
        );
    }

    #[test]
    fn refuses_world_writable_cache_directory() {
        let config: HostConfig =
            serde_yaml_ng::from_str("{cacheDir: /proc/self, compileMemoryMiB: 512}").expect("yaml");
        assert_eq!(config.compile_memory_mib, 512);
        let error = format!("{:#}", config.code().expect_err("refused"));
        assert!(
            error.contains("cacheDir") && error.contains("/proc/self"),
            "{error}"
        );
    }

    #[test]
    fn caches_are_compressed_unless_told_otherwise() {
        let read = |text: &str| {
            serde_yaml_ng::from_str::<HostConfig>(text).map(|config| config.cache_compression)
        };
        assert_eq!(HostConfig::default().cache_compression, Packing::Auto);
        assert_eq!(
            read("{cacheCompression: off}").expect("a word"),
            Packing::Off
        );

        let error = read("{cacheCompression: always}")
            .expect_err("neither")
            .to_string();
        assert!(
            error.contains("always") && error.contains("`auto`"),
            "{error}"
        );
    }

    #[test]
    fn hosts_of_different_classes_share_no_compiled_code() {
        let folder = tempfile::tempdir().expect("a folder");
        let cache_dir = folder.path().join("compiled");
        let opened = |class: Option<&str>| {
            let config = HostConfig {
                class: class.map(|class| class.parse().expect("a class")),
                cache_dir: Some(cache_dir.clone()),
                ..HostConfig::default()
            };
            let code = config.code().expect("a cache");
            code.directory().expect("a directory").to_owned()
        };
        assert_eq!(opened(None), cache_dir);
        assert_eq!(opened(Some("a")), cache_dir.join("class-a"));
        assert_eq!(opened(Some("b")), cache_dir.join("class-b"));

        let error = serde_yaml_ng::from_str::<HostConfig>("class: A_B")
            .expect_err("not a class")
            .to_string();
        assert!(error.contains("A_B") && error.contains("class"), "{error}");
    }

    #[test]
    fn admin_address_is_loopback_by_default() {
        let address = HostConfig::default().admin_address;
        assert!(address.ip().is_loopback(), "{address}");
        println!("the admin endpoints listen on {address}");
    }

    #[test]
    fn an_unknown_field_is_named() {
        let error = serde_yaml_ng::from_str::<HostConfig>("maxWasmByte: 1")
            .expect_err("unknown")
            .to_string();
        assert!(error.contains("maxWasmByte"), "{error}");
    }
}
