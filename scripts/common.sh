# shellcheck shell=bash
# Functions that several scripts need; they source this file.

# until_true SECONDS NAME COMMAND...: repeats a command until it succeeds. After the time it calls timed_out NAME, a function of the
# script, which ends it.
until_true() {
    local limit=$(($(date +%s) + $1)) name=$2
    shift 2
    until "$@" >/dev/null 2>&1; do
        [ "$(date +%s)" -lt "$limit" ] || timed_out "$name"
        sleep 0.2
    done
}

# npm_packages SCRIPT ARGUMENT...: installs the packages of this folder by npm ci. Installed ones are kept until the lockfile changes.
npm_packages() {
    local script=$1 program stamp
    shift
    for program in node npm; do
        command -v "$program" >/dev/null || { echo "$script: $program is not installed; CONTRIBUTING.md lists the requirements" >&2; exit 1; }
    done
    stamp=$(sha256sum package.json package-lock.json)
    if [ "$(cat node_modules/.stamp 2>/dev/null)" != "$stamp" ]; then
        echo "$script: installing packages"
        npm ci --silent --no-audit --no-fund "$@"
        echo "$stamp" >node_modules/.stamp
    fi
}
