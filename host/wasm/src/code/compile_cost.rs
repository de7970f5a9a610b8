//! The compile-cost check, which bounds the code that a component generates by nesting.
//!
//! An instance of a component repeats everything in it at compile time. Forty components that each
//! instantiate the previous one twice have two kilobytes, and compile to more than any machine can
//! hold. Instances are therefore counted before compilation. So are the bytes of modules: each
//! instance of a module writes its data and its elements, and the epoch does not interrupt that. A
//! component is refused if the definition of an instantiated component or module is unknown,
//! because it comes from an import or an instance. No toolchain emits such components.

use wasmparser::{
    ComponentAlias, ComponentExternalKind, ComponentInstance, ComponentInstanceSectionReader,
    ComponentOuterAliasKind, ComponentTypeRef, Encoding, Instance, InstanceSectionReader, Parser,
    Payload,
};

/// The maximum cost: the number of instances plus the KiB of their modules, with all repetitions.
/// The largest plugins seen cost 34,000, nearly all of it one module.
const MAX_COST: u64 = 100_000;

/// The reason why a component is not compiled.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum CompileCostError {
    /// The component is malformed.
    #[error("{0}")]
    Malformed(String),
    /// The cost exceeds the maximum.
    #[error(
        "its instances cost more than {MAX_COST}: each counts one, and one for each KiB of its module"
    )]
    TooHeavy,
    /// The definition of an instantiated component or module is unknown.
    #[error(
        "it takes components or modules from an import or an instance: they can only be used where they are defined"
    )]
    Unknown,
}

impl From<wasmparser::BinaryReaderError> for CompileCostError {
    fn from(error: wasmparser::BinaryReaderError) -> Self {
        Self::Malformed(error.to_string())
    }
}

/// A component that the parser is inside of.
struct Inside {
    /// The cost so far; never more than `MAX_COST`, or the component is refused.
    cost: u64,
    /// The cost of the exports so far.
    exports: u64,
    /// The size of each of its modules in KiB, by index.
    modules: Vec<u64>,
    /// True if it is nested in another component.
    nested: bool,
}

/// The maximum costs so far, of the whole file. They stand for any index or alias, which is not
/// resolved.
#[derive(Default)]
struct Maxima {
    /// The cost of a component.
    component: u64,
    /// The cost of a component's exports.
    exports: u64,
    /// The cost of an instance's contents, which can be taken out of it.
    instance: u64,
    /// The size of a module in KiB.
    module: u64,
}

/// Checks that the compile cost of a component is within the limit.
///
/// # Errors
/// Returns a [`CompileCostError`] if the component is malformed, costs too much, or its cost is
/// unknown.
pub(crate) fn check(component: &[u8]) -> Result<(), CompileCostError> {
    // None for a module.
    let mut inside: Vec<Option<Inside>> = Vec::new();
    let mut maxima = Maxima {
        component: 1,
        exports: 1,
        instance: 1,
        module: 0,
    };
    for payload in Parser::new(0).parse_all(component) {
        match payload? {
            Payload::Version { encoding, .. } => {
                let entered = Inside {
                    cost: 1,
                    exports: 1,
                    modules: Vec::new(),
                    nested: !inside.is_empty(),
                };
                inside.push((encoding == Encoding::Component).then_some(entered));
            }
            Payload::End(_) => {
                if let Some(left) = inside.pop().flatten() {
                    maxima.component = maxima.component.max(left.cost);
                    maxima.exports = maxima.exports.max(left.exports);
                }
            }
            payload => {
                if let Some(Some(inside)) = inside.last_mut() {
                    inside.add_payload(payload, &mut maxima)?;
                }
            }
        }
    }
    Ok(())
}

