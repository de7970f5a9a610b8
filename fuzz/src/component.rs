//! A file that is said to be a component, before anything of it is compiled. Looking at it ends, and takes memory in
//! proportion to the file; what passes exports a reconciler; what is called malformed is malformed.
//!
//! The input: the file.

use operetta_wasm::{Format, LoadError, check, inspect};
use wasmparser::{Validator, WasmFeatures};

/// Bytes of the largest file that is taken here.
const LIMIT: usize = 1 << 20;

/// See the module.
pub fn component(data: &[u8]) {
    let inspection = inspect(data);
    assert_eq!(inspection, inspect(data));
    assert_eq!(inspection.size, data.len());
    let names: usize = inspection.imports.iter().chain(&inspection.exports).map(|name| name.len() + 1).sum();
    assert!(names <= 2 * data.len(), "{names} bytes of names in {} bytes", data.len());
    let valid = Validator::new_with_features(WasmFeatures::all()).validate_all(data).is_ok();
    match check(data, LIMIT) {
        Ok(inspection) => {
            assert_eq!((inspection.format, &inspection.error), (Format::Component, &None));
            let reconciler = |name: &String| name.starts_with("operetta:controller/reconciler@0.1");
            assert!(inspection.exports.iter().any(reconciler), "{:?}", inspection.exports);
            let offered = operetta_wasm::offered();
            for import in &inspection.imports {
                assert!(
                    offered.iter().any(|offered| import.starts_with(offered.as_str())),
                    "{import:?} is not offered"
                );
            }
        }
        Err(error) => {
            assert!(!error.to_string().is_empty() && !error.reason().is_empty());
            match error {
                LoadError::TooLarge { .. } => assert!(data.len() > LIMIT),
                LoadError::CoreModule => assert_eq!(inspection.format, Format::CoreModule),
                LoadError::NotWasm { .. } => assert_eq!(inspection.format, Format::NotWasm),
                LoadError::InvalidComponent(why) => assert!(!valid, "the validator takes it: {why}"),
                // The last is what counting finds: too much of something, or sections that break off.
                LoadError::MissingExport { .. }
                | LoadError::MissingImport { .. }
                | LoadError::CompileFailed(_)
                | LoadError::UnsupportedVersion { .. } => {
                    assert_eq!(inspection.format, Format::Component);
                }
                other => panic!("nothing was compiled: {other}"),
            }
        }
    }
    // One byte less than it has is too little.
    if let Some(less) = data.len().checked_sub(1) {
        assert!(matches!(check(data, less), Err(LoadError::TooLarge { .. })));
    }
}
