"""Removes custom sections (names, producers) from a component and from its nested modules and components."""

from __future__ import annotations

from ._binary import COMPONENT, section, sections


def strip(binary: bytes) -> bytes:
    """Returns the binary without custom sections.

    Raises:
        ValueError: The binary is neither a module nor a component, or truncated.
    """
    head = binary[:8]
    kept = [head]
    for id, body in sections(binary):
        if id == 0:
            continue
        is_nested = head == COMPONENT and id in (1, 4)  # a module, a component
        kept.append(section(id, strip(body) if is_nested else body))
    return b"".join(kept)
