#!/usr/bin/env bash
# mtimes.sh save|restore: keeps the times of the repository's files beside the build's outputs. Cargo builds a crate again when
# a file is newer than its last build, and in a fresh clone every file is. `restore` gives a file its saved time if its
# content is the saved one, so cargo sees the same file as in the last build. A file that compiles the clone's path into the
# program (`env!("CARGO_…")`) is always built again: the last build may have been of another clone.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

saved=target/.mtimes
# The content hash and the path of each file. In the saved file the time follows.
contents() { git ls-files -s | awk -F'\t' '{ split($1, fields, " "); if (fields[1] != "120000") print fields[2] "\t" $2 }'; }
case ${1:-} in
save)
    # Only if what is in the index is what was built.
    git diff --quiet || exit 0
    paste <(contents) <(contents | cut -f2 | tr '\n' '\0' | xargs -0 stat -c %y) >"$saved.new"
    mv "$saved.new" "$saved"
    ;;
restore)
    [ -f "$saved" ] || exit 0
    # A run that is killed saves no times, and the times of an earlier one would hide what it has built.
    mv "$saved" "$saved.old"
    git diff --quiet || exit 0
    contents | awk -F'\t' 'NR == FNR { time[$1 "\t" $2] = $3; next } ($1 "\t" $2) in time { print time[$1 "\t" $2] "\t" $2 }' "$saved.old" - |
        while IFS=$'\t' read -r time path; do touch -c -d "$time" "$path"; done
    git grep -lzF 'env!("CARGO_' -- '*/tests/*.rs' '*/benches/*.rs' | xargs -0r touch -c
    ;;
*)
    echo "mtimes: save or restore" >&2
    exit 2
    ;;
esac
