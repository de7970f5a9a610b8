#!/usr/bin/env bash
# page.sh: builds the host's page into page/dist, which the host embeds. page.sh --check fails if page/dist is not what the source
# gives. page.sh packages installs the packages of page/package-lock.json only.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../page"

for program in node npm; do
    command -v "$program" >/dev/null || { echo "page: $program is not installed; CONTRIBUTING.md lists the requirements" >&2; exit 1; }
done

# Installed packages are kept until the lockfile changes.
stamp=$(sha256sum package.json package-lock.json)
if [ "$(cat node_modules/.stamp 2>/dev/null)" != "$stamp" ]; then
    echo "page: installing packages"
    npm ci --silent --no-audit --no-fund
    echo "$stamp" >node_modules/.stamp
fi

case ${1:-} in
packages) ;;
--check)
    fresh=$(mktemp -d)
    trap 'rm -rf "$fresh"' EXIT
    node build.mjs "$fresh"
    diff -r "$fresh" dist >/dev/null || { echo "page: page/dist is not what the source gives: run scripts/page.sh and commit it" >&2; exit 1; }
    ;;
"") node build.mjs ;;
*) echo "page: unknown argument $1" >&2; exit 2 ;;
esac
