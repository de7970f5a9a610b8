"""Takes the custom sections (names, producers) out of a component and out of the modules and components in it."""

from __future__ import annotations

from ._binary import COMPONENT, section, sections


def strip(binary: bytes) -> bytes:
    """The binary without custom sections. Raises `ValueError` if it is neither a module nor a component."""
    head = binary[:8]
    kept = [head]
    for id, body in sections(binary):
        if id == 0:
            continue
        nested = head == COMPONENT and id in (1, 4)  # a module, a component
        kept.append(section(id, strip(body) if nested else body))
    return b"".join(kept)
