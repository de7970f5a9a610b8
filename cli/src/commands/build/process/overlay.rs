//! The overlay of Go's standard library with which an operator's program waits on the host's
//! descriptors: `go build -overlay` reads these files in place of those in GOROOT.
//!
//! The overlay is made from the GOROOT that compiles the program, so that it carries the fixes of
//! that patch release. Most edits rename a stock function, whose caller then finds ours in an added
//! file: such an anchor is a signature, which changes less often than a body. Each anchor must occur
//! exactly as often as expected, or nothing is built. Exact texts need no Go parser here, no helper
//! to compile before each build, and a test finds them in any GOROOT in a millisecond.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};
use operetta_api::reasons;
use serde_json::json;

use super::toolchain::{SUPPORTED, Toolchain};

/// A file of GOROOT's `src` that is read in another version.
struct Patch {
    file: &'static str,
    edits: &'static [Edit],
}

/// A text in a file, and what replaces it.
struct Edit {
    anchor: &'static str,
    replacement: &'static str,
    /// How often the anchor occurs.
    count: usize,
}

const fn edit(anchor: &'static str, replacement: &'static str) -> Edit {
    Edit {
        anchor,
        replacement,
        count: 1,
    }
}

/// Files that are added to GOROOT's `src`.
const ADDED: &[(&str, &str)] = &[
    ("net/net_process.go", include_str!("overlay/net_process.go")),
    (
        "os/signal/signal_process.go",
        include_str!("overlay/signal_process.go"),
    ),
];

const PATCHES: &[Patch] = &[
    Patch {
        file: "net/net_fake.go",
        edits: &[edit("\nfunc socket(ctx ", "\nfunc stockSocket(ctx ")],
    },
    Patch {
        file: "net/fd_fake.go",
        edits: &[edit(
            "\nfunc (fd *netFD) accept() (netfd *netFD, err error) {\n",
            "\nfunc (fd *netFD) stockAccept() (netfd *netFD, err error) {\n",
        )],
    },
    Patch {
        file: "net/lookup_unix.go",
        edits: &[
            edit(
                "\nfunc (r *Resolver) lookupHost(ctx context.Context, host string) (addrs []string, err error) {\n",
                "\nfunc (r *Resolver) stockLookupHost(ctx context.Context, host string) (addrs []string, err error) {\n",
            ),
            edit(
                "\nfunc (r *Resolver) lookupIP(ctx context.Context, network, host string) (addrs []IPAddr, err error) {\n",
                "\nfunc (r *Resolver) stockLookupIP(ctx context.Context, network, host string) (addrs []IPAddr, err error) {\n",
            ),
            edit(
                "\nfunc (r *Resolver) lookupCNAME(ctx context.Context, name string) (string, error) {\n",
                "\nfunc (r *Resolver) stockLookupCNAME(ctx context.Context, name string) (string, error) {\n",
            ),
            edit(
                "\nfunc (r *Resolver) lookupSRV(ctx context.Context, service, proto, name string) (string, []*SRV, error) {\n",
                "\nfunc (r *Resolver) stockLookupSRV(ctx context.Context, service, proto, name string) (string, []*SRV, error) {\n",
            ),
            edit(
                "\nfunc (r *Resolver) lookupMX(ctx context.Context, name string) ([]*MX, error) {\n",
                "\nfunc (r *Resolver) stockLookupMX(ctx context.Context, name string) ([]*MX, error) {\n",
            ),
            edit(
                "\nfunc (r *Resolver) lookupNS(ctx context.Context, name string) ([]*NS, error) {\n",
                "\nfunc (r *Resolver) stockLookupNS(ctx context.Context, name string) ([]*NS, error) {\n",
            ),
            edit(
                "\nfunc (r *Resolver) lookupTXT(ctx context.Context, name string) ([]string, error) {\n",
                "\nfunc (r *Resolver) stockLookupTXT(ctx context.Context, name string) ([]string, error) {\n",
            ),
            edit(
                "\nfunc (r *Resolver) lookupAddr(ctx context.Context, addr string) ([]string, error) {\n",
                "\nfunc (r *Resolver) stockLookupAddr(ctx context.Context, addr string) ([]string, error) {\n",
            ),
        ],
    },
    // TCP's options tune a socket that is the host's. An error would stop the programs that check
    // for it, and make no difference to the others.
    Patch {
        file: "net/sockopt_fake.go",
        edits: &[
            Edit {
                anchor: "\n\treturn syscall.ENOPROTOOPT\n",
                replacement: "\n\treturn nil\n",
                count: 4,
            },
            edit("\nimport \"syscall\"\n", "\n"),
        ],
    },
    Patch {
        file: "net/tcpsockopt_stub.go",
        edits: &[
            Edit {
                anchor: "\n\treturn syscall.ENOPROTOOPT\n",
                replacement: "\n\treturn nil\n",
                count: 4,
            },
            edit("\n\t\"syscall\"\n", "\n"),
        ],
    },
    Patch {
        file: "os/signal/signal.go",
        edits: &[edit("\n\tsignalWaitUntilIdle()\n", "\n\twaitUntilIdle()\n")],
    },
    Patch {
        file: "os/signal/signal_unix.go",
        edits: &[
            edit(
                "\n\twatchSignalLoop = loop\n",
                "\n\twatchSignalLoop = processLoop\n",
            ),
            edit(
                "\nfunc enableSignal(sig int) {\n",
                "\nfunc stockEnableSignal(sig int) {\n",
            ),
            edit(
                "\nfunc disableSignal(sig int) {\n",
                "\nfunc stockDisableSignal(sig int) {\n",
            ),
            edit(
                "\nfunc ignoreSignal(sig int) {\n",
                "\nfunc stockIgnoreSignal(sig int) {\n",
            ),
            edit(
                "\nfunc signalIgnored(sig int) bool {\n",
                "\nfunc stockSignalIgnored(sig int) bool {\n",
            ),
        ],
    },
    // Leader election takes the host's name as its identity. A container has it in HOSTNAME, too.
    Patch {
        file: "os/sys_bsd.go",
        edits: &[edit(
            "\n\tname, err = syscall.Sysctl(\"kern.hostname\")\n",
            "\n\tif name = Getenv(\"HOSTNAME\"); name != \"\" {\n\t\treturn name, nil\n\t}\n\
             \tname, err = syscall.Sysctl(\"kern.hostname\")\n",
        )],
    },
    // Natively, sysmon polls the network while goroutines keep the run queue full. Wasm has no
    // threads, so nobody would: a connection's data waited until the queue was empty.
    Patch {
        file: "runtime/proc.go",
        edits: &[edit(
            "\n\t// Check the global runnable queue once in a while to ensure fairness.\n",
            "\n\tif pp.schedtick%61 == 0 && netpollinited() && netpollAnyWaiters() {\n\
             \t\tif list, delta := netpoll(0); !list.empty() {\n\
             \t\t\tinjectglist(&list)\n\
             \t\t\tnetpollAdjustWaiters(delta)\n\
             \t\t}\n\
             \t}\n\n\
             \t// Check the global runnable queue once in a while to ensure fairness.\n",
        )],
    },
    // The reader of a CPU profile waits here. The stock loop never sleeps, so /debug/pprof/profile
    // would take the processor for half a minute.
    Patch {
        file: "runtime/lock_wasip1.go",
        edits: &[edit(
            "\n\t\tGosched()\n",
            "\n\t\ttimeSleep(10 * 1000 * 1000)\n",
        )],
    },
];

