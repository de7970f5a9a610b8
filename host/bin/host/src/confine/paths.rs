//! The files that a host needs once it has read its configuration.

use std::{
    collections::BTreeSet,
    env,
    fs::{DirBuilder, OpenOptions},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

use kube::config::{AuthInfo, Kubeconfig};
use operetta_manager::config::{Compiler, HostConfig};

use crate::args::{ClusterArgs, RunArgs};

/// What the process may read besides the files of its configuration.
const READ: &[&str] = &[
    // Its own figures, and those of the machine. The kernel shows no process outside of this
    // confinement but what every user sees.
    "/proc",
    "/sys/fs/cgroup",
    "/sys/devices/system/cpu",
    "/sys/kernel/mm",
    // Names.
    "/etc/resolv.conf",
    "/etc/hosts",
    "/etc/host.conf",
    "/etc/nsswitch.conf",
    "/etc/gai.conf",
    // Certificate authorities, for the Collector of traces.
    "/etc/ssl",
    "/etc/pki",
    "/etc/ca-certificates",
    "/usr/share/ca-certificates",
    "/usr/local/share/ca-certificates",
    // The Pod's token, which the kubelet replaces.
    "/var/run/secrets/kubernetes.io/serviceaccount",
];

/// Where shared libraries are, for a host that is linked dynamically.
const LIBRARIES: &[&str] = &[
    "/etc/ld.so.cache",
    "/etc/ld.so.preload",
    "/lib",
    "/lib64",
    "/usr/lib",
    "/usr/lib64",
    "/usr/local/lib",
];

/// Files and folders, with what is below them.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Paths {
    /// May be read.
    pub read: Vec<PathBuf>,
    /// May be read, written, created and removed.
    pub write: Vec<PathBuf>,
    /// May be executed, and read.
    pub execute: Vec<PathBuf>,
}

impl Paths {
    /// Returns what a host with this configuration needs. Creates the cache of compiled code and the
    /// audit file if they don't exist, because rules are about files that do.
    ///
    /// # Errors
    /// Why the host's files can't be told.
    pub fn of_host(
        args: &RunArgs,
        config: &HostConfig,
        compiler: &Compiler,
    ) -> Result<Self, String> {
        let mut paths = Self::of_programs();
        paths.execute.push("/proc/self/exe".into());
        match compiler {
            Compiler::Worker { program, .. } => paths.execute.push(program.clone()),
            Compiler::InProcess => {}
        }

        paths.read.extend(READ.iter().map(PathBuf::from));
        for variable in ["SSL_CERT_FILE", "SSL_CERT_DIR"] {
            paths.read.extend(env::var_os(variable).map(PathBuf::from));
        }
        // A link to a file that is replaced, as systemd-resolved has it.
        let resolver = Path::new("/etc/resolv.conf").canonicalize().ok();
        let folder = resolver.as_deref().and_then(Path::parent);
        paths.read.extend(
            folder
                .filter(|folder| *folder != Path::new("/etc"))
                .map(Path::to_owned),
        );

        paths.read.extend(args.config.clone());
        paths.read_kubeconfig(&args.cluster)?;
        paths.read.extend(config.plugin_directory.clone());
        paths.read.extend(config.traces.ca_file.clone());
        let certificate = config
            .secure_endpoints
            .as_ref()
            .and_then(|endpoints| endpoints.certificate.as_ref());
        if let Some(files) = certificate {
            paths.read.extend(folder_of(&files.cert_file));
            paths.read.extend(folder_of(&files.key_file));
        }

        paths.write.push("/dev/null".into());
        paths.write.extend(cache(config));
        if let Some(file) = &config.audit_file {
            let opened = OpenOptions::new()
                .create(true)
                .append(true)
                .mode(0o600)
                .open(file);
            // The host itself reports a file that it can't write.
            paths.write.extend(opened.is_ok().then(|| file.clone()));
        }
        Ok(paths)
    }

    /// Returns what any program needs that is linked like this one: the dynamic linker, which the
    /// kernel executes, and libraries. Little if this one is linked statically.
    pub fn of_programs() -> Self {
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
        // The libraries of this process may be elsewhere, such as one of LD_PRELOAD.
        let mut read: Vec<PathBuf> = mapped_files(&maps).into_iter().map(PathBuf::from).collect();
        let linker = linker(&maps);
        if linker.is_some() {
            read.extend(LIBRARIES.iter().map(PathBuf::from));
        }
        Self {
            read,
            write: Vec::new(),
            execute: linker.into_iter().collect(),
        }
    }

