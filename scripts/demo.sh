#!/usr/bin/env bash
# The demo is `operetta dev` with the sample-controller: an API server, the host and the plugin in one process, and a Foo whose
# Deployment becomes available. It runs until Ctrl-C, with ONCE=1 only until then, and leaves no process behind.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
export RUST_BACKTRACE=0

if [ "${REAL:-}" = 1 ]; then exec scripts/demo-real.sh; fi
started=$(date +%s%N)
seconds() { awk "BEGIN { printf \"%.1f\", ($(date +%s%N) - $started) / 1e9 }"; }
step() { printf '\033[1m==> %s\033[0m\n' "$*"; }
target=${CARGO_TARGET_DIR:-target}
dir=$PWD/target/demo-run
dev=
cleanup() {
    trap - EXIT INT TERM
    [ -z "$dev" ] || kill "$dev" 2>/dev/null || true
    [ -z "$dev" ] || wait "$dev" 2>/dev/null || true
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

step "Building the program and the target of plugins (once; minutes)"
scripts/toolchain.sh
operetta=$target/debug/operetta
cargo build --locked --quiet --package operetta --bin operetta

step "operetta dev examples/sample-controller/rust"
rm -rf "$dir" && mkdir -p "$dir"
"$operetta" dev examples/sample-controller/rust --manifests examples/sample-controller \
    >"$dir/dev.log" 2>&1 </dev/null &
dev=$!
tail -n +1 -F --pid "$dev" "$dir/dev.log" 2>/dev/null &

# until_shown SECONDS PATTERN FILE: waits for a line.
until_shown() {
    local limit=$(($(date +%s) + $1))
    until grep -q "$2" "$3" 2>/dev/null; do
        kill -0 "$dev" 2>/dev/null || { echo "demo: operetta dev has ended, see $dir/dev.log" >&2; exit 1; }
        [ "$(date +%s)" -lt "$limit" ] || { echo "demo: timed out waiting for $2 in $3" >&2; exit 1; }
        sleep 0.1
    done
}
until_shown 60 'export KUBECONFIG=' "$dir/dev.log"
export KUBECONFIG=$PWD/examples/sample-controller/rust/.operetta/kubeconfig
until_shown 300 'reconciled default/example-foo' "$dir/dev.log"
"$operetta" watch foos example-foo -n default -o json >"$dir/foo.json" 2>&1 &
until_shown 60 '"availableReplicas": *[1-9]' "$dir/foo.json"
kill $! 2>/dev/null || true

step "The Foo after $(seconds) s"
grep -A3 '"status": *{' "$dir/foo.json" | tail -n 4
echo "The memory of API server, host and plugin: $(awk '/VmRSS/ {printf "%d MB", $2 / 1024}' "/proc/$dev/status" 2>/dev/null || echo unknown)"

if [ "${ONCE:-}" = 1 ]; then exit 0; fi
cat <<EOF

To try more, edit examples/sample-controller/rust/src/lib.rs, or in another terminal, with kubectl:

  export KUBECONFIG=$KUBECONFIG
  kubectl scale deployment example-foo --replicas=5    # the plugin reverts it
  kubectl delete deployment example-foo                # the plugin creates it again
  kubectl describe foo example-foo

REAL=1 make demo does the same on a real control plane. Ctrl-C stops everything.
EOF
wait "$dev"
