#!/usr/bin/env bash
# audit.sh: the checks whose result depends on the day or on hosts beyond the package registries: advisories about the
# dependencies, newer patches of wasmtime, links to other sites. A daily workflow runs it, and people before a release; `make test`
# depends on the commit alone.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
export PATH=$PWD/target/tools/bin:$PATH

failed=()
step() {
    echo "audit: $1"
    "$2" || failed+=("$1")
}

# The advisory database is a Git repository, which cargo-deny fetches.
advisories() { cargo-deny check --hide-inclusion-graph advisories; }

# Security fixes of wasmtime come as patches of its release line, so the lockfile should have the newest one.
newest_wasmtime() {
    local update
    update=$(cargo update --dry-run --package wasmtime 2>&1) || { echo "$update" >&2; return 1; }
    if grep "Updating wasmtime v" <<<"$update" >&2; then
        echo "audit: a newer patch of wasmtime is out: cargo update --package wasmtime" >&2
        return 1
    fi
}

outside_links() {
    git ls-files -z "*.md" ":!cli/templates" | xargs -0 lychee --include-fragments --quiet --no-progress
}

scripts/tools.sh python
step "advisories" advisories
step "the newest patch of wasmtime" newest_wasmtime
step "links to other sites" outside_links
[ ${#failed[@]} -eq 0 ] || { printf 'audit: FAILED: %s\n' "${failed[@]}" >&2; exit 1; }
