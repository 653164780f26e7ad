"""The ordered map of the containers."""

from __future__ import annotations

import bisect
import threading
from pathlib import Path

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

import warpkeep as wk
from conftest import FULL, has_simulator

DEVICES = ["cpu", pytest.param("sim", marks=pytest.mark.skipif(not has_simulator(), reason="SKIPPED: no simulator"))]
MAP_STEPS = st.lists(
    st.tuples(
        st.sampled_from(["insert", "replace", "add", "min", "max", "erase"]),
        st.lists(st.tuples(st.integers(0, 20) | st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1)), max_size=30),
    ),
    max_size=6,
)


def check_reads(map: wk.OrderedMap | wk.OrderedSnapshot, model: dict[int, int], near: list[int], dtype: str) -> None:
    """All reads against a sorted list."""
    order, most = sorted(model), int(np.iinfo(dtype).max)
    asked = sorted({0, most, *near, *(max(0, key - 1) for key in near), *(min(most, key + 1) for key in near)})
    keys = np.array(asked, dtype)
    values, found = map.get(keys)
    assert values.tolist() == [model.get(key, 0) for key in asked] and values.dtype == dtype
    assert found.tolist() == map.contains(keys).tolist() == [key in model for key in asked]

    def pairs(found: list[int | None]) -> tuple[list[int], list[int], list[bool]]:
        return [key or 0 for key in found], [model[key] if key is not None else 0 for key in found], [key is not None for key in found]

    def above(key: int, side: int) -> int | None:
        return order[side] if side < len(order) else None

    def below(key: int, side: int) -> int | None:
        return order[side - 1] if side > 0 else None

    left = [bisect.bisect_left(order, key) for key in asked]
    right = [bisect.bisect_right(order, key) for key in asked]
    expected = {
        "successor": [above(key, at) for key, at in zip(asked, right, strict=True)],
        "predecessor": [below(key, at) for key, at in zip(asked, left, strict=True)],
        "backward": [below(key, at) for key, at in zip(asked, right, strict=True)],
        "forward": [above(key, at) for key, at in zip(asked, left, strict=True)],
    }
    got = {
        "successor": map.successor(keys),
        "predecessor": map.predecessor(keys),
        "backward": map.asof(keys),
        "forward": map.asof(keys, "forward"),
    }
    for name, answer in got.items():
        assert tuple(part.tolist() for part in answer) == pairs(expected[name]), name
    close = [at if at is not None and key - at <= 3 else None for key, at in zip(asked, expected["backward"], strict=True)]
    assert tuple(part.tolist() for part in map.asof(keys, tolerance=3)) == pairs(close)
    group = [at if at is not None and key >> 4 == at >> 4 else None for key, at in zip(asked, expected["forward"], strict=True)]
    assert tuple(part.tolist() for part in map.asof(keys, "forward", group_bits=4)) == pairs(group)

    lo, hi = keys, keys[::-1].copy()
    ranges = [[key for key in order if low <= key <= high] for low, high in zip(lo.tolist(), hi.tolist(), strict=True)]
    assert map.count(lo, hi).tolist() == [len(range) for range in ranges]
    for limit in (None, 2):
        got_keys, got_values, offsets = map.range(lo, hi, limit=limit)
        flat = [key for range in ranges for key in range[:limit]]
        assert got_keys.tolist() == flat and got_values.tolist() == [model[key] for key in flat]
        assert offsets.tolist() == np.cumsum([0, *(len(range[:limit]) for range in ranges)]).tolist()
    assert len(map) == len(model) and (asked[0] in map) == (asked[0] in model)
    assert map.min() == ((order[0], model[order[0]]) if order else None)
    assert map.max() == ((order[-1], model[order[-1]]) if order else None)
    got_keys, got_values = map.items()
    assert got_keys.tolist() == order and got_values.tolist() == [model[key] for key in order]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", ["uint32", "uint64"])
@settings(max_examples=300 if FULL else 60)
@given(steps=MAP_STEPS)
def test_an_ordered_map_against_a_sorted_list(device: str, dtype: str, steps: list[tuple[str, list[tuple[int, int]]]]) -> None:
    bits = 8 * np.dtype(dtype).itemsize
    # In maps of 64 bits, keys with the upper bits set.
    spread = (lambda key: key) if bits == 32 else (lambda key: key * (2**32 + 1) if key > 20 else key)
    changes = {
        "replace": lambda old, new: new, "add": lambda old, new: (old + new) % 2**bits, "min": min, "max": max
    }  # fmt: skip
    map, model = wk.OrderedMap(dtype, device=device), {}
    half, kept, near = None, {}, []
    for number, (kind, batch) in enumerate(steps):
        batch = [(spread(key), value) for key, value in batch]
        near += [key for key, _ in batch]
        keys = np.array([key for key, _ in batch], dtype)
        values = np.array([value for _, value in batch], dtype)
        if kind == "erase":
            assert map.erase(keys).tolist() == [model.pop(key, None) is not None for key in keys.tolist()]
        else:
            new = []
            for key, value in batch:
                new.append(key not in model)
                if key not in model:
                    model[key] = value
                elif kind != "insert":
                    model[key] = changes[kind](model[key], value)
            answer = map.insert(keys, values) if kind == "insert" else map.upsert(keys, values, how=kind)
            assert answer.tolist() == new
        if number == len(steps) // 2:
            half, kept = map.snapshot(), dict(model)
    check_reads(map, model, near[:20], dtype)
    if half is not None:
        check_reads(half, kept, near[:20], dtype)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", ["uint32", "uint64"])
