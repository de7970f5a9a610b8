#!/usr/bin/env bash
# The check for every change: format, lints, and the unit tests of every crate, but for those in a module `with_go`. It needs
# rustup and Python only, and no control plane.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
export PATH=$PWD/target/tools/bin:$PATH RUST_BACKTRACE=0
# shellcheck source=scripts/common.sh
. scripts/common.sh

scripts/toolchain.sh
scripts/tools.sh python
scripts/lint.sh rust text
build_tests
run_tests -E '(kind(lib) + kind(bin) + kind(proc-macro)) - test(/\bwith_go::/)'
