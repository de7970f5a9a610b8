#!/usr/bin/env bash
# version.sh: prints the version of the host, the chart and the SDKs: that of Cargo.toml's workspace.
# version.sh --check: fails if another file has another version. docs/releasing.md says where they are.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
version=$(sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"/\1/p' Cargo.toml)
[ "${1:-}" = --check ] || { echo "$version"; exit; }

failed=0
# expect FILE TEXT: fails if no line of the file is this text.
expect() { grep -qxF -- "$2" "$1" || { echo "version: $1 has no line: $2" >&2; failed=1; }; }
for manifest in host/api plugins/sdk-rust plugins/sdk-rust/derive; do
    expect "$manifest/Cargo.toml" "version = \"$version\""
done
expect plugins/sdk-python/pyproject.toml "version = \"$version\""
expect plugins/sdk-js/package.json "  \"version\": \"$version\","
expect deploy/base/kustomization.yaml "    newTag: $version"
expect deploy/chart/operetta/Chart.yaml "version: $version"
grep -qE "^appVersion: \"?${version//./\\.}\"?\$" deploy/chart/operetta/Chart.yaml || { echo "version: Chart.yaml has another appVersion" >&2; failed=1; }
exit $failed
