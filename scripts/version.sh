#!/usr/bin/env bash
# version.sh: prints the version that the host, the chart and the SDKs share, from the workspace in Cargo.toml.
# version.sh --check: fails if a file has a different version, if CHANGELOG.md has no entry for it, or if HEAD has a tag v… that is
# not this version or whose entry is still unreleased. docs/releasing.md lists the files.
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
expect plugins/sdk-go/controllerruntime/go.mod "	operetta.dev/sdk-go v$version"
expect cli/templates/go/go.mod "require operetta.dev/sdk-go v$version"
expect deploy/base/kustomization.yaml "    newTag: $version"
expect deploy/chart/operetta/Chart.yaml "version: $version"
grep -qE "^appVersion: \"?${version//./\\.}\"?\$" deploy/chart/operetta/Chart.yaml || { echo "version: Chart.yaml has another appVersion" >&2; failed=1; }
grep -qF "## [$version] - " CHANGELOG.md || { echo "version: CHANGELOG.md has no entry [$version]" >&2; failed=1; }

tag=$(git describe --tags --exact-match --match "v[0-9]*" 2>/dev/null || true)
if [ -n "$tag" ]; then
    [ "$tag" = "v$version" ] || { echo "version: HEAD has the tag $tag, but the version is $version" >&2; failed=1; }
    grep -qE "^## \[${version//./\\.}\] - [0-9]{4}-[0-9]{2}-[0-9]{2}\$" CHANGELOG.md || { echo "version: $tag is tagged, but CHANGELOG.md has no date for it" >&2; failed=1; }
fi
exit $failed
