//! The differences between the languages of a new project, apart from their files.

use anyhow::{Result, bail};

use crate::args::Language;

/// The project of one language. The texts may have placeholders.
pub struct Of {
    /// The name of the language, for people.
    pub name: &'static str,
    /// The SDK's folder in plugins/, after `sdk-`.
    pub sdk: &'static str,
    /// The folder in templates/.
    pub template: &'static str,
    /// The tools to install, for a sentence that begins with "You need".
    pub needs: &'static str,
    /// A sentence that says where the code is.
    pub code: &'static str,
    /// A sentence that says how crd.yaml is generated from the code.
    pub generate: &'static str,
    /// A sentence that says how to switch to the published SDK.
    pub published: &'static str,
    /// The commands that are run once.
    pub setup: &'static [&'static str],
    /// The commands that run the tests.
    pub test: &'static [&'static str],
    /// The entries of .gitignore besides build/.
    pub ignored: &'static [&'static str],
}

const GENERATED: &str =
    "`operetta generate` derives the schema from the types in the code; the rest is yours.";
const BY_HAND: &str = "It is written by hand.";

const RUST: Of = Of {
    name: "Rust",
    sdk: "rust",
    template: "rust",
    needs: "[rustup](https://rustup.rs) with Rust 1.97 or later",
    code: "`src/lib.rs` is the reconciler, `src/types.rs` the kind, `src/tests.rs` the tests.",
    generate: GENERATED,
    published: "Once the SDK is published: `operetta-sdk = \"0.1\"` in `Cargo.toml` instead.",
    setup: &["rustup target add wasm32-wasip2"],
    test: &["operetta test"],
    ignored: &["/target"],
};

const GO: Of = Of {
    name: "Go",
    sdk: "go",
    template: "go",
    needs: "[Go](https://go.dev/doc/install) 1.26 or later",
    code: "`plugin.go` is the reconciler, `types.go` the kind, `plugin_test.go` the tests.",
    generate: BY_HAND,
    published: "Once the SDK is published: take the line `replace` out of `go.mod`, then `go get operetta.dev/sdk-go`.",
    setup: &[],
    test: &["operetta test"],
    ignored: &[],
};

const TYPESCRIPT: Of = Of {
    name: "TypeScript",
    sdk: "js",
    template: "ts",
    needs: "[Node.js](https://nodejs.org) 20 or later",
    code: "`src/plugin.ts` is the reconciler, `src/types.ts` the kind, `test/plugin.test.ts` the tests.",
    generate: GENERATED,
    published: "Once the SDK is published: `npm install @operetta/sdk`.",
    setup: &["npm install"],
    test: &["npm run check", "operetta test"],
    ignored: &["node_modules/"],
};

const PYTHON: Of = Of {
    name: "Python",
    sdk: "python",
    template: "python",
    needs: "[Python](https://www.python.org) 3.11 or later",
    code: "`plugin.py` is the reconciler and names the kind, `tests/` are the tests.",
    generate: BY_HAND,
    published: "Once the SDK is published: `pip install 'operetta-sdk[build]'` instead of the folder.",
    setup: &[
        "python3 -m venv .venv",
        ".venv/bin/pip install './sdk[build]'",
    ],
    test: &["operetta test"],
    ignored: &[".venv/", "__pycache__/", "/sdk/build", "*.egg-info"],
};

const C: Of = Of {
    name: "C",
    sdk: "c",
    template: "c",
    needs: "make and a C compiler for the tests, and for the plugin [zig](https://ziglang.org), for example by \
        `pip install ziglang`",
    code: "`plugin.c` is the reconciler, `plugin_test.c` the tests.",
    generate: BY_HAND,
    published: "Without that folder, `operetta build` takes the SDK that it carries.",
    setup: &[],
    test: &["operetta test"],
    ignored: &[],
};

const CPP: Of = Of {
    name: "C++",
    sdk: "c",
    template: "cpp",
    needs: "make, a C compiler and a C++20 compiler for the tests, and for the plugin [zig](https://ziglang.org), for \
        example by `pip install ziglang`",
    code: "`plugin.cpp` is the reconciler, `plugin_test.cpp` the tests. A component has no exceptions and no RTTI: \
        errors are the SDK's `operetta_error`.",
    ..C
};

const ZIG: Of = Of {
    name: "Zig",
    sdk: "c",
    template: "zig",
    needs: "make and [zig](https://ziglang.org) 0.17, for example by `pip install ziglang`",
    code: "`plugin.zig` is the reconciler, `plugin_test.zig` the tests.",
    ..C
};

/// Returns the project of a language.
pub fn of(language: Language) -> Of {
    match language {
        Language::Rust => RUST,
        Language::Go => GO,
        Language::TypeScript => TYPESCRIPT,
        Language::Python => PYTHON,
        Language::C => C,
        Language::Cpp => CPP,
        Language::Zig => ZIG,
    }
}

/// Checks that a project of this language may have a name.
///
/// # Errors
/// Returns an error if the language reserves the word.
pub fn check(language: Language, name: &str) -> Result<()> {
    let ident = name.replace('-', "_");

    // In other languages the name is not an identifier.
    if language == Language::Rust && RUST_KEYWORDS.contains(&ident.as_str()) {
        bail!(
            "{name:?} is not a valid plugin name: it is a Rust keyword, or a crate that the project uses"
        );
    }

    Ok(())
}

/// The keywords of Rust, and the crates that the project uses.
const RUST_KEYWORDS: &[&str] = &[
    "abstract",
    "alloc",
    "as",
    "async",
    "await",
    "become",
    "box",
    "break",
    "const",
    "continue",
    "core",
    "crate",
    "do",
    "dyn",
    "else",
    "enum",
    "extern",
    "false",
    "final",
    "fn",
    "for",
    "gen",
    "if",
    "impl",
    "in",
    "let",
    "loop",
    "macro",
    "match",
    "mod",
    "move",
    "mut",
    "operetta_sdk",
    "override",
    "priv",
    "proc_macro",
    "pub",
    "ref",
    "return",
    "schemars",
    "self",
    "serde",
    "serde_json",
    "static",
    "std",
    "struct",
    "super",
    "test",
    "trait",
    "true",
    "try",
    "type",
    "typeof",
    "unsafe",
    "unsized",
    "use",
    "virtual",
    "where",
    "while",
    "yield",
];
