//! The image: assembled by scripts/image from the programs under test as `make image` assembles it
//! from the release binaries, or the layout that OPERETTA_IMAGE names.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use operetta_testkit::tool_path;
use serde_json::Value;

use crate::render::REPOSITORY;

/// An OCI image layout.
pub struct Image {
    folder: PathBuf,
}

impl Image {
    /// Returns the layout that OPERETTA_IMAGE names, or assembles one in a folder unless it is
    /// there.
    pub fn get(folder: &Path) -> Self {
        if let Some(layout) = std::env::var_os("OPERETTA_IMAGE") {
            return Self {
                folder: Path::new(REPOSITORY).join(layout),
            };
        }

        let image = Self {
            folder: folder.join("image"),
        };
        if image.folder.exists() {
            return image;
        }

        let mut build = Command::new(tool_path("oci-image"));
        build.args([
            "build",
            "-development",
            "-version",
            env!("CARGO_PKG_VERSION"),
            "-output",
        ]);

        let output = build
            .arg(&image.folder)
            .args(operetta_testkit::program("operetta-host").parent())
            .output()
            .expect("oci-image runs");
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );

        image
    }

    /// Writes the root file system as a tar archive, unless it is there.
    pub fn export(&self, archive: &Path) {
        if archive.exists() {
            return;
        }

        let file = fs::File::create(archive).expect("a file");
        let mut export = Command::new(tool_path("oci-image"));
        let status = export
            .arg("export")
            .arg(&self.folder)
            .stdout(file)
            .status()
            .expect("oci-image runs");
        assert!(status.success(), "{}", self.folder.display());
    }

    /// Returns the configuration of a container of the image for this machine's architecture.
    pub fn config(&self) -> Value {
        let index = &self.json("index.json")["manifests"][0];
        let index = self.blob(index);
        let architecture = match std::env::consts::ARCH {
            "x86_64" => "amd64",
            "aarch64" => "arm64",
            other => panic!("no image for {other}"),
        };

        let mut manifests = index["manifests"].as_array().expect("manifests").iter();
        let manifest =
            manifests.find(|manifest| manifest["platform"]["architecture"] == architecture);
        let manifest = self.blob(manifest.unwrap_or_else(|| panic!("no image for {architecture}")));
        self.blob(&manifest["config"])["config"].clone()
    }

    /// Reads the JSON that a descriptor refers to.
    fn blob(&self, descriptor: &Value) -> Value {
        let digest = descriptor["digest"].as_str().expect("a digest");
        self.json(&format!("blobs/{}", digest.replace(':', "/")))
    }

    fn json(&self, path: &str) -> Value {
        let path = self.folder.join(path);
        let text =
            fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        serde_json::from_str(&text).expect("JSON")
    }
}
