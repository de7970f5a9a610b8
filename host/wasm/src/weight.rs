//! How much a component makes of itself before a line of it runs.
//!
//! To instantiate a component is to repeat all that is within it, at compile time: forty components, each of which makes
//! two instances of the one before, are two kilobytes and more than any machine can hold. So that is counted before it is
//! compiled. What cannot be told from where a component is defined, which one an import or an instance stands for, is
//! refused: no toolchain makes it.

use wasmparser::{
    ComponentAlias, ComponentExternalKind, ComponentInstance, ComponentTypeRef, Encoding, Instance, Parser, Payload,
};

/// Instances and what they are made of, all repetitions included. The largest plugins seen have some hundreds.
const MAX_WEIGHT: u64 = 100_000;

/// Why a component is not compiled.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum WeightError {
    /// It is malformed.
    #[error("{0}")]
    Malformed(String),
    /// It repeats itself too often.
    #[error("its components make more than {MAX_WEIGHT} instances of each other")]
    TooHeavy,
    /// Nobody can tell what it repeats.
    #[error(
        "it has a component that is given to it from outside: components can only be instantiated where they are defined"
    )]
    Unknown,
}

/// Checks that a component stays within bounds when its instances are made.
pub(crate) fn check(component: &[u8]) -> Result<(), WeightError> {
    // What the parser is inside of: of each component its weight so far, of a module nothing.
    let mut inside: Vec<Option<u64>> = Vec::new();
    // The heaviest component and the heaviest instance so far, wherever: which one an index means is not looked up.
    let (mut component_weight, mut instance_weight) = (1_u64, 1_u64);
    for payload in Parser::new(0).parse_all(component) {
        let payload = payload.map_err(malformed)?;
        if let Payload::Version { encoding, .. } = payload {
            inside.push((encoding == Encoding::Component).then_some(1));
            continue;
        }
        let nested = inside.len() > 1;
        let Some(Some(weight)) = inside.last_mut() else {
            if matches!(payload, Payload::End(_)) {
                inside.pop();
            }
            continue;
        };
        match payload {
            Payload::InstanceSection(section) => {
                for instance in section {
                    let args = match instance.map_err(malformed)? {
                        Instance::Instantiate { args, .. } => args.len(),
                        Instance::FromExports(exports) => exports.len(),
                    };
                    add(weight, 1 + args as u64)?;
                }
            }
            Payload::ComponentInstanceSection(section) => {
                for instance in section {
                    let own = match instance.map_err(malformed)? {
                        ComponentInstance::Instantiate { args, .. } => {
                            component_weight.saturating_add(of(args.iter().map(|arg| arg.kind), instance_weight))
                        }
                        ComponentInstance::FromExports(exports) => {
                            1 + of(exports.iter().map(|export| export.kind), instance_weight)
                        }
                    };
                    add(weight, own)?;
                    instance_weight = instance_weight.max(own);
                }
            }
            Payload::ComponentExportSection(section) => {
                for export in section {
                    add(weight, of([export.map_err(malformed)?.kind], instance_weight))?;
                }
            }
            Payload::ComponentImportSection(section) if nested => {
                for import in section {
                    if let ComponentTypeRef::Component(_) = import.map_err(malformed)?.ty {
                        return Err(WeightError::Unknown);
                    }
                }
            }
            Payload::ComponentAliasSection(section) => {
                for alias in section {
                    let alias = alias.map_err(malformed)?;
                    if let ComponentAlias::InstanceExport { kind: ComponentExternalKind::Component, .. } = alias {
                        return Err(WeightError::Unknown);
                    }
                }
            }
            Payload::End(_) => {
                component_weight = component_weight.max(*weight);
                inside.pop();
            }
            _ => {}
        }
    }
    Ok(())
}

/// Of things of these kinds, together: an instance is all that is in it.
fn of(kinds: impl IntoIterator<Item = ComponentExternalKind>, instance_weight: u64) -> u64 {
    let weight = |kind| if kind == ComponentExternalKind::Instance { instance_weight } else { 1 };
    kinds.into_iter().map(weight).fold(0, u64::saturating_add)
}

fn add(weight: &mut u64, more: u64) -> Result<(), WeightError> {
    *weight = weight.saturating_add(more);
    if *weight > MAX_WEIGHT { Err(WeightError::TooHeavy) } else { Ok(()) }
}

fn malformed(error: wasmparser::BinaryReaderError) -> WeightError {
    WeightError::Malformed(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(text: &str) -> Result<(), WeightError> {
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
    fn what_doubles_often_enough_is_refused_and_what_does_so_a_few_times_is_not() {
        assert_eq!(checked(&doubling(10)), Ok(()));
        assert_eq!(checked(&doubling(20)), Err(WeightError::TooHeavy));
        assert_eq!(checked(&doubling(200)), Err(WeightError::TooHeavy), "no overflow");
    }

    #[test]
    fn a_component_from_outside_is_refused_within_another() {
        let import = r#"(import "c" (component $c)) (instance (instantiate $c))"#;
        assert_eq!(checked(&format!("(component (component {import}))")), Err(WeightError::Unknown));
        let alias = r#"(import "i" (instance $i (export "c" (component)))) (alias export $i "c" (component $c))"#;
        assert_eq!(checked(&format!("(component (component {alias}))")), Err(WeightError::Unknown));
    }
}
