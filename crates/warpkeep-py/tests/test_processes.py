"""Processes: fork, spawn, pickle, and a process that is killed."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import warpkeep as wk
from conftest import has_simulator


def in_child(work: object) -> str:
    """What a child made by fork answers: the name of an exception, or "done"."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        answer = "no answer"
        try:
            work()  # type: ignore[operator]
            answer = "done"
        except BaseException as error:  # noqa: BLE001
            answer = f"{type(error).__name__}: {error}"
        os.write(write, answer.encode())
        # Ends like a worker does: the interpreter is not torn down, the store is.
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as pipe:
        if select.select([pipe], [], [], 60)[0]:
            answer = pipe.read()
        else:
            os.kill(child, signal.SIGKILL)
            answer = "no answer within a minute"
    os.waitpid(child, 0)
    return answer


class OnAGpu:
    """An array of a library that raises what PyTorch raises in a child."""

    def __dlpack__(self, **options: object) -> object:
        raise RuntimeError("Cannot re-initialize CUDA in forked subprocess")

    def __dlpack_device__(self) -> object:
        raise RuntimeError("Cannot re-initialize CUDA in forked subprocess")


def test_fork(tmp_path: Path) -> None:
    store = wk.open(tmp_path / "s")
    table = store.table("t", value=wk.row("f32", 4))
    ids, rows = np.arange(100, dtype=np.uint64), np.ones((100, 4), np.float32)
    table.put(ids, rows)
    scan = iter(table)
    for work in (
        lambda: table[1],
        lambda: table.__setitem__(1, rows[0]),
        lambda: table.lookup(ids),
        lambda: table.put(ids, rows * 2, durability="power"),
        lambda: len(table),
        lambda: list(table),
        lambda: list(scan),
        lambda: table.attributes,
        lambda: table.set_attribute("name", "text"),
        lambda: table.write_count,
        lambda: table.stat(),
        lambda: store.metrics(),
        lambda: store.to_device(ids),
        lambda: store.flush(),
        lambda: store.checkpoint(),
        lambda: store.tables(),
        lambda: store.table("t"),
        lambda: store.closed,
        lambda: store.close(),
    ):
        answer = in_child(work)
        assert answer.startswith("ForkError") and "spawn" in answer, answer

    # A library that uses CUDA fails in a child if an array is only asked where it is.
    array = OnAGpu()
    for work in (
        lambda: table.lookup(array),
        lambda: table.put(array, array),
        lambda: table.delete(array),
        lambda: table.swap(array, array, array),
        lambda: table.fetch_add(array, array),
        lambda: table._read(array, array),
    ):
        answer = in_child(work)
        assert answer.startswith("ForkError"), answer

    def leave() -> None:
        with store:
            pass

    assert in_child(leave) == "done"
    # The parent goes on, and nothing was damaged.
    got, found = table.lookup(ids)
    assert found.all() and (got == 1).all()
    table.put(ids, rows * 3)
    store.close()
    assert wk.verify(tmp_path / "s")["sound"]


@pytest.mark.skipif(not has_simulator(), reason="SKIPPED: no simulator was built")
def test_fork_with_a_device(tmp_path: Path) -> None:
    store = wk.open(tmp_path / "s", device="sim")
    table = store.table("t", value=wk.row("f32", 4))
    ids, rows = store.to_device(np.arange(10, dtype=np.uint64)), store.to_device(np.ones((10, 4), np.float32))
    table.put(ids, rows)
    map = wk.HashMap(device="sim")
    for work in (
        lambda: ids.numpy(),
        lambda: store.to_device(np.zeros(3)),
        lambda: table.lookup(ids),
        lambda: table.put(ids, rows),
        lambda: table[1],
        lambda: len(map),
        lambda: map.find(OnAGpu()),
    ):
        answer = in_child(work)
        assert answer.startswith("ForkError"), answer
    assert (table.lookup(ids)[0].numpy() == 1).all()
    store.close()


