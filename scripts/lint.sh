#!/usr/bin/env bash
# lint.sh [PART...]: format, lints and other static checks; warnings are errors. Parts: rust (format and clippy), guests
# (clippy for wasm32), docs (cargo doc), dependencies (cargo-deny, MSRV,
# what the host is linked with), go, python, typescript, c, text (shell scripts, spelling, links, counts, the book). Without
# a part it runs all of them. Run scripts/tools.sh first. What depends on the day is in audit.sh.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
export PATH=$PWD/target/tools/bin:$PATH GOTOOLCHAIN=local
# shellcheck source=scripts/common.sh
. scripts/common.sh

say() { echo "lint: $*"; }
fail() { say "$@" >&2; exit 1; }

rust() {
    say "cargo fmt"
    cargo fmt --all --check
    say "cargo build with clippy"
    cargo_linted build --locked --quiet --workspace --all-targets
}

guests() {
    say "cargo clippy for wasm32-wasip2"
    scripts/toolchain.sh
    cargo clippy --locked --quiet --target wasm32-wasip2 \
        -p operetta-sdk -p conformance-rust -p sample-controller -p pod-tracker -p fixture-first-plugin -p fixture-mapper -p fixture-misbehave -p fixture-own-writes -p fixture-touch -p fixture-touch-v1 -p fixture-touch-v2 \
        -- -D warnings
}

docs() {
    say "cargo doc"
    RUSTDOCFLAGS="-D warnings" cargo doc --locked --quiet --workspace --no-deps
}

# The supported Rust version is that of the toolchain, so every build checks it. A crate must not declare another
# version. After the first release, cargo-semver-checks compares the published crates with it here.
dependencies() {
    say "the supported Rust version"
    local channel
    channel=$(sed -n 's/^channel = "\([0-9]*\.[0-9]*\)\..*/\1/p' rust-toolchain.toml)
    cargo metadata --locked --no-deps --format-version 1 | python3 -c '
import json, sys
wrong = [p["name"] for p in json.load(sys.stdin)["packages"] if p["rust_version"] != sys.argv[1]]
sys.exit(f"lint: not rust-version {sys.argv[1]}, the toolchain'"'"'s: {wrong}" if wrong else 0)' "$channel"
    say "cargo deny: bans, licenses, sources"
    # It reads the packages of all platforms, and offline it finds only those that are here.
    cargo fetch --locked --quiet
    cargo-deny --offline check --hide-inclusion-graph bans licenses sources 2>&1 | grep -v '^$' || fail "cargo deny failed"
    host_contains_only_the_host
}

# Cargo unifies features within a build, so what the image runs is built by itself, and this is its tree.
host_contains_only_the_host() {
    say "what operetta-host is linked with"
    local others
    others=$(cargo tree --locked --package operetta-host --edges normal --prefix none |
        grep -oE '^(cranelift-codegen|wasmtime-wizer|ratatui|clap_complete|clap_mangen|operetta-apiserver|operetta-compiler|operetta) ' | sort -u) || true
    [ -z "$others" ] || fail "operetta-host is linked with $others"
}

go() {
    say "gofmt and go vet"
    local unformatted module
    unformatted=$(git ls-files -z "*.go" ":!cli/templates" | xargs -0 gofmt -l)
    [ -z "$unformatted" ] || fail "not formatted: $unformatted"
    (cd deploy/controlplane && command go vet ./supervisor/... ./parentdeath/... ./stages/... ./cmd/... ./json/...)
    for module in scripts/image cli/src/commands/adopt/helper plugins/sdk-go plugins/sdk-go/controllerruntime plugins/sdk-go/conformance tests/guests/*-go* examples/*/go benches/peers/{go,cloud-manager}; do
        (cd "$module" && command go vet ./...)
    done
}

python() {
    say "ruff and mypy"
    (cd plugins/sdk-python && ruff check --quiet . && ruff format --quiet --check . && mypy)
}

typescript() {
    say "tsc"
    (cd plugins/sdk-js && node_modules/.bin/tsc)
    say "the host's page: tsc, no HTML of strings, page/dist"
    scripts/page.sh packages
    (cd page && npm run --silent check)
    scripts/page.sh --check
}

c() {
    say "the C SDK's generated files"
    plugins/sdk-c/generate.sh --check
}

text() {
    say "each SDK's copy of the contract"
    local copy
    for copy in plugins/sdk-*/controller.wit plugins/sdk-*/wit/controller.wit plugins/sdk-python/operetta/wit/controller.wit; do
        cmp wit/controller.wit "$copy"
    done
    for copy in plugins/sdk-js plugins/sdk-python/operetta; do
        cmp wit/development/development.wit "$copy/wit/development/development.wit"
    done
    say "each package's copy of the license"
    for copy in host/api plugins/sdk-rust plugins/sdk-rust/derive plugins/sdk-go plugins/sdk-js plugins/sdk-python; do
        cmp LICENSE "$copy/LICENSE"
    done
    say "versions"
    scripts/version.sh --check
    say "the table of docs/sdks.md"
    scripts/sample-lines.py --check
    say "shellcheck"
    shellcheck scripts/*.sh plugins/sdk-c/*.sh .ci/run
    say "typos"
    typos --quiet || { typos --format brief; fail "typos failed; exceptions are in _typos.toml"; }
    say "links in the documentation"
    git ls-files -z "*.md" ":!cli/templates" | xargs -0 lychee --offline --include-fragments --quiet --no-progress
    say "the book"
    local report
    report=$(scripts/book.sh) || fail "$report"
    local page
    for page in docs/*.md docs/*/*.md; do
        [ "$page" = docs/SUMMARY.md ] || grep -qF "](${page#docs/})" docs/SUMMARY.md || fail "$page is not in docs/SUMMARY.md"
    done
}

[ $# -gt 0 ] || set -- rust guests docs dependencies go python typescript c text
for part; do
    case $part in
    rust | guests | docs | dependencies | go | python | typescript | c | text) "$part" ;;
    *) fail "no part is named $part" ;;
    esac
done