impl Inside {
    /// Adds the cost of a part of the component.
    fn add_payload(
        &mut self,
        payload: Payload<'_>,
        maxima: &mut Maxima,
    ) -> Result<(), CompileCostError> {
        use ComponentExternalKind::{Component, Module};
        match payload {
            Payload::ModuleSection {
                unchecked_range, ..
            } => {
                let module = unchecked_range.len() as u64 / 1024;
                maxima.module = maxima.module.max(module);
                self.modules.push(module);
            }
            Payload::InstanceSection(section) => self.core_instances(section)?,
            Payload::ComponentInstanceSection(section) => {
                self.component_instances(section, maxima)?;
            }
            Payload::ComponentExportSection(section) => {
                for export in section {
                    let cost = sum([export?.kind], maxima.instance);
                    self.add(cost)?;
                    self.exports = self.exports.saturating_add(cost);
                }
            }
            Payload::ComponentImportSection(section) if self.nested => {
                for import in section {
                    if let ComponentTypeRef::Component(_) | ComponentTypeRef::Module(_) = import?.ty
                    {
                        return Err(CompileCostError::Unknown);
                    }
                }
            }
            Payload::ComponentAliasSection(section) => {
                for alias in section {
                    match alias? {
                        ComponentAlias::InstanceExport {
                            kind: Component | Module,
                            ..
                        } => {
                            return Err(CompileCostError::Unknown);
                        }
                        ComponentAlias::Outer {
                            kind: ComponentOuterAliasKind::CoreModule,
                            ..
                        } => {
                            self.modules.push(maxima.module);
                        }
                        _ => {}
                    }
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn core_instances(
        &mut self,
        section: InstanceSectionReader<'_>,
    ) -> Result<(), CompileCostError> {
        for instance in section {
            self.add(match instance? {
                Instance::Instantiate { module_index, args } => {
                    let module = self
                        .modules
                        .get(module_index as usize)
                        .ok_or(CompileCostError::Unknown)?;
                    1 + module + args.len() as u64
                }
                Instance::FromExports(exports) => 1 + exports.len() as u64,
            })?;
        }
        Ok(())
    }

    fn component_instances(
        &mut self,
        section: ComponentInstanceSectionReader<'_>,
        maxima: &mut Maxima,
    ) -> Result<(), CompileCostError> {
        for instance in section {
            let contents = match instance? {
                ComponentInstance::Instantiate { args, .. } => {
                    let args = sum(args.iter().map(|arg| arg.kind), maxima.instance);
                    self.add(maxima.component.saturating_add(args))?;
                    maxima.exports
                }
                ComponentInstance::FromExports(exports) => {
                    let cost = sum(exports.iter().map(|export| export.kind), maxima.instance)
                        .saturating_add(1);
                    self.add(cost)?;
                    cost
                }
            };
            maxima.instance = maxima.instance.max(contents);
        }
        Ok(())
    }

    fn add(&mut self, cost: u64) -> Result<(), CompileCostError> {
        self.cost = self.cost.saturating_add(cost);
        if self.cost > MAX_COST {
            Err(CompileCostError::TooHeavy)
        } else {
            Ok(())
        }
    }
}

/// Returns the cost of items of these kinds. An instance costs as much as its contents, everything
/// else 1.
fn sum(kinds: impl IntoIterator<Item = ComponentExternalKind>, instance_cost: u64) -> u64 {
    let cost = |kind| {
        if kind == ComponentExternalKind::Instance {
            instance_cost
        } else {
            1
        }
    };
    kinds.into_iter().map(cost).fold(0, u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(text: &str) -> Result<(), CompileCostError> {
        check(&wat::parse_str(text).expect("text"))
    }

    /// Returns a component of nested ones, each of which instantiates the previous one twice.
    fn doubling(levels: usize) -> String {
        let level = |n: usize| {
            format!(
                "(component $c{} (alias outer 1 $c{n} (component $c)) (instance (instantiate $c)) (instance (instantiate $c)))",
                n + 1
            )
        };
        format!(
            "(component (component $c0) {})",
            (0..levels).map(level).collect::<String>()
        )
    }

    #[test]
    fn refuses_exponential_nesting_only() {
        assert_eq!(checked(&doubling(10)), Ok(()));
        assert_eq!(checked(&doubling(20)), Err(CompileCostError::TooHeavy));
        assert_eq!(
            checked(&doubling(200)),
            Err(CompileCostError::TooHeavy),
            "no overflow"
        );
    }

    #[test]
    fn modules_count_per_instantiation() {
        let text = |instances: usize, from: &str| {
            let module = format!(
                "(core module $m (memory 40) (data \"{}\"))",
                "0123456789".repeat(200_000)
            );
            let instances = "(core instance (instantiate $m))".repeat(instances);
            format!(
                "(component {module} {from} {instances} {})",
                if from.is_empty() { "" } else { ")" }
            )
        };
        let within = "(component (alias outer 1 $m (core module $m))";
        for from in ["", within] {
            assert_eq!(checked(&text(40, from)), Ok(()), "80 MB");
            assert_eq!(
                checked(&text(60, from)),
                Err(CompileCostError::TooHeavy),
                "120 MB"
            );
        }
    }

    #[test]
    fn refuses_nested_use_of_imported_components_and_modules() {
        let import = r#"(import "c" (component $c)) (instance (instantiate $c))"#;
        assert_eq!(
            checked(&format!("(component (component {import}))")),
            Err(CompileCostError::Unknown)
        );
        let alias = r#"(import "i" (instance $i (export "c" (component)))) (alias export $i "c" (component $c))"#;
        let module = r#"(import "m" (core module $m)) (core instance (instantiate $m))"#;
        for given in [alias, module] {
            assert_eq!(
                checked(&format!("(component (component {given}))")),
                Err(CompileCostError::Unknown)
            );
        }
    }
}
