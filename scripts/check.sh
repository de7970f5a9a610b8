#!/usr/bin/env bash
# The check for every change: format, lints and the unit tests of the crates below. It needs rustup and Python only, and no
# control plane.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
export PATH=$PWD/target/tools/bin:$PATH

crates="api core scheduler kube wasm" # folders of host/
scripts/tools.sh python
scripts/lint.sh rust text
filter=
for crate in $crates; do
    [ ! -d "host/$crate" ] || filter+="${filter:+ | }package(operetta-$crate)"
done
# The whole workspace, because cargo chooses other features for a single package and then compiles all dependencies again.
cargo nextest run --locked --cargo-quiet --workspace --lib -E "$filter"
