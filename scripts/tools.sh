#!/usr/bin/env bash
# tools.sh [python|image]: installs what the scripts and SDKs need besides the languages' toolchains, into ignored folders: target/tools
# (programs from Python packages, Helm, promcheck and oci-image), plugins/sdk-js/node_modules and page/node_modules. `python` installs
# only the programs from Python packages, `image` those and oci-image. A second run does nothing.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

need() {
    local program
    for program; do
        command -v "$program" >/dev/null || { echo "tools: $program is not installed; CONTRIBUTING.md lists the requirements" >&2; exit 1; }
    done
}
# The stamp's content: the files that list the packages, and the folder. The programs of a Python environment contain the path
# of its folder, so an environment that was moved, or that another clone links to, is installed again.
stamp() { (cat "$@"; realpath target) | sha256sum; }
fresh() { [ -f "$1" ] && [ "$(cat "$1")" = "$(stamp "${@:2}")" ]; }
leave() { stamp "${@:2}" >"$1"; }

# go_program NAME MODULE PACKAGE: builds a program of a Go module; minutes the first time.
go_program() {
    local name=$1 module=$2 package=$3 files
    files=("$module"/go.mod "$module"/go.sum)
    [ "$package" != . ] || files+=("$module"/*.go)
    if ! fresh "$tools/.stamp-$name" "${files[@]}" || [ ! -x "$tools/bin/$name" ]; then
        echo "tools: $name, a program in Go"
        (cd "$module" && GOTOOLCHAIN=local GOWORK=off CGO_ENABLED=0 go build -mod=readonly -trimpath -buildvcs=false \
            -ldflags "-s -w" -o "$tools/bin/.$name.$$" "$package")
        mv -f "$tools/bin/.$name.$$" "$tools/bin/$name"
        leave "$tools/.stamp-$name" "${files[@]}"
    fi
}

need python3
mkdir -p target
tools=$(realpath target)/tools
python=(scripts/requirements.txt plugins/sdk-python/requirements-dev.txt)
if ! fresh "$tools/.stamp" "${python[@]}" || ! "$tools/bin/mypy" --version >/dev/null 2>&1; then
    echo "tools: programs from Python packages"
    python3 -m venv --clear "$tools"
    for file in "${python[@]}"; do
        "$tools/bin/pip" install --quiet --disable-pip-version-check --require-virtualenv -r "$file"
    done
    leave "$tools/.stamp" "${python[@]}"
fi
[ "${1:-}" != python ] || exit 0

need go
go_program oci-image scripts/image .
[ "${1:-}" != image ] || exit 0

need node npm
go_program helm scripts/tools helm.sh/helm/v4/cmd/helm
go_program promcheck scripts/prometheus .
node=(plugins/sdk-js/package.json plugins/sdk-js/package-lock.json)
if ! fresh plugins/sdk-js/node_modules/.stamp "${node[@]}"; then
    echo "tools: the TypeScript SDK's packages"
    # `npm ci` refuses the lock file: componentize-qjs names platforms that have no package.
    (cd plugins/sdk-js && npm install --no-save --silent --no-audit --no-fund)
    leave plugins/sdk-js/node_modules/.stamp "${node[@]}"
fi
scripts/page.sh packages
# The command of this clone, also if another clone filled the folder.
ln -sfn "$PWD/plugins/sdk-js/bin/operetta-js.mjs" "$tools/bin/operetta-js"
echo "tools: up to date"
