#!/usr/bin/env bash
# Installs the targets of rust-toolchain.toml if rustup does not do so by itself (RUSTUP_AUTO_INSTALL=0). A second run does
# nothing.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

installed=$(rustup target list --installed)
for target in $(sed -n 's/^targets = \[\(.*\)\]/\1/p' rust-toolchain.toml | tr -d '",'); do
    grep -qx "$target" <<<"$installed" || rustup target add "$target"
done
