//! Removes the custom sections of a component, at every depth.

use std::mem;

use anyhow::{Context, Result};
use wasm_encoder::{ComponentSectionId, Encode, RawSection, Section};
use wasmparser::{Encoding, Parser, Payload};

/// Returns the component without its custom sections; `names` keeps those that name functions.
///
/// # Errors
/// Returns an error if the component is malformed.
pub fn strip(component: &[u8], names: bool) -> Result<Vec<u8>> {
    let mut output = Vec::new();
    let mut outer = Vec::new();
    for payload in Parser::new(0).parse_all(component) {
        let payload = payload.context("the component is malformed")?;
        match &payload {
            Payload::Version { encoding, .. } => output.extend_from_slice(match encoding {
                Encoding::Component => &wasm_encoder::Component::HEADER,
                Encoding::Module => &wasm_encoder::Module::HEADER,
            }),
            Payload::ModuleSection { .. } | Payload::ComponentSection { .. } => outer.push(mem::take(&mut output)),
            Payload::End(_) => {
                let Some(parent) = outer.pop() else { break };
                let inner = mem::replace(&mut output, parent);
                let is_component = inner.starts_with(&wasm_encoder::Component::HEADER);
                let id = if is_component { ComponentSectionId::Component } else { ComponentSectionId::CoreModule };
                output.push(id as u8);
                inner.encode(&mut output);
            }
            Payload::CustomSection(section) if !(names && section.name() == "name") => {}
            _ => {
                if let Some((id, range)) = payload.as_section() {
                    RawSection { id, data: &component[range] }.append_to(&mut output);
                }
            }
        }
    }
    Ok(output)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn custom_sections_go_at_every_depth_and_the_rest_stays() {
        let text = r#"(component $outer
            (core module $m (func $spoken (export "f") nop) (@custom "producers" "x"))
            (component $inner (core module (func $hidden nop) (@custom "producers" "x")))
            (core instance $i (instantiate $m))
            (@custom "note" "for nobody"))"#;
        let component = wat::parse_str(text).expect("a component");
        let contains = |bytes: &[u8], text: &str| bytes.windows(text.len()).any(|part| part == text.as_bytes());
        let bare = strip(&component, false).expect("strips");
        let named = strip(&component, true).expect("strips");
        for word in ["producers", "for nobody"] {
            assert!(contains(&component, word) && !contains(&bare, word) && !contains(&named, word), "{word}");
        }
        for word in ["spoken", "hidden"] {
            assert!(contains(&named, word) && !contains(&bare, word), "{word}");
        }
        for stripped in [&bare, &named] {
            wasmparser::validate(stripped).expect("still a component");
        }
        assert_eq!(strip(&bare, false).expect("again"), bare);
        strip(&component[..component.len() - 3], false).expect_err("cut off");
    }
}
