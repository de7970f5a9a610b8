#!/usr/bin/env bash
# The SDK's tests and the example's, natively with the machine's C compiler (CC, else cc), and whether the generated
# files are current.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
./generate.sh --check
out=$(mktemp -d)
trap 'rm -r "$out"' EXIT
# shellcheck disable=SC2054  # the commas belong to the option
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
