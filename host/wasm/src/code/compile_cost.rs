//! The compile-cost check: bounds how much code a component makes of itself by nesting.
//!
//! To instantiate a component is to repeat all that is within it, at compile time: forty components, each of which makes
//! two instances of the one before, are two kilobytes and more than any machine can hold. So that is counted before it is
//! compiled. So are the bytes of modules: each instance of one writes its data and its elements, and no epoch ends that.
//! What cannot be told from where a component is defined, which one an import or an instance stands for, is refused: no
//! toolchain makes it.

use wasmparser::{
    ComponentAlias, ComponentExternalKind, ComponentInstance, ComponentInstanceSectionReader, ComponentOuterAliasKind,
    ComponentTypeRef, Encoding, Instance, InstanceSectionReader, Parser, Payload,
};

/// Instances, and the KiB of their modules, all repetitions included. The largest plugins seen come to 30,000, nearly all
/// of it one module.
const MAX_COST: u64 = 100_000;

/// The reason why a component is not compiled.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum CompileCostError {
    /// It is malformed.
    #[error("{0}")]
    Malformed(String),
    /// It repeats itself too often.
    #[error("its instances come to more than {MAX_COST}, where each counts one, and one for each KiB of its module")]
    TooHeavy,
    /// Nobody can tell what it repeats.
    #[error(
        "a component in it is given components or modules from outside: they can only be used where they are defined"
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
    /// The exports so far, with their contents.
    exports: u64,
    /// The KiB of each of its modules, by index.
    modules: Vec<u64>,
    /// True if it is nested in another component.
    nested: bool,
}

/// The heaviest of each so far, wherever: which one an index or an alias means is not looked up.
#[derive(Default)]
struct Heaviest {
    component: u64,
    /// The exports of a component.
    exports: u64,
    /// The contents of an instance, which can be taken out of it.
    instance: u64,
    module: u64,
}

/// Checks that a component stays within bounds when its instances are made.
pub(crate) fn check(component: &[u8]) -> Result<(), CompileCostError> {
    // None for a module.
    let mut inside: Vec<Option<Inside>> = Vec::new();
    let mut heaviest = Heaviest { component: 1, exports: 1, instance: 1, module: 0 };
    for payload in Parser::new(0).parse_all(component) {
        match payload? {
            Payload::Version { encoding, .. } => {
                let entered = Inside { cost: 1, exports: 1, modules: Vec::new(), nested: !inside.is_empty() };
                inside.push((encoding == Encoding::Component).then_some(entered));
            }
            Payload::End(_) => {
                if let Some(left) = inside.pop().flatten() {
                    heaviest.component = heaviest.component.max(left.cost);
                    heaviest.exports = heaviest.exports.max(left.exports);
                }
            }
            payload => {
                if let Some(Some(inside)) = inside.last_mut() {
                    inside.compile_cost(payload, &mut heaviest)?;
                }
            }
        }
    }
    Ok(())
}