/// Files that Go reads in place of others.
pub struct Overlay {
    /// The texts of added files, and the overlay itself, are written here.
    folder: PathBuf,
    /// An empty path removes a file.
    replace: BTreeMap<PathBuf, PathBuf>,
}

impl Overlay {
    /// Makes the overlay of a toolchain's standard library.
    ///
    /// # Errors
    /// Returns an error that names the file and the version of Go if a file in GOROOT is not as
    /// expected, or if a file can't be read or written.
    pub fn of(toolchain: &Toolchain, folder: &Path) -> Result<Self> {
        let source = toolchain.goroot.join("src");
        let mut overlay = Self {
            folder: folder.to_owned(),
            replace: BTreeMap::new(),
        };

        for (file, text) in ADDED {
            overlay.add_text(source.join(file), text)?;
        }
        for patch in PATCHES {
            overlay.add_text(source.join(patch.file), &patch.apply(toolchain)?)?;
        }
        Ok(overlay)
    }

    /// Gives a file a text.
    ///
    /// # Errors
    /// Returns an error if the text can't be written to the folder.
    pub fn add_text(&mut self, file: PathBuf, text: &str) -> Result<()> {
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        let written = self.folder.join(format!("{}-{name}", self.replace.len()));
        fs::write(&written, text)
            .with_context(|| format!("failed to write {}", written.display()))?;
        self.replace.insert(file, written);
        Ok(())
    }

    /// Gives a file the content of another one.
    pub fn add_file(&mut self, file: PathBuf, content: PathBuf) {
        self.replace.insert(file, content);
    }

    /// Hides a file.
    pub fn remove(&mut self, file: PathBuf) {
        self.replace.insert(file, PathBuf::new());
    }

    /// Writes the file for `go build -overlay`.
    ///
    /// # Errors
    /// Returns an error if it can't be written.
    pub fn write(&self) -> Result<PathBuf> {
        let overlay = self.folder.join("overlay.json");
        fs::write(&overlay, json!({ "Replace": self.replace }).to_string())
            .with_context(|| format!("failed to write {}", overlay.display()))?;
        Ok(overlay)
    }
}

