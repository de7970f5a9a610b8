"""The build makes the objects of a snapshot immortal, and nothing else."""

import gc
import tempfile
from pathlib import Path

import pytest

from operetta import _binary, _immortal, _snapshot, build

IMMORTAL = (5 << 28).to_bytes(4, "little")
TYPE = 0x1000


def words(*values: int) -> bytes:
    return b"".join(value.to_bytes(4, "little") for value in values)


def record(*addresses: int, kind: int = TYPE) -> bytes:
    entries = b"".join(words(address, kind) for address in addresses)
    return _snapshot.MARK[::-1] + IMMORTAL + words(len(addresses)) + entries


def component(*segments: tuple[int, bytes]) -> bytes:
    """Returns a component with a module whose memory has these bytes at these addresses."""
    data = [b"\0\x41" + _binary.s64(address) + b"\x0b" + _binary.u32(len(body)) + body for address, body in segments]
    module = _binary.MODULE + _binary.section(5, b"\x01\0\x01") + _binary.section(11, _binary.vector(data))
    return _binary.COMPONENT + _binary.section(1, module)


def memory(binary: bytes, address: int, size: int) -> bytes:
    """Returns bytes of a component's memory."""
    ((_, module),) = _binary.sections(binary)
    (body,) = (body for id, body in _binary.sections(module) if id == 11)
    reader = _binary.Reader(body)
    for begin, position, length in (_immortal._segment(reader) for _ in range(reader.u32())):
        if begin <= address and address + size <= begin + length:
            return body[position + address - begin :][:size]
    raise AssertionError(f"no segment has {size} bytes at {address:#x}")


def test_recorded_objects_become_immortal_and_record_is_removed() -> None:
    objects = words(3, TYPE, 7, 1, TYPE, 8)
    recorded = record(0x2000, 0x200C)
    changed = _immortal.apply(component((0x9000, recorded), (0x2000, objects)))
    assert memory(changed, 0x2000, len(objects)) == IMMORTAL + words(TYPE, 7) + IMMORTAL + words(TYPE, 8)
    assert memory(changed, 0x9000, len(recorded)) == bytes(len(recorded))


@pytest.mark.parametrize(
    ("what", "found"),
    [
        ("freed: a pointer of the allocator is in the place of the count", words(0x00A3F210, TYPE)),
        ("freed: the last in the allocator's list", words(0, TYPE)),
        ("freed, and an object of another type in its place", words(1, TYPE + 4)),
        ("immortal already", words(7 << 28, TYPE)),
    ],
)
def test_object_that_is_gone_stays_as_it_is(what: str, found: bytes) -> None:
    changed = _immortal.apply(component((0x2000, found), (0x9000, record(0x2000, 0x2004, 0x100, 0xFFFFFF00))))
    assert memory(changed, 0x2000, len(found)) == found, what


def test_unfinished_copy_of_record_is_passed_over() -> None:
    unfinished = _snapshot.MARK[::-1] + IMMORTAL + words(0, 0x2000, TYPE)
    changed = _immortal.apply(component((0x2000, words(1, TYPE)), (0x8000, unfinished), (0x9000, record(0x2000))))
    assert memory(changed, 0x2000, 8) == IMMORTAL + words(TYPE)


def test_component_without_record_is_unchanged() -> None:
    given = component((0x2000, words(1, TYPE)))
    assert _immortal.apply(given) == given


def test_incomplete_record_and_unknown_segments_are_refused() -> None:
    with pytest.raises(ValueError, match="incomplete"):
        _immortal.apply(component((0x9000, record(0x2000)[:-4])))
    passive = _binary.section(11, _binary.vector([b"\x01" + _binary.u32(len(record())) + record()]))
    with pytest.raises(ValueError, match="unsupported data segment"):
        _immortal.apply(_binary.MODULE + passive)


def test_objects_of_built_component_are_immortal() -> None:
    main = "import operetta._snapshot as snapshot\nfrom operetta._guest import Mapper, Reconciler\nsnapshot.prepare()\n"
    with tempfile.TemporaryDirectory() as folder:
        built = build.componentize(Path(folder), main, [], Path(build.__file__).parent / "wit", "mapping-plugin")
    assert _snapshot.MARK[::-1] in built, "a record of the objects"
    changed = build.stripped(built)
    assert _snapshot.MARK[::-1] not in changed
    immortal = changed.count(IMMORTAL) - built.count(IMMORTAL)
    # The interpreter with the SDK's modules has about 30,000 objects.
    assert immortal > 20_000, f"{immortal} objects became immortal"


def test_this_interpreter_is_not_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its pointers have 64 bits. The rehearsal succeeds."""
    for change in ("collect", "freeze", "set_threshold"):
        monkeypatch.setattr(gc, change, lambda *_: None)
    _snapshot.prepare()
    assert not _snapshot._record and not _snapshot._gaps
