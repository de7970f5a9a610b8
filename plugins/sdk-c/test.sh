#!/usr/bin/env bash
# Runs the tests of the SDK and the examples natively with the C compiler (CC, by default cc), and checks that the
# generated files are current.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
./generate.sh --check
out=$(mktemp -d)
trap 'rm -r "$out"' EXIT
# shellcheck disable=SC2054  # the commas are part of the option
flags=(-std=c11 -D_DEFAULT_SOURCE -g -Wall -Wextra -Werror -fsanitize=address,undefined -fno-sanitize-recover=all)
"${CC:-cc}" "${flags[@]}" operetta.c tests/*.c -o "$out/sdk" -lm
"$out/sdk"
"${CC:-cc}" "${flags[@]}" -I. operetta.c example/*.c -o "$out/example"
"$out/example"
sample=../../examples/sample-controller/c
if [ -d "$sample" ]; then
    "${CC:-cc}" "${flags[@]}" -I. operetta.c "$sample"/*.c -o "$out/sample"
    "$out/sample"
fi
"${CC:-cc}" "${flags[@]}" -fsyntax-only conformance/*.c
