#!/usr/bin/env bash
# release.sh [ARCHITECTURE...]: writes a release to target/dist/release: for each architecture (amd64 and arm64 by default) an archive
# with operetta, its manual pages and shell completions, and one with the programs of the image, operetta-host and
# operetta-compiler; the Helm chart; the manifests that `operetta install` applies; the krew manifest of `kubectl operetta`; and SHA256SUMS. docs/releasing.md describes a release.
# The same programs give the same archives. DOWNLOADS is the address under which the files will be published.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
version=$(scripts/version.sh)
downloads=${DOWNLOADS:-https://operetta.dev/releases/v$version}
epoch=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
output=target/dist/release
[ $# -gt 0 ] || set -- amd64 arm64
case $(uname -m) in x86_64) own=amd64 ;; aarch64) own=arm64 ;; *) echo "release: this machine cannot run a released program" >&2; exit 1 ;; esac

scripts/version.sh --check
scripts/tools.sh
architectures=$(printf '%s\n' "$@" "$own" | sort -u)
# shellcheck disable=SC2086 # Each word is an architecture.
scripts/static.sh $architectures
program=target/dist/linux-$own/operetta
rm -rf "$output"
mkdir -p "$output"

extras=$(mktemp -d)
trap 'rm -rf "$extras"' EXIT
mkdir -p "$extras/completions" "$extras/man/man1"
"$program" completion bash >"$extras/completions/operetta.bash"
"$program" completion zsh >"$extras/completions/_operetta"
"$program" completion fish >"$extras/completions/operetta.fish"
"$program" manual "$extras/man/man1"
cp LICENSE "$extras"

host=$(mktemp -d)
trap 'rm -rf "$extras" "$host"' EXIT
cp LICENSE "$host"

# archive FOLDER NAME: packs a folder.
archive() {
    tar --sort=name --mtime="@$epoch" --owner=0 --group=0 --numeric-owner --mode=u+rw,go+r,go-w -C "$1" -c . | gzip -9n >"$output/$2"
}

platforms=
for architecture; do
    programs=target/dist/linux-$architecture
    install -m 0755 "$programs/operetta-host" "$programs/operetta-compiler" "$host"
    archive "$host" "operetta-host-$version-linux-$architecture.tar.gz"
    archive=operetta-$version-linux-$architecture.tar.gz
    install -m 0755 "$programs/operetta" "$extras/operetta"
    archive "$extras" "$archive"
    sum=$(sha256sum "$output/$archive" | cut -d' ' -f1)
    platforms+="
    - selector:
        matchLabels: {os: linux, arch: $architecture}
      uri: $downloads/$archive
      sha256: $sum
      bin: operetta
      files:
        - {from: ./operetta, to: .}
        - {from: ./LICENSE, to: .}"
done
cat >"$output/operetta.yaml" <<EOF
# The manifest for krew, which installs the program as \`kubectl operetta\`.
apiVersion: krew.googlecontainertools.github.com/v1alpha2
kind: Plugin
metadata:
  name: operetta
spec:
  version: v$version
  homepage: https://operetta.dev
  shortDescription: Run operators as WebAssembly plugins
  description: |
    Installs the Operetta host, which runs Kubernetes controllers as
    WebAssembly plugins in one process, and creates, checks, installs
    and observes plugins.
  platforms:$platforms
EOF
"$program" install --dry-run=client -o yaml >"$output/operetta-$version.yaml"
target/tools/bin/helm package deploy/chart/operetta -d "$output" >/dev/null
(cd "$output" && sha256sum -- * >SHA256SUMS)
cat "$output/SHA256SUMS"
