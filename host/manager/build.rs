//! Embeds the files of the page, plain and compressed.

use std::{
    collections::BTreeMap,
    env,
    error::Error,
    fs,
    io::Write as _,
    path::{Path, PathBuf},
};

use flate2::{Compression, write::GzEncoder};

fn main() -> Result<(), Box<dyn Error>> {
    let folder = PathBuf::from(env::var("CARGO_MANIFEST_DIR")?).join("../../page/dist");
    let out = PathBuf::from(env::var("OUT_DIR")?);
    // Relative, so that another clone with the same page need not run this program.
    println!("cargo::rerun-if-changed=../../page/dist");
    let manifest = fs::read_to_string(folder.join("manifest.json"))?;
    let manifest: BTreeMap<String, String> = serde_json::from_str(&manifest)?;
    let mut code = "const FILES: &[Asset] = &[\n".to_owned();
    for (name, file) in &manifest {
        let plain = folder.join(file).canonicalize()?;
        println!("cargo::rerun-if-changed=../../page/dist/{file}");
        let compressed = compress(&plain, &out.join(format!("{file}.gz")))?;
        code += &format!(
            "    Asset {{ name: {name:?}, file: {file:?}, plain: include_bytes!({plain:?}), gzip: include_bytes!({compressed:?}) }},\n"
        );
    }
    fs::write(out.join("page_assets.rs"), code + "];\n")?;
    Ok(())
}

fn compress(from: &Path, to: &Path) -> Result<PathBuf, Box<dyn Error>> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(&fs::read(from)?)?;
    fs::write(to, encoder.finish()?)?;
    Ok(to.to_owned())
}
