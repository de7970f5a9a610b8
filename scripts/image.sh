#!/usr/bin/env bash
# image.sh [ARCHITECTURE...]: assembles the container image in target/dist/image, an OCI layout, without a daemon; an SBOM for
# each program of each architecture (target/dist/image-ARCHITECTURE-PROGRAM.cdx.json, CycloneDX) and the provenance
# (target/dist/image.intoto.json, SLSA, unsigned) are beside it. Architectures: amd64, arm64; by default that of this machine.
# To push it: target/tools/bin/oci-image push target/dist/image REGISTRY/NAME:TAG
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
profile=${PROFILE:-production}
case $(uname -m) in x86_64) own=amd64 ;; aarch64) own=arm64 ;; *) own= ;; esac
[ $# -gt 0 ] || set -- "${own:?image: name the architectures: amd64, arm64}"

scripts/tools.sh image
scripts/static.sh "$@"
revision=$(git rev-parse HEAD)
# A changed tree is not what the commit names.
[ -z "$(git status --porcelain --untracked-files=no)" ] || revision+=-dirty
folders=()
for architecture; do folders+=("target/dist/linux-$architecture"); done
target/tools/bin/oci-image build -output target/dist/image -version "$(scripts/version.sh)" \
    -revision "$revision" -created "${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}" -profile "$profile" \
    -source "${SOURCE_URL:-https://operetta.dev}" -builder "${BUILDER_URL:-https://operetta.dev/local-build}" \
    -material Cargo.lock -material rust-toolchain.toml -material scripts/requirements.txt -material scripts/image/go.sum \
    "${folders[@]}"
