//! The hostile corpus: guests of `tests/guests/hostile/`, one misbehaviour each.
//!
//! A file is WebAssembly text. Its first comment says what the guest does and, after `expect:`, how
//! the host must respond; `...` stands for any text. The file is either a whole `(component ...)`
//! or the fields of a core module. A core module is completed, so that the file contains little
//! more than the misbehaviour: the imports that it calls, a memory, `$describe`, `$reconcile` (of
//! the type `$reconcile`; its parameters 3 to 6 are namespace and name), `$realloc` and the
//! functions of `HELPERS` are added. A guest that defines `$map` also has a mapper. A line that
//! begins with `@` is a directive:
//!
//! - `@manifest JSON`: the manifest that `describe` returns; `@controllers JSON`: the controllers
//!   of the default manifest;
//! - `@utf16`: texts cross the boundary as UTF-16;
//! - `@modules N (module ...)`: adds a core module to the component, and N instances of it;
//! - `@warm`: the guest's instances are kept between reconciles. It is reconciled four times, and
//!   `expect:` has the four responses, separated by commas.
//!
//! Anywhere, `@repeat N text @end` repeats the text N times; in it, `{n}` is the number of the
//! repetition from 0, and `{n+1}` the next number.
//!
//! The memory layout: the pair that `describe` returns at 8, the result of `reconcile` at 16 (all
//! zero: done), `v1Podna` (version, kind, namespace and name of the reconciled object) at 64,
//! results of imports at 256, 512 to 65535 for the file, the manifest from 65536, and after it the
//! arena of `$realloc`.

use wit_component::StringEncoding;

use crate::wat_guest::{self, IMPORTS, MANIFEST, escape, pair};

include!(concat!(env!("OUT_DIR"), "/hostile.rs"));

const MANIFEST_AT: usize = 65536;
const MAPPER: &str = "operetta:controller/mapper@0.1.0";
const RECONCILER: &str = "operetta:controller/reconciler@0.1.0";

/// Functions that a file may call.
const HELPERS: &[(&str, &str)] = &[
    ("$spin", "(func $spin (loop $again (br $again)))"),
    (
        "$retry",
        "(func $retry (param $text i32) (param $len i32) (result i32)
           (i32.store8 (i32.const 16) (i32.const 1)) (i32.store8 (i32.const 20) (i32.const 0))
           (i32.store (i32.const 24) (local.get $text)) (i32.store (i32.const 28) (local.get $len)) (i32.const 16))",
    ),
    // get(v1/Pod, n/a, cached) into 256.
    (
        "$get_own",
        "(func $get_own
           (call $get (i32.const 64) (i32.const 2) (i32.const 66) (i32.const 3) (i32.const 1) (i32.const 69) (i32.const 1)
             (i32.const 70) (i32.const 1) (i32.const 0) (i32.const 256)))",
    ),
    // Fails with the message of the error that $get_own returned.
    ("$retry_error", "(func $retry_error (result i32) (call $retry (i32.load (i32.const 276)) (i32.load (i32.const 280))))"),
    // Logs a line at level info.
    (
        "$say",
        "(func $say (param $text i32) (param $len i32)
           (call $log (i32.const 2) (local.get $text) (local.get $len) (i32.const 0) (i32.const 0)))",
    ),
];

/// YAML that fits into a ConfigMap and expands to 17 billion values.
pub fn yaml_bomb() -> String {
    let zeroes = vec!["0"; 130_000].join(",");
    let aliases = vec!["*a"; 130_000].join(",");
    format!("a: &a [{zeroes}]\nb: [{aliases}]\n")
}

/// One hostile guest.
#[derive(Clone, Copy, Debug)]
pub struct Fixture {
    /// The file's name without its extension.
    pub name: &'static str,
    text: &'static str,
}

impl Fixture {
    /// Returns the fixture of this name.
    ///
    /// # Panics
    /// Panics if there is none.
    pub fn of(name: &str) -> Self {
        all()
            .find(|fixture| fixture.name == name)
            .unwrap_or_else(|| panic!("there is no fixture {name}"))
    }

    /// Returns what the guest does.
    pub fn does(&self) -> String {
        self.header()
            .take_while(|line| !line.starts_with("expect:"))
            .collect::<Vec<_>>()
            .join(" ")
    }

    /// Returns how the host must respond.
    ///
    /// # Panics
    /// Panics if the file has none.
    pub fn expected(&self) -> String {
        let lines: Vec<_> = self
            .header()
            .skip_while(|line| !line.starts_with("expect:"))
            .collect();

        assert!(!lines.is_empty(), "{} has no `expect:` line", self.name);

        lines
            .join(" ")
            .trim_start_matches("expect:")
            .trim()
            .to_owned()
    }

