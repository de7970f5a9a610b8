//! Programs run by a precompiled interpreter, for `operetta dev` only.
//!
//! A program is a component without code: its custom section holds the name of an interpreter and
//! the source. The interpreter is a plugin with the import `operetta:development/source`, and
//! evaluates the source in each call, so a save compiles nothing. An engine runs programs only if
//! [`EngineConfig::interpreters`](crate::EngineConfig::interpreters) names a folder. A production
//! host never sets it: it refuses programs and does not link the import.

use wasmparser::{Parser, Payload};

/// The custom section. Its first line is the file name of the interpreter; the source follows.
const SECTION: &str = "operetta:development";

/// A source and its interpreter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// The file name of the interpreter. A changed interpreter needs a new name.
    pub interpreter: String,
    /// The source, in the interpreter's own format.
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

    /// Reads a program from the first section of a file; None for any other file.
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