def test_an_ordered_map_of_many_leaves(device: str, dtype: str) -> None:
    random = np.random.default_rng(1)
    map, model = wk.OrderedMap(dtype, device=device), {}
    for _ in range(5):
        keys, values = random.integers(0, 10_000, 3000).astype(dtype), random.integers(0, 2**31, 3000).astype(dtype)
        map.upsert(keys, values)
        model |= dict(zip(keys.tolist(), values.tolist(), strict=True))
        gone = random.integers(0, 10_000, 1000).astype(dtype)
        assert map.erase(gone).tolist() == [model.pop(key, None) is not None for key in gone.tolist()]
    check_reads(map, model, random.integers(0, 10_000, 30).tolist(), dtype)


@pytest.mark.parametrize("device", DEVICES)
def test_files_of_ordered_maps(tmp_path: Path, device: str) -> None:
    map = wk.OrderedMap(wk.u32, "f4", device=device)
    keys = np.arange(5000, dtype=np.uint32)[::-1].copy()
    assert map.insert(keys, keys.astype(np.float32) / 2).all()
    map.save(tmp_path / "map")
    again = wk.OrderedMap.load(tmp_path / "map", np.uint32, np.float32, device=device)
    assert again.max() == (4999, 2499.5) and again.device == device and "float32" in repr(again)
    assert np.array_equal(again.get(keys)[0], keys.astype(np.float32) / 2) and 7 in again and 2**40 not in again
    with pytest.raises(wk.SpecError, match="holds"):
        wk.OrderedMap.load(tmp_path / "map", device=device)
    data = bytearray((tmp_path / "map").read_bytes())
    data[len(data) // 2] ^= 1
    (tmp_path / "map").write_bytes(data)
    with pytest.raises(wk.DamagedError, match="damaged"):
        wk.OrderedMap.load(tmp_path / "map", "u32", "f32", device=device)
    with pytest.raises(wk.Error, match="look at the path"):
        wk.OrderedMap.load(tmp_path / "none", device=device)


@pytest.mark.parametrize("device", DEVICES)
def test_a_snapshot_stays(device: str) -> None:
    map = wk.OrderedMap(device=device)
    keys = np.arange(1000, dtype=np.uint64)
    map.insert(keys, keys)
    with map.snapshot() as before:
        map.erase(keys[::2].copy())
        assert len(before) == 1000 and len(map) == 500 and before.contains(keys).all()
    with pytest.raises(wk.ClosedError, match="snapshot\\(\\)"):
        before.get(keys)
    before.close()


def test_threads_see_whole_batches() -> None:
    """The batches put one value to all keys, so each read has one value."""
    map = wk.OrderedMap()
    keys = np.arange(0, 3000, 3, dtype=np.uint64)
    map.upsert(keys, np.zeros(1000, np.uint64))
    mixed: list[list[int]] = []
    done = threading.Event()

    def read() -> None:
        lo, hi = np.array([0], np.uint64), np.array([5000], np.uint64)
        while not done.is_set():
            for values in (map.get(keys)[0], map.range(lo, hi)[1]):
                if len(values) != 1000 or len(set(values.tolist())) != 1:
                    mixed.append(values.tolist())

    readers = [threading.Thread(target=read) for _ in range(2)]
    for reader in readers:
        reader.start()
    for number in range(1, 101):
        map.upsert(keys, np.full(1000, number, np.uint64))
    done.set()
    for reader in readers:
        reader.join()
    assert not mixed and map.max() == (2997, 100)


def test_bad_arguments_of_ordered_maps() -> None:
    map = wk.OrderedMap("u64", "f64")
    keys, values = np.arange(4, dtype=np.uint64), np.ones(4)
    with pytest.raises(wk.SpecError, match="3 were given"):
        map.insert(keys, values[:3])
    with pytest.raises(wk.SpecError, match="3 were given"):
        map.range(keys, keys[:3])
    with pytest.raises(TypeError, match=r"view\('uint64'\)"):
        map.get(keys.astype(np.int64))
    with pytest.raises(TypeError, match="int32"):
        map.get(keys.astype(np.int32))
    with pytest.raises(TypeError, match="uint64"):
        map.get(keys.reshape(2, 2))
    with pytest.raises(TypeError, match="float64"):
        map.insert(keys, keys)
    with pytest.raises(TypeError, match="asarray"):
        map.get([1, 2])
    with pytest.raises(ValueError, match="ascontiguousarray"):
        map.erase(keys[::2])
    for how in ("add", "min"):
        with pytest.raises(ValueError, match="values are float64"):
            map.upsert(keys, values, how=how)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="replace, add"):
        map.upsert(keys, values, how="multiply")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="backward"):
        map.asof(keys, "nearest")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"view\('uint64'\)"):
        wk.OrderedMap("i64")
    for key, value in (("f64", None), ("u16", None), ("u64", "f32"), (wk.fixed(8), None)):
        with pytest.raises(ValueError, match="keys"):
            wk.OrderedMap(key, value)
    with pytest.raises(wk.DeviceError):
        wk.OrderedMap(device="cuda:99")
    assert len(map) == 0 and map.min() is None


def test_the_conversion_of_signed_keys() -> None:
    """What the message of the refusal says keeps the order."""
    keys = np.array([-(2**63), -5, -1, 0, 7, 2**63 - 1], np.int64)
    map = wk.OrderedMap("u64", "i64")
    map.insert((keys ^ np.int64(-(2**63))).view("uint64"), keys)
    assert map.items()[1].tolist() == keys.tolist()
