//! A file that claims to be a component, before it is compiled. Inspecting it terminates, and takes
//! memory in proportion to the file. A component that passes the check exports a reconciler. A file
//! is only called malformed if it is.
//!
//! The input: the file.

use operetta_wasm::{Format, LoadError, LoadLimits, check, inspect};
use wasmparser::{Validator, WasmFeatures};

/// The size limit of a component, in bytes.
const LIMIT: usize = 1 << 20;

/// Checks the module's invariants on one input.
pub fn component(data: &[u8]) {
    let inspection = inspect(data);
    assert_eq!(inspection, inspect(data));
    assert_eq!(inspection.size, data.len());
    let names: usize = inspection
        .imports
        .iter()
        .chain(&inspection.exports)
        .map(|name| name.len() + 1)
        .sum();
    assert!(
        names <= 2 * data.len(),
        "{names} bytes of names in {} bytes",
        data.len()
    );
    let valid = Validator::new_with_features(WasmFeatures::all())
        .validate_all(data)
        .is_ok();
    match check(data, &limits(LIMIT)) {
        Ok(inspection) => {
            assert_eq!(
                (inspection.format, &inspection.error),
                (Format::Component, &None)
            );
            let reconciler = |name: &String| name.starts_with("operetta:controller/reconciler@0.1");
            assert!(
                inspection.exports.iter().any(reconciler),
                "{:?}",
                inspection.exports
            );
            let offered = operetta_wasm::offered();
            for import in &inspection.imports {
                assert!(
                    offered
                        .iter()
                        .any(|offered| import.starts_with(offered.as_str())),
                    "{import:?} is not offered by the host"
                );
            }
        }
        Err(error) => {
            assert!(!error.to_string().is_empty() && !error.reason().as_str().is_empty());
            match error {
                LoadError::TooLarge { .. } => assert!(data.len() > LIMIT),
                LoadError::CoreModule => assert_eq!(inspection.format, Format::CoreModule),
                LoadError::NotWasm { .. } => assert_eq!(inspection.format, Format::NotWasm),
                LoadError::InvalidComponent(why) => {
                    assert!(!valid, "the validator accepts it: {why}");
                }
                // Before compiling, `CompileFailed` comes from the compile-cost check: a cost is
                // too high, or a section is truncated.
                LoadError::MissingExport { .. }
                | LoadError::MissingImport { .. }
                | LoadError::CompileFailed(_)
                | LoadError::UnsupportedVersion { .. } => {
                    assert_eq!(inspection.format, Format::Component);
                }
                other => panic!("unexpected error before compilation: {other}"),
            }
        }
    }
    // A limit of one byte less than the file refuses it.
    if let Some(less) = data.len().checked_sub(1) {
        assert!(matches!(
            check(data, &limits(less)),
            Err(LoadError::TooLarge { .. })
        ));
    }
}

/// Limits that allow a component of this size, whatever it is.
fn limits(bytes: usize) -> LoadLimits {
    LoadLimits {
        max_wasm_bytes: bytes,
        max_process_bytes: bytes,
        ..LoadLimits::default()
    }
}
