//! Merges a module's imports of the same function.
//!
//! Go imports a function once for each package that declares it, as both `runtime` and `syscall` do
//! with `fd_write`. The module of a component may not: the names in its type are unique
//! ([Explainer]).
//!
//! [Explainer]: https://github.com/WebAssembly/component-model/blob/main/design/mvp/Explainer.md

use std::{
    borrow::Cow,
    collections::{HashMap, HashSet},
    convert::Infallible,
};

use anyhow::{Context, Result, ensure};
use wasm_encoder::{
    ImportSection, Module, NameMap, NameSection,
    reencode::{Error, Reencode, utils},
};
use wasmparser::{ImportSectionReader, Name, Parser, Payload, TypeRef};

/// Returns the module with each function imported once.
///
/// # Errors
/// Returns an error if the module is malformed, or imports a function with two types.
pub fn merge(module: &[u8]) -> Result<Cow<'_, [u8]>> {
    let mut merge = Merge::of(module)?;
    if merge.removed == 0 {
        return Ok(module.into());
    }

    let mut merged = Module::new();
    merge
        .parse_core_module(&mut merged, Parser::new(0), module)
        .context("failed to rewrite the compiler's module")?;
    Ok(merged.finish().into())
}

/// Renumbers functions.
struct Merge {
    /// The new index of each imported function.
    imported: Vec<u32>,
    /// How many imports are left out.
    removed: u32,
}

impl Merge {
    fn of(module: &[u8]) -> Result<Self> {
        let mut merge = Self {
            imported: Vec::new(),
            removed: 0,
        };

        for payload in Parser::new(0).parse_all(module) {
            // The sections after the imports can be large.
            let section = match payload.context("the compiler's module is malformed")? {
                Payload::ImportSection(section) => section,
                Payload::FunctionSection(_) | Payload::CodeSectionStart { .. } => break,
                _ => continue,
            };

            let mut first: HashMap<(&str, &str), (u32, u32)> = HashMap::new();
            for import in section.into_imports() {
                let import = import.context("the module's imports are malformed")?;
                let TypeRef::Func(ty) = import.ty else {
                    continue;
                };

                let next = u32::try_from(first.len()).context("too many imports")?;
                let (index, first_ty) = *first
                    .entry((import.module, import.name))
                    .or_insert((next, ty));
                ensure!(
                    first_ty == ty,
                    "the module imports {:?} of {:?} with two types: correct one of the `//go:wasmimport` lines",
                    import.name,
                    import.module
                );
                merge.removed += u32::from(index != next);
                merge.imported.push(index);
            }
        }

        Ok(merge)
    }
}

impl Reencode for Merge {
    type Error = Infallible;

    fn function_index(&mut self, function: u32) -> Result<u32, Error<Infallible>> {
        let imported = usize::try_from(function)
            .ok()
            .and_then(|function| self.imported.get(function));
        Ok(imported.map_or_else(|| function.saturating_sub(self.removed), |index| *index))
    }

    fn parse_import_section(
        &mut self,
        imports: &mut ImportSection,
        section: ImportSectionReader<'_>,
    ) -> Result<(), Error<Infallible>> {
        let mut seen = HashSet::new();
        for import in section.into_imports() {
            let import = import?;
            let is_function = matches!(import.ty, TypeRef::Func(_));
            if !is_function || seen.insert((import.module, import.name)) {
                self.parse_import(imports, import)?;
            }
        }
        Ok(())
    }

    fn parse_custom_name_subsection(
        &mut self,
        names: &mut NameSection,
        section: Name<'_>,
    ) -> Result<(), Error<Infallible>> {
        let Name::Function(functions) = section else {
            return utils::parse_custom_name_subsection(self, names, section);
        };

        // A function has one name, and the indices ascend.
        let mut map = NameMap::new();
        let mut next = 0;
        for naming in functions {
            let naming = naming?;
            let index = self.function_index(naming.index)?;
            if index >= next {
                map.append(index, naming.name);
                next = index + 1;
            }
        }
        names.functions(&map);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Imports `write` twice, and refers to functions by calls, by a table, by an export and by
    /// names.
    const TWICE: &str = r#"(module
        (import "wasi" "write" (func $write (param i32)))
        (import "wasi" "exit" (func $exit (param i32)))
        (import "wasi" "write" (func $again (param i32)))
        (import "other" "write" (func $other (param i32)))
        (table 4 funcref)
        (elem (i32.const 0) $again $other $main)
        (func $main (export "main")
            (call $write (i32.const 1)) (call $again (i32.const 2)) (call $other (i32.const 3))
            (call $last))
        (func $last (call $exit (i32.const 4))))"#;

    const ONCE: &str = r#"(module
        (import "wasi" "write" (func $write (param i32)))
        (import "wasi" "exit" (func $exit (param i32)))
        (import "other" "write" (func $other (param i32)))
        (table 4 funcref)
        (elem (i32.const 0) $write $other $main)
        (func $main (export "main")
            (call $write (i32.const 1)) (call $write (i32.const 2)) (call $other (i32.const 3))
            (call $last))
        (func $last (call $exit (i32.const 4))))"#;

    #[test]
    fn function_imported_twice_is_imported_once_wherever_it_is_used() {
        let twice = wat::parse_str(TWICE).expect("a module");
        let once = wat::parse_str(ONCE).expect("a module");

        let merged = merge(&twice).expect("merged");
        wasmparser::validate(&merged).expect("a valid module");
        assert_eq!(*merged, *once);

        assert!(matches!(merge(&once).expect("as it is"), Cow::Borrowed(same) if same == once));
    }

    #[test]
    fn import_with_two_types_is_refused() {
        let text = TWICE.replace("(func $again (param i32))", "(func $again (param i64))");
        let module = wat::parse_str(text).expect("a module");
        let error = merge(&module).expect_err("two types").to_string();
        assert!(
            error.contains("\"write\" of \"wasi\" with two types"),
            "{error}"
        );
    }
}
