#!/usr/bin/env bash
# fuzz-rustc.sh RUSTC ARGUMENT...: compiles for fuzz.sh, as cargo's RUSTC_WRAPPER. Wasmtime and its compiler are built without
# coverage: what leads a fuzzer through them is their own projects' work, and it makes the build three times as long.
set -euo pipefail

rustc=$1
shift
case " $* " in
*" --crate-name cranelift"* | *" --crate-name regalloc2 "* | *" --crate-name wasmtime"*)
    arguments=()
    for argument; do
        [[ $argument == -Cpasses=sancov-module ]] || arguments+=("$argument")
    done
    exec "$rustc" "${arguments[@]}"
    ;;
esac
exec "$rustc" "$@"
