#!/usr/bin/env bash
# fuzz.sh [SECONDS [TARGET...]]: each fuzz target, or those named, for so many seconds (60) with inputs that libFuzzer finds by
# coverage. One line for each says how it went. What it learns goes to target/fuzz/corpus and is where the next run begins;
# what breaks a promise goes to fuzz/artifacts, and the exit code is 1.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
export RUST_BACKTRACE=0

seconds=${1:-60}
[ $# -eq 0 ] || shift
mkdir -p target/tools
# Does nothing when this version is there.
cargo install --quiet --locked --root target/tools --version 0.13.1 cargo-fuzz
if [ $# -eq 0 ]; then
    # shellcheck disable=SC2046
    set -- $(cd fuzz/fuzz_targets && ls | sed 's/\.rs$//')
fi
# Without a sanitizer: there is no unsafe code to watch, and with one the stable toolchain would not do.
echo "fuzz: building; with wasmtime in it, that takes long the first time"
PATH=$PWD/target/tools/bin:$PATH RUSTC_WRAPPER=$PWD/scripts/fuzz-rustc.sh \
    cargo fuzz build --sanitizer none --no-cfg-fuzzing --features libfuzzer --target-dir target/fuzz
programs=target/fuzz/$(rustc -vV | sed -n 's/^host: //p')/release

failed=0
for target; do
    learned=target/fuzz/corpus/$target log=target/fuzz/$target.log found=fuzz/artifacts/$target/
    mkdir -p "$learned" "$found"
    if "$programs/$target" -max_total_time="$seconds" -timeout=30 -max_len=16384 -print_final_stats=1 \
        -artifact_prefix="$found" "$learned" "fuzz/corpus/$target" >"$log" 2>&1; then
        result="nothing found"
    else
        result="FOUND SOMETHING" failed=1
    fi
    executions=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
    edges=$(sed -n 's/.* cov: \([0-9]*\).*/\1/p' "$log" | tail -1)
    printf 'fuzz: %-10s %9s executions in %s s, %6s edges covered, %s\n' \
        "$target" "${executions:-?}" "$seconds" "${edges:-?}" "$result"
    if [ "$result" != "nothing found" ]; then
        input=$(sed -n 's/.*Test unit written to //p' "$log" | tail -1)
        grep -m1 -A2 "panicked at" "$log" || tail -3 "$log"
        echo "fuzz: $log says more; again: $programs/$target ${input:-}; in fuzz/corpus/$target it is tried by make test"
    fi
done
exit "$failed"
