# shellcheck shell=bash
# Functions that several scripts need; they source this file.

# until_true SECONDS NAME COMMAND...: repeats a command until it succeeds. When the time is up, it calls timed_out NAME, a function that
# the script defines and that ends it.
until_true() {
    local limit=$(($(date +%s) + $1)) name=$2
    shift 2
    until "$@" >/dev/null 2>&1; do
        [ "$(date +%s)" -lt "$limit" ] || timed_out "$name"
        sleep 0.2
    done
}

# npm_packages SCRIPT ARGUMENT...: installs the packages of this folder by npm ci. Installed ones are kept until the lockfile changes.
npm_packages() {
    local script=$1 program stamp
    shift
    for program in node npm; do
        command -v "$program" >/dev/null || { echo "$script: $program is not installed; CONTRIBUTING.md lists the requirements" >&2; exit 1; }
    done
    stamp=$(sha256sum package.json package-lock.json)
    if [ "$(cat node_modules/.stamp 2>/dev/null)" != "$stamp" ]; then
        echo "$script: installing packages"
        npm ci --silent --no-audit --no-fund "$@"
        echo "$stamp" >node_modules/.stamp
    fi
}

# cargo_linted ARGUMENT...: cargo with Clippy as the compiler of the workspace's own crates, and warnings as errors. Lints and tests
# then take one build, where `cargo clippy` would check all dependencies once more. The code is as fast as a debug build's, so
# nothing that is measured or shipped is built with it.
cargo_linted() { RUSTC_WORKSPACE_WRAPPER=clippy-driver CARGO_BUILD_WARNINGS=deny cargo "$@"; }

# build_tests: builds all tests of the workspace, and the programs that they start.
build_tests() {
    mkdir -p target/nextest
    # All targets, as lint.sh: with the programs alone, dependencies would have other features and be compiled again.
    cargo_linted build --locked --quiet --workspace --all-targets
    cargo_linted nextest list --locked --cargo-quiet --workspace --list-type binaries-only --message-format json >target/nextest/.binaries.json
    mv target/nextest/.binaries.json target/nextest/binaries.json
    cargo metadata --locked --format-version 1 >target/nextest/cargo.json
}

# run_tests ARGUMENT...: runs tests that build_tests has built, and no cargo around them: some tests call cargo themselves, as an
# author of a plugin does.
run_tests() {
    cargo nextest run --binaries-metadata target/nextest/binaries.json --cargo-metadata target/nextest/cargo.json "$@"
}
