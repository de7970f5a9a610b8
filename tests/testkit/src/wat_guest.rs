//! Guests that tests write in place: a few instructions of core WebAssembly, wrapped as a component
//! of the contract.
//!
//! The memory layout of a guest: the pair that `describe` returns at 8, the result of `reconcile`
//! at 16 (all zero: done), the area for results of imports at 256, texts from 1024, an arena from
//! 64 KiB.

use serde_json::{Value, json};
use wit_component::{ComponentEncoder, StringEncoding, embed_component_metadata};
use wit_parser::Resolve;

use crate::Kind;

/// A manifest with one controller.
pub const MANIFEST: &str = r#"{"apiVersion":"operetta.dev/v1alpha1","kind":"Manifest","controllers":[{"name":"c","for":{"apiVersion":"v1","kind":"Pod"}}]}"#;

const MANIFEST_AT: usize = 1024;
const TEXT_AT: usize = 2048;

/// The imports that a guest may use: the name of each and its core import.
pub(crate) const IMPORTS: &[(&str, &str)] = &[
    (
        "$get",
        r#"(import "operetta:controller/objects@0.1.0" "get" (func $get (param i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32)))"#,
    ),
    (
        "$update_status",
        r#"(import "operetta:controller/objects@0.1.0" "update-status" (func $update_status (param i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32)))"#,
    ),
    (
        "$create",
        r#"(import "operetta:controller/objects@0.1.0" "create" (func $create (param i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32)))"#,
    ),
    (
        "$update",
        r#"(import "operetta:controller/objects@0.1.0" "update" (func $update (param i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32)))"#,
    ),
    (
        "$patch",
        r#"(import "operetta:controller/objects@0.1.0" "patch" (func $patch (param i32 i32)))"#,
    ),
    (
        "$delete",
        r#"(import "operetta:controller/objects@0.1.0" "delete" (func $delete (param i32 i32)))"#,
    ),
    (
        "$list",
        r#"(import "operetta:controller/objects@0.1.0" "list" (func $list (param i32 i32)))"#,
    ),
    (
        "$send",
        r#"(import "operetta:controller/raw@0.1.0" "send" (func $send (param i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32)))"#,
    ),
    (
        "$emit",
        r#"(import "operetta:controller/events@0.1.0" "emit" (func $emit (param i32)))"#,
    ),
    (
        "$log",
        r#"(import "operetta:controller/log@0.1.0" "write" (func $log (param i32 i32 i32 i32 i32)))"#,
    ),
    (
        "$log_enabled",
        r#"(import "operetta:controller/log@0.1.0" "enabled" (func $log_enabled (param i32) (result i32)))"#,
    ),
    (
        "$config",
        r#"(import "operetta:controller/config@0.1.0" "get" (func $config (param i32)))"#,
    ),
    (
        "$take_warnings",
        r#"(import "operetta:controller/warnings@0.1.0" "take" (func $take_warnings (param i32)))"#,
    ),
    (
        "$source",
        r#"(import "operetta:development/source@0.1.0" "get" (func $source (param i32)))"#,
    ),
    (
        "$source_fail",
        r#"(import "operetta:development/source@0.1.0" "fail" (func $source_fail (param i32 i32)))"#,
    ),
    (
        "$exit",
        r#"(import "wasi:cli/exit@0.2.0" "exit" (func $exit (param i32)))"#,
    ),
    (
        "$stderr",
        r#"(import "wasi:cli/stderr@0.2.0" "get-stderr" (func $stderr (result i32)))"#,
    ),
    (
        "$print",
        r#"(import "wasi:io/streams@0.2.0" "[method]output-stream.blocking-write-and-flush" (func $print (param i32 i32 i32 i32)))"#,
    ),
    (
        "$stdout",
        r#"(import "wasi:cli/stdout@0.2.0" "get-stdout" (func $stdout (result i32)))"#,
    ),
    (
        "$write_zeroes",
        r#"(import "wasi:io/streams@0.2.0" "[method]output-stream.write-zeroes" (func $write_zeroes (param i32 i64 i32)))"#,
    ),
    (
        "$poll",
        r#"(import "wasi:io/poll@0.2.0" "poll" (func $poll (param i32 i32 i32)))"#,
    ),
    (
        "$block",
        r#"(import "wasi:io/poll@0.2.0" "[method]pollable.block" (func $block (param i32)))"#,
    ),
    (
        "$drop_pollable",
        r#"(import "wasi:io/poll@0.2.0" "[resource-drop]pollable" (func $drop_pollable (param i32)))"#,
    ),
    (
        "$subscribe_instant",
        r#"(import "wasi:clocks/monotonic-clock@0.2.0" "subscribe-instant" (func $subscribe_instant (param i64) (result i32)))"#,
    ),
    (
        "$subscribe_duration",
        r#"(import "wasi:clocks/monotonic-clock@0.2.0" "subscribe-duration" (func $subscribe_duration (param i64) (result i32)))"#,
    ),
    (
        "$random",
        r#"(import "wasi:random/random@0.2.0" "get-random-bytes" (func $random (param i64 i32)))"#,
    ),
    (
        "$network",
        r#"(import "wasi:sockets/instance-network@0.2.0" "instance-network" (func $network (result i32)))"#,
    ),
    (
        "$resolve",
        r#"(import "wasi:sockets/ip-name-lookup@0.2.0" "resolve-addresses" (func $resolve (param i32 i32 i32 i32)))"#,
    ),
    (
        "$create_tcp_socket",
        r#"(import "wasi:sockets/tcp-create-socket@0.2.0" "create-tcp-socket" (func $create_tcp_socket (param i32 i32)))"#,
    ),
    (
        "$connect",
        r#"(import "wasi:sockets/tcp@0.2.0" "[method]tcp-socket.start-connect" (func $connect (param i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32)))"#,
    ),
    (
        "$arguments",
        r#"(import "wasi:cli/environment@0.2.0" "get-arguments" (func $arguments (param i32)))"#,
    ),
    (
        "$environment",
        r#"(import "wasi:cli/environment@0.2.0" "get-environment" (func $environment (param i32)))"#,
    ),
    (
        "$directories",
        r#"(import "wasi:filesystem/preopens@0.2.0" "get-directories" (func $directories (param i32)))"#,
    ),
    (
        "$charge",
        r#"(import "acme:billing/charge@1.2.3" "charge" (func $charge))"#,
    ),
    ("$lone", r#"(import "$root" "lone" (func $lone))"#),
];

/// Appends a custom section with a number to a component, which changes its digest but not its
/// code.
pub fn numbered(component: &[u8], number: usize) -> Vec<u8> {
    let text = format!("{number:08}");
    // The section's id, its size, the size of its name, and its name.
    let head = [0, u8::try_from(2 + text.len()).unwrap_or_default(), 1, b'n'];
    [component, &head, text.as_bytes()].concat()
}

/// A builder of guests, whose functions are in WebAssembly's text format.
pub struct Guest {
    manifest: String,
    text: String,
    describe: String,
    reconcile: String,
    functions: String,
}

impl Default for Guest {
    fn default() -> Self {
        Self {
            manifest: MANIFEST.into(),
            text: String::new(),
            describe: "i32.const 8".into(),
            reconcile: "i32.const 16".into(),
            functions: String::new(),
        }
    }
}

impl Guest {
    /// Sets the manifest that `describe` returns.
    pub fn manifest(mut self, text: &str) -> Self {
        self.manifest = text.into();
        self
    }

    /// Sets a manifest with these controllers.
    pub fn controllers(self, controllers: &Value) -> Self {
        let manifest = json!({"apiVersion": "operetta.dev/v1alpha1", "kind": "Manifest", "controllers": controllers});
        self.manifest(&manifest.to_string())
    }

    /// Sets a manifest with one controller, which has a hundred label selectors of a kind and a
    /// resync of a second.
    pub fn hundred_selectors(self, kind: Kind) -> Self {
        let source = |at: usize| json!({"apiVersion": kind.0, "kind": kind.1, "labelSelector": format!("n={at}")});
        let watch = |at: usize| json!({"source": source(at), "map": {"type": "SameName"}});
        let watches: Vec<Value> = (1..100).map(watch).collect();

        self.controllers(
            &json!([{"name": "c", "for": source(0), "watches": watches, "resyncSeconds": 1}]),
        )
    }

    /// Sets a text that the guest has at `$text`, `$text_len` bytes long.
    pub fn text(mut self, text: &str) -> Self {
        self.text = text.into();
        self
    }

    /// Sets the body of `describe`, which ends with the address of a (pointer, length) pair.
    pub fn describe(mut self, body: &str) -> Self {
        self.describe = body.into();
        self
    }

    /// Sets the body of `reconcile`, which ends with the address of a result.
    pub fn reconcile(mut self, body: &str) -> Self {
        self.reconcile = body.into();
        self
    }

    /// Adds functions, globals or tables to the module.
    pub fn with(mut self, fields: &str) -> Self {
        self.functions += fields;
        self
    }

    /// Adds `count` functions with some hundred bytes of arithmetic each, to make compiling take
    /// longer.
    pub fn with_functions(self, count: usize) -> Self {
        let line = |n: usize| {
            format!(
                "(local.set 0 (i32.add (i32.mul (local.get 0) (i32.const {n})) (i32.load (local.get 0))))"
            )
        };

        let lines: String = (1..=40).map(line).collect();
        let function = |_| format!("(func (param i32) (result i32) {lines} local.get 0)");
        let functions: String = (0..count).map(function).collect();
        self.with(&functions)
    }

    /// Builds the component.
    pub fn build(&self) -> Vec<u8> {
        self.build_in("guest")
    }

    /// Builds the component for a world of `wat_guest.wit`.
    pub fn build_in(&self, world: &str) -> Vec<u8> {
        let text = self.core();
        component(
            world,
            &wat::parse_str(&text).unwrap_or_else(|error| panic!("{error}\n{text}")),
        )
    }

    fn core(&self) -> String {
        let bodies =
            [&self.describe, &self.reconcile, &self.functions].map(|body| format!("{body} "));

        let used = |name: &str| {
            bodies.iter().any(|body| {
                body.match_indices(name).any(|(start, _)| {
                    body[start + name.len()..]
                        .starts_with(|next: char| next.is_whitespace() || next == ')')
                })
            })
        };

        let imports: Vec<&str> = IMPORTS
            .iter()
            .filter(|(name, _)| used(name) || (*name == "$get" && used("$get_own")))
            .map(|(_, import)| *import)
            .collect();

        format!(
            r#"(module {imports}
              (memory (export "memory") 3)
              (global $text i32 (i32.const {TEXT_AT}))
              (global $text_len i32 (i32.const {text_len}))
              (global $arena (mut i32) (i32.const 65536))
              (func $realloc (export "cabi_realloc") (param i32 i32 i32 i32) (result i32)
                (global.set $arena (i32.and (i32.add (global.get $arena) (i32.const 7)) (i32.const -8)))
                (global.get $arena)
                (global.set $arena (i32.add (global.get $arena) (local.get 3))))
              (func $spin (loop $again (br $again)))
              {functions}
              (func $recurse (result i32) (i32.add (call $recurse) (i32.const 1)))
              (func $get_own (param $namespace i32) (param $namespace_len i32) (param $name i32) (param $name_len i32)
                {get_own})
              (func $retry (param $message i32) (param $len i32) (result i32)
                (i32.store8 (i32.const 16) (i32.const 1))
                (i32.store8 (i32.const 20) (i32.const 0))
                (i32.store (i32.const 24) (local.get $message))
                (i32.store (i32.const 28) (local.get $len))
                (i32.const 16))
              (func (export "operetta:controller/reconciler@0.1.0#describe") (result i32) {describe})
              (func (export "operetta:controller/reconciler@0.1.0#reconcile")
                (param $controller i32) (param $controller_len i32) (param $namespaced i32) (param $namespace i32)
                (param $namespace_len i32) (param $name i32) (param $name_len i32) (param $retries i32)
                (param $id i32) (param $id_len i32) (result i32)
                {reconcile})
              (data (i32.const 8) "{manifest_pair}")
              (data (i32.const 64) "v1Pod")
              (data (i32.const {MANIFEST_AT}) "{manifest}")
              (data (i32.const {TEXT_AT}) "{text}"))"#,
            imports = imports.concat(),
            functions = self.functions,
            text_len = self.text.len(),
            // get(v1/Pod, own key, cached) into 256.
            get_own = if used("$get") || used("$get_own") {
                "(call $get (i32.const 64) (i32.const 2) (i32.const 66) (i32.const 3) (i32.const 1)
                   (local.get $namespace) (local.get $namespace_len) (local.get $name) (local.get $name_len)
                   (i32.const 0) (i32.const 256))"
            } else {
                ""
            },
            describe = self.describe,
            reconcile = self.reconcile,
            manifest_pair = escape(&pair(MANIFEST_AT, self.manifest.len())),
            manifest = escape(self.manifest.as_bytes()),
            text = escape(self.text.as_bytes()),
        )
    }
}

