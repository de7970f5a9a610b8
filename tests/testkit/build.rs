//! Generates `foreach_hostile!` and the texts of the hostile guests, so that a guest without a test
//! does not compile.

use std::{env, error::Error, fs, path::Path};

fn main() -> Result<(), Box<dyn Error>> {
    // Relative to the crate, so that another clone with the same files need not run this program.
    let folder = "../guests/hostile";
    println!("cargo::rerun-if-changed={folder}");

    let mut names = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if let (Some(name), Some("wat")) = (
            path.file_stem(),
            path.extension().and_then(|ending| ending.to_str()),
        ) {
            names.push(
                name.to_str()
                    .ok_or("a file name that is not UTF-8")?
                    .to_owned(),
            );
        }
    }

    names.sort();
    let calls: String = names.iter().map(|name| format!("$m!({name});\n")).collect();

    let text = |name: &String| {
        format!(
            "({name:?}, include_str!(concat!(env!(\"CARGO_MANIFEST_DIR\"), {:?}))),\n",
            format!("/{folder}/{name}.wat")
        )
    };
    let texts: String = names.iter().map(text).collect();

    let code = format!(
        "/// Calls `$m!(name)` for each hostile guest.\n\
         #[macro_export]\nmacro_rules! foreach_hostile {{ ($m:ident) => {{\n{calls}}} }}\n\n\
         /// The hostile guests: name and text.\npub const TEXTS: &[(&str, &str)] = &[\n{texts}];\n"
    );

    fs::write(Path::new(&env::var("OUT_DIR")?).join("hostile.rs"), code)?;
    Ok(())
}
