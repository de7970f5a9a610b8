#!/usr/bin/env bash
# Formatting and lints of everything: Rust natively and as guests, Go, shell. Warnings are errors here.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

scripts/targets.sh
echo "lint: cargo fmt"
cargo fmt --all --check
echo "lint: cargo clippy"
cargo clippy --locked --quiet --workspace --all-targets -- -D warnings
echo "lint: cargo clippy, as guests"
cargo clippy --locked --quiet --target wasm32-wasip2 \
    -p operetta-sdk -p conformance-rust -p sample-controller -p pod-tracker -p fixture-mapper -p fixture-misbehave -p fixture-touch-v1 -p fixture-touch-v2 \
    -- -D warnings
echo "lint: gofmt and go vet"
unformatted=$(git ls-files -z "*.go" ":!host/operetta/templates" | xargs -0 gofmt -l)
[ -z "$unformatted" ] || { echo "lint: not formatted: $unformatted" >&2; exit 1; }
(cd deploy/controlplane && GOTOOLCHAIN=local go vet ./supervisor/... ./cmd/...)
for module in plugins/sdk-go plugins/sdk-go/controllerruntime plugins/sdk-go/conformance examples/*/go benches/peers/go; do
    (cd "$module" && GOTOOLCHAIN=local go vet ./...)
done
echo "lint: the contract is the same in each SDK"
for copy in plugins/sdk-*/controller.wit plugins/sdk-*/wit/controller.wit plugins/sdk-python/operetta/wit/controller.wit; do
    cmp wit/controller.wit "$copy"
done
echo "lint: ruff and mypy"
(cd plugins/sdk-python && ../../target/tools/bin/ruff check --quiet . && ../../target/tools/bin/ruff format --quiet --check . && ../../target/tools/bin/mypy)
echo "lint: tsc"
(cd plugins/sdk-js && node_modules/.bin/tsc)
echo "lint: the C SDK's generated files"
plugins/sdk-c/generate.sh --check
echo "lint: shell syntax"
for script in scripts/*.sh plugins/sdk-c/*.sh .ci/run; do bash -n "$script"; done
if command -v cargo-deny >/dev/null; then
    echo "lint: cargo deny"
    cargo deny --offline check bans licenses sources
fi
