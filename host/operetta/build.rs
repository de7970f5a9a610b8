//! Puts into the program what `operetta new` writes: the SDKs of plugins/ and the templates beside this file.
//!
//! Of an SDK goes what an author's project needs to build: no tests, no conformance plugin, nothing that tools made.

use std::{
    env, fs, io,
    path::{Path, PathBuf},
};

/// Folders of an SDK that stay here.
const LEFT_OUT: &[&str] =
    &["conformance", "test", "tests", "node_modules", "target", "build", "dist", "venv", "__pycache__"];

/// Folders that tools fill: to look for changes in them would take long and find many.
const LARGE: &[&str] = &["node_modules", "target", ".venv", "venv", "build", "dist", "__pycache__"];

fn main() -> io::Result<()> {
    let here = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it"));
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
    let plugins = here.join("../../plugins").canonicalize()?;
    let mut code = String::new();

    code += "/// The SDKs: language, and files by their path in the SDK's folder.\npub static SDKS: &[Folder] = &[\n";
    for language in ["rust", "go", "js", "python", "c"] {
        let folder = plugins.join(format!("sdk-{language}"));
        if folder.is_dir() {
            code += &listing(language, &folder, &|name| LEFT_OUT.contains(&name) || name.starts_with('.'))?;
        }
    }
    code += "];\n\n/// The templates: language, and files by their path in the project.\npub static TEMPLATES: &[Folder] = &[\n";
    let mut templates: Vec<_> = fs::read_dir(here.join("templates"))?.collect::<io::Result<_>>()?;
    templates.sort_by_key(fs::DirEntry::file_name);
    println!("cargo::rerun-if-changed={}", here.join("templates").display());
    for folder in templates {
        code += &listing(&folder.file_name().to_string_lossy(), &folder.path(), &|_| false)?;
    }
    code += "];\n";
    fs::write(out.join("files.rs"), code)
}

/// One folder's files as Rust; the compiler itself reads them.
fn listing(name: &str, folder: &Path, left_out: &dyn Fn(&str) -> bool) -> io::Result<String> {
    let mut files = Vec::new();
    find(folder, left_out, &mut files)?;
    files.sort();
    let mut code = format!("    ({name:?}, &[\n");
    for file in files {
        let inner = file.strip_prefix(folder).map_err(io::Error::other)?;
        code += &format!(
            "        ({:?}, include_bytes!({:?})),\n",
            inner.display().to_string(),
            file.display().to_string()
        );
    }
    Ok(code + "    ]),\n")
}

fn find(folder: &Path, left_out: &dyn Fn(&str) -> bool, files: &mut Vec<PathBuf>) -> io::Result<()> {
    let entries: Vec<_> = fs::read_dir(folder)?.collect::<io::Result<_>>()?;
    for entry in entries {
        let (path, name) = (entry.path(), entry.file_name().to_string_lossy().into_owned());
        let made = [".wasm", ".pyc", ".egg-info", "_test.go"].iter().any(|ending| name.ends_with(ending));
        if left_out(&name) || made {
            continue;
        }
        if entry.file_type()?.is_dir() {
            find(&path, left_out, files)?;
        } else {
            files.push(path);
        }
    }
    // Cargo looks through a folder as a whole: so only through those that tools do not fill.
    if !LARGE.iter().any(|name| folder.join(name).exists()) {
        println!("cargo::rerun-if-changed={}", folder.display());
    }
    Ok(())
}
