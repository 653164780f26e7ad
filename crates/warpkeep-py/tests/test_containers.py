"""The ordered map and the graph of the containers."""

from __future__ import annotations

import bisect
import sys
import threading
from pathlib import Path
from typing import Any

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
    try:
        for number in range(1, 101):
            map.upsert(keys, np.full(1000, number, np.uint64))
    finally:
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


def test_single_keys_of_ordered_maps() -> None:
    for name, most in (("u64", 2**64 - 1), ("u32", 2**32 - 1)):
        map = wk.OrderedMap(name)
        map.insert(np.array([0, most], f"u{4 if name == 'u32' else 8}"), np.zeros(2, f"u{4 if name == 'u32' else 8}"))
        assert 0 in map and most in map and np.uint64(most) in map
        for key in (1, -1, most + 1, -(2**63), 2**200, -(2**200)):
            assert key not in map and key not in map.snapshot()
        with pytest.raises(TypeError):
            "a" in map  # type: ignore[operator]  # noqa: B015


def test_the_conversion_of_signed_keys() -> None:
    """What the message of the refusal says keeps the order."""
    keys = np.array([-(2**63), -5, -1, 0, 7, 2**63 - 1], np.int64)
    map = wk.OrderedMap("u64", "i64")
    map.insert((keys ^ np.int64(-(2**63))).view("uint64"), keys)
    assert map.items()[1].tolist() == keys.tolist()


GRAPH_STEPS = st.lists(
    st.tuples(
        st.sampled_from(["add", "add", "remove", "remove_nodes"]),
        st.lists(st.tuples(st.integers(0, 12), st.integers(0, 12), st.integers(-(2**63), 2**63 - 1)), max_size=40),
    ),
    max_size=6,
)
Edges = dict[tuple[int, int], tuple[float, int, int]]


