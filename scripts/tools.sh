#!/usr/bin/env bash
# What the languages of the SDKs need beside their own toolchains, in ignored folders: target/tools/bin (componentize-py,
# zig) and plugins/sdk-js/node_modules. A second run does nothing.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

for tool in go node npm python3; do
    command -v "$tool" >/dev/null || { echo "tools: $tool is not installed; README.md lists what is needed" >&2; exit 1; }
done

# fresh STAMP FILE...: whether the stamp was left by the same files, for the same folder: the commands of a Python
# environment name the folder that it was made in, so one that was moved, or that another clone links to, is made anew.
sum() { (cat "$@"; realpath target) | sha256sum; }
fresh() { [ -f "$1" ] && [ "$(cat "$1")" = "$(sum "${@:2}")" ]; }
leave() { sum "${@:2}" >"$1"; }

mkdir -p target
tools=$(realpath target)/tools
python=(scripts/requirements.txt plugins/sdk-python/requirements-dev.txt)
if ! fresh "$tools/.stamp" "${python[@]}" || ! "$tools/bin/mypy" --version >/dev/null 2>&1; then
    echo "tools: componentize-py and zig"
    python3 -m venv --clear "$tools"
    for file in "${python[@]}"; do
        "$tools/bin/pip" install --quiet --disable-pip-version-check --require-virtualenv -r "$file"
    done
    leave "$tools/.stamp" "${python[@]}"
fi
node=(plugins/sdk-js/package.json plugins/sdk-js/package-lock.json)
if ! fresh plugins/sdk-js/node_modules/.stamp "${node[@]}"; then
    echo "tools: the TypeScript SDK's packages"
    # Not `npm ci`: it refuses the lock file for platforms that componentize-qjs names and has no package for.
    (cd plugins/sdk-js && npm install --no-save --silent --no-audit --no-fund)
    leave plugins/sdk-js/node_modules/.stamp "${node[@]}"
fi
# As a project's own packages would have it; of this clone, whichever filled the folder.
ln -sfn "$PWD/plugins/sdk-js/bin/operetta-js.mjs" "$tools/bin/operetta-js"
echo "tools: up to date"
