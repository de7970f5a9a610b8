//! The objects in a project's folder: the kind, the plugin's rights and a sample.

use std::{
    fs,
    io::ErrorKind,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail};
use operetta_apiserver::apimachinery::yaml;
use serde_json::Value;

/// The files in the order in which they are applied.
pub const FILES: [&str; 3] = ["crd.yaml", "rbac.yaml", SAMPLE];
/// The file of the sample object, which `r` creates anew.
pub const SAMPLE: &str = "object.yaml";
const SERVICE_ACCOUNT: &str = "ServiceAccount";

/// The objects of a project.
pub struct Manifests {
    folder: PathBuf,
    /// The namespace of the session.
    pub namespace: String,
    objects: Vec<(&'static str, Value)>,
}

impl Manifests {
    /// Reads the files that exist.
    ///
    /// # Errors
    /// Returns an error that names the file, if one is not YAML or contains something that is no
    /// object.
    pub fn read(folder: &Path, namespace: &str) -> Result<Self> {
        let mut found = Self {
            folder: folder.to_owned(),
            namespace: namespace.to_owned(),
            objects: Vec::new(),
        };

        for file in FILES {
            found.reload(file)?;
        }

        Ok(found)
    }

    /// Reads a file again.
    ///
    /// # Errors
    /// As [`Manifests::read`]; the objects stay as they were.
    pub fn reload(&mut self, file: &'static str) -> Result<()> {
        let read = read_objects(&self.folder.join(file))?;
        self.objects.retain(|(from, _)| *from != file);
        self.objects
            .extend(read.into_iter().map(|object| (file, object)));
        Ok(())
    }

    /// Returns the folder of the files.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns the objects of a file. Those without a namespace get that of the session; the API
    /// server ignores it for objects of the whole cluster.
    pub fn of(&self, file: &str) -> Vec<Value> {
        let objects = self.objects.iter().filter(|(from, _)| *from == file);
        objects.map(|(_, object)| self.placed(object)).collect()
    }

    fn placed(&self, object: &Value) -> Value {
        let mut object = object.clone();
        let namespace = &mut object["metadata"]["namespace"];
        if namespace.is_null() {
            *namespace = self.namespace.as_str().into();
        }

        object
    }

    /// Returns the name of the plugin's ServiceAccount.
    ///
    /// # Errors
    /// Returns an error if no file has one.
    pub fn service_account(&self) -> Result<String> {
        let account = self
            .objects
            .iter()
            .find(|(_, object)| object["kind"] == SERVICE_ACCOUNT);

        match account.and_then(|(_, object)| object["metadata"]["name"].as_str()) {
            Some(name) => Ok(name.to_owned()),
            None => bail!(
                "{} has no ServiceAccount: write one with `operetta generate rbac build/NAME.wasm`",
                self.folder.join("rbac.yaml").display()
            ),
        }
    }
}

/// Reads the objects of a file; none if it does not exist.
///
/// # Errors
/// Returns an error that names the file, if it is not YAML or contains something that is no object.
pub fn read_objects(path: &Path) -> Result<Vec<Value>> {
    let text = match fs::read_to_string(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        read => read.with_context(|| format!("failed to read {}", path.display()))?,
    };

    objects_in(&text, &path.display().to_string())
}

/// Reads the objects of a text; `name` is that of its file.
///
/// # Errors
/// As [`read_objects`].
pub fn objects_in(text: &str, name: &str) -> Result<Vec<Value>> {
    let mut objects = Vec::new();
    for document in documents(text) {
        let object = object(&document).with_context(|| format!("{name} is not YAML"))?;
        if object.is_null() {
            continue;
        }

        if !["apiVersion", "kind"]
            .iter()
            .all(|field| object[*field].is_string())
            || !object["metadata"]["name"].is_string()
        {
            bail!("{name} has a document without apiVersion, kind or metadata.name");
        }

        objects.push(object);
    }

    Ok(objects)
}

/// Splits a file at the lines that separate documents, as kubectl does.
fn documents(text: &str) -> Vec<String> {
    let is_separator = |line: &&str| {
        let rest = line.strip_prefix("---").map(str::trim);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('#'))
    };
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let documents = lines.split(is_separator);
    documents.map(<[&str]>::concat).collect()
}

/// Reads a document as `kubectl apply` does, which knows YAML 1.1: `yes` is a boolean and `0755` is
/// 493.
fn object(document: &str) -> Result<Value> {
    let converted = yaml::to_json(document.as_bytes())?;
    match converted.strict_error() {
        Some(duplicates) => bail!(duplicates),
        None => Ok(serde_json::from_slice(&converted.json)?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(file: &str, text: &str) -> tempfile::TempDir {
        let folder = tempfile::tempdir().expect("a folder");
        fs::write(folder.path().join(file), text).expect("written");
        folder
    }

    #[test]
    fn objects_without_namespace_get_that_of_the_session() {
        let text = "apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: p}\n---\n---\napiVersion: v1\nkind: X\nmetadata: {name: other, namespace: z}\n";
        let folder = folder("rbac.yaml", text);
        let manifests = Manifests::read(folder.path(), "dev").expect("read");
        let namespaces: Vec<_> = manifests
            .of("rbac.yaml")
            .iter()
            .map(|object| object["metadata"]["namespace"].clone())
            .collect();

        assert_eq!(namespaces, ["dev", "z"]);
        assert_eq!(manifests.service_account().expect("an account"), "p");
        assert!(manifests.of("crd.yaml").is_empty());
    }

    #[test]
    fn files_are_read_as_kubectl_reads_them() {
        let text = "apiVersion: v1\nkind: X\nmetadata: {name: x}\nspec: {enabled: yes, mode: 0755, n: on, text: 'no'}\n--- # more\n";
        let folder = folder("object.yaml", text);
        let manifests = Manifests::read(folder.path(), "dev").expect("read");
        let object = &manifests.of("object.yaml")[0];
        let expected =
            serde_json::json!({"enabled": true, "mode": 493, "false": true, "text": "no"});
        assert_eq!(object["spec"], expected);
    }

    #[test]
    fn unusable_file_is_named() {
        for (text, expected) in [
            ("{", "object.yaml is not YAML"),
            (
                "apiVersion: v1\nkind: X\nkind: Y\n",
                "key \"kind\" already set",
            ),
            (
                "a: 1\n",
                "object.yaml has a document without apiVersion, kind or metadata.name",
            ),
        ] {
            let folder = folder("object.yaml", text);
            let error = Manifests::read(folder.path(), "dev")
                .err()
                .expect("refused");
            assert!(format!("{error:#}").contains(expected), "{error:#}");
        }
    }

    #[test]
    fn project_without_account_is_told_how_to_get_one() {
        let folder = folder("object.yaml", "");
        let manifests = Manifests::read(folder.path(), "dev").expect("read");
        let error = manifests
            .service_account()
            .expect_err("no account")
            .to_string();
        assert!(
            error.contains(
                "rbac.yaml has no ServiceAccount: write one with `operetta generate rbac"
            ),
            "{error}"
        );
    }
}
