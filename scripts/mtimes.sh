#!/usr/bin/env bash
# mtimes.sh save|restore: lets a fresh clone reuse the last build. Cargo rebuilds a crate if a file is newer than the last build, and in
# a fresh clone every file is. `save` stores the files' modification times with the build's outputs, and `restore` gives unchanged files
# their old times back. Files that compile the clone's path into the program (`env!("CARGO_…")`) are always rebuilt, because the last
# build may have been in another clone.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

saved=target/.mtimes
# Prints the content hash and the path of each file. The saved file also has the time.
contents() { git ls-files -s | awk -F'\t' '{ split($1, fields, " "); if (fields[1] != "120000") print fields[2] "\t" $2 }'; }
case ${1:-} in
save)
    # Save the times only if the index has the content that was built.
    git diff --quiet || exit 0
    paste <(contents) <(contents | cut -f2 | tr '\n' '\0' | xargs -0 stat -c %y) >"$saved.new"
    mv "$saved.new" "$saved"
    ;;
restore)
    [ -f "$saved" ] || exit 0
    # A killed run saves no times. The saved times of an earlier run would hide the files that the killed run has built.
    mv "$saved" "$saved.old"
    git diff --quiet || exit 0
    contents | awk -F'\t' 'NR == FNR { time[$1 "\t" $2] = $3; next } ($1 "\t" $2) in time { print time[$1 "\t" $2] "\t" $2 }' "$saved.old" - |
        while IFS=$'\t' read -r time path; do touch -c -d "$time" "$path"; done
    git grep -lzF 'env!("CARGO_' -- '*/tests/*.rs' '*/benches/*.rs' 'tests/*.rs' 'benches/*.rs' | xargs -0r touch -c
    ;;
*)
    echo "mtimes: save or restore" >&2
    exit 2
    ;;
esac
