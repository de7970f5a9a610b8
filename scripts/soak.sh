#!/usr/bin/env bash
# soak.sh: runs informers behind a faulty connection on a real API server, with SEEDS (60) seeds from FIRST (1) on, and prints one line
# of results at the end. `FIRST=17 SEEDS=1` replays seed 17.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
export RUST_BACKTRACE=0 SEEDS FIRST
: "${SEEDS:=60}" "${FIRST:=1}"

mkdir -p target
log=target/soak.log
failed=0
test=informers_converge_under_connection_faults
cargo test --locked --workspace --test faults -- --exact --nocapture "$test" 2>&1 | tee "$log" || failed=1
grep '^soak: ' "$log" || echo "soak: aborted; the log is target/soak.log"
exit "$failed"
