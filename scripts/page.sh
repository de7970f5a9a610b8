#!/usr/bin/env bash
# page.sh: builds the host's page into page/dist, which the host embeds. page.sh --check fails if page/dist is stale. page.sh packages
# only installs the packages of page/package-lock.json.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=scripts/common.sh
. scripts/common.sh
cd page

npm_packages page

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
