//! Removes the custom sections of a component, at every depth.

use anyhow::{Context, Result};
use operetta_wasm::rewrite_sections;
use wasmparser::Payload;

/// Returns the component without its custom sections; `names` keeps those that name functions.
///
/// # Errors
/// Returns an error if the component is malformed.
pub fn strip(component: &[u8], names: bool) -> Result<Vec<u8>> {
    let bare = rewrite_sections(component, |section| match section.payload {
        Payload::CustomSection(custom) if !(names && custom.name() == "name") => None,
        _ => Some(section.data.into()),
    });
    bare.context("the component is malformed")
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

        let contains = |bytes: &[u8], text: &str| {
            bytes
                .windows(text.len())
                .any(|part| part == text.as_bytes())
        };

        let bare = strip(&component, false).expect("strips");
        let named = strip(&component, true).expect("strips");

        for word in ["producers", "for nobody"] {
            assert!(
                contains(&component, word) && !contains(&bare, word) && !contains(&named, word),
                "{word}"
            );
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
