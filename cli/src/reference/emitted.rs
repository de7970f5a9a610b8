//! Checks that the code uses each reason of the table: as an expression of the host or the
//! commands, outside tests.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use operetta_api::reasons;
use syn::{
    Attribute, BinOp, Expr, ExprBinary, ExprPath, ItemFn, ItemMod, Macro, Meta, Pat, Token,
    parse::Parser, punctuated::Punctuated, visit::Visit,
};

/// Collects the constants of the module `reasons` in expressions.
#[derive(Default)]
struct Uses(BTreeSet<String>);

impl<'ast> Visit<'ast> for Uses {
    fn visit_expr_path(&mut self, path: &'ast ExprPath) {
        let mut segments = path.path.segments.iter().rev();
        let last = segments.next();

        if let Some(name) = last.filter(|_| {
            segments
                .next()
                .is_some_and(|module| module.ident == "reasons")
        }) {
            self.0.insert(word(&name.ident.to_string()));
        }
    }

    /// A pattern or a comparison emits nothing.
    fn visit_pat(&mut self, pattern: &'ast Pat) {
        if !matches!(pattern, Pat::Path(_)) {
            syn::visit::visit_pat(self, pattern);
        }
    }

    fn visit_expr_binary(&mut self, binary: &'ast ExprBinary) {
        if !matches!(binary.op, BinOp::Eq(_) | BinOp::Ne(_)) {
            syn::visit::visit_expr_binary(self, binary);
        }
    }

    fn visit_macro(&mut self, called: &'ast Macro) {
        let arguments =
            Punctuated::<Expr, Token![,]>::parse_terminated.parse2(called.tokens.clone());

        for argument in arguments.unwrap_or_default() {
            // The arguments live as long as this function.
            let mut inner = Uses::default();
            inner.visit_expr(&argument);
            self.0.append(&mut inner.0);
        }
    }

    fn visit_item_mod(&mut self, module: &'ast ItemMod) {
        if !is_test(&module.attrs) {
            syn::visit::visit_item_mod(self, module);
        }
    }

    fn visit_item_fn(&mut self, function: &'ast ItemFn) {
        if !is_test(&function.attrs) {
            syn::visit::visit_item_fn(self, function);
        }
    }
}

/// Reports whether an item is compiled for tests only.
fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| match &attribute.meta {
        Meta::Path(path) => path
            .segments
            .last()
            .is_some_and(|last| last.ident == "test"),
        Meta::List(list) => list.path.is_ident("cfg") && list.tokens.to_string() == "test",
        Meta::NameValue(_) => false,
    })
}

/// The letters of a constant or a code, in lower case: `API_SERVER` and `api-server` are the same
/// word.
fn word(name: &str) -> String {
    name.chars()
        .filter(char::is_ascii_alphanumeric)
        .map(|letter| letter.to_ascii_lowercase())
        .collect()
}

/// Adds the Rust files below a folder, without those of this module.
fn add_files(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() && !path.ends_with("reference") && !path.ends_with("commands/explain.rs") {
            add_files(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
}

#[test]
fn each_code_is_used_by_the_code() {
    let host = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");

    let mut files = Vec::new();
    for part in [
        "host/core",
        "host/kube",
        "host/wasm",
        "host/manager",
        "host/bin/host",
        "cli",
    ] {
        add_files(&host.join(part).join("src"), &mut files);
    }

    let mut uses = Uses::default();
    for file in &files {
        let text = fs::read_to_string(file).expect("a file");
        uses.visit_file(
            &syn::parse_file(&text).unwrap_or_else(|error| panic!("{}: {error}", file.display())),
        );
    }

    let unused: Vec<_> = reasons::all()
        .filter(|reason| !uses.0.contains(&word(reason.as_str())))
        .collect();

    assert!(
        unused.is_empty(),
        "no code uses {unused:?}: remove them from host/api/src/reasons"
    );
}
