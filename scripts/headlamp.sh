#!/usr/bin/env bash
# headlamp.sh: type-checks, builds and tests the plugin for Headlamp in deploy/headlamp; the build is deploy/headlamp/dist/main.js. Its
# packages, those of Headlamp's page among them, take about 900 MB.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../deploy/headlamp"

for program in node npm; do
    command -v "$program" >/dev/null || { echo "headlamp: $program is not installed; CONTRIBUTING.md lists the requirements" >&2; exit 1; }
done

# Installed packages are kept until the lockfile changes.
stamp=$(sha256sum package.json package-lock.json)
if [ "$(cat node_modules/.stamp 2>/dev/null)" != "$stamp" ]; then
    echo "headlamp: installing packages"
    npm ci --silent --no-audit --no-fund --ignore-scripts
    echo "$stamp" >node_modules/.stamp
fi
npm run --silent check
npm run --silent build
npm test --silent
