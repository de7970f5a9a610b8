#!/usr/bin/env python3
"""record-dev.py PROGRAM: records `PROGRAM dev` in a new project in TypeScript while it is edited three times.

It writes docs/sessions/dev-typescript.cast (asciicast version 2, for `asciinema play`) and docs/sessions/dev-typescript.txt, the same
lines with the seconds at which they came. Nothing in it is written by hand: each edit waits for the reconcile before it.
"""

from __future__ import annotations

import json
import os
import pty
import re
import select
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
OUTPUT = ROOT / "docs" / "sessions" / "dev-typescript"
WIDTH, HEIGHT = 100, 24
LIMIT = 300.0
"""The seconds that an edit may take."""
EDITS = (
    ("message: object.spec.message", "message: `${object.spec.message}, once`"),
    ("`${object.spec.message}, once`", "`${object.spec.message}, twice`"),
    ("`${object.spec.message}, twice`", "object.spec.message.toUpperCase()"),
)


class Recording:
    """What a terminal shows, with its times."""

    def __init__(self, folder: Path) -> None:
        self.began = time.monotonic()
        self.folder = folder
        self.events: list[tuple[float, str]] = []

    def show(self, text: str) -> None:
        """Adds output; the temporary folder becomes a home folder."""
        text = text.replace(str(self.folder), "/home/me")
        self.events.append((round(time.monotonic() - self.began, 3), text))

    def text(self) -> str:
        """Returns the output so far."""
        return "".join(text for _, text in self.events)

    def save(self) -> None:
        """Writes both files."""
        OUTPUT.parent.mkdir(exist_ok=True)
        header = {
            "version": 2,
            "width": WIDTH,
            "height": HEIGHT,
            "title": "operetta dev, TypeScript: three edits",
        }
        lines = [json.dumps(header)] + [
            json.dumps([at, "o", text]) for at, text in self.events
        ]
        OUTPUT.with_suffix(".cast").write_text("\n".join(lines) + "\n")
        shown, at_line_start = [], True
        for at, text in self.events:
            for part in re.findall(r"[^\n]*\n|[^\n]+", text.replace("\r", "")):
                shown.append(f"{at:6.2f}  {part}" if at_line_start else part)
                at_line_start = part.endswith("\n")
        OUTPUT.with_suffix(".txt").write_text("".join(shown))


def follow(terminal: int, recording: Recording, count: int) -> None:
    """Records until `count` reconciles that wrote the ConfigMap are shown."""
    end = time.monotonic() + LIMIT
    while len(re.findall(r"reconciled \S+ in .*ConfigMap", recording.text())) < count:
        ready, _, _ = select.select(
            [terminal], [], [], max(0.0, end - time.monotonic())
        )
        if not ready:
            sys.exit(
                f"record-dev: no reconcile within {LIMIT:.0f} s:\n{recording.text()}"
            )
        recording.show(os.read(terminal, 65536).decode(errors="replace"))


def main() -> None:
    """Records a session."""
    program = Path(sys.argv[1]).resolve()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        subprocess.run(
            [program, "new", "greeter", "--lang", "ts"],
            cwd=folder,
            check=True,
            stdout=subprocess.DEVNULL,
        )
        project = folder / "greeter"
        subprocess.run(["npm", "install", "--silent"], cwd=project, check=True)
        code = project / "src" / "plugin.ts"
        recording = Recording(folder)
        recording.show("$ operetta dev\r\n")
        terminal, inner = pty.openpty()
        environment = {
            **os.environ,
            "TERM": "xterm-256color",
            "COLUMNS": str(WIDTH),
            "LINES": str(HEIGHT),
        }
        dev = subprocess.Popen(
            [program, "dev"],
            cwd=project,
            stdin=inner,
            stdout=inner,
            stderr=inner,
            env=environment,
        )
        os.close(inner)
        try:
            follow(terminal, recording, 1)
            for count, (old, new) in enumerate(EDITS, start=2):
                time.sleep(2)
                recording.show(
                    f"                                             (src/plugin.ts is saved: {new})\r\n"
                )
                text = code.read_text()
                assert old in text, f"{code} has no {old}"
                code.write_text(text.replace(old, new))
                follow(terminal, recording, count)
            os.write(terminal, b"q")
            dev.wait(timeout=30)
        finally:
            dev.kill()
        recording.save()


if __name__ == "__main__":
    main()
