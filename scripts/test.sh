#!/usr/bin/env bash
# Everything that CI runs. Installs what it needs into ignored folders, and ends with one line that counts all tests.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
export RUST_BACKTRACE=0

for tool in cargo rustup go node npm python3 cc; do
    command -v "$tool" >/dev/null || { echo "test: $tool is not installed; README.md lists what is needed" >&2; exit 1; }
done
mkdir -p target
log=target/test.log
: >"$log"

scripts/controlplane.sh
scripts/tools.sh
scripts/lint.sh
scripts/guests.sh

failed=0
# inside FOLDER COMMAND...: one language's own tests.
inside() {
    echo "test: $1: ${*:2}"
    (cd "$1" && "${@:2}") || failed=1
}
export GOTOOLCHAIN=local PATH="$PWD/target/tools/bin:$PATH"
inside deploy/controlplane go test ./supervisor/...
for module in plugins/sdk-go plugins/sdk-go/controllerruntime plugins/sdk-go/conformance examples/*/go; do
    inside "$module" go test ./...
done
inside plugins/sdk-js npm test --silent
for project in plugins/sdk-js/conformance examples/*/typescript; do
    [ ! -d "$project/test" ] || inside "$project" node "$PWD/plugins/sdk-js/bin/operetta-js.mjs" test
done
inside plugins/sdk-python pytest -q
for project in examples/*/python; do inside "$project" env PYTHONPATH="$PWD/plugins/sdk-python" pytest -q; done
inside plugins/sdk-c ./test.sh
echo "test: cargo test"
cargo test --locked --workspace --no-fail-fast 2>&1 | tee "$log" || failed=1

# The test programs named here start a real API server.
count() { awk -v only="$1" '
    /Running / { real = ($0 ~ /Running tests\/(access|api|conformance|examples|faults|host|kills|kube_rs|outage|projects|quotas|rights|watch)/) }
    /^test result:/ && (only == "all" || real) { passed += $4; bad += $6 }
    END { printf "%d passed, %d failed", passed, bad }' "$log"; }
echo
echo "on the real control plane: $(count real)"
count all
echo
[ "$failed" = 0 ]
