#!/usr/bin/env bash
# Builds the real Kubernetes control plane of deploy/controlplane into
# target/controlplane/bin, a folder that also serves as KUBEBUILDER_ASSETS.
#
# A second run with nothing changed takes no time and prints one line. A run that
# fails or is interrupted keeps the earlier result. Two runs may overlap. Results
# are cached by content in ${OPERETTA_CACHE:-~/.cache/operetta}, so other checkouts
# and a removed target/ need no new build.
#
# With KUBEBUILDER_ASSETS set (upstream's etcd and kube-apiserver) the script builds
# only the supervisor and gojson, which takes seconds. With the argument gojson it
# builds that program alone, which says what Go makes of a text, for a fuzz target.
set -euo pipefail

repo=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
module=$repo/deploy/controlplane
bin=$repo/target/controlplane/bin
cache=${OPERETTA_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/operetta}/controlplane

say() { echo "controlplane: $*"; }
fail() { say "$@" >&2; exit 1; }

only=${1:-} # a program
case $only in
    "" | gojson) ;;
    *) fail "unknown program $only: only gojson is built alone" ;;
esac

# --- the programs to build --------------------------------------------------
assets=${KUBEBUILDER_ASSETS:-}
if [ -n "$assets" ] && [ "$(cd "$assets" 2>/dev/null && pwd -P)" = "$(mkdir -p "$bin" && cd "$bin" && pwd -P)" ]; then
    assets= # our own folder
fi
if [ -n "$assets" ]; then
    names=
else
    names="etcd kube-apiserver kube-controller-manager kube-scheduler kubectl kwok"
fi

# --- the Go toolchain -------------------------------------------------------
# GOTOOLCHAIN=local: the installed Go, never one that Go downloads.
export GOTOOLCHAIN=local GOWORK=off CGO_ENABLED=0
need="install Go 1.26; Go 1.27 changes the output of Kubernetes' kube-openapi, so this build needs 1.26"
command -v go >/dev/null || fail "no go in PATH: $need"
go_version=$(cd / && go env GOVERSION)
release=${go_version#go}
major=${release%%.*}
minor=${release#*.}
minor=${minor%%[!0-9]*}
if [ "$major" -lt 1 ] || { [ "$major" -eq 1 ] && [ "$minor" -lt 26 ]; }; then
    fail "$go_version is too old: $need"
fi
if [ -z "$assets" ] && { [ "$major" -gt 1 ] || [ "$minor" -gt 26 ]; }; then
    fail "$go_version is too new: $need"
fi

# --- the build's flags and cache key ----------------------------------------
kubernetes=$(awk '$1 == "k8s.io/kubernetes" { print $2 }' "$module/go.mod") # v1.36.2
kubernetes_minor=${kubernetes#v*.}
version=k8s.io/component-base/version
ldflags="-s -w"
if [ -z "$assets" ]; then # for "kubectl version" and the API server's /version
    ldflags="$ldflags -X $version.gitVersion=$kubernetes -X $version.gitMajor=1 -X $version.gitMinor=${kubernetes_minor%%.*}"
    ldflags="$ldflags -X $version.gitCommit=unknown -X $version.gitTreeState=clean -X $version.buildDate=1970-01-01T00:00:00Z"
fi

sha256() { if command -v sha256sum >/dev/null; then sha256sum "$@"; else shasum -a 256 "$@"; fi; }
# content PACKAGE...: a hash of these packages' files, of the versions in go.mod, and of how Go compiles them.
content() {
    {
        cd "$module"
        find go.mod go.sum "$@" -type f ! -name '*_test.go' | LC_ALL=C sort | while read -r file; do sha256 "$file"; done
        echo "$go_version $(go env GOOS GOARCH GOFLAGS | tr '\n' ' ') $names $ldflags"
    } | sha256 | cut -c1-32
}
# Three folders, because compiling Kubernetes takes minutes and the others take seconds.
components=$cache/components-$(content main.go parentdeath)
supervisor=$cache/supervisor-$(content cmd parentdeath stages supervisor)
gojson=$cache/gojson-$(content json)

# --- return early if everything is there ------------------------------------
complete() { # complete FOLDER NAME...
    local folder=$1 name
    for name in "${@:2}"; do [ -x "$folder/$name" ] || return 1; done
}
built() {
    complete "$gojson" gojson || return 1
    # shellcheck disable=SC2086  # the names are words
    [ -n "$only" ] || { complete "$components" $names && complete "$supervisor" controlplane; }
}
linked() {
    local name
    [ "$bin/gojson" -ef "$gojson/gojson" ] || return 1
    [ -z "$only" ] || return 0
    for name in $names; do [ "$bin/$name" -ef "$components/$name" ] || return 1; done
    [ "$bin/controlplane" -ef "$supervisor/controlplane" ]
}
if built && linked; then
    say "up to date"
    exit 0
fi

mkdir -p "$cache" "$bin"
if command -v flock >/dev/null; then # a second build waits and then finds everything built
    exec 9>"$cache/lock"
    flock 9
fi
temporary=$(mktemp -d "$cache/building.XXXXXX")
trap 'rm -rf "$temporary"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
build() { # build PROGRAM PACKAGE
    (cd "$module" && go build -mod=readonly -trimpath -buildvcs=false -ldflags "$ldflags" -o "$1" "$2") || fail "the build failed"
}
# keep FROM TO: moves a complete folder into the cache, or discards it if another run was faster.
keep() {
    chmod 755 "$1"
    mv -T "$1" "$2" 2>/dev/null || { rm -rf "${2:?}" && mv "$1" "$2"; }
}
# shellcheck disable=SC2086
if [ -z "$only" ] && ! complete "$components" $names; then
    say "compiling Kubernetes $kubernetes from its Go modules, about 5 minutes the first time"
    mkdir "$temporary/components"
    build "$temporary/components/components" .
    for name in $names; do ln -s components "$temporary/components/$name"; done
    keep "$temporary/components" "$components"
fi
if [ -z "$only" ] && ! complete "$supervisor" controlplane; then
    say "compiling the supervisor"
    mkdir "$temporary/supervisor"
    # A separate program takes 10 MB of memory instead of 100, and starts at once.
    build "$temporary/supervisor/controlplane" ./cmd/controlplane
    keep "$temporary/supervisor" "$supervisor"
fi

if ! complete "$gojson" gojson; then
    say "compiling gojson"
    mkdir "$temporary/gojson"
    build "$temporary/gojson/gojson" ./json
    keep "$temporary/gojson" "$gojson"
fi

# --- link the programs under their names ------------------------------------
link() { # link FILE: replaces an old link atomically
    local name=${1##*/}
    ln -sfn "$1" "$bin/.$name.$$"
    mv -f "$bin/.$name.$$" "$bin/$name"
}
if [ -z "$only" ]; then
    for name in $names; do link "$components/$name"; done
    link "$supervisor/controlplane"
fi
link "$gojson/gojson"
say "built in $bin"