impl Patch {
    /// The text of the file with its edits.
    fn apply(&self, toolchain: &Toolchain) -> Result<String> {
        let path = toolchain.goroot.join("src").join(self.file);
        let unexpected = |what: String| {
            let (oldest, newest) = (SUPPORTED.start(), SUPPORTED.end());
            reasons::TOOL_UNSUPPORTED.error(format!(
                "{} of {} {what}: build with an unchanged Go 1.{oldest} to 1.{newest} (`GOTOOLCHAIN=go1.{newest}.0+auto`), or \
                 with an Operetta that knows this one",
                path.display(),
                toolchain.version,
            ))
        };

        let mut text = fs::read_to_string(&path)
            .map_err(|error| unexpected(format!("can't be read ({error})")))?;

        for edit in self.edits {
            let found = text.matches(edit.anchor).count();
            if found != edit.count {
                return Err(unexpected(format!(
                    "is not as expected (it has {:?} {found} times, not {})",
                    edit.anchor.trim(),
                    edit.count
                ))
                .into());
            }
            text = text.replace(edit.anchor, edit.replacement);
        }

        Ok(text)
    }
}

#[cfg(test)]
mod with_go {
    use super::*;

    /// The Go that compiles the plugins' guests; every environment that builds Operetta has it.
    fn installed() -> Toolchain {
        Toolchain::find(Path::new(env!("CARGO_MANIFEST_DIR"))).expect("a supported Go")
    }

    /// Copies the patched files of a GOROOT into a folder of the same shape.
    fn copy(toolchain: &Toolchain, folder: &Path) -> Toolchain {
        for patch in PATCHES {
            let target = folder.join("src").join(patch.file);
            fs::create_dir_all(target.parent().expect("a parent")).expect("a folder");
            fs::copy(toolchain.goroot.join("src").join(patch.file), target).expect("a copy");
        }

        let mut copied = toolchain.clone();
        copied.goroot = folder.to_owned();
        copied
    }

    #[test]
    fn every_anchor_is_found_in_the_installed_go() {
        let folder = tempfile::tempdir().expect("folder");
        let toolchain = installed();
        let overlay = Overlay::of(&toolchain, folder.path()).expect("an overlay");

        let text = fs::read_to_string(overlay.write().expect("written")).expect("overlay.json");
        let overlay: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        let replaced = overlay["Replace"].as_object().expect("an object");
        assert_eq!(replaced.len(), PATCHES.len() + ADDED.len());

        for (file, by) in replaced {
            let by = fs::read_to_string(by.as_str().expect("a path")).expect("written");
            match fs::read_to_string(file) {
                Ok(stock) => assert_ne!(stock, by, "{file}"),
                Err(_) => assert!(by.contains("//go:build wasip1"), "{file}"),
            }
        }
    }

    #[test]
    fn changed_goroot_is_refused_with_file_version_and_cure() {
        let folder = tempfile::tempdir().expect("folder");
        let scratch = tempfile::tempdir().expect("folder");
        let toolchain = copy(&installed(), folder.path());
        Overlay::of(&toolchain, scratch.path())
            .map(drop)
            .expect("the copy is as the original");

        for patch in PATCHES {
            let file = folder.path().join("src").join(patch.file);
            let stock = fs::read_to_string(&file).expect("a file");

            for edit in patch.edits {
                fs::write(&file, stock.replacen(edit.anchor, "\n// changed\n", 1)).expect("a file");
                let error = Overlay::of(&toolchain, scratch.path())
                    .map(drop)
                    .expect_err("changed")
                    .to_string();

                let times = format!("{} times, not {}", edit.count - 1, edit.count);
                for part in [patch.file, &toolchain.version, &times, "GOTOOLCHAIN"] {
                    assert!(error.contains(part), "{part}: {error}");
                }
            }

            fs::write(&file, stock).expect("a file");
        }

        fs::remove_file(folder.path().join("src/net/net_fake.go")).expect("removed");
        let error = Overlay::of(&toolchain, scratch.path())
            .map(drop)
            .expect_err("missing")
            .to_string();
        assert!(error.contains("net/net_fake.go"), "{error}");
    }

    #[test]
    fn patched_text_is_not_patched_again() {
        let folder = tempfile::tempdir().expect("folder");
        let scratch = tempfile::tempdir().expect("folder");
        let toolchain = copy(&installed(), folder.path());

        let patch = &PATCHES[0];
        let once = patch.apply(&toolchain).expect("applies");
        fs::write(folder.path().join("src").join(patch.file), once).expect("a file");
        Overlay::of(&toolchain, scratch.path())
            .map(drop)
            .expect_err("its anchor is gone");
    }
}
