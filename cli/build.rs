//! Embeds in the program what `operetta new` writes, the SDKs in plugins/ and the templates beside
//! this file, and what `operetta install` applies, the manifests in deploy/.
//!
//! Of an SDK, only what an author's project needs to build is embedded: no tests, no conformance
//! plugin, nothing that tools have generated.

use std::{
    env, fs, io,
    path::{Path, PathBuf},
};

/// Folders of an SDK that are left out, as its Go tests are.
const LEFT_OUT: &[&str] = &[
    "conformance",
    "test",
    "tests",
    "node_modules",
    "target",
    "build",
    "dist",
    "venv",
    "__pycache__",
];

/// Folders that tools fill: looking for changes in them would take long and find many.
const LARGE: &[&str] = &[
    "node_modules",
    "target",
    ".venv",
    "venv",
    "build",
    "dist",
    "__pycache__",
];

fn main() -> io::Result<()> {
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
    // All other paths are relative to the package: another clone with the same files need neither
    // run this program again nor find what it wrote for this one.
    let plugins = Path::new("../plugins");
    let mut code = String::new();

    code += "/// The SDKs: language, and files by their path in the SDK's folder.\npub static SDKS: &[Folder] = &[\n";
    for language in ["rust", "go", "js", "python", "c"] {
        let folder = plugins.join(format!("sdk-{language}"));
        if folder.is_dir() {
            let left_out = |name: &str| {
                LEFT_OUT.contains(&name) || name.starts_with('.') || name.ends_with("_test.go")
            };

            let mut files = files(&folder, &left_out)?;
            if language == "rust" {
                add_api(&mut files, Path::new("../host/api"), &out, &left_out)?;
            }

            code += &listing(language, &files);
        }
    }

    code += "];\n\n/// The templates: language, and files by their path in the project.\npub static TEMPLATES: &[Folder] = &[\n";
    let mut templates: Vec<_> = fs::read_dir("templates")?.collect::<io::Result<_>>()?;
    templates.sort_by_key(fs::DirEntry::file_name);
    println!("cargo::rerun-if-changed=templates");

    for folder in templates {
        code += &listing(
            &folder.file_name().to_string_lossy(),
            &files(&folder.path(), &|_| false)?,
        );
    }
    code += "];\n";

    fs::write(out.join("files.rs"), code)?;
    fs::write(out.join("deploy.rs"), manifests(Path::new("../deploy"))?)
}

/// The manifests in deploy/ as Rust: paths and texts.
fn manifests(deploy: &Path) -> io::Result<String> {
    let mut code =
        "/// The manifests: paths in deploy/, and texts.\npub static DEPLOY: &[(&str, &str)] = &[\n".to_owned();

    for folder in ["base", "components", "crd", "rbac"] {
        for (inner, file) in files(&deploy.join(folder), &|_| false)? {
            let name = Path::new(folder).join(inner);
            code += &format!(
                "    ({:?}, include_str!({})),\n",
                name.display().to_string(),
                path(&file)
            );
        }
    }

    Ok(code + "];\n")
}

/// A file by its path in the project, and its path here.
type File = (PathBuf, PathBuf);

/// Adds operetta-api to the files of the Rust SDK, in its folder `api`, and makes the SDK's
/// Cargo.toml depend on it.
fn add_api(
    files: &mut Vec<File>,
    api: &Path,
    out: &Path,
    left_out: &dyn Fn(&str) -> bool,
) -> io::Result<()> {
    const PATH: &str = "path = \"../../host/api\"";

    let manifest = files
        .iter_mut()
        .find(|(inner, _)| inner.as_path() == Path::new("Cargo.toml"));
    let (_, manifest) =
        manifest.ok_or_else(|| io::Error::other("plugins/sdk-rust has no Cargo.toml"))?;

    let text = fs::read_to_string(&*manifest)?;

    if !text.contains(PATH) {
        return Err(io::Error::other(format!(
            "plugins/sdk-rust/Cargo.toml has no {PATH}"
        )));
    }

    *manifest = out.join("sdk-rust-Cargo.toml");
    fs::write(&*manifest, text.replace(PATH, "path = \"api\""))?;

    files.extend(
        self::files(api, left_out)?
            .into_iter()
            .map(|(inner, file)| (Path::new("api").join(inner), file)),
    );

    Ok(())
}

fn files(folder: &Path, left_out: &dyn Fn(&str) -> bool) -> io::Result<Vec<File>> {
    let mut found = Vec::new();
    find(folder, left_out, &mut found)?;
    found.sort();

    let inner = |file: PathBuf| {
        Ok((
            file.strip_prefix(folder)
                .map_err(io::Error::other)?
                .to_owned(),
            file,
        ))
    };
    found.into_iter().map(inner).collect()
}

/// The files of one folder as Rust; the compiler itself reads them.
fn listing(name: &str, files: &[File]) -> String {
    let mut code = format!("    ({name:?}, &[\n");

    for (inner, file) in files {
        code += &format!(
            "        ({:?}, include_bytes!({})),\n",
            inner.display().to_string(),
            path(file)
        );
    }

    code + "    ]),\n"
}

/// The path of a file as Rust: the compiler notices when the package or `OUT_DIR` has moved.
fn path(file: &Path) -> String {
    let (variable, inner) = match file.file_name() {
        Some(name) if file.is_absolute() => ("OUT_DIR", Path::new(name)),
        _ => ("CARGO_MANIFEST_DIR", file),
    };
    format!(
        "concat!(env!({variable:?}), {:?})",
        format!("/{}", inner.display())
    )
}

fn find(
    folder: &Path,
    left_out: &dyn Fn(&str) -> bool,
    files: &mut Vec<PathBuf>,
) -> io::Result<()> {
    let entries: Vec<_> = fs::read_dir(folder)?.collect::<io::Result<_>>()?;

    for entry in entries {
        let path = entry.path();
        let name = entry.file_name().to_string_lossy().into_owned();
        let made = [".wasm", ".pyc", ".egg-info"]
            .iter()
            .any(|ending| name.ends_with(ending));

        if left_out(&name) || made {
            continue;
        }

        if entry.file_type()?.is_dir() {
            find(&path, left_out, files)?;
        } else {
            files.push(path);
        }
    }

    // Cargo looks through whole folders, so watch only those that tools do not fill.
    if !LARGE.iter().any(|name| folder.join(name).exists()) {
        println!("cargo::rerun-if-changed={}", folder.display());
    }
    Ok(())
}
