#!/usr/bin/env python3
"""sample-lines.py [--check]: counts the code lines of the sample-controllers and writes the table of docs/sdks.md.

With --check it compares the table instead, and fails if they differ. A code line is a line that is neither blank, nor
only a comment or a docstring, nor part of an import. Tests and generated files are not counted.
"""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/sdks.md"
BEGIN, END = "<!-- sample-lines -->\n", "<!-- /sample-lines -->\n"
SAMPLE = "examples/sample-controller"
# Name and files. Rows whose files do not exist are an error.
ROWS = [
    ("Operetta, Rust", [f"{SAMPLE}/rust/src/lib.rs"]),
    ("Operetta, Go", [f"{SAMPLE}/go/plugin.go", f"{SAMPLE}/go/types.go"]),
    ("Operetta, Python", [f"{SAMPLE}/python/plugin.py"]),
    ("Operetta, TypeScript", [f"{SAMPLE}/typescript/src/plugin.ts"]),
    ("Operetta, C", [f"{SAMPLE}/c/plugin.c"]),
    ("kube-rs, Rust", ["benches/peers/kube-rs/src/bin/peer-kube-rs-sample-controller.rs"]),
    ("controller-runtime, Go", ["benches/peers/go/samplecontroller/main.go"]),
    ("kopf, Python", ["benches/peers/kopf/sample_controller.py"]),
]
# From the first line of an import to the end of it, by ending of the file.
IMPORTS = {
    ".rs": r"^(?:pub )?use [^;]*;$",
    ".go": r'^import (?:\([^)]*\)|.*)$',
    ".py": r"^(?:import .*|from \S+ import (?:\([^)]*\)|.*))$",
    ".ts": r"^import [^;]*;$",
    ".c": r"^#\s*include .*$",
}
COMMENTS = {".py": r'^\s*#.*$|^\s*"""[\s\S]*?"""$'}
C_COMMENTS = r"^\s*//.*$|^\s*/\*[\s\S]*?\*/\s*$"


def code_lines(path: Path) -> int:
    """Returns the number of code lines of a file."""
    text = path.read_text(encoding="utf-8")
    for pattern in (COMMENTS.get(path.suffix, C_COMMENTS), IMPORTS[path.suffix]):
        text = re.sub(pattern, "", text, flags=re.MULTILINE)
    return sum(1 for line in text.splitlines() if line.strip())


def table() -> str:
    """Returns the table as Markdown."""
    lines = ["| | code lines | files |", "|---|---:|---|"]
    for name, files in ROWS:
        count = sum(code_lines(ROOT / file) for file in files)
        links = ", ".join(f"[{Path(file).name}](../{file})" for file in files)
        lines.append(f"| {name} | {count} | {links} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Writes or checks the table."""
    page = PAGE.read_text(encoding="utf-8")
    before, rest = page.split(BEGIN)
    after = rest.split(END)[1]
    wanted = before + BEGIN + table() + END + after
    if sys.argv[1:] == ["--check"]:
        if page != wanted:
            sys.exit(f"docs/sdks.md is not up to date: run scripts/sample-lines.py\n{table()}")
    elif sys.argv[1:]:
        sys.exit(__doc__)
    else:
        PAGE.write_text(wanted, encoding="utf-8")


if __name__ == "__main__":
    main()
