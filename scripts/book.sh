#!/usr/bin/env bash
# book.sh: builds docs/ as a book in target/book/html, and checks every link in it. Pages refer to files all over the repository, so
# the book is built from a copy with the same folders: docs/SUMMARY.md becomes SUMMARY.md, with links relative to the repository.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
export PATH=$PWD/target/tools/bin:$PATH

book=target/book
rm -rf "$book"
mkdir -p "$book/src"
# mdbook copies files that are not Markdown as they are, so links to sources lead to them.
git ls-files -z -- "*.md" LICENSE docs/plots docs/sessions wit examples deploy host/api benches/peers scripts plugins tests/guests ":!docs/SUMMARY.md" |
    xargs -0 cp --parents -t "$book/src"
sed -E 's|\]\(|](docs/|; s|\]\(docs/\.\./|](|' docs/SUMMARY.md >"$book/src/SUMMARY.md"
cp docs/book.toml "$book/"
mdbook build "$book" >"$book/log" 2>&1 || { cat "$book/log" >&2; exit 1; }
! grep -E "WARN|ERROR" "$book/log" >&2 || exit 1
find "$book/html" -name "*.html" ! -name print.html ! -name toc.html ! -name 404.html -print0 |
    xargs -0 lychee --offline --include-fragments --quiet --no-progress
echo "book: $book/html/index.html"
