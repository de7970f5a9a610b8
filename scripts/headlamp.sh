#!/usr/bin/env bash
# headlamp.sh: type-checks, builds and tests the plugin for Headlamp in deploy/headlamp; the build is deploy/headlamp/dist/main.js. Its
# packages, those of Headlamp's page among them, take about 900 MB.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=scripts/common.sh
. scripts/common.sh
cd deploy/headlamp

npm_packages headlamp --ignore-scripts
npm run --silent check
npm run --silent build
npm test --silent
