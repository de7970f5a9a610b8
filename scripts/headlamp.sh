#!/usr/bin/env bash
# headlamp.sh: type-checks, builds (deploy/headlamp/dist/main.js) and tests the plugin for Headlamp. It installs about 900 MB of
# packages, Headlamp's own among them.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=scripts/common.sh
. scripts/common.sh
cd deploy/headlamp

npm_packages headlamp --ignore-scripts
npm run --silent check
npm run --silent build
npm test --silent
