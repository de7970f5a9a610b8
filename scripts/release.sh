#!/usr/bin/env bash
# release.sh [PROFILE]: builds target/dist/operetta with cargo-auditable: the binary contains the list of its dependencies, so that
# `cargo audit bin` and image scanners find advisories about a binary without its sources. PROFILE is release by default.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
profile=${1:-release}
version=0.7.7
tools=$PWD/target/tools
export PATH=$tools/bin:$PATH
if [ "$(cargo-auditable --version 2>/dev/null)" != "cargo-auditable $version" ]; then
    echo "release: installing cargo-auditable $version"
    cargo install --quiet --locked --root "$tools" --version "$version" cargo-auditable
fi
cargo auditable build --profile "$profile" --locked --workspace --bin operetta
mkdir -p target/dist
case $profile in dev) folder=debug ;; *) folder=$profile ;; esac
install "target/$folder/operetta" target/dist/operetta
scripts/auditable.py target/dist/operetta