def test_fork_while_a_thread_writes(tmp_path: Path) -> None:
    """Locks that another thread held at the fork keep no child waiting."""
    store = wk.open(tmp_path / "s")
    table = store.table("t", value=wk.row("f32", 4), merge="add")
    ids, rows = np.arange(1000, dtype=np.uint64), np.ones((1000, 4), np.float32)
    stop, rounds, scans = threading.Event(), 0, [table.scan(batch=10)]

    def write() -> None:
        nonlocal rounds
        while not stop.is_set():
            table.add(ids, rows)
            rounds += 1

    def scan() -> None:
        while not stop.is_set():
            if not any(len(keys) for keys, _ in scans[0]):
                scans[0] = table.scan(batch=10)

    threads = [threading.Thread(target=write), threading.Thread(target=scan)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(5):
            assert in_child(lambda: table.lookup(ids)).startswith("ForkError")
            assert in_child(lambda: store.flush()).startswith("ForkError")
            assert in_child(lambda: next(scans[0])).startswith("ForkError")
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    got, _ = table.lookup(ids)
    assert (got == rounds).all()
    store.close()


def load(table: wk.Table, indices: list[int]) -> float:
    """What a worker of a data loader does."""
    rows, found = table.lookup(np.array(indices, np.uint64))
    return float(rows[found].sum())


def test_a_data_loader_with_spawn(tmp_path: Path) -> None:
    """Workers read by the handle that they were given."""
    with wk.open(tmp_path / "s") as store:
        table = store.table("t", value=wk.row("f32", 4))
        table.put(np.arange(100, dtype=np.uint64), np.ones((100, 4), np.float32))
        with pytest.raises(TypeError, match="read_only=True"):
            pickle.dumps(table)
        with pytest.raises(TypeError, match="warpkeep serve"):
            pickle.dumps(store)
    store = wk.open(tmp_path / "s", read_only=True)
    table = store["t"]
    assert pickle.loads(pickle.dumps(store))["t"][1].tolist() == [1] * 4
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        parts = [list(range(start, start + 25)) for start in range(0, 100, 25)]
        assert pool.starmap(load, [(table, part) for part in parts]) == [100.0] * 4
    store.close()


def test_a_data_loader_with_fork(tmp_path: Path) -> None:
    """Workers that inherit a handle are refused; each opens its own, or unpickles one."""
    with wk.open(tmp_path / "s") as store:
        store.table("t", value=wk.row("f32", 4)).put(np.arange(100, dtype=np.uint64), np.ones((100, 4), np.float32))
    with wk.open(tmp_path / "s", read_only=True) as store:
        table = store["t"]
        assert in_child(lambda: load(table, [1])).startswith("ForkError")
        with multiprocessing.get_context("fork").Pool(2) as pool:
            assert pool.starmap(load, [(table, [1, 2, 3])] * 4) == [12.0] * 4


WRITER = """
import sys, numpy as np, warpkeep as wk
store = wk.open(sys.argv[1])
table = store.table("t", value=wk.row("u64", 4))
ids = np.arange(256, dtype=np.uint64)
number = int(table[0][0]) if 0 in table else 0
while True:
    number += 1
    table.put(ids, np.full((256, 4), number, np.uint64), durability=sys.argv[2])
    print(number, flush=True)
"""


@pytest.mark.parametrize("durability", ["process", "power"])
def test_kill(tmp_path: Path, durability: str) -> None:
    """Every batch that was acknowledged before kill -9 is there; with power, batches are whole."""
    for _ in range(3):
        writer = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(tmp_path / "s"), durability], stdout=subprocess.PIPE, text=True
        )
        assert writer.stdout is not None
        for _ in range(40):
            acknowledged = int(writer.stdout.readline())
        writer.send_signal(signal.SIGKILL)
        rest = writer.stdout.read().split()
        acknowledged = int(rest[-1]) if rest else acknowledged
        writer.wait()
        with wk.open(tmp_path / "s") as store:
            rows, found = store["t"].lookup(np.arange(256, dtype=np.uint64))
            assert found.all() and rows.min() >= acknowledged and rows.max() <= acknowledged + 1
            assert (rows == rows[:, :1]).all(), "a row is torn"
            if durability == "power":
                assert rows.min() == rows.max()
    assert wk.verify(tmp_path / "s")["sound"]


KEYS = np.arange(200_000, dtype=np.uint64)
SOME = KEYS[:10].copy()


def a_hash_map() -> tuple[Callable[[], object], Callable[[], object]]:
    map = wk.HashMap()
    map.insert(KEYS, KEYS)
    return lambda: map.put(KEYS, KEYS, how="add"), lambda: (map.find(SOME), len(map), 3 in map, map.items())


def an_ordered_map() -> tuple[Callable[[], object], Callable[[], object]]:
    map = wk.OrderedMap()
    map.insert(KEYS, KEYS)
    return lambda: map.upsert(KEYS, KEYS), lambda: (map.get(SOME), len(map), 3 in map, map.max())


