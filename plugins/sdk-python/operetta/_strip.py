"""Removes custom sections (names, producers) from a component and from its nested modules and components."""

from __future__ import annotations

from ._binary import changed


def strip(binary: bytes) -> bytes:
    """Returns the binary without custom sections.

    Raises:
        ValueError: The binary is neither a module nor a component, or truncated.
    """
    return changed(binary, lambda _, section: None if section.id == 0 else section.body)
