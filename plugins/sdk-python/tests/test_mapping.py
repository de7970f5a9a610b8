"""Mappings by a function."""

import json
from typing import Any, Iterable, Optional

import pytest

from operetta import Key, Kind, ManifestError, MapEvent, Mapping, Object, Plugin, Source, TerminalError, Watch, kinds
from operetta._outcome import run_mapping


def plugin_of(keys: Any) -> Plugin:
    plugin = Plugin()
    watch = Watch(Source(kinds.Pod, prune=[".status"]), Mapping.custom(keys))
    plugin.controller(kinds.Node, watches=[watch])(lambda ctx, node: None)
    return plugin


def node_of(pod: Object) -> Iterable[Key]:
    if pod.spec.nodeName == "raise":
        raise RuntimeError("no keys today")
    return [Key(None, pod.spec.nodeName)]


def on(node: str) -> str:
    return json.dumps({"metadata": {"namespace": "ns", "name": "p"}, "spec": {"nodeName": node}})


def event(now: str, old: Optional[str] = None, controller: str = "node", kind: Kind = kinds.Pod) -> MapEvent:
    return MapEvent(controller, kind, now, old)


def test_keys_are_those_of_both_states_once() -> None:
    plugin = plugin_of(node_of)
    assert plugin.map(event(on("a"))) == [(None, "a")]
    assert plugin.map(event(on("b"), on("a"))) == [(None, "b"), (None, "a")]
    assert plugin.map(event(on("a"), on("a"))) == [(None, "a")]
    assert plugin.map(event(on("a"), kind=kinds.Secret)) == []
    with pytest.raises(TerminalError, match="no controller 'other'"):
        plugin.map(event(on("a"), controller="other"))


def test_function_returns_keys_in_any_form() -> None:
    plugin = plugin_of(lambda pod: ["n", ("ns", "a"), pod, Key("ns", "a")])
    assert plugin.map(event(on("a"))) == [(None, "n"), ("ns", "a"), ("ns", "p")]
    assert all(isinstance(key, Key) for key in plugin.map(event(on("a"))))


@pytest.mark.parametrize("wrong", [None, "a", 1, [1]])
def test_function_without_keys_fails(wrong: object) -> None:
    with pytest.raises(TypeError):
        plugin_of(lambda pod: wrong).map(event(on("a")))


def test_exception_becomes_failure_with_its_line() -> None:
    keys, failure = run_mapping(plugin_of(node_of), event(on("raise")))
    assert keys == [] and failure is not None
    assert failure.message.startswith("RuntimeError: no keys today at ") and "in node_of" in failure.message
    assert not failure.terminal
    assert run_mapping(plugin_of(node_of), event("["))[1] is not None
    assert run_mapping(plugin_of(node_of), event(on("a"))) == ([(None, "a")], None)


def test_invalid_mapping_or_path_is_refused() -> None:
    with pytest.raises(ManifestError, match="takes a function from an object to keys, not 'a'"):
        Mapping.custom("a")  # type: ignore[arg-type]
    with pytest.raises(ManifestError, match="'status' is not a field path"):
        Source(kinds.Pod, prune=["status"])
    with pytest.raises(ManifestError, match=r"prune= takes a list of paths, e.g. \['.status'\]"):
        Source(kinds.Pod, prune=".status")
