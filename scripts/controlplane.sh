#!/usr/bin/env bash
# Builds the real Kubernetes control plane of deploy/controlplane into
# target/controlplane/bin, a folder that also serves as KUBEBUILDER_ASSETS.
#
# Promises: a second run with nothing changed takes no time and prints one line;
# a run that fails or is interrupted leaves what was there; two at once do no
# harm. Results are kept by content in ${OPERETTA_CACHE:-~/.cache/operetta}, so
# other checkouts and a cleaned target/ need no new build.
#
# With KUBEBUILDER_ASSETS set (upstream's etcd and kube-apiserver) only our small
# supervisor is built, which takes seconds.
set -euo pipefail

repo=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
module=$repo/deploy/controlplane
bin=$repo/target/controlplane/bin
cache=${OPERETTA_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/operetta}/controlplane

say() { echo "controlplane: $*"; }
fail() { say "$@" >&2; exit 1; }

# --- what to build ----------------------------------------------------------
assets=${KUBEBUILDER_ASSETS:-}
if [ -n "$assets" ] && [ "$(cd "$assets" 2>/dev/null && pwd -P)" = "$(mkdir -p "$bin" && cd "$bin" && pwd -P)" ]; then
    assets= # our own folder: then it is ours to fill
fi
if [ -n "$assets" ]; then
    names="controlplane"
else
    names="controlplane etcd kube-apiserver kube-controller-manager kube-scheduler kubectl kwok"
fi

# --- with which Go ----------------------------------------------------------
# GOTOOLCHAIN=local: the Go that is installed, never one fetched behind your back.
export GOTOOLCHAIN=local GOWORK=off CGO_ENABLED=0
need="install Go 1.26; Go 1.27 changes what Kubernetes' kube-openapi puts out, so it must be 1.26 here"
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

# --- how --------------------------------------------------------------------
kubernetes=$(awk '$1 == "k8s.io/kubernetes" { print $2 }' "$module/go.mod") # v1.36.2
kubernetes_minor=${kubernetes#v*.}
version=k8s.io/component-base/version
ldflags="-s -w"
if [ -z "$assets" ]; then # says "kubectl version" and the API server's /version
    ldflags="$ldflags -X $version.gitVersion=$kubernetes -X $version.gitMajor=1 -X $version.gitMinor=${kubernetes_minor%%.*}"
    ldflags="$ldflags -X $version.gitCommit=unknown -X $version.gitTreeState=clean -X $version.buildDate=1970-01-01T00:00:00Z"
fi

sha256() { if command -v sha256sum >/dev/null; then sha256sum "$@"; else shasum -a 256 "$@"; fi; }
key=$({
    cd "$module"
    find . -type f \( -name go.mod -o -name go.sum -o -name '*.go' -o -name '*.yaml' \) ! -name '*_test.go' |
        LC_ALL=C sort | while read -r file; do sha256 "$file"; done
    echo "$go_version $(go env GOOS GOARCH GOFLAGS | tr '\n' ' ') $names $ldflags"
} | sha256 | cut -c1-32)
built=$cache/$key # the programs under their names: itself a complete assets folder

# --- unless it is there -----------------------------------------------------
complete() { for name in $names; do [ -x "$built/$name" ] || return 1; done; }
linked() { for name in $names; do [ "$bin/$name" -ef "$built/$name" ] || return 1; done; }
if complete && linked; then
    say "up to date"
    exit 0
fi

mkdir -p "$cache" "$bin"
if command -v flock >/dev/null; then # one build at a time; the second finds it done
    exec 9>"$cache/lock"
    flock 9
fi
if ! complete; then
    temporary=$(mktemp -d "$cache/building.XXXXXX")
    trap 'rm -rf "$temporary"' EXIT
    trap 'exit 130' INT
    trap 'exit 143' TERM
    if [ -n "$assets" ]; then
        say "compiling the supervisor (the components come from KUBEBUILDER_ASSETS)"
    else
        say "compiling Kubernetes $kubernetes from its Go modules, about 5 minutes the first time"
    fi
    build() { (cd "$module" && go build -mod=readonly -trimpath -buildvcs=false -ldflags "$ldflags" -o "$temporary/$1" "$2") || fail "the build failed"; }
    if [ -z "$assets" ]; then
        build components .
        for name in $names; do ln -s components "$temporary/$name"; done
        rm "$temporary/controlplane"
    fi
    build controlplane ./cmd/controlplane # on its own: 10 MB of memory, not 100, and starts in no time
    chmod 755 "$temporary"
    if ! complete; then # else another run was faster; its result is as good
        rm -rf "${built:?}"
        mv "$temporary" "$built"
    fi
fi

# --- linked under its names -------------------------------------------------
for name in $names; do
    ln -sfn "$built/$name" "$bin/.$name.$$"
    mv -f "$bin/.$name.$$" "$bin/$name" # replaces an old link as a whole
done
say "built in $bin"
