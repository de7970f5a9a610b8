#!/usr/bin/env python3
"""auditable.py BINARY: checks the list of dependencies that cargo-auditable has put into an ELF binary against Cargo.lock."""

import json
import pathlib
import struct
import sys
import zlib

SECTION = b".dep-v0"


def section(binary: bytes) -> bytes:
    """Returns the contents of the section of an ELF file of 64 bits, little-endian."""
    if binary[:6] != b"\x7fELF\x02\x01":
        sys.exit("auditable: not an ELF file of 64 bits, little-endian")
    (table,) = struct.unpack_from("<Q", binary, 0x28)
    size, count, names = struct.unpack_from("<HHH", binary, 0x3A)
    headers = [struct.unpack_from("<IIQQQQ", binary, table + size * at) for at in range(count)]
    strings = headers[names][4]
    for name, _, _, _, offset, length in headers:
        if binary[strings + name :].startswith(SECTION + b"\0"):
            return binary[offset : offset + length]
    sys.exit("auditable: the binary has no list of its dependencies: build it with scripts/release.sh")


def locked() -> set[tuple[str, str]]:
    """Returns the names and versions in Cargo.lock."""
    text = (pathlib.Path(__file__).parent.parent / "Cargo.lock").read_text()
    lines = [line.split(" = ") for line in text.splitlines() if line.startswith(("name = ", "version = "))]
    # The first line of the file is the version of its format.
    values = [json.loads(value) for key, value in lines if value.startswith('"')]
    return set(zip(values[::2], values[1::2]))


def main() -> None:
    """Compares the list in the binary with the lockfile."""
    packages = json.loads(zlib.decompress(section(pathlib.Path(sys.argv[1]).read_bytes())))["packages"]
    found = {(package["name"], package["version"]) for package in packages}
    if unknown := found - locked():
        sys.exit(f"auditable: not in Cargo.lock: {sorted(unknown)}")
    if missing := {"wasmtime", "rustls", "kube-client"} - {name for name, _ in found}:
        sys.exit(f"auditable: not in the binary's list: {sorted(missing)}")
    print(f"auditable: {sys.argv[1]} lists {len(found)} packages")


main()
