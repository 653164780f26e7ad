"""The hash map of the containers."""

from __future__ import annotations

from pathlib import Path

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

import warpkeep as wk
from conftest import has_simulator

DEVICES = ["cpu", pytest.param("sim", marks=pytest.mark.skipif(not has_simulator(), reason="SKIPPED: no simulator"))]
KEYS = st.integers(0, 20) | st.integers(0, 2**64 - 1)
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["insert", "replace", "add", "min", "max", "erase", "find", "contains", "clear"]),
        st.lists(st.tuples(KEYS, st.integers(0, 2**64 - 1)), max_size=30),
    ),
    max_size=10,
)


@pytest.mark.parametrize("device", DEVICES)
@given(steps=STEPS)
def test_against_a_dict(device: str, steps: list[tuple[str, list[tuple[int, int]]]]) -> None:
    changes = {
        "replace": lambda old, new: new, "add": lambda old, new: (old + new) % 2**64, "min": min, "max": max
    }  # fmt: skip
    map, model = wk.HashMap(device=device, seed=1), {}
    for kind, batch in steps:
        keys = np.array([key for key, _ in batch], np.uint64)
        values = np.array([value for _, value in batch], np.uint64)
        if kind == "clear":
            map.clear()
            model.clear()
        elif kind == "find":
            got, found = map.find(keys)
            assert found.tolist() == [key in model for key in keys.tolist()]
            assert got.tolist() == [model.get(key, 0) for key in keys.tolist()]
        elif kind == "contains":
            assert map.contains(keys).tolist() == [key in model for key in keys.tolist()]
        elif kind == "erase":
            assert map.erase(keys).tolist() == [model.pop(key, None) is not None for key in keys.tolist()]
        else:
            new = []
            for key, value in batch:
                new.append(key not in model)
                if key not in model:
                    model[key] = value
                elif kind != "insert":
                    model[key] = changes[kind](model[key], value)
            answer = map.insert(keys, values) if kind == "insert" else map.put(keys, values, how=kind)
            assert answer.tolist() == new
        assert len(map) == len(model)
    got_keys, got_values = map.items()
    assert dict(zip(got_keys.tolist(), got_values.tolist(), strict=True)) == model


@pytest.mark.parametrize("device", DEVICES)
def test_files(tmp_path: Path, device: str) -> None:
    map = wk.HashMap(1000, device=device)
    keys = np.arange(5000, dtype=np.uint64)
    map.insert(keys, keys * np.uint64(3))
    map.save(tmp_path / "map")
    again = wk.HashMap.load(tmp_path / "map", device=device)
    assert len(again) == 5000 and np.array_equal(again.find(keys)[0], keys * np.uint64(3)) and 7 in again
    assert again.device == device and device in repr(again)
    data = bytearray((tmp_path / "map").read_bytes())
    data[len(data) // 2] ^= 1
    (tmp_path / "map").write_bytes(data)
    with pytest.raises(wk.DamagedError, match="damaged"):
        wk.HashMap.load(tmp_path / "map", device=device)


def test_bad_arguments() -> None:
    map = wk.HashMap()
    keys = np.arange(4, dtype=np.uint64)
    with pytest.raises(wk.SpecError, match="3 were given"):
        map.insert(keys, keys[:3])
    with pytest.raises(TypeError, match="int32"):
        map.find(keys.astype(np.int32))
    with pytest.raises(ValueError, match="ascontiguousarray"):
        map.find(np.arange(8, dtype=np.uint64)[::2])
    with pytest.raises(ValueError, match="replace, add"):
        map.put(keys, keys, how="multiply")  # type: ignore[arg-type]
    for how in ("min", "max"):
        with pytest.raises(TypeError, match=r"int64.*unsigned.*view\('uint64'\)"):
            map.put(keys, keys.astype(np.int64), how=how)  # type: ignore[arg-type]
    with pytest.raises(wk.DeviceError):
        wk.HashMap(device="cuda:99")
    assert len(map) == 0


@pytest.mark.skipif(not has_simulator(), reason="SKIPPED: no simulator was built")
def test_arrays_in_device_memory() -> None:
    map = wk.HashMap(device="sim")
    keys, values = map.to_device(np.array([7, 8, 7], np.uint64)), map.to_device(np.array([1, 2, 3], np.int64))
    assert keys.device == "sim" and map.insert(keys, values).tolist() == [True, True, False]
    assert map.put(keys, values, how="add").tolist() == [False] * 3
    more = map.to_device(np.array([8, 9, 7], np.int64))
    got, found = map.find(more)
    assert isinstance(got, wk.DeviceArray) and got.dtype == np.uint64
    assert got.numpy().tolist() == [4, 0, 5] and found.tolist() == [True, False, True]
    assert map.contains(more).tolist() == [True, False, True]
    with pytest.raises(TypeError, match="int64.*unsigned"):
        map.put(keys, values, how="max")
    # What it gives is as good as what it was given.
    assert map.put(more, got).tolist() == [False, True, False]
    assert map.erase(more).tolist() == [True, True, True] and len(map) == 0
    none = map.to_device(np.zeros(0, np.uint64))
    assert map.insert(none, none).tolist() == [] and map.find(none)[0].numpy().tolist() == []
    # Many, so that the map grows.
    many = np.arange(20_000, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    there = map.to_device(many)
    assert map.insert(there, there).all() and len(map) == 20_000
    assert (map.find(there)[0].numpy() == many).all()


@pytest.mark.skipif(not has_simulator(), reason="SKIPPED: no simulator was built")
def test_device_arrays_that_do_not_go_together() -> None:
    map, host = wk.HashMap(device="sim"), np.arange(4, dtype=np.uint64)
    keys = map.to_device(host)
    with pytest.raises(ValueError, match="one memory"):
        map.insert(keys, host)
    with pytest.raises(ValueError, match=r"values.numpy\(\)"):
        map.insert(host, keys)
    with pytest.raises(TypeError, match="uint64 of shape"):
        map.find(map.to_device(np.zeros(4, np.float32)))
    with pytest.raises(TypeError, match="uint64 of shape"):
        map.insert(keys, map.to_device(host[:3]))
    with pytest.raises(TypeError, match="memory of the host"):
        wk.HashMap().to_device(host)
    with pytest.raises(ValueError, match=r"keys.numpy\(\)"):
        wk.HashMap().find(keys)
    assert not hasattr(keys, "__cuda_array_interface__") and len(map) == 0


def test_single_keys_are_those_of_arrays() -> None:
    map = wk.HashMap()
    map.insert(np.array([-1, 5, -(2**63)]), np.zeros(3, np.uint64))
    for key in (-1, 2**64 - 1, 5, np.int64(-1), np.uint64(5), -(2**63), 2**63):
        assert key in map
    for key in (-2, 6, 2**64, -(2**63) - 1, 2**64 + 5, 2**200, -(2**200)):
        assert key not in map
    with pytest.raises(TypeError):
        "a" in map  # type: ignore[operator]  # noqa: B015
