"""Objects are dicts with attributes, and their errors name the path."""

import copy
import pickle

import pytest

from operetta import Object
from operetta._json import decode_object, encode
from operetta._object import semantically_equal


def test_field_is_attribute_and_item_at_every_depth() -> None:
    obj = Object({"spec": {"template": {"containers": [{"name": "a"}]}}})
    assert obj.spec.template.containers[0].name == obj["spec"]["template"]["containers"][0]["name"] == "a"
    obj.spec.template.containers[0].image = "nginx"
    obj["status"] = {"phase": {"of": "the moon"}}
    assert obj.status.phase.of == "the moon"
    del obj.status.phase
    assert obj == {"spec": {"template": {"containers": [{"name": "a", "image": "nginx"}]}}, "status": {}}


def test_every_assignment_wraps_dicts() -> None:
    obj = Object(a={"x": 1})
    obj.update({"b": {"x": 2}}, c=[{"x": 3}])
    obj |= {"d": {"x": 4}}
    assert [obj.a.x, obj.b.x, obj.c[0].x, obj.d.x, obj.setdefault("e", {"x": 5}).x] == [1, 2, 3, 4, 5]


def test_missing_field_error_names_path_and_fields() -> None:
    obj = Object({"kind": "Foo", "metadata": {"name": "a", "namespace": "ns"}, "spec": {"template": {"x": 1}}})
    with pytest.raises(AttributeError, match=r"^Foo ns/a\.spec\.template has no field 'replicas' \(fields: x\)"):
        _ = obj.spec.template.replicas
    with pytest.raises(KeyError, match=r"^Foo ns/a has no field 'status' \(fields: kind, metadata, spec\)"):
        _ = obj["status"]
    with pytest.raises(AttributeError, match="has no field 'none'"):
        del obj.spec.none


def test_get_and_get_nested_never_raise_for_missing_field() -> None:
    obj = Object({"spec": {"list": [{"a": None}]}})
    assert obj.get("status") is None
    assert obj.get_nested("spec", "list", 0, "a", default=7) == 7
    assert (
        obj.get_nested("spec", "list", 1, "a")
        is obj.get_nested("spec", "x", "y")
        is obj.get_nested("spec", "list", "a")
        is None
    )
    assert "status" not in obj


def test_ensure_creates_missing_and_keeps_existing() -> None:
    obj = Object({"metadata": {"labels": None, "name": "a"}})
    obj.ensure("metadata", "labels")["a"] = "b"
    assert obj.metadata.labels == {"a": "b"}
    with pytest.raises(TypeError, match="metadata.name.x: name is str, not an object"):
        obj.ensure("metadata", "name", "x")


def test_fields_named_like_dict_methods_are_items_only() -> None:
    obj = Object({"items": [1]})
    assert obj["items"] == [1]
    with pytest.raises(AttributeError, match="write object"):
        obj.items = [2]


def test_copy_is_deep() -> None:
    obj = decode_object('{"a": {"b": [{"c": 1}]}}', "x")
    for other in (obj.copy(), copy.copy(obj), copy.deepcopy(obj), pickle.loads(pickle.dumps(obj))):
        other.a.b[0].c = 2
        assert obj.a.b[0].c == 1


def test_json_round_trips() -> None:
    text = (
        '{"big":9223372036854775807,"bigger":123456789012345678901234567890,"text":"Ω \U0001f3ad","null":null,"f":1.5}'
    )
    obj = decode_object(text, "x")
    assert obj.big == 2**63 - 1
    assert encode(obj, "x") == text
    # A lone surrogate is valid JSON but not Unicode text.
    assert encode(decode_object('{"a":"\\ud800"}', "x"), "x") == '{"a": "\\ud800"}'


def test_json_errors_name_object() -> None:
    with pytest.raises(ValueError, match="^v1 ConfigMap a/b is not JSON: "):
        decode_object("{", "v1 ConfigMap a/b")
    with pytest.raises(ValueError, match="^it is JSON, but not an object: \\[1\\]"):
        decode_object("[1]", "it")
    for wrong in (Object(a={1, 2}), Object(a=float("nan")), Object(a=object())):
        with pytest.raises(TypeError, match="^foo cannot be written as JSON: "):
            encode(wrong, "foo")


def test_semantic_equality_ignores_empty_values() -> None:
    assert semantically_equal({"a": None, "b": [], "c": {"d": {}}}, {"c": None} | {"c": {}})
    assert semantically_equal([{"a": 1}], [{"a": 1, "b": None}])
    assert not semantically_equal({"a": 1}, {"a": True})
    assert not semantically_equal({"a": ""}, {})
    assert not semantically_equal({"a": [1, 2]}, {"a": [2, 1]})
