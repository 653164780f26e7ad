"""The slab hash: maps, sets and multimaps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

import warpkeep as wk
from conftest import has_simulator

DEVICES = ["cpu", pytest.param("sim", marks=pytest.mark.skipif(not has_simulator(), reason="SKIPPED: no simulator"))]
TYPES = [("u64", "u64", np.uint64, np.uint64), ("u32", "f32", np.uint32, np.float32)]
NUMBERS = st.integers(0, 12) | st.integers(0, 2**32 - 1)
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["insert", "put", "erase", "find", "contains", "flush", "clear"]),
        # Requests of a batch run at the same time, so each key is there once.
        st.lists(st.tuples(NUMBERS, st.integers(0, 2**20)), max_size=30, unique_by=lambda pair: pair[0]),
    ),
    max_size=10,
)


def columns(batch: list[tuple[int, int]], key: Any, value: Any) -> tuple[Any, Any]:
    return np.array([each for each, _ in batch], key), np.array([each for _, each in batch], value)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("types", TYPES)
@given(steps=STEPS)
def test_map_against_a_dict(device: str, types: Any, steps: list[tuple[str, list[tuple[int, int]]]]) -> None:
    map, model = wk.SlabMap(types[0], types[1], device=device, seed=3), {}
    for kind, batch in steps:
        keys, values = columns(batch, *types[2:])
        if kind in ("flush", "clear"):
            getattr(map, kind)()
            model = {} if kind == "clear" else model
        elif kind == "find":
            got, found = map.find(keys)
            assert got.dtype == types[3] and found.tolist() == [key in model for key in keys.tolist()]
            assert got.tolist() == [model.get(key, 0) for key in keys.tolist()]
        elif kind == "contains":
            assert map.contains(keys).tolist() == [key in model for key in keys.tolist()]
        elif kind == "erase":
            assert map.erase(keys).tolist() == [model.pop(key, None) is not None for key in keys.tolist()]
        else:
            new = [key not in model for key in keys.tolist()]
            pairs = dict(zip(keys.tolist(), values.tolist(), strict=True))
            model = pairs | model if kind == "insert" else model | pairs
            assert getattr(map, kind)(keys, values).tolist() == new
        assert len(map) == len(model)
    keys, values = map.items()
    assert keys.dtype == types[2] and dict(zip(keys.tolist(), values.tolist(), strict=True)) == model


@pytest.mark.parametrize("device", DEVICES)
def test_mixed_batches(device: str) -> None:
    map = wk.SlabMap("u64", "i64", device=device)
    map.put(np.array([1, 2, 3]), np.array([-10, -20, -30]))
    kinds = np.array([wk.SlabOp.SEARCH, wk.SlabOp.INSERT, wk.SlabOp.REPLACE, wk.SlabOp.DELETE, wk.SlabOp.INSERT, wk.SlabOp.DELETE], np.uint8)
    statuses, before = map.apply(kinds, np.array([1, 2, 3, 9, 4, 2**62]), np.array([0, -21, -31, 0, -40, 0]))
    names = [wk.SlabStatus(status).name for status in statuses]
    assert names == ["FOUND", "PRESENT", "UPDATED", "ABSENT", "INSERTED", "ABSENT"]
    assert before.tolist() == [-10, -20, -30, 0, 0, 0]
    keys, values = map.items()
    assert sorted(zip(keys.tolist(), values.tolist(), strict=True)) == [(1, -10), (2, -20), (3, -31), (4, -40)]
    with pytest.raises(ValueError, match="REPLACE need values"):
        map.apply(kinds, keys[[0] * 6])
    with pytest.raises(ValueError, match="4 is no kind"):
        map.apply(np.array([4], np.uint8), keys[:1])
    with pytest.raises(ValueError, match="2 kinds for 4 keys"):
        map.apply(kinds[:2], keys)


@pytest.mark.parametrize("device", DEVICES)
@given(steps=st.lists(st.tuples(st.sampled_from(["insert", "erase", "contains"]), st.lists(NUMBERS, max_size=40)), max_size=8))
def test_set_against_a_set(device: str, steps: list[tuple[str, list[int]]]) -> None:
    own, model = wk.SlabSet("u32", device=device), set()
    for kind, numbers in steps:
        keys = np.array(sorted(set(numbers)), np.uint32)
        there = [key in model for key in keys.tolist()]
        model = {"insert": model | set(numbers), "erase": model - set(numbers), "contains": model}[kind]
        assert getattr(own, kind)(keys).tolist() == ([not each for each in there] if kind == "insert" else there)
        assert len(own) == len(model) and all(key in own for key in model) and 13 not in own
    assert sorted(own.keys().tolist()) == sorted(model)


@pytest.mark.parametrize("device", DEVICES)
@given(
    steps=st.lists(
        st.tuples(st.sampled_from(["insert", "erase", "erase_all"]), st.lists(st.tuples(st.integers(0, 9), st.integers(0, 2**62)), max_size=20)),
        max_size=8,
    )
)
def test_multimap_against_lists(device: str, steps: list[tuple[str, list[tuple[int, int]]]]) -> None:
    map, model = wk.SlabMultiMap(device=device), {}
    every = np.arange(10, dtype=np.uint64)
    for kind, batch in steps:
        # Each key once, so that the order is known.
        keys, values = columns(list(dict(batch).items()), np.uint64, np.uint64)
        if kind == "insert":
            map.insert(keys, values)
            for key, value in zip(keys.tolist(), values.tolist(), strict=True):
                model.setdefault(key, []).append(value)
        elif kind == "erase":
            assert map.erase(keys).tolist() == [bool(model.get(key)) for key in keys.tolist()]
            model = {key: rest[1:] if key in keys.tolist() else rest for key, rest in model.items()}
        else:
            assert map.erase_all(keys).tolist() == [len(model.pop(key, [])) for key in keys.tolist()]
        lists = [model.get(key, []) for key in every.tolist()]
        got, offsets = map.find_all(every)
        assert [got[offsets[i] : offsets[i + 1]].tolist() for i in range(10)] == lists
        assert map.count(every).tolist() == [len(each) for each in lists] and len(map) == sum(map.count(every))
        first, found = map.find(every)
        assert first.tolist() == [each[0] if each else 0 for each in lists] and found.tolist() == map.contains(every).tolist() == [bool(each) for each in lists]
    keys, values = map.items()
    assert sorted(zip(keys.tolist(), values.tolist(), strict=True)) == sorted((key, value) for key, rest in model.items() for value in rest)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("kind", [wk.SlabMap, wk.SlabSet, wk.SlabMultiMap])
def test_files(tmp_path: Path, device: str, kind: Any) -> None:
    own = kind("u32", device=device, capacity=100, slab_bytes=128)
    keys = np.arange(3000, dtype=np.uint32)
    own.reserve(3000)
    own.insert(keys) if kind is wk.SlabSet else own.insert(keys, keys * np.uint32(3))
    own.save(tmp_path / "file")
    again = kind.load(tmp_path / "file", "u32", device=device, seed=9)
    assert len(again) == 3000 and again.contains(keys).all() and 7 in again and 2**40 not in again
    assert again.device == device and device in repr(again)
    if kind is not wk.SlabSet:
        assert np.array_equal(again.find(keys)[0], keys * np.uint32(3))
    with pytest.raises(wk.SpecError):
        kind.load(tmp_path / "file", "u64", device=device)
    with pytest.raises(wk.SpecError):
        wk.HashMap.load(tmp_path / "file", device=device)
    data = bytearray((tmp_path / "file").read_bytes())
    data[len(data) // 2] ^= 1
    (tmp_path / "file").write_bytes(data)
    with pytest.raises(wk.DamagedError, match="damaged"):
        kind.load(tmp_path / "file", "u32", device=device)


@pytest.mark.skipif(not has_simulator(), reason="SKIPPED: no simulator")
def test_no_room() -> None:
    """Bounded by its options; those of a table on the CPU are not bounds."""
    keys = np.arange(3500, dtype=np.uint64)
    map = wk.SlabMap(device="sim", slab_bytes=64, most_buckets=4, most_slabs=4)
    with pytest.raises(wk.FullError, match="erase keys and flush"):
        map.put(keys, keys)
    there = len(map)
    assert 3000 <= there < 3500
    # Near the end of the batch there was no room.
    some = keys[-200:]
    was = map.contains(some)
    statuses, _ = map.apply(np.full(200, wk.SlabOp.INSERT, np.uint8), some, some)
    assert not was.all() and (statuses[was] == wk.SlabStatus.PRESENT).all() and (statuses[~was] == wk.SlabStatus.FULL).all()
    map.clear()
    assert map.insert(some, some).all() and len(map) == 200


def test_bad_arguments() -> None:
    map = wk.SlabMap()
    keys = np.arange(4, dtype=np.uint64)
    with pytest.raises(ValueError, match="3 values for 4 keys"):
        map.insert(keys, keys[:3])
    with pytest.raises(TypeError, match="int32"):
        map.find(keys.astype(np.int32))
    with pytest.raises(ValueError, match="ascontiguousarray"):
        map.find(np.arange(8, dtype=np.uint64)[::2])
    with pytest.raises(TypeError, match="float64"):
        map.put(keys, keys.astype(np.float64))
    with pytest.raises(ValueError, match="size of keys"):
        wk.SlabMap("u64", "f32")
    with pytest.raises(ValueError, match="u64, u32"):
        wk.SlabMap("f64")
    with pytest.raises(ValueError, match="numbers"):
        wk.SlabSet(wk.row("f32", 4))
    with pytest.raises(wk.DeviceError):
        wk.SlabMap(device="cuda:99")
    assert len(map) == 0 and map and map.find(keys[:0])[0].tolist() == []
    # Ids of PyTorch are signed.
    map.put(np.array([-1]), keys[:1])
    assert 2**64 - 1 in map


def test_single_keys_are_those_of_arrays() -> None:
    for name, bits in (("i64", 64), ("u64", 64), ("i32", 32), ("u32", 32)):
        keys = np.array([-1, 5, -(2 ** (bits - 1))], f"i{bits // 8}")
        for container in (wk.SlabMap(name), wk.SlabSet(name), wk.SlabMultiMap(name)):
            given = () if isinstance(container, wk.SlabSet) else (np.zeros(3, {"i": "i", "u": "u"}[name[0]] + str(bits // 8)),)
            container.insert(keys, *given)
            for key in (-1, 2**bits - 1, 5, -(2 ** (bits - 1)), 2 ** (bits - 1), np.int32(-1)):
                assert key in container, (name, key)
            for key in (-2, 6, 2**bits, 2**bits + 5, -(2 ** (bits - 1)) - 1, 2**200):
                assert key not in container, (name, key)
            with pytest.raises(TypeError):
                "a" in container  # noqa: B015
