//! Embeds the files of the page, plain and compressed.

use std::{collections::BTreeMap, env, error::Error, fs, io::Write as _, path::Path};

use flate2::{Compression, write::GzEncoder};

fn main() -> Result<(), Box<dyn Error>> {
    // Relative to the crate, so that another clone with the same page need not run this program.
    let folder = "../../page/dist";
    println!("cargo::rerun-if-changed={folder}");
    let out = env::var("OUT_DIR")?;

    let manifest = fs::read_to_string(Path::new(folder).join("manifest.json"))?;
    let manifest: BTreeMap<String, String> = serde_json::from_str(&manifest)?;
    let mut code = "const FILES: &[Asset] = &[\n".to_owned();
    for (name, file) in &manifest {
        let plain = format!("{folder}/{file}");
        println!("cargo::rerun-if-changed={plain}");
        compress(
            Path::new(&plain),
            &Path::new(&out).join(format!("{file}.gz")),
        )?;
        code += &format!(
            "    Asset {{ name: {name:?}, file: {file:?}, \
                plain: include_bytes!(concat!(env!(\"CARGO_MANIFEST_DIR\"), \"/{plain}\")), \
                gzip: include_bytes!(concat!(env!(\"OUT_DIR\"), \"/{file}.gz\")) }},\n"
        );
    }
    fs::write(Path::new(&out).join("page_assets.rs"), code + "];\n")?;
    Ok(())
}

fn compress(from: &Path, to: &Path) -> Result<(), Box<dyn Error>> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(&fs::read(from)?)?;
    fs::write(to, encoder.finish()?)?;
    Ok(())
}
