#!/usr/bin/env bash
# fuzz-rustc.sh RUSTC ARGUMENT...: the RUSTC_WRAPPER of fuzz.sh. It compiles Wasmtime and its compiler without coverage: their own
# project fuzzes them, and coverage would triple the build time.
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
