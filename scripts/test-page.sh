#!/usr/bin/env bash
# test-page.sh [FILE]: drives a browser, Debian's chromium, through the host's page. It starts a host with the examples on a real control
# plane (page-host.sh) and ends it afterwards; PAGE_HOST is the folder of a page-host.sh that already runs. With
# PAGE_URL=https://HOST:PORT PAGE_TOKEN=TOKEN it walks your host instead, without disturbing it. FILE, such as `walk`, runs one file of
# page/test/walk. Screenshots and measures go to target/test-page. CHROMIUM and OPERETTA name other programs.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

folder=$PWD/target/chromium

# Unpacks chromium and the libraries that are not installed into an ignored folder, without root.
unpack_chromium() {
    local packages
    echo "test-page: chromium is not installed; unpacking Debian's into target/chromium"
    command -v apt-get >/dev/null && command -v dpkg >/dev/null || return 1
    mkdir -p "$folder/packages"
    # The packages that an installation would add; with --print-uris it needs no root.
    packages=$(apt-get install --print-uris -y --no-install-recommends chromium | sed -n "s/^'[^']*' \([^_]*\)_.*/\1/p") || return 1
    # shellcheck disable=SC2086 # one word for each package
    (cd "$folder/packages" && apt-get download $packages) || return 1
    for package in "$folder"/packages/*.deb; do dpkg -x "$package" "$folder" || return 1; done
    rm -r "$folder/packages"
}

# Sets CHROMIUM to a chromium that starts.
find_chromium() {
    local libraries
    [ -z "${CHROMIUM:-}" ] || return 0
    if CHROMIUM=$(command -v chromium); then return 0; fi
    [ -x "$folder/usr/lib/chromium/chromium" ] || unpack_chromium || { rm -rf "$folder"; return 1; }
    CHROMIUM=$folder/usr/lib/chromium/chromium
    libraries=$(find "$folder/usr/lib" "$folder/lib" -name '*.so*' -printf '%h\n' 2>/dev/null | sort -u | paste -sd:)
    export LD_LIBRARY_PATH=$libraries${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
}

if ! find_chromium; then
    echo "test-page: no chromium: install it (apt-get install chromium), or set CHROMIUM to its path" >&2
    exit 1
fi
"$CHROMIUM" --version --no-sandbox >/dev/null 2>&1 || { echo "test-page: $CHROMIUM does not start; run $CHROMIUM --version to see why" >&2; exit 1; }
export CHROMIUM
scripts/page.sh packages
out=$PWD/target/test-page
mkdir -p "$out"

host=
walk=
cleanup() {
    trap - EXIT INT TERM
    # The whole group: the runner has children, which end their browsers.
    [ -z "$walk" ] || { kill -- "-$walk" 2>/dev/null || true; wait "$walk" 2>/dev/null || true; }
    [ -z "$host" ] || { kill "$host" 2>/dev/null || true; wait "$host" 2>/dev/null || true; }
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# Builds what a host needs, and starts one.
start_host() {
    scripts/controlplane.sh
    scripts/guests.sh
    [ -n "${OPERETTA:-}" ] || cargo build --locked --quiet --workspace --bin operetta
    echo "test-page: starting a control plane and a host with the examples"
    : >"$out/ready"
    scripts/page-host.sh "$out/host" >"$out/ready" 2>"$out/page-host.log" &
    host=$!
    until grep -q '^ready' "$out/ready"; do
        kill -0 "$host" 2>/dev/null || { tail -n 5 "$out/page-host.log" >&2; echo "test-page: the host did not start; see $out/page-host.log" >&2; exit 1; }
        sleep 0.5
    done
    PAGE_HOST=$out/host
}

[ -n "${PAGE_URL:-}${PAGE_HOST:-}" ] || start_host
if [ -n "${PAGE_HOST:-}" ]; then
    PAGE_URL=$(cat "$PAGE_HOST/url") PAGE_TOKEN=$(cat "$PAGE_HOST/token") PATH=$PWD/target/controlplane/bin:$PATH
    export PAGE_HOST PAGE_URL PAGE_TOKEN
fi
# In the background, so that a signal ends it at once.
set -m
PAGE_OUT=$out PAGE_DIST=$PWD/page/dist node page/test/run.mjs walk "$@" &
walk=$!
set +m
wait "$walk" || { walk=; exit 1; }
walk=