def a_snapshot() -> tuple[Callable[[], object], Callable[[], object]]:
    map = wk.OrderedMap()
    map.insert(KEYS, KEYS)
    before = map.snapshot()

    def read() -> None:
        try:
            before.get(SOME)
        finally:
            before.close()

    return lambda: (map.upsert(KEYS, KEYS), before.get(KEYS)), read


def a_slab_map() -> tuple[Callable[[], object], Callable[[], object]]:
    map = wk.SlabMap()
    map.insert(KEYS, KEYS)
    return lambda: map.put(KEYS, KEYS), lambda: (map.find(SOME), len(map), 3 in map)


def a_slab_set() -> tuple[Callable[[], object], Callable[[], object]]:
    keys = wk.SlabSet()
    keys.insert(KEYS)
    return lambda: keys.insert(KEYS), lambda: (keys.contains(SOME), len(keys), 3 in keys)


def a_slab_multi_map() -> tuple[Callable[[], object], Callable[[], object]]:
    map = wk.SlabMultiMap()
    map.insert(KEYS, KEYS)
    return lambda: map.find_all(KEYS), lambda: (map.count(SOME), len(map), 3 in map)


def a_graph() -> tuple[Callable[[], object], Callable[[], object]]:
    graph = wk.Graph()
    graph.add_edges(KEYS, KEYS + np.uint64(1))
    return (
        lambda: graph.add_edges(KEYS, KEYS + np.uint64(2)),
        lambda: (graph.degrees(SOME), graph.num_edges, graph.num_nodes, graph.sample(SOME, [2])),
    )


@pytest.mark.parametrize("make", [a_hash_map, an_ordered_map, a_snapshot, a_slab_map, a_slab_set, a_slab_multi_map, a_graph])
def test_fork_while_a_thread_uses_a_container(make: Callable[[], tuple[Callable[[], object], Callable[[], object]]]) -> None:
    """A container on the CPU is a copy in a child, unless a thread was in a call of it: then its locks may be held for ever."""
    work, read = make()
    stop = threading.Event()

    def use() -> None:
        while not stop.is_set():
            work()

    thread = threading.Thread(target=use)
    thread.start()
    try:
        answers = {in_child(read).split(":")[0] for _ in range(15)}
    finally:
        stop.set()
        thread.join()
    assert answers <= {"done", "ForkError"} and "ForkError" in answers, answers
    # No thread is in a call any more; and the parent goes on.
    assert in_child(read) == "done" and in_child(lambda: in_child(read)) == "done"
    work()
    read()


def test_metrics_of_a_child(tmp_path: Path) -> None:
    """Threads of the parent that sum up samples hold no lock of the recorder at the fork."""
    with wk.open(tmp_path / "s") as store:
        table = store.table("t", value=wk.row("f32", 4))
        ids, stop = np.arange(16, dtype=np.uint64), threading.Event()

        def look() -> None:
            while not stop.is_set():
                table.lookup(ids)

        def own() -> None:
            assert "warpkeep_" in wk.metrics()

        threads = [threading.Thread(target=look) for _ in range(2)]
        for thread in threads:
            thread.start()
        try:
            assert {in_child(own) for _ in range(15)} == {"done"}
        finally:
            stop.set()
            for thread in threads:
                thread.join()


def test_unpickled_tables_share_a_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker gets a table with each piece of work, and drops it before the next."""
    import warpkeep._reopen as reopen

    with wk.open(tmp_path / "s") as store:
        store.table("t", value=wk.row("f32", 4)).put(np.arange(100, dtype=np.uint64), np.ones((100, 4), np.float32))
    opened: list[Any] = []
    original = reopen._native.open

    def counted(*arguments: Any, **options: Any) -> wk.Store:
        opened.append(arguments)
        return original(*arguments, **options)

    monkeypatch.setattr(reopen._native, "open", counted)
    with wk.open(tmp_path / "s", read_only=True) as store:
        table, whole = pickle.dumps(store["t"]), pickle.dumps(store)
    for _ in range(5):
        assert load(pickle.loads(table), [1, 2]) == 8
    assert len(opened) == 1
    # A closed one is opened again.
    pickle.loads(whole).close()
    assert load(pickle.loads(table), [1]) == 4 and len(opened) == 2

    def in_a_child() -> None:
        assert load(pickle.loads(table), [1]) == 4 and load(pickle.loads(table), [1]) == 4 and len(opened) == 3
        assert len(reopen._stores) == 1

    assert in_child(in_a_child) == "done"
    pickle.loads(whole).close()
    # Nothing is left that would keep a writer away.
    wk.open(tmp_path / "s").close()