    /// Adds the kubeconfig, if there is one, and the files that it names.
    ///
    /// # Errors
    /// When the credentials come from a program: it may need any file.
    fn read_kubeconfig(&mut self, args: &ClusterArgs) -> Result<(), String> {
        let default = || Some(PathBuf::from(env::var_os("HOME")?).join(".kube/config"));
        let Some(file) = args.kubeconfig.clone().or_else(default) else {
            return Ok(());
        };
        // If it can't be read, this is a Pod, or the host reports the error itself.
        let Ok(kubeconfig) = Kubeconfig::read_from(&file) else {
            return Ok(());
        };

        let wanted = args.context.clone().or(kubeconfig.current_context.clone());
        let context = kubeconfig
            .contexts
            .iter()
            .find(|context| Some(&context.name) == wanted.as_ref())
            .and_then(|context| context.context.as_ref());
        let Some(context) = context else {
            return Ok(());
        };

        self.read.push(file);
        let cluster = kubeconfig
            .clusters
            .iter()
            .find(|cluster| cluster.name == context.cluster)
            .and_then(|cluster| cluster.cluster.as_ref());
        self.read.extend(
            cluster
                .and_then(|cluster| cluster.certificate_authority.clone())
                .map(PathBuf::from),
        );

        let user = kubeconfig
            .auth_infos
            .iter()
            .find(|user| Some(&user.name) == context.user.as_ref())
            .and_then(|user| user.auth_info.as_ref());
        match user {
            Some(user) => self.read_credentials(user),
            None => Ok(()),
        }
    }

    fn read_credentials(&mut self, user: &AuthInfo) -> Result<(), String> {
        if let Some(exec) = &user.exec {
            let command = exec.command.as_deref().unwrap_or_default();
            return Err(format!(
                "the kubeconfig gets credentials from the program {command:?}, which may need any file"
            ));
        }
        if user.auth_provider.is_some() {
            return Err("the kubeconfig has an auth-provider, which may run programs".to_owned());
        }

        let files = [&user.client_certificate, &user.client_key];
        self.read
            .extend(files.into_iter().flatten().map(PathBuf::from));
        // It is read again and again, because somebody replaces it.
        let token = user.token_file.as_deref().map(Path::new);
        self.read.extend(token.and_then(folder_of));
        Ok(())
    }
}

/// Returns the folder of a file that is replaced while the host runs: a rule about the file itself
/// would be about the one that was replaced.
fn folder_of(file: &Path) -> Option<PathBuf> {
    let folder = file.parent()?;
    Some(match folder.as_os_str().is_empty() {
        true => PathBuf::from("."),
        false => folder.to_owned(),
    })
}

/// Returns the directory for compiled code, and creates it. If there is none, the one for temporary
/// files.
fn cache(config: &HostConfig) -> Option<PathBuf> {
    let create = |directory: &PathBuf| {
        let mut builder = DirBuilder::new();
        builder
            .recursive(true)
            .mode(0o700)
            .create(directory)
            .is_ok()
    };
    let directory = config.cache_directory().filter(create);
    match &config.cache_dir {
        // The host doesn't start without it, and says why.
        Some(_) => directory,
        None => directory.or_else(|| Some(env::temp_dir())),
    }
}

/// Returns the files in the text of /proc/self/maps, each once.
fn mapped_files(maps: &str) -> BTreeSet<&Path> {
    let files = maps
        .lines()
        .filter_map(|line| line.find('/').map(|at| &line[at..]));
    files.map(Path::new).collect()
}