/// Wraps a core module as a component of a world of `wat_guest.wit`.
pub fn component(world: &str, module: &[u8]) -> Vec<u8> {
    component_of(world, module, StringEncoding::UTF8)
}

/// Wraps a core module as [`component`] does, with this encoding of texts.
pub(crate) fn component_of(world: &str, module: &[u8], encoding: StringEncoding) -> Vec<u8> {
    let mut resolve = Resolve::default();

    resolve
        .push_dir(crate::repository().join("wit"))
        .expect("the contract");
    resolve
        .push_str(
            "development.wit",
            include_str!("../../../wit/development/development.wit"),
        )
        .expect("its package");

    let package = resolve
        .push_str("wat_guest.wit", include_str!("wat_guest.wit"))
        .expect("wat_guest.wit");
    let world = resolve
        .select_world(&[package], Some(world))
        .expect("a world of wat_guest.wit");

    let mut module = module.to_vec();
    embed_component_metadata(&mut module, &resolve, world, encoding).expect("metadata");

    let encoder = ComponentEncoder::default()
        .validate(true)
        .module(&module)
        .expect("a module of the world");
    { encoder }.encode().expect("a component")
}

/// Encodes an address and a length as the canonical ABI has them in memory.
pub(crate) fn pair(address: usize, len: usize) -> Vec<u8> {
    [address, len]
        .map(|number| u32::try_from(number).expect("small").to_le_bytes())
        .concat()
}

/// Escapes bytes for a string in WebAssembly's text format.
pub(crate) fn escape(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("\\{byte:02x}")).collect()
}