    /// Reports whether instances of the guest are kept between reconciles.
    pub fn is_warm(&self) -> bool {
        self.text.lines().any(|line| line.trim() == "@warm")
    }

    fn header(&self) -> impl Iterator<Item = &'static str> {
        self.text
            .lines()
            .map_while(|line| line.strip_prefix(";;"))
            .map(str::trim)
    }

    /// Builds the component.
    ///
    /// # Panics
    /// Panics if the text is invalid.
    pub fn build(&self) -> Vec<u8> {
        let text = repeat(self.text);
        let (directives, code): (Vec<&str>, Vec<&str>) =
            text.lines().partition(|line| line.starts_with('@'));

        let directive = |name: &str| {
            directives
                .iter()
                .find_map(|line| line.strip_prefix(name))
                .map(str::trim)
        };

        let parse = |text: &str| {
            wat::parse_str(text)
                .unwrap_or_else(|error| panic!("{}: {error}\n{:.9999}", self.name, text))
        };

        let code = code.join("\n");
        if code.lines().any(|line| line.starts_with("(component")) {
            return parse(&code);
        }

        let (before, after) = MANIFEST.split_once("[{").expect("controllers");
        let with_controllers = |json| {
            format!(
                "{before}{json}{}",
                after.rsplit_once(']').expect("controllers").1
            )
        };

        let manifest = directive("@manifest").map(str::to_owned);
        let manifest = manifest
            .or_else(|| directive("@controllers").map(with_controllers))
            .unwrap_or(MANIFEST.to_owned());

        let encoding = if directive("@utf16").is_some() {
            StringEncoding::UTF16
        } else {
            StringEncoding::UTF8
        };

        let world = if code.contains("(func $map ") {
            "hostile-mapper"
        } else {
            "hostile-guest"
        };

        let component = wat_guest::component_of(world, &parse(&module(&code, &manifest)), encoding);
        match directive("@modules") {
            Some(modules) => {
                let (count, module) = modules.split_once(' ').expect("@modules N (module ...)");
                with_module(
                    component,
                    &parse(module),
                    count.parse().expect("@modules N"),
                )
            }
            None => component,
        }
    }
}

/// Returns all fixtures, sorted by name.
pub fn all() -> impl Iterator<Item = Fixture> {
    TEXTS.iter().map(|(name, text)| Fixture { name, text })
}

/// Reports whether a response is the expected one, in which `...` stands for any text.
pub fn is_answer(expected: &str, answer: &str) -> bool {
    let mut parts = expected.split("...");
    let Some(mut rest) = answer.strip_prefix(parts.next().unwrap_or_default()) else {
        return false;
    };

    let mut parts = parts.peekable();
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            return rest.ends_with(part);
        }

        let Some(start) = rest.find(part) else {
            return false;
        };
        rest = &rest[start + part.len()..];
    }

    rest.is_empty()
}

/// Expands each `@repeat`, from the last one backwards because they may be nested.
fn repeat(text: &str) -> String {
    let mut text = text.to_owned();
    while let Some((before, rest)) = text.rsplit_once("@repeat ") {
        let (count, rest) = rest.split_once(' ').expect("@repeat N text @end");
        let (body, after) = rest.split_once("@end").expect("@end");
        let count: usize = count.parse().expect("@repeat N");

        let once = |n: usize| {
            body.replace("{n}", &n.to_string())
                .replace("{n+1}", &(n + 1).to_string())
        };

        text = format!(
            "{before}{}{after}",
            (0..count).map(once).collect::<String>()
        );
    }

    text
}

/// Adds a core module to a component, and `count` instances of it.
fn with_module(mut component: Vec<u8>, module: &[u8], count: u32) -> Vec<u8> {
    const CORE_MODULE: u8 = 1;
    const CORE_INSTANCE: u8 = 2;
    const HEADER: usize = 8;

    // The index of the new module is the number of those before it.
    let (mut index, mut at) = (0, HEADER);
    while at < component.len() {
        index += u32::from(component[at] == CORE_MODULE);
        let (size, start) = unsigned(&component, at + 1);
        at = start + size;
    }

    let mut section = |id: u8, content: &[u8]| {
        component.push(id);
        component.extend(leb128(u32::try_from(content.len()).expect("small")));
        component.extend_from_slice(content);
    };
    section(CORE_MODULE, module);

    // Instantiates without arguments.
    let instance = [vec![0], leb128(index), vec![0]].concat();
    section(
        CORE_INSTANCE,
        &[leb128(count), instance.repeat(count as usize)].concat(),
    );

    component
}