def check_graph(graph: wk.Graph, model: Edges) -> None:
    """All reads against a dictionary; of undirected graphs, one that has each edge both ways."""
    count = graph.num_nodes
    nodes = np.arange(count + 2, dtype=np.int64)
    lists = [sorted(target for source, target in model if source == node) for node in nodes.tolist()]
    assert graph.degrees(nodes).tolist() == [len(list) for list in lists]
    src, dst = (part.ravel() for part in np.meshgrid(nodes, nodes))
    assert graph.has_edges(src, dst).tolist() == [edge in model for edge in zip(src.tolist(), dst.tolist(), strict=True)]
    for csr, asked in ((graph.csr(), nodes[:count]), (graph.neighbours(nodes[::-1].copy()), nodes[::-1])):
        flat = [(node, target) for node in asked.tolist() for target in lists[node]]
        assert csr.indptr.tolist() == np.cumsum([0, *(len(lists[node]) for node in asked.tolist())]).tolist()
        assert csr.indices.tolist() == [target for _, target in flat] and csr.indices.dtype == np.int64
        for column, part in ((csr.weights, 0), (csr.ids, 1), (csr.times, 2)):
            assert column is not None and column.tolist() == [model[edge][part] for edge in flat]
    loops = sum(source == target for source, target in model)
    assert graph.num_edges == ((len(model) + loops) // 2 if graph.undirected else len(model))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("undirected", [False, True])
@settings(max_examples=300 if FULL else 30)
@given(steps=GRAPH_STEPS, loops=st.booleans())
def test_a_graph_against_a_dictionary(
    device: str, undirected: bool, steps: list[tuple[str, list[tuple[int, int, int]]]], loops: bool
) -> None:
    graph = wk.Graph(device, undirected, weights=True, ids=True, times=True, loops=loops)
    model: Edges = {}
    for kind, batch in steps:
        src = np.array([source for source, _, _ in batch], np.int64)
        dst = np.array([target for _, target, _ in batch], np.uint32)
        if kind == "remove_nodes":
            gone = set(src.tolist())
            left = {edge: data for edge, data in model.items() if not gone & set(edge)}
            once = [edge for edge in model.keys() - left.keys() if not undirected or edge[0] <= edge[1]]
            assert graph.remove_nodes(src) == len(once)
            model = left
        else:
            answers = []
            for source, target, number in batch:
                both = {(source, target), (target, source)} if undirected else {(source, target)}
                if kind == "remove":
                    answers.append([model.pop(edge, None) for edge in both][0] is not None)
                    continue
                refused = source == target and not loops
                answers.append((source, target) not in model and not refused)
                if not refused:
                    model |= dict.fromkeys(both, (float(np.float32(number)), number, -number - 1))
            if kind == "remove":
                assert graph.remove_edges(src, dst).tolist() == answers
            else:
                numbers = np.array([number for _, _, number in batch], np.int64)
                got = graph.add_edges(src, dst, weight=numbers.astype(np.float32), id=numbers, time=-numbers - 1)
                assert got.tolist() == answers
    check_graph(graph, model)


def sampled_graph(device: str) -> tuple[wk.Graph, dict[int, dict[int, int]]]:
    """A random graph: the id of an edge is source * 1000 + target; and the time of each edge, by source and target."""
    random = np.random.default_rng(2)
    graph = wk.Graph(device, weights=True, ids=True, times=True)
    src, dst = random.integers(0, 200, 3000), random.integers(0, 200, 3000)
    times = random.integers(0, 1000, 3000)
    # Edges to even nodes alone have a weight.
    graph.add_edges(src, dst, weight=(1 - dst % 2).astype(np.float32), id=src * 1000 + dst, time=times)
    model: dict[int, dict[int, int]] = {}
    for source, target, time in zip(src.tolist(), dst.tolist(), times.tolist(), strict=True):
        if source != target:
            model.setdefault(source, {})[target] = time
    return graph, model


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("options", [
    {}, {"pick": "weighted"}, {"pick": "last"}, {"replace": True}, {"timed": True}, {"timed": True, "pick": "last"},
    {"timed": True, "window": 300, "strict": True},
])  # fmt: skip
def test_samples(device: str, options: dict[str, object]) -> None:
    graph, model = sampled_graph(device)
    options = dict(options)
    timed = options.pop("timed", False)
    seeds = np.arange(0, 150, 3)
    # Times of edges, so that strict bounds matter.
    seed_times = np.array([max(model[seed].values(), default=500) for seed in seeds.tolist()]) if timed else None
    fanouts = [4, 3, -1] if not options.get("replace") else [4, 3]
    sample = graph.sample(seeds, fanouts, times=seed_times, seed=9, **options)  # type: ignore[arg-type]
    nodes, row, col = sample.nodes, sample.row, sample.col
    assert nodes[sample.seeds].tolist() == seeds.tolist()
    assert sum(sample.nodes_per_hop) == len(nodes) and sum(sample.edges_per_hop) == len(row)
    assert sample.ids is not None and sample.ids.tolist() == (nodes[row] * 1000 + nodes[col]).tolist()
    assert sample.times is not None
    assert sample.times.tolist() == [model[s][t] for s, t in zip(nodes[row].tolist(), nodes[col].tolist(), strict=True)]
    assert (sample.batch is not None) == timed
    if not timed:
        assert len(set(nodes.tolist())) == len(nodes)
    begin = 0
    for hop, fanout in enumerate(fanouts):
        end = begin + sample.nodes_per_hop[hop]
        for number in range(begin, end):
            candidates = model.get(int(nodes[number]), {})
            if options.get("pick") == "weighted":
                candidates = {target: time for target, time in candidates.items() if target % 2 == 0}
            if sample.batch is not None and seed_times is not None:
                until = int(seed_times[sample.batch[number]])
                since = until - int(str(options.get("window", 2**60)))
                candidates = {
                    target: time for target, time in candidates.items() if since <= time <= until - bool(options.get("strict"))
                }
            chosen = nodes[col[row == number]].tolist()
            most = len(candidates) if fanout == -1 else min(fanout, len(candidates))
            if options.get("replace"):
                assert len(chosen) == (fanout if candidates else 0) and set(chosen) <= candidates.keys()
            else:
                assert len(chosen) == most == len(set(chosen)) and set(chosen) <= candidates.keys()
            if options.get("pick") == "last":
                assert chosen == sorted(candidates, key=lambda target: (-candidates[target], target))[:most]
        begin = end
    if device != "cpu":
        same = sampled_graph("cpu")[0].sample(seeds, fanouts, times=seed_times, seed=9, **options)  # type: ignore[arg-type]
        assert same.nodes.tolist() == nodes.tolist() and same.col.tolist() == col.tolist()


@pytest.mark.skipif(not has_simulator(), reason="SKIPPED: no simulator was built")
def test_samples_in_device_memory() -> None:
    """Of seeds in device memory: the sample of the same seeds in host memory."""
    graph, _ = sampled_graph("sim")
    host, times = np.array([3, 1, 3, 7], np.uint32), np.array([40, 10, 25, 90], np.int64)
    seeds, there = graph.to_device(host), graph.to_device(times)
    calls: list[dict[str, Any]] = [{}, {"replace": True, "seed": 5}, {"pick": "weighted"}, {"times": True}, {"times": True, "pick": "last", "strict": True}]
    for call in calls:
        given = {"times": there} if "times" in call else {}
        one = graph.sample(seeds, [2, 3], **{**call, **given})
        other = graph.sample(host, [2, 3], **{**call, **({"times": times} if given else {})})
        for name in ("nodes", "seeds", "row", "col", "batch", "ids", "times"):
            ours, theirs = getattr(one, name), getattr(other, name)
            assert (ours is None) == (theirs is None), name
            if ours is not None:
                assert isinstance(ours, wk.DeviceArray) and ours.numpy().tolist() == theirs.tolist(), name
        assert one.nodes_per_hop == other.nodes_per_hop and one.edges_per_hop == other.edges_per_hop
        assert len(one.row) > 0
    none = graph.sample(graph.to_device(host[:0]), [2])
    assert len(none.nodes) == 0 and none.row.numpy().tolist() == []
    with pytest.raises(TypeError, match="uint32"):
        graph.sample(graph.to_device(host.astype(np.int64)), [2])
    with pytest.raises(wk.SpecError, match="3 were given and 4"):
        graph.sample(seeds, [2], times=graph.to_device(times[:3]))
    with pytest.raises(ValueError, match="one memory"):
        graph.sample(seeds, [2], times=times)
    with pytest.raises(ValueError, match="no times"):
        wk.Graph(device="sim").sample(seeds, [2], times=there)
    with pytest.raises(ValueError, match=r"seeds.numpy\(\)"):
        wk.Graph().sample(seeds, [2])


@pytest.mark.parametrize("device", DEVICES)
def test_files_of_graphs(tmp_path: Path, device: str) -> None:
    graph = wk.Graph(device, undirected=True, times=True)
    graph.add_edges(np.array([5, 7]), np.array([9, 5]), time=np.array([-3, 4]))
    graph.save(tmp_path / "graph")
    again = wk.Graph.load(tmp_path / "graph", device, undirected=True, times=True)
    assert again.csr().indices.tolist() == graph.csr().indices.tolist() == [7, 9, 5, 5]
    assert again.num_edges == 2 and again.device == device and again.undirected and "undirected" in repr(again)
    with pytest.raises(wk.SpecError, match="holds a Graph"):
        wk.Graph.load(tmp_path / "graph", device)
    with pytest.raises(wk.SpecError, match="undirected, times"):
        wk.Graph.load(tmp_path / "graph", device, times=True)
    data = bytearray((tmp_path / "graph").read_bytes())
    data[len(data) // 2] ^= 1
    (tmp_path / "graph").write_bytes(data)
    with pytest.raises(wk.DamagedError, match="damaged"):
        wk.Graph.load(tmp_path / "graph", device, undirected=True, times=True)


def test_threads_change_and_sample_a_graph() -> None:
    """Each batch adds or removes a whole star, so each sample has all of it or nothing."""
    graph = wk.Graph()
    centre, leaves = np.zeros(500, np.int64), np.arange(1, 501)
    wrong: list[int] = []
    done = threading.Event()

    def sample() -> None:
        while not done.is_set():
            found = len(graph.sample(centre[:1], [-1]).row)
            if found not in (0, 500):
                wrong.append(found)

    reader = threading.Thread(target=sample)
    reader.start()
    try:
        for _ in range(50):
            assert graph.add_edges(centre, leaves).all()
            assert graph.remove_edges(centre, leaves).all()
    finally:
        done.set()
        reader.join()
    assert not wrong and graph.num_edges == 0


def test_bad_arguments_of_graphs() -> None:
    graph = wk.Graph()
    nodes = np.arange(4)
    with pytest.raises(wk.SpecError, match="3 were given and 4"):
        graph.add_edges(nodes, nodes[:3])
    with pytest.raises(TypeError, match="float64"):
        graph.degrees(nodes.astype(np.float64))
    with pytest.raises(ValueError, match="element 1 is -1"):
        graph.degrees(np.array([3, -1]))
    with pytest.raises(ValueError, match="element 0 is 4294967296"):
        graph.add_edges(np.array([2**32], np.uint64), nodes[:1])
    with pytest.raises(wk.Error, match="there can be"):
        graph.add_edges(np.array([2**32 - 1]), nodes[:1])
    for name, dtype in (("weight", np.float32), ("id", np.int64), ("time", np.int64)):
        with pytest.raises(ValueError, match=f"{name}s=True"):
            graph.add_edges(nodes, nodes, **{name: nodes.astype(dtype)})
    for options in ({"pick": "last"}, {"times": nodes}, {"pick": "weighted"}):
        with pytest.raises(ValueError, match="=True"):
            graph.sample(nodes, [2], **options)  # type: ignore[arg-type]
    timed = wk.Graph(times=True, weights=True)
    with pytest.raises(TypeError, match="float32"):
        timed.add_edges(nodes, nodes, weight=np.ones(4))
    with pytest.raises(wk.SpecError, match="time: 2 were given"):
        timed.add_edges(nodes, nodes, time=nodes[:2])
    with pytest.raises(wk.SpecError, match="times: 2 were given"):
        timed.sample(nodes, [2], times=nodes[:2])
    for options in ({"window": 5}, {"strict": True}):
        with pytest.raises(ValueError, match="give times"):
            timed.sample(nodes, [2], **options)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="replace=False"):
        graph.sample(nodes, [-1], replace=True)
    with pytest.raises(ValueError, match="-2 is no number"):
        graph.sample(nodes, [-2])
    with pytest.raises(ValueError, match="uniform, weighted"):
        graph.sample(nodes, [2], pick="first")  # type: ignore[arg-type]
    with pytest.raises(wk.DeviceError):
        wk.Graph("cuda:99")
    assert graph.num_edges == timed.num_edges == 0


def test_without_pytorch_geometric(monkeypatch: pytest.MonkeyPatch) -> None:
    # The second may be there already, from another test.
    for module in ("torch_geometric", "torch_geometric.data", "torch_geometric.sampler"):
        monkeypatch.setitem(sys.modules, module, None)
    sys.modules.pop("warpkeep.pyg", None)
    vars(wk).pop("pyg", None)
    with pytest.raises(ImportError, match="pip install torch torch_geometric"):
        wk.pyg.GraphSampler  # noqa: B018