impl Inside {
    /// Adds the cost of a part of the component.
    fn compile_cost(&mut self, payload: Payload<'_>, heaviest: &mut Heaviest) -> Result<(), CompileCostError> {
        use ComponentExternalKind::{Component, Module};
        match payload {
            Payload::ModuleSection { unchecked_range, .. } => {
                let module = unchecked_range.len() as u64 / 1024;
                heaviest.module = heaviest.module.max(module);
                self.modules.push(module);
            }
            Payload::InstanceSection(section) => self.core_instances(section)?,
            Payload::ComponentInstanceSection(section) => self.component_instances(section, heaviest)?,
            Payload::ComponentExportSection(section) => {
                for export in section {
                    let own = of([export?.kind], heaviest.instance);
                    self.add(own)?;
                    self.exports = self.exports.saturating_add(own);
                }
            }
            Payload::ComponentImportSection(section) if self.nested => {
                for import in section {
                    if let ComponentTypeRef::Component(_) | ComponentTypeRef::Module(_) = import?.ty {
                        return Err(CompileCostError::Unknown);
                    }
                }
            }
            Payload::ComponentAliasSection(section) => {
                for alias in section {
                    match alias? {
                        ComponentAlias::InstanceExport { kind: Component | Module, .. } => {
                            return Err(CompileCostError::Unknown);
                        }
                        ComponentAlias::Outer { kind: ComponentOuterAliasKind::CoreModule, .. } => {
                            self.modules.push(heaviest.module);
                        }
                        _ => {}
                    }
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn core_instances(&mut self, section: InstanceSectionReader<'_>) -> Result<(), CompileCostError> {
        for instance in section {
            self.add(match instance? {
                Instance::Instantiate { module_index, args } => {
                    let module = self.modules.get(module_index as usize).ok_or(CompileCostError::Unknown)?;
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
        heaviest: &mut Heaviest,
    ) -> Result<(), CompileCostError> {
        for instance in section {
            let made = match instance? {
                ComponentInstance::Instantiate { args, .. } => {
                    let args = of(args.iter().map(|arg| arg.kind), heaviest.instance);
                    self.add(heaviest.component.saturating_add(args))?;
                    heaviest.exports
                }
                ComponentInstance::FromExports(exports) => {
                    let own = of(exports.iter().map(|export| export.kind), heaviest.instance).saturating_add(1);
                    self.add(own)?;
                    own
                }
            };
            heaviest.instance = heaviest.instance.max(made);
        }
        Ok(())
    }

    fn add(&mut self, more: u64) -> Result<(), CompileCostError> {
        self.cost = self.cost.saturating_add(more);
        if self.cost > MAX_COST { Err(CompileCostError::TooHeavy) } else { Ok(()) }
    }
}

/// Adds up things of these kinds: an instance counts with all its contents.
fn of(kinds: impl IntoIterator<Item = ComponentExternalKind>, instance_weight: u64) -> u64 {
    let cost = |kind| if kind == ComponentExternalKind::Instance { instance_weight } else { 1 };
    kinds.into_iter().map(cost).fold(0, u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(text: &str) -> Result<(), CompileCostError> {
        check(&wat::parse_str(text).expect("text"))
    }

    /// Components, each of which makes two instances of the one before.
    fn doubling(levels: usize) -> String {
        let level = |n: usize| {
            format!(
                "(component $c{} (alias outer 1 $c{n} (component $c)) (instance (instantiate $c)) (instance (instantiate $c)))",
                n + 1
            )
        };
        format!("(component (component $c0) {})", (0..levels).map(level).collect::<String>())
    }

    #[test]
    fn refuses_exponential_nesting_only() {
        assert_eq!(checked(&doubling(10)), Ok(()));
        assert_eq!(checked(&doubling(20)), Err(CompileCostError::TooHeavy));
        assert_eq!(checked(&doubling(200)), Err(CompileCostError::TooHeavy), "no overflow");
    }

    #[test]
    fn modules_count_per_instantiation() {
        let text = |instances: usize, from: &str| {
            let module = format!("(core module $m (memory 40) (data \"{}\"))", "0123456789".repeat(200_000));
            let instances = "(core instance (instantiate $m))".repeat(instances);
            format!("(component {module} {from} {instances} {})", if from.is_empty() { "" } else { ")" })
        };
        let within = "(component (alias outer 1 $m (core module $m))";
        for from in ["", within] {
            assert_eq!(checked(&text(40, from)), Ok(()), "80 MB");
            assert_eq!(checked(&text(60, from)), Err(CompileCostError::TooHeavy), "120 MB");
        }
    }

    #[test]
    fn what_is_given_from_outside_is_refused_within_another() {
        let import = r#"(import "c" (component $c)) (instance (instantiate $c))"#;
        assert_eq!(checked(&format!("(component (component {import}))")), Err(CompileCostError::Unknown));
        let alias = r#"(import "i" (instance $i (export "c" (component)))) (alias export $i "c" (component $c))"#;
        let module = r#"(import "m" (core module $m)) (core instance (instantiate $m))"#;
        for given in [alias, module] {
            assert_eq!(checked(&format!("(component (component {given}))")), Err(CompileCostError::Unknown));
        }
    }
}