/// Decodes an unsigned number at an offset. Returns it, and the offset behind it.
fn unsigned(bytes: &[u8], mut at: usize) -> (usize, usize) {
    let (mut number, mut shift) = (0, 0);
    loop {
        let byte = bytes[at];
        number |= usize::from(byte & 0x7f) << shift;
        (at, shift) = (at + 1, shift + 7);
        if byte < 0x80 {
            return (number, at);
        }
    }
}

/// Encodes an unsigned number.
fn leb128(mut number: u32) -> Vec<u8> {
    let mut bytes = Vec::new();
    loop {
        let byte = (number & 0x7f) as u8;
        number >>= 7;
        if number == 0 {
            bytes.push(byte);
            return bytes;
        }
        bytes.push(byte | 0x80);
    }
}

/// Completes the fields of a module.
fn module(fields: &str, manifest: &str) -> String {
    let calls = |text: &str, name: &str| {
        text.match_indices(name).any(|(start, _)| {
            text[start + name.len()..].starts_with(|next: char| next.is_whitespace() || next == ')')
        })
    };

    let defines = |name: &str| calls(fields, &format!("(func {name}"));
    let mut code = fields.to_owned();

    // Helpers may call those before them in the list.
    for (name, helper) in HELPERS.iter().rev() {
        if calls(&code, name) && !defines(name) {
            code = format!("{helper}\n{code}");
        }
    }

    let imports: String = IMPORTS
        .iter()
        .filter(|(name, _)| calls(&code, name))
        .map(|(_, import)| *import)
        .collect();

    let arena = (MANIFEST_AT + manifest.len()).next_multiple_of(8);

    let unless_defined = |name: &str, default: &str| {
        if defines(name) {
            String::new()
        } else {
            default.to_owned()
        }
    };

    let post = |function: &str| {
        let name = format!("$post_{function}");
        let export = format!(r#"(export "cabi_post_{RECONCILER}#{function}" (func {name}))"#);
        if defines(&name) {
            export
        } else {
            String::new()
        }
    };

    format!(
        r#"(module
          (type $reconcile (func (param i32 i32 i32 i32 i32 i32 i32 i32 i32 i32) (result i32)))
          {imports}
          {memory}
          (global $arena (mut i32) (i32.const {arena}))
          {code}
          {describe} {reconcile} {realloc} {post_describe} {post_reconcile} {map}
          (export "cabi_realloc" (func $realloc))
          (export "{RECONCILER}#describe" (func $describe))
          (export "{RECONCILER}#reconcile" (func $reconcile))
          {data})"#,
        memory = if fields.contains("(memory ") {
            String::new()
        } else {
            format!(r#"(memory (export "memory") {})"#, arena.div_ceil(65536) + 1)
        },
        describe = unless_defined("$describe", "(func $describe (result i32) (i32.const 8))"),
        reconcile = unless_defined("$reconcile", "(func $reconcile (type $reconcile) (i32.const 16))"),
        realloc = unless_defined(
            "$realloc",
            "(func $realloc (param i32 i32 i32 i32) (result i32)
               (global.set $arena (i32.and (i32.add (global.get $arena) (i32.const 7)) (i32.const -8)))
               (global.get $arena) (global.set $arena (i32.add (global.get $arena) (local.get 3)))
               (if (i32.gt_u (global.get $arena) (i32.shl (memory.size) (i32.const 16))) (then
                 (if (i32.eq (i32.const -1) (memory.grow
                   (i32.add (i32.const 1) (i32.shr_u (local.get 3) (i32.const 16))))) (then unreachable)))))"
        ),
        map = if defines("$map") { format!(r#"(export "{MAPPER}#map-event" (func $map))"#) } else { String::new() },
        post_describe = post("describe"),
        post_reconcile = post("reconcile"),
        data = format_args!(
            r#"(data (i32.const 8) "{}") (data (i32.const 64) "v1Podna") (data (i32.const {MANIFEST_AT}) "{}")"#,
            escape(&pair(MANIFEST_AT, manifest.len())),
            escape(manifest.as_bytes())
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expected_dots_match_any_text() {
        assert!(
            is_answer("a...c", "abc") && is_answer("...", "") && is_answer("a...b...c", "a b c")
        );

        assert!(
            is_answer("done", "done") && !is_answer("done", "done.") && !is_answer("a...c", "abcd")
        );
        assert!(!is_answer("a...b...c", "ac"));
    }

    #[test]
    fn repeats_text_with_number() {
        assert_eq!(
            repeat("a @repeat 2 x{n}-{n+1} @end b @repeat 1 y@end"),
            "a x0-1 x1-2  b y"
        );
        assert_eq!(repeat("@repeat 2 (@repeat 2 {n}@end)@end"), "(01)(01)");
    }
}
