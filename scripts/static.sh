#!/usr/bin/env bash
# static.sh [ARCHITECTURE...]: builds operetta, operetta-host and operetta-compiler in target/dist/linux-ARCHITECTURE, static
# release binaries, with cargo-zigbuild for musl, in the profile production. Architectures: amd64, arm64; by default that of this machine. With PROFILE=dev it builds debug binaries.
# cargo-auditable puts the list of the dependencies into each binary: from it `cargo audit bin` and image scanners find
# advisories about a binary without its sources.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
profile=${PROFILE:-production}
auditable=0.7.7
tools=$PWD/target/tools
export PATH=$tools/bin:$PATH

scripts/tools.sh python
if [ "$(cargo-auditable --version 2>/dev/null)" != "cargo-auditable $auditable" ]; then
    echo "static: installing cargo-auditable $auditable"
    cargo install --quiet --locked --root "$tools" --version "$auditable" cargo-auditable
fi
case $(uname -m) in x86_64) own=amd64 ;; aarch64) own=arm64 ;; *) own= ;; esac
[ $# -gt 0 ] || set -- "${own:?static: name the architectures: amd64, arm64}"
case $profile in dev) folder=debug ;; *) folder=$profile ;; esac
for architecture; do
    case $architecture in
    amd64) target=x86_64-unknown-linux-musl ;;
    arm64) target=aarch64-unknown-linux-musl ;;
    *) echo "static: no binary is built for $architecture, only for amd64 and arm64" >&2; exit 2 ;;
    esac
    rustup target list --installed | grep -qx "$target" || rustup target add "$target"
    mkdir -p "target/dist/linux-$architecture"
    # Each by itself: in one build cargo would give the host the features of the others, and so a compiler.
    for program in operetta operetta-host operetta-compiler; do
        cargo auditable zigbuild --profile "$profile" --locked --target "$target" --package "$program"
        install "target/$target/$folder/$program" "target/dist/linux-$architecture/$program"
        scripts/auditable.py "target/dist/linux-$architecture/$program"
    done
done
