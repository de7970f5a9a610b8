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
"${CC:-cc}" "${flags[@]}" -c operetta.c -o "$out/operetta.o"
"${CC:-cc}" "${flags[@]}" "$out/operetta.o" tests/*.c -o "$out/sdk" -lm
"$out/sdk"
"${CC:-cc}" "${flags[@]}" "$out/operetta.o" tests/plugin.c tests/failing/*.c -o "$out/failing" -lm
# fails WANT...: runs the tests that fail on purpose, and checks that each text is in their output.
fails() {
    local want
    ! "$out/failing" >"$out/log" 2>&1 || { echo "test.sh: the tests that fail on purpose passed" >&2; return 1; }
    for want; do
        grep -qF -- "$want" "$out/log" || { echo "test.sh: no '$want' in:" >&2; cat "$out/log" >&2; return 1; }
    done
}
fails "expected 1, got 2" "the cluster at the end of the test:" visible "add Widget.example.com/v1 ns/Not A Name: Invalid" "ok   later_test_still_runs" \
    "1 passed, 2 failed"
OPERETTA_TEST_ADDRESS="" OPERETTA=/none/operetta fails "there is no program /none/operetta" "0 passed, 3 failed"
OPERETTA_TEST_ADDRESS=127.0.0.1:1 fails "TOKEN@HOST:PORT is needed"
OPERETTA_TEST_ADDRESS="" OPERETTA=false fails "\`false test --serve\` ended with exit code 1"
"${CC:-cc}" "${flags[@]}" -I. "$out/operetta.o" example/*.c -o "$out/example"
"$out/example"
sample=../../examples/sample-controller/c
if [ -d "$sample" ]; then
    "${CC:-cc}" "${flags[@]}" -I. "$out/operetta.o" "$sample"/*.c -o "$out/sample"
    (cd "$sample" && "$out/sample") # the server reads the crd.yaml of its folder
fi
"${CC:-cc}" "${flags[@]}" -fsyntax-only conformance/*.c
