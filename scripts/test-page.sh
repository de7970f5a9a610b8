#!/usr/bin/env bash
# test-page.sh: drives a browser, Debian's chromium, through the host's page: on a protocol server of page/test/, or with
# PAGE_URL=https://HOST:PORT PAGE_TOKEN=TOKEN on a host (PAGE_KIND=/page/kinds/GROUP/VERSION/PLURAL chooses the kind). Screenshots
# and measures go to target/test-page. CHROMIUM names another chromium.
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
mkdir -p target/test-page
PAGE_OUT=$PWD/target/test-page PAGE_DIST=$PWD/page/dist node page/test/run.mjs walk
