#!/usr/bin/env bash
# fuzz.sh [SECONDS [TARGET...]]: runs every fuzz target, or the named ones, for SECONDS (60) each. libFuzzer searches for inputs by
# coverage and keeps new ones in target/fuzz/corpus for the next run. An input that violates an invariant goes to fuzz/artifacts, and
# the exit code is 1.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
export RUST_BACKTRACE=0

seconds=${1:-60}
[ $# -eq 0 ] || shift
# The target golang asks it.
scripts/controlplane.sh gojson
mkdir -p target/tools
# Does nothing if this version is installed.
cargo install --quiet --locked --root target/tools --version 0.13.1 cargo-fuzz
if [ $# -eq 0 ]; then
    set -- fuzz/fuzz_targets/*.rs
    set -- "${@##*/}"
    set -- "${@%.rs}"
fi
# Without a sanitizer: there is no unsafe code to check, and a sanitizer needs a nightly toolchain.
echo "fuzz: building; the first build compiles wasmtime and takes long"
PATH=$PWD/target/tools/bin:$PATH RUSTC_WRAPPER=$PWD/scripts/fuzz-rustc.sh \
    cargo fuzz build --sanitizer none --no-cfg-fuzzing --features libfuzzer --target-dir target/fuzz
programs=target/fuzz/$(rustc -vV | sed -n 's/^host: //p')/release

failed=0
for target; do
    learned=target/fuzz/corpus/$target log=target/fuzz/$target.log found=fuzz/artifacts/$target/
    mkdir -p "$learned" "$found"
    if "$programs/$target" -max_total_time="$seconds" -timeout=30 -max_len=16384 -print_final_stats=1 \
        -artifact_prefix="$found" "$learned" "fuzz/corpus/$target" >"$log" 2>&1; then
        result="no finding"
    else
        result="FINDING" failed=1
    fi
    executions=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
    edges=$(sed -n 's/.* cov: \([0-9]*\).*/\1/p' "$log" | tail -1)
    printf 'fuzz: %-10s %9s executions in %s s, %6s edges covered, %s\n' \
        "$target" "${executions:-?}" "$seconds" "${edges:-?}" "$result"
    if [ "$result" != "no finding" ]; then
        input=$(sed -n 's/.*Test unit written to //p' "$log" | tail -1)
        grep -m1 -A2 "panicked at" "$log" || tail -3 "$log"
        echo "fuzz: the log is $log; to run it again: $programs/$target ${input:-}; make test runs the inputs in fuzz/corpus/$target"
    fi
done
exit "$failed"
