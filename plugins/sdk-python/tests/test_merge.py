"""Merging the modules of a component keeps its behaviour."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
import wasmtime
from wasmtime import component as wasm

from operetta import _binary, _code, _merge, _strip
from operetta._component import Component

WAT = (Path(__file__).parent / "linked.wat").read_text()
ENV = "(core instance $env (instantiate $env))"
# Installed by requirements-dev.txt.
WASM_TOOLS = str(Path(sys.executable).with_name("wasm-tools"))


def assembled(wat: str) -> bytes:
    return subprocess.run([WASM_TOOLS, "parse", "-"], input=wat.encode(), capture_output=True, check=True).stdout


def ran(binary: bytes) -> tuple[int, list[str]]:
    """Returns the result of `run`, and the texts that it passed to the host."""
    engine = wasmtime.Engine()
    store = wasmtime.Store(engine)
    linker = wasm.Linker(engine)
    texts: list[str] = []
    with linker.root() as root:
        root.add_func("tell", lambda _, text: texts.append(text))
    instance = linker.instantiate(store, wasm.Component(engine, binary))
    run = instance.get_func(store, "run")
    assert run is not None
    return run(store), texts


def test_merged_component_behaves_the_same() -> None:
    linked = assembled(WAT)
    merged = _merge.merge(linked)
    assert ran(linked) == ran(merged) == (49 + 120, ["hello", "later"])
    assert len(Component(merged).modules) == 3, "the shim, its fixup, and the merged module"
    assert ran(_merge.merge(_strip.strip(linked))) == ran(merged)


@pytest.mark.parametrize(
    ("what", "replacement", "message"),
    [
        ("(func $add (type $binary) (i32.add (local.get 0) (local.get 1)))",
         "(func $add (type $binary) (drop (v128.const i32x4 0 0 0 0)) (i32.const 1))", "unsupported instruction 0xfd"),
        ("(global $own (mut i32) (i32.const 7))", "(global $own (mut i32) (i32.const 7)) (func $s) (start $s)",
         "unsupported section 8 of a module"),
        ("(global (export \"table_base\") i32", "(memory $second 1) (global (export \"table_base\") i32",
         "2 memories instead of one"),
        (ENV, f"{ENV} (core instance (instantiate $env))", "instantiated twice"),
    ],
)  # fmt: skip
def test_unsupported_component_is_refused(what: str, replacement: str, message: str) -> None:
    assert what in WAT
    with pytest.raises(ValueError, match=re.escape(message)):
        _merge.merge(assembled(WAT.replace(what, replacement)))


def test_module_and_truncated_component_are_refused() -> None:
    with pytest.raises(ValueError, match="this is a module"):
        _merge.merge(assembled("(module)"))
    with pytest.raises(ValueError, match="neither a WebAssembly module nor a component"):
        _strip.strip(b"\x7fELF")
    with pytest.raises(ValueError, match="truncated"):
        _strip.strip(assembled(WAT)[:-5])


def test_strip_removes_names_only() -> None:
    linked = assembled(WAT)
    stripped = _strip.strip(linked)
    assert len(stripped) < len(linked)
    assert b"tell_shim" in linked and b"tell_shim" not in stripped
    assert ran(stripped) == ran(linked)


@pytest.mark.parametrize("number", [0, 1, 63, 64, 127, 128, 300, 2**31 - 1, 2**32 - 1])
def test_numbers_round_trip(number: int) -> None:
    assert _binary.Reader(_binary.u32(number)).u32() == number
    for signed in (number, -number, -number - 1):
        assert _binary.Reader(_binary.s64(signed)).s64() == signed


def test_rewrites_indexes_only() -> None:
    indexes = _code.Indexes([_binary.u32(at + 200) for at in range(3)], [5, 6], [b"\x09"], 4)
    # No locals; i32.const 0x10 (which is not a call), call 2, global.set 0, a block of type 1, br_table, end.
    body = bytes.fromhex("00 41 10 10 02 24 00 02 01 0e 01 10 23 0b 0b")
    assert _code.rewrite(body, indexes) == bytes.fromhex("00 41 10 10 ca 01 24 09 02 06 0e 01 10 23 0b 0b")
