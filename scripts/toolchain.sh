#!/usr/bin/env bash
# Installs the toolchain and targets of rust-toolchain.toml where rustup doesn't do that by itself (RUSTUP_AUTO_INSTALL=0). A second run
# does nothing.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

channel=$(sed -n 's/^channel = "\(.*\)"/\1/p' rust-toolchain.toml)
targets=$(sed -n 's/^targets = \[\(.*\)\]/\1/p' rust-toolchain.toml | tr -d '",')
installed=$(rustup target list --toolchain "$channel" --installed 2>/dev/null) || installed=
for target in $targets; do
    grep -qx "$target" <<<"$installed" || { rustup toolchain install; break; }
done
