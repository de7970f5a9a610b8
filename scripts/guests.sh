#!/usr/bin/env bash
# guests.sh [rust]: builds every plugin in this repository as a component: the examples and the SDKs' conformance plugins to
# target/plugins/NAME.wasm, and the guests of the tests. Programs that run as processes go to target/processes/NAME.wasm.
# `operetta build` builds the projects in other languages than Rust, if their files have changed. With `rust` it builds only
# the Rust plugins, which need no other toolchain.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
target=${CARGO_TARGET_DIR:-target}

rust="sample-controller pod-tracker hostile conformance-rust"
fixtures="fixture-bench fixture-mapper fixture-misbehave fixture-own-writes fixture-process-rust fixture-touch-v1 fixture-touch-v2"
# Built separately: otherwise every guest would have the SDK features that these need.
featured="fixture-kube-rs"
# NAME FOLDER SDK
projects="
sample-controller-go       examples/sample-controller/go        plugins/sdk-go
sample-controller-python   examples/sample-controller/python    plugins/sdk-python
sample-controller-typescript examples/sample-controller/typescript plugins/sdk-js
sample-controller-c        examples/sample-controller/c         plugins/sdk-c
app-service-go             examples/app-service/go              plugins/sdk-go
app-service-typescript     examples/app-service/typescript      plugins/sdk-js
cloud-manager-go           examples/cloud-manager/go            plugins/sdk-go
cloud-manager-python       examples/cloud-manager/python        plugins/sdk-python
conformance-go             plugins/sdk-go/conformance           plugins/sdk-go
conformance-typescript     plugins/sdk-js/conformance           plugins/sdk-js
conformance-python         plugins/sdk-python/conformance       plugins/sdk-python
conformance-c              plugins/sdk-c/conformance            plugins/sdk-c
mapper-typescript          tests/guests/mapper-typescript   plugins/sdk-js
mapper-controllerruntime   tests/guests/mapper-controllerruntime plugins/sdk-go
k8s-types-go               tests/guests/k8s-types-go        plugins/sdk-go
"
# NAME FOLDER
processes="
process-go                 tests/guests/process-go
process-operator           tests/guests/process-operator
process-kube               tests/guests/process-kube
"
# For `make bench-languages`.
if [ -n "${BENCH:-}" ]; then
    projects+="
bench-go                   tests/guests/bench-go            plugins/sdk-go
bench-go-k8s               tests/guests/bench-go-k8s        plugins/sdk-go
bench-typescript           tests/guests/bench-typescript    plugins/sdk-js
bench-python               tests/guests/bench-python        plugins/sdk-python
bench-c                    tests/guests/bench-c             plugins/sdk-c
"
fi

# sources PATH...: a hash of the files in these folders, without documents.
sources() {
    git ls-files --cached --others --exclude-standard -z -- "$@" ':!*.md' | sort -zu | xargs -0 sha256sum 2>/dev/null | sha256sum
}
# outputs: lists the files that the Rust build writes.
outputs() {
    local name
    for name in $rust; do echo "target/plugins/$name.wasm"; done
    for name in $rust $fixtures $featured; do echo "$target/wasm32-wasip2/guest/${name//-/_}.wasm"; done
}

mkdir -p target/plugins
stamp=target/plugins/.rust.sources
now=$(sources Cargo.toml Cargo.lock rust-toolchain.toml .cargo wit host/api plugins/sdk-rust tests/guests 'examples/*/rust/*' scripts/guests.sh)
# Cargo would build them again in each new clone.
if [ "$(cat "$stamp" 2>/dev/null)" != "$now" ] || ! outputs | xargs ls >/dev/null 2>&1; then
    scripts/toolchain.sh
    packages=()
    for name in $rust $fixtures; do packages+=(-p "$name"); done
    cargo build --locked --quiet --profile guest --target wasm32-wasip2 "${packages[@]}"
    for name in $featured; do cargo build --locked --quiet --profile guest --target wasm32-wasip2 -p "$name"; done
    for name in $rust; do
        cp "$target/wasm32-wasip2/guest/${name//-/_}.wasm" "target/plugins/$name.wasm"
    done
    echo "$now" >"$stamp"
fi
if [ "${1:-}" = rust ]; then
    echo "guests: $(echo "$rust" | wc -w) plugins in Rust, $(echo "$fixtures $featured" | wc -w) fixtures"
    exit
fi

scripts/tools.sh
# The tests have built it, with the features that they need.
[ -n "${BUILT:-}" ] || cargo build --locked --quiet --workspace --bin operetta
built=0
# build NAME FOLDER OUTPUT SOURCE...: builds a project, if one of these files has changed.
build() {
    local name=$1 folder=$2 output=$3 stamp now
    shift 3
    stamp="${output%/*}/.$name.sources"
    now=$(sources "$folder" "$@")
    if [ -f "$output" ] && [ "$(cat "$stamp" 2>/dev/null)" = "$now" ]; then return; fi
    echo "guests: $name"
    OPERETTA_TOOLS=$PWD/target/tools "$target/debug/operetta" build "$folder" -o "$output"
    echo "$now" >"$stamp"
    built=$((built + 1))
}
while read -r name folder sdk; do
    [ -n "$name" ] || continue
    # The project, its SDK, the contract and the build.
    build "$name" "$folder" "target/plugins/$name.wasm" "$sdk" wit cli/src/commands/build host/wasm/src/compiler/snapshot.rs scripts/requirements.txt
done <<<"$projects"
mkdir -p target/processes
while read -r name folder; do
    [ -n "$name" ] || continue
    build "$name" "$folder" "target/processes/$name.wasm" cli/src/commands/build
done <<<"$processes"
echo "guests: $(echo "$rust" | wc -w) in Rust, $(echo "$projects$processes" | grep -c .) in other languages ($built built now), $(echo "$fixtures $featured" | wc -w) fixtures"
