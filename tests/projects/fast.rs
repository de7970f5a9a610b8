//! `operetta build` and `operetta bundle` compress a component once; with `--fast` nothing compiles
//! it.

use std::{fs, path::Path, process::Command};

use crate::{repository, succeeded};

/// The names in a folder of the cache; none if there is no folder.
fn entries(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten();
    entries
        .map(|entry| {
            entry
                .expect("an entry")
                .file_name()
                .to_string_lossy()
                .into_owned()
        })
        .collect()
}

#[test]
fn fast_build_is_not_compiled_and_is_compressed_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let cache = folder.path().join("cache");

    let run = |args: &[&str]| {
        let mut command = Command::new(operetta_testkit::program("operetta"));
        command
            .args(args)
            .current_dir(folder.path())
            .env("XDG_CACHE_HOME", &cache);
        command.env("OPERETTA_TOOLS", repository().join("target/tools"));
        succeeded(&args.join(" "), &command.output().expect("starts"))
    };

    run(&["new", "fast", "--lang", "c", "--group", "new.example.com"]);
    let said = run(&["build", "fast", "--fast"]);
    assert!(
        said.contains("check") && said.contains("not compiled (--fast)"),
        "{said}"
    );

    assert_eq!(entries(&cache.join("operetta/compiled")), [""; 0]);
    let compressed = entries(&cache.join("operetta/compressed"));
    let [one] = compressed.as_slice() else {
        panic!("one file: {compressed:?}")
    };

    // The bundle has the bytes that the build has compressed, even if another level has written
    // them since.
    let file = cache.join("operetta/compressed").join(one);
    let component = fs::read(folder.path().join("fast/build/fast.wasm")).expect("the component");
    let other = zstd::encode_all(component.as_slice(), 19).expect("compressed");
    assert_ne!(fs::read(&file).expect("compressed"), other);
    fs::write(&file, &other).expect("written");

    let bundle = ["bundle", "--fast", "fast/build/fast.wasm"];
    let map: serde_json::Value = serde_yaml_ng::from_str(&run(&bundle)).expect("YAML");
    let stored = map["binaryData"]["fast.wasm.zst"]
        .as_str()
        .expect("the component")
        .to_owned();
    assert_eq!(
        stored,
        serde_json::to_value(k8s_openapi::ByteString(other)).expect("base64")
    );
    assert_eq!(entries(&cache.join("operetta/compressed")), compressed);

    // Without the flag the component is compiled, and compressed at the other level.
    run(&["build", "fast"]);
    assert_eq!(entries(&cache.join("operetta/compiled")).len(), 1);
    assert_eq!(entries(&cache.join("operetta/compressed")).len(), 2);
}
