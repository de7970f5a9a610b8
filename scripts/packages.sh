#!/usr/bin/env bash
# packages.sh [crates|npm|python|go...]: packages the SDKs as they will be published, and publishes them as a dry run: the crates
# operetta-api, operetta-sdk-derive and operetta-sdk, the npm package, the Python sdist and wheel, and the Go module. The Python packages
# and the Go module's archive go to target/dist/packages.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
output=$PWD/target/dist/packages
export PATH=$PWD/target/tools/bin:$PATH GOTOOLCHAIN=local
mkdir -p "$output"

crates() {
    # Each crate is compiled from its package, the dependent ones with the packages of the others.
    cargo publish --dry-run --locked --allow-dirty -p operetta-api -p operetta-sdk-derive -p operetta-sdk
}

npm_package() {
    (cd plugins/sdk-js && npm publish --dry-run --access public)
}

python() {
    rm -f "$output"/operetta_sdk-*
    pyproject-build --outdir "$output" plugins/sdk-python
    twine check --strict "$output"/operetta_sdk-*
}

# A Go module is published by a tag. This makes a module proxy of the committed files, and uses the module from there.
go_module() {
    local module=operetta.dev/sdk-go version folder user
    version=v$(scripts/version.sh)
    folder=$output/go/$module/@v
    rm -rf "$output/go"
    mkdir -p "$folder"
    # Folders with a go.mod are modules of their own.
    git archive --format=zip --prefix="$module@$version/" -o "$folder/$version.zip" HEAD:plugins/sdk-go -- \
        . ":(exclude)conformance" ":(exclude)controllerruntime"
    cp plugins/sdk-go/go.mod "$folder/$version.mod"
    echo "{\"Version\": \"$version\"}" >"$folder/$version.info"
    echo "$version" >"$folder/list"
    user=$(mktemp -d)
    printf 'package main\n\nimport _ "%s"\n\nfunc main() {}\n' "$module" >"$user/main.go"
    (
        cd "$user"
        export GOFLAGS="-mod=mod -modcacherw" GOWORK=off GONOSUMDB=$module GOPROXY="file://$output/go" GOMODCACHE="$user/cache"
        go mod init example.com/user
        go get "$module@$version"
        go build -o /dev/null .
    )
    rm -rf "$user"
}

[ $# -gt 0 ] || set -- crates npm python go
for part; do
    echo "packages: $part"
    case $part in
    crates) crates ;;
    npm) npm_package ;;
    python) python ;;
    go) go_module ;;
    *) echo "packages: no part is named $part" >&2; exit 2 ;;
    esac
done
