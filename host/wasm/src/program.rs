//! Programs that a precompiled interpreter runs, for `operetta dev` only.
//!
//! A program is a component without code: a custom section names an interpreter, and has the
//! source. The interpreter is a plugin that imports `operetta:development/source` and evaluates the
//! source in each call. So a save compiles nothing. An engine runs programs only if
//! [`EngineConfig::interpreters`](crate::EngineConfig::interpreters) names a folder, which the
//! engine of a production host never does: it refuses programs, and does not link the import.

use wasmparser::{Parser, Payload};

/// The name of the custom section. Its first line is the name of the interpreter's file; the source
/// follows.
const SECTION: &str = "operetta:development";

/// A source, and the interpreter that runs it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// The name of the interpreter's file. Another interpreter has another name.
    pub interpreter: String,
    /// The source, in the form that the interpreter reads.
    pub source: String,
}

impl Program {
    /// Returns the program as a component.
    #[cfg(feature = "compiler")]
    pub fn encode(&self) -> Vec<u8> {
        use std::borrow::Cow;

        use wasm_encoder::{Component, CustomSection};

        let text = format!("{}\n{}", self.interpreter, self.source);
        let mut component = Component::new();
        component.section(&CustomSection {
            name: SECTION.into(),
            data: Cow::Borrowed(text.as_bytes()),
        });
        component.finish()
    }

    /// Reads a program; None for any other file. It reads the first section only.
    pub fn read(component: &[u8]) -> Option<Self> {
        let Payload::CustomSection(section) = Parser::new(0).parse_all(component).nth(1)?.ok()?
        else {
            return None;
        };
        if section.name() != SECTION || !Parser::is_component(component) {
            return None;
        }
        let (interpreter, source) = std::str::from_utf8(section.data()).ok()?.split_once('\n')?;
        Some(Self {
            interpreter: interpreter.to_owned(),
            source: source.to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn program_is_read_back_from_a_valid_component() {
        let program = Program {
            interpreter: "js-1.wasm".to_owned(),
            source: "line 1\nline 2 é\n".to_owned(),
        };
        let encoded = program.encode();
        wasmparser::validate(&encoded).expect("a component");
        assert_eq!(Program::read(&encoded), Some(program));
    }

    #[test]
    fn other_file_is_no_program() {
        for text in [
            "(component)",
            "(module)",
            r#"(module (@custom "operetta:development" "a\nb"))"#,
            r#"(component (@custom "operetta:development" "no second line"))"#,
            r#"(component (@custom "operetta:snapshot" "a\nb"))"#,
            r#"(component (core module) (@custom "operetta:development" "a\nb"))"#,
        ] {
            assert_eq!(
                Program::read(&wat::parse_str(text).expect("wasm")),
                None,
                "{text}"
            );
        }
        for bytes in [&b""[..], b"\0asm", b"hello"] {
            assert_eq!(Program::read(bytes), None);
        }
    }
}
