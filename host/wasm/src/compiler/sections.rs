//! Rewrites a component section by section, at every depth.

use std::{borrow::Cow, mem};

use wasm_encoder::{ComponentSectionId, Encode, RawSection, Section as _};
use wasmparser::{Encoding, Parser, Payload};

/// A section of a component, or of a module or a component nested in it.
pub struct SectionAt<'a, 'p> {
    /// The parsed section.
    pub payload: &'p Payload<'a>,
    /// The section's bytes, without the header.
    pub data: &'a [u8],
    /// The number of core modules before the section, as far as they have ended.
    pub modules: usize,
    /// True for a section of the outermost component.
    pub is_outermost: bool,
}

/// Copies a component. `edit` returns the new bytes of each section, or None to omit the section.
///
/// # Errors
/// Returns the parser's error if the component is malformed.
pub fn rewrite_sections<'a>(
    component: &'a [u8],
    mut edit: impl FnMut(&SectionAt<'a, '_>) -> Option<Cow<'a, [u8]>>,
) -> wasmparser::Result<Vec<u8>> {
    let mut output = Vec::new();
    let mut outer = Vec::new();
    let mut modules = 0;

    for payload in Parser::new(0).parse_all(component) {
        let payload = payload?;
        match &payload {
            Payload::Version { encoding, .. } => output.extend_from_slice(match encoding {
                Encoding::Component => &wasm_encoder::Component::HEADER,
                Encoding::Module => &wasm_encoder::Module::HEADER,
            }),
            Payload::ModuleSection { .. } | Payload::ComponentSection { .. } => {
                outer.push(mem::take(&mut output));
            }
            Payload::End(_) => {
                let Some(parent) = outer.pop() else { break };
                let inner = mem::replace(&mut output, parent);
                let is_component = inner.starts_with(&wasm_encoder::Component::HEADER);
                modules += usize::from(!is_component);
                let id = if is_component {
                    ComponentSectionId::Component
                } else {
                    ComponentSectionId::CoreModule
                };

                output.push(id as u8);
                inner.encode(&mut output);
            }
            _ => {
                let Some((id, range)) = payload.as_section() else {
                    continue;
                };
                let data = &component[range];
                let section = SectionAt {
                    payload: &payload,
                    data,
                    modules,
                    is_outermost: outer.is_empty(),
                };

                if let Some(data) = edit(&section) {
                    RawSection { id, data: &data }.append_to(&mut output);
                }
            }
        }
    }
    Ok(output)
}
