#!/usr/bin/env bash
# peers.sh [go|e2e|consistency]: builds the benchmarks' peers (benches/peers) into target/peers. Without an argument those that answer rounds:
# peer-go with client-go and controller-runtime, peer-kube-rs and peer-kube-rs-store with kube-rs, and peer-leader; with `go` only
# those in Go; with `e2e` the sample-controller on controller-runtime and on kube-rs, the cloud-manager on controller-runtime, and the host
# beside them with its compiler, those in Rust in the profile production; with `consistency` peer-outage and peer-lag. It reports a peer that
# cannot be built; the benchmarks then run without that peer.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit
out=$PWD/target/peers
mkdir -p "$out"
# cargo sets these for a bench, which calls this. Build scripts that read them, as ring's, would run again each time, and all that depends
# on them would be compiled again.
unset OUT_DIR CARGO_CRATE_NAME CARGO_BIN_NAME CARGO_PRIMARY_PACKAGE "${!CARGO_PKG_@}" "${!CARGO_MANIFEST_@}"

# missing PROGRAM REASON: reports a peer that cannot be built, and removes its old build, which must not be used.
missing() {
    rm -f "$out/$1"
    echo "peers: no $1: $2" >&2
}

# go_peer PROGRAM PACKAGE [MODULE]: builds one in Go.
go_peer() {
    if ! command -v go >/dev/null; then
        missing "$1" "install Go 1.26"
    elif ! (cd "benches/peers/${3:-go}" && GOTOOLCHAIN=local GOWORK=off CGO_ENABLED=0 go build -mod=readonly -trimpath -o "$out/$1" "$2"); then
        missing "$1" "the build failed"
    fi
}

# rust_programs PROFILE NAME...: builds programs of the workspace. All of it is selected, as in most native builds: cargo then compiles
# each dependency once, with the same features, and without those of the tests.
rust_programs() {
    local name profile=$1 bins=()
    shift
    for name; do bins+=(--bin "$name"); done
    rust_build "$profile" "$*" --workspace "${bins[@]}"
}

# rust_build PROFILE "NAME..." ARGUMENT...: runs cargo build with these arguments, and keeps the programs.
rust_build() {
    local name profile=$1 names=$2 built=${CARGO_TARGET_DIR:-target}/$1
    shift 2
    if cargo build --profile "$profile" --locked --quiet "$@"; then
        for name in $names; do cp "$built/$name" "$out/.$name.$$" && mv -f "$out/.$name.$$" "$out/$name"; done
    else
        for name in $names; do missing "$name" "the build failed"; done
    fi
}

if [ "${1:-}" = e2e ]; then
    go_peer peer-sample-controller ./samplecontroller
    go_peer peer-cloud-manager . cloud-manager
    # Each by itself, as they are released: in one build cargo would give the host the features of the others, and so a compiler.
    rust_build production operetta-host --package operetta-host
    rust_build production operetta-compiler --package operetta-compiler
    rust_programs production peer-kube-rs-sample-controller
    exit 0
fi
if [ "${1:-}" = consistency ]; then
    go_peer peer-outage ./outage
    go_peer peer-lag ./lag
    exit 0
fi
go_peer peer-go .
go_peer peer-leader ./leader
[ "${1:-}" = go ] || rust_programs release peer-kube-rs peer-kube-rs-store