/// Finds the dynamic linker in the text of /proc/self/maps: `ld-linux-x86-64.so.2`, or musl's
/// `ld-musl-x86_64.so.1`.
fn linker(maps: &str) -> Option<PathBuf> {
    let is_linker = |file: &&Path| {
        let name = file.file_name().and_then(|name| name.to_str());
        name.is_some_and(|name| name.starts_with("ld-"))
    };
    mapped_files(maps)
        .into_iter()
        .find(is_linker)
        .map(Path::to_owned)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use operetta_manager::admin::{certificate::CertificateFiles, secure::SecureEndpoints};

    use super::*;

    fn args(kubeconfig: Option<&Path>) -> RunArgs {
        RunArgs {
            cluster: ClusterArgs {
                kubeconfig: kubeconfig.map(Path::to_owned),
                context: None,
            },
            config: Some("/etc/operetta/config.yaml".into()),
            admin_address: None,
            health_address: None,
            secure_address: None,
            exit_with_parent: false,
        }
    }

    #[test]
    fn host_may_use_the_files_of_its_configuration() {
        let folder = tempfile::tempdir().expect("a folder");
        let cache = folder.path().join("compiled");
        let audit = folder.path().join("audit.jsonl");
        let config = HostConfig {
            cache_dir: Some(cache.clone()),
            audit_file: Some(audit.clone()),
            plugin_directory: Some("/plugins".into()),
            secure_endpoints: Some(SecureEndpoints {
                address: ([127, 0, 0, 1], 0).into(),
                certificate: Some(CertificateFiles {
                    cert_file: "/tls/tls.crt".into(),
                    key_file: "/key/tls.key".into(),
                }),
            }),
            class: Some("a".parse().expect("a class")),
            ..HostConfig::default()
        };
        let compiler = Compiler::Worker {
            program: "/opt/operetta-compiler".into(),
            arguments: Vec::new(),
        };
        let none = folder.path().join("none");
        let paths = Paths::of_host(&args(Some(&none)), &config, &compiler).expect("paths");

        for read in [
            "/etc/operetta/config.yaml",
            "/plugins",
            "/tls",
            "/key",
            "/var/run/secrets/kubernetes.io/serviceaccount",
        ] {
            assert!(
                paths.read.contains(&PathBuf::from(read)),
                "{read}: {paths:?}"
            );
        }
        let class = cache.join("class-a");
        assert_eq!(
            paths.write,
            ["/dev/null".into(), class.clone(), audit.clone()]
        );
        assert!(class.is_dir() && audit.is_file(), "rules need them");
        assert!(paths.execute.contains(&"/opt/operetta-compiler".into()));

        for none in ["/", "/etc", "/home", "/tmp", "/usr", "/bin"] {
            let none = PathBuf::from(none);
            let all = [&paths.read, &paths.write, &paths.execute];
            assert!(all.iter().all(|paths| !paths.contains(&none)), "{none:?}");
        }
    }

    #[test]
    fn files_of_the_selected_context_alone_may_be_read() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("kubeconfig");
        let text = r#"
apiVersion: v1
kind: Config
current-context: one
clusters:
  - {name: c, cluster: {server: "https://localhost", certificate-authority: /pki/ca.crt}}
contexts:
  - {name: one, context: {cluster: c, user: files}}
  - {name: two, context: {cluster: c, user: program}}
users:
  - {name: files, user: {client-certificate: /pki/a.crt, client-key: /pki/a.key, tokenFile: /token/token}}
  - {name: program, user: {exec: {apiVersion: client.authentication.k8s.io/v1, command: get-token, interactiveMode: Never}}}
"#;
        fs::write(&file, text).expect("written");

        let mut paths = Paths::default();
        let mut cluster = args(Some(&file)).cluster;
        paths.read_kubeconfig(&cluster).expect("files");
        let wanted = [
            file.as_path(),
            Path::new("/pki/ca.crt"),
            Path::new("/pki/a.crt"),
            Path::new("/pki/a.key"),
            Path::new("/token"),
        ];
        assert_eq!(paths.read, wanted);

        cluster.context = Some("two".to_owned());
        let why = paths.read_kubeconfig(&cluster).expect_err("a program");
        assert!(why.contains("get-token"), "{why}");
    }

    #[test]
    fn dynamic_linker_is_found_by_its_name() {
        let maps = "5555-6666 r--p 00000000 fe:00 12 /opt/operetta-host\n\
                    7f00-7f01 r-xp 00000000 fe:00 13 /usr/lib/x86_64-linux-gnu/libc.so.6\n\
                    7f02-7f03 r-xp 00000000 fe:00 14 /usr/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2\n\
                    7ffe-7fff rw-p 00000000 00:00 0 [stack]\n";
        let found = linker(maps).expect("a linker");
        assert!(found.ends_with("ld-linux-x86-64.so.2"), "{found:?}");
        assert_eq!(
            linker("5555-6666 r--p 00000000 fe:00 12 /operetta-host\n"),
            None
        );
    }
}
