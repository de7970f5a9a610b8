#!/usr/bin/env bash
# peers.sh [go]: builds the benchmarks' peers (benches/peers) into target/peers: peer-go with client-go and controller-runtime,
# peer-leader with controller-runtime, peer-kube-rs and peer-kube-rs-store with kube-rs; with `go` only those in Go. It reports a peer
# that cannot be built; the benchmarks then run without that peer.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit
out=$PWD/target/peers
mkdir -p "$out"

# missing PROGRAM REASON: reports a peer that cannot be built, and removes its old build, which must not be used.
missing() {
    rm -f "$out/$1"
    echo "peers: no $1: $2" >&2
}

# go_peer PROGRAM PACKAGE: builds one in Go.
go_peer() {
    if ! command -v go >/dev/null; then
        missing "$1" "install Go 1.26"
    elif ! (cd benches/peers/go && GOTOOLCHAIN=local GOWORK=off CGO_ENABLED=0 go build -mod=readonly -trimpath -o "$out/$1" "$2"); then
        missing "$1" "the build failed"
    fi
}
go_peer peer-go .
go_peer peer-leader ./leader
[ "${1:-}" != go ] || exit 0

# The whole workspace, as in every native build: cargo then compiles each dependency once, with the same features.
built=${CARGO_TARGET_DIR:-target}/release
if cargo build --release --locked --quiet --workspace --bin peer-kube-rs --bin peer-kube-rs-store; then
    for name in peer-kube-rs peer-kube-rs-store; do
        cp "$built/$name" "$out/.$name.$$" && mv -f "$out/.$name.$$" "$out/$name"
    done
else
    for name in peer-kube-rs peer-kube-rs-store; do missing "$name" "the build failed"; done
fi
