#!/usr/bin/env bash
# test.sh [LANGUAGE...]: the tests of these languages: rust, go, typescript, python, c; `embedded` stands for the Rust tests that
# use a control plane, on the embedded API server. Without any it runs everything that CI runs: static checks, the plugins'
# builds and all tests. It installs its tools into ignored folders.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
export RUST_BACKTRACE=0 GOTOOLCHAIN=local PATH="$PWD/target/tools/bin:$PATH"
# What cargo keeps for the next change of one crate takes gigabytes, and this builds everything once.
export CARGO_INCREMENTAL=0
# The program whose test server the tests of all SDKs use.
export OPERETTA="$PWD/target/debug/operetta"
# shellcheck source=scripts/common.sh
. scripts/common.sh

started=$SECONDS
failures=()
# step COMMAND...: runs a command, and prints the time that it took.
step() {
    local begun=$SECONDS
    echo "test: $*"
    "$@" || failures+=("$*")
    echo "test: $* took $((SECONDS - begun)) s"
}
# inside FOLDER COMMAND...: runs the tests of one project.
inside() {
    echo "test: $1: ${*:2}"
    (cd "$1" && "${@:2}") || { echo "test: $1: FAILED"; return 1; }
}

test_go() {
    local module result=0
    inside deploy/controlplane go test ./supervisor/... || result=1
    inside scripts/image env CGO_ENABLED=0 go test ./... || result=1
    inside cli/src/commands/adopt/helper env CGO_ENABLED=0 go test ./... || result=1
    for module in plugins/sdk-go plugins/sdk-go/controllerruntime plugins/sdk-go/conformance tests/guests/k8s-types-go examples/*/go; do
        inside "$module" go test ./... || result=1
    done
    return $result
}
test_typescript() {
    local project result=0
    inside plugins/sdk-js npm test --silent || result=1
    inside page npm test --silent || result=1
    for project in plugins/sdk-js/conformance examples/*/typescript; do
        [ ! -d "$project/test" ] || inside "$project" node "$PWD/plugins/sdk-js/bin/operetta-js.mjs" test || result=1
    done
    return $result
}
test_python() {
    local project result=0
    inside plugins/sdk-python pytest -q || result=1
    for project in examples/*/python; do
        inside "$project" env PYTHONPATH="$PWD/plugins/sdk-python" pytest -q -p operetta.testing.pytest_plugin || result=1
    done
    return $result
}
test_c() { inside plugins/sdk-c ./test.sh; }
test_languages() {
    local language result=0
    for language in go typescript python c; do "test_$language" || result=1; done
    return $result
}

# Compiles the plugins into the cache that the tests' hosts share. A host compiles with the lowest priority, which on a machine that
# many tests keep busy takes longer than they wait.
compile_plugins() {
    printf '%s\0' target/plugins/*.wasm |
        XDG_CACHE_HOME="$PWD/target/test-cache" xargs -0 -P 2 -n 1 target/debug/operetta check >target/test-compile.log
}
build_programs() { cargo build --locked --quiet --workspace --bin operetta --bin operetta-host --bin operetta-compiler; }
doc_tests() { cargo_linted test --locked --quiet --workspace --doc; }
test_rust() {
    local real
    real=$(cargo nextest list --binaries-metadata target/nextest/binaries.json --cargo-metadata target/nextest/cargo.json \
        -E 'group(control-plane)' --message-format oneline 2>/dev/null | grep -c .) || true
    echo "test: $real of the following tests run on a real control plane"
    run_tests -E 'all()'
}

# on_embedded ARGUMENT...: runs tests on the embedded API server: these arguments of cargo select them. cargo runs the tests of
# a program in one process, which so has one server and one host. The skipped tests, which need a real server, come last.
on_embedded() {
    local result=0
    rm -rf target/skipped-tests
    OPERETTA_TEST_SERVER=embedded cargo_linted test --locked --quiet --workspace --no-fail-fast "$@" || result=1
    if [ -d target/skipped-tests ]; then
        echo "test: skipped on the embedded API server:"
        sed 's/^/test:   /' target/skipped-tests/*
    fi
    return $result
}
# A small share for every run: each example in one language, one SDK, and a restart of the server. Most of their time they wait.
test_embedded_share() {
    on_embedded --test examples --test conformance --test outage -- --test-threads 6 \
        sample_controller::rust app_service::typescript cloud_manager::go pod_tracker multi_tenant \
        rust_conforms api_server_restart
}
# All test programs that use a control plane.
test_embedded() {
    local program programs=()
    for program in tests/*.rs tests/*/ host/kube/tests/*; do
        case $program in tests/guests/ | tests/testkit/) continue ;; esac
        if grep -rqs ControlPlane "$program"; then programs+=(--test "$(basename "$program" .rs)"); fi
    done
    on_embedded "${programs[@]}" -- --test-threads 6
}

# What needs no Rust: the control plane and the tools in Go and Node.
other_tools() { scripts/controlplane.sh && scripts/tools.sh; }
# in_background NAME COMMAND...: starts a command, whose output is shown when `finished NAME` waits for it.
declare -A background
in_background() {
    "${@:2}" >"target/test-$1.log" 2>&1 &
    background[$1]=$!
}
finished() {
    wait "${background[$1]}" || failures+=("$1")
    cat "target/test-$1.log"
}

everything() {
    local program
    for program in cargo rustup go node npm python3 cc; do
        command -v "$program" >/dev/null || { echo "test: $program is not installed; CONTRIBUTING.md lists the requirements" >&2; exit 1; }
    done
    step scripts/toolchain.sh
    step scripts/tools.sh python
    # Cargo's builds leave a processor idle for much of their time: the last crates wait for each other.
    in_background tools other_tools
    step scripts/lint.sh rust
    step build_tests
    finished tools
    step env BUILT=1 scripts/guests.sh
    step compile_plugins
    in_background languages test_languages
    step scripts/lint.sh guests docs dependencies go python typescript c text
    step doc_tests
    finished languages
    echo "test: all but the following tests took $((SECONDS - started)) s"
    step test_embedded_share
    test_rust || failures+=("test_rust")
}

mkdir -p target
if [ $# -eq 0 ]; then
    everything
else
    scripts/toolchain.sh
    scripts/tools.sh
    for language; do
        case $language in
        rust)
            step scripts/controlplane.sh
            step build_tests
            step env BUILT=1 scripts/guests.sh
            step doc_tests
            test_rust || failures+=("test_rust")
            ;;
        embedded)
            step scripts/controlplane.sh
            step build_tests
            step env BUILT=1 scripts/guests.sh
            test_embedded || failures+=("test_embedded")
            ;;
        go | typescript | python | c)
            step build_programs
            step "test_$language"
            ;;
        *) echo "test: no tests for $language" >&2; exit 2 ;;
        esac
    done
fi
[ ${#failures[@]} -eq 0 ] || { printf 'test: FAILED: %s\n' "${failures[@]}" >&2; exit 1; }
