"""What a call costs, and lookups beside other stores: `python -m warpkeep.bench`.

Medians of many calls, by one thread. Stores that are not installed are left out. Build the extension in release first:
`scripts/python bench` does.
"""

from __future__ import annotations

import argparse
import importlib.util
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import warpkeep as wk
from warpkeep._native import time_lookups

_SEED = 1


def median(work: Callable[[], object], seconds: float) -> float:
    """The median time of a call, in microseconds. Short calls are timed in groups, so that the clock costs little."""
    work()
    begun = time.perf_counter()
    work()
    group = max(1, int(20e-6 / max(time.perf_counter() - begun, 1e-9)))
    times: list[float] = []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(times) < 5:
        begun = time.perf_counter()
        for _ in range(group):
            work()
        times.append((time.perf_counter() - begun) / group)
    return float(np.median(times)) * 1e6


def calls(table: wk.Table, rows: int, width: int, seconds: float) -> Iterator[tuple[str, float, int]]:
    """What, microseconds a call, rows a call."""
    chance = np.random.default_rng(_SEED)
    yield "t[id]", median(lambda: table[7], seconds), 1
    row = np.zeros(width, np.float32)
    yield "t[id] = row", median(lambda: table.__setitem__(7, row), seconds), 1
    for batch in (1, 64, 1024, 65_536):
        batch = min(batch, rows)
        ids = chance.integers(0, rows, batch).astype(np.uint64)
        out, found = np.empty((batch, width), np.float32), np.empty(batch, bool)
        yield f"lookup into arrays, {batch}", median(lambda: table.lookup(ids, out=out, found=found), seconds), batch
    ids, values = chance.integers(0, rows, 1024).astype(np.uint64), np.ones((1024, width), np.float32)
    yield "lookup, new arrays, 1024", median(lambda: table.lookup(ids), seconds), 1024
    yield "put, 1024", median(lambda: table.put(ids, values), seconds), 1024
    yield "add, 1024", median(lambda: table.add(ids, values), seconds), 1024
    yield "put durable to power loss, 1024", median(lambda: table.put(ids, values, durability="power"), seconds), 1024


def beside_rust(table: wk.Table, rows: int, width: int, seconds: float) -> Iterator[tuple[int, float, float]]:
    """Ids a call, microseconds of the call from Python, and of the same in the library. They take turns, so that both see the same machine."""
    chance = np.random.default_rng(_SEED)
    for batch in (1, 64, 1024, 65_536):
        batch = min(batch, rows)
        ids = chance.integers(0, rows, batch).astype(np.uint64)
        out, found = np.empty((batch, width), np.float32), np.empty(batch, bool)
        ours: list[float] = []
        theirs: list[float] = []
        end = time.perf_counter() + seconds
        while time.perf_counter() < end or len(ours) < 3:
            ours.append(median(lambda: table.lookup(ids, out=out, found=found), seconds / 20))
            theirs.append(float(np.median(time_lookups(table, ids, out, max(5, int(seconds * 5e4 / ours[-1]))))) * 1e6)
        yield batch, float(np.median(ours)), float(np.median(theirs))


def beside_checkpoints(store: wk.Store, table: wk.Table, rows: int, width: int, seconds: float) -> tuple[list[float], list[float], list[float]]:
    """Seconds of puts of 1,024 rows alone, of such puts while a checkpoint is under way, and of the checkpoints."""
    chance = np.random.default_rng(_SEED)
    values = np.ones((1024, width), np.float32)
    alone: list[float] = []
    beside: list[float] = []
    checkpoints: list[float] = []

    def put(times: list[float]) -> None:
        ids = chance.integers(0, rows, 1024).astype(np.uint64)
        begun = time.perf_counter()
        table.put(ids, values)
        times.append(time.perf_counter() - begun)

    def checkpoint() -> None:
        begun = time.perf_counter()
        store.checkpoint()
        checkpoints.append(time.perf_counter() - begun)

    end = time.perf_counter() + seconds
    while time.perf_counter() < end or not checkpoints:
        for _ in range(200):
            put(alone)
        thread = threading.Thread(target=checkpoint)
        thread.start()
        while thread.is_alive():
            put(beside)
        thread.join()
    return alone, beside, checkpoints


def others(home: Path, values: Any, batch: int) -> Iterator[tuple[str, Callable[[Any], Any]]]:
    """Lookups of `batch` rows in other stores: name, and a function from ids to one array."""
    rows, width = values.shape
    keys = [int(number).to_bytes(8, "little") for number in range(rows)]
    plain = {number: values[number].copy() for number in range(rows)}
    yield "dict and numpy.stack", lambda ids: np.stack([plain[number] for number in ids.tolist()])
    if importlib.util.find_spec("lmdb"):
        import lmdb

        environment = lmdb.open(str(home / "lmdb"), map_size=4 * values.nbytes + (64 << 20), writemap=True)
        with environment.begin(write=True) as transaction, transaction.cursor() as cursor:
            cursor.putmulti([(key, values[number].tobytes()) for number, key in enumerate(keys)])

        def from_lmdb(ids: Any) -> Any:
            wanted = [keys[number] for number in ids.tolist()]
            with environment.begin(buffers=True) as transaction, transaction.cursor() as cursor:
                return np.stack([np.frombuffer(row, np.float32) for _, row in cursor.getmulti(wanted)])

        def from_lmdb_singly(ids: Any) -> Any:
            with environment.begin(buffers=True) as transaction:
                return np.stack([np.frombuffer(transaction.get(keys[number]), np.float32) for number in ids.tolist()])

        yield "lmdb getmulti", from_lmdb
        yield "lmdb get, one by one", from_lmdb_singly
    if importlib.util.find_spec("rocksdict"):
        import rocksdict

        database = rocksdict.Rdict(str(home / "rocksdict"), rocksdict.Options(raw_mode=True))
        writes = rocksdict.WriteBatch(raw_mode=True)
        for number, key in enumerate(keys):
            writes.put(key, values[number].tobytes())
        database.write(writes)
        database.flush()
        yield (
            "rocksdict multi-get",
            lambda ids: np.stack([np.frombuffer(row, np.float32) for row in database[[keys[n] for n in ids.tolist()]]]),
        )
    mapped = np.memmap(home / "memmap", np.float32, "w+", shape=(rows, width))
    mapped[:] = values
    yield "numpy.memmap (dense ids, no crash safety)", lambda ids: mapped[ids]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--width", type=int, default=32, help="floats in a row")
    parser.add_argument("--batch", type=int, default=1024, help="rows of a lookup beside other stores")
    parser.add_argument("--seconds", type=float, default=1.0, help="of each measurement")
    parser.add_argument("--directory", help="where the stores are made; by default a temporary one")
    given = parser.parse_args()
    values = np.random.default_rng(_SEED).standard_normal((given.rows, given.width)).astype(np.float32)
    with tempfile.TemporaryDirectory(dir=given.directory) as name, wk.open(Path(name) / "store") as store:
        table = store.table("t", value=wk.row("f32", given.width), merge="add", capacity=given.rows)
        for start in range(0, given.rows, 65_536):
            part = values[start : start + 65_536]
            table.put(np.arange(start, start + len(part), dtype=np.uint64), part)
        store.flush()
        print(f"warpkeep {wk.__version__}, {given.rows} rows of {4 * given.width} bytes")
        ids = np.random.default_rng(_SEED).integers(0, given.rows, given.batch).astype(np.uint64)
        ours = median(lambda: table.lookup(ids), given.seconds)
        for what, each, count in calls(table, given.rows, given.width, given.seconds):
            print(f"  {what:44} {each:12.2f} us {count / each:10.3f} M rows/s")
        print("lookup into arrays, from Python and in the library")
        for batch, from_python, in_library in beside_rust(table, given.rows, given.width, given.seconds):
            print(f"  {batch:6} ids {from_python:12.2f} us {in_library:12.2f} us {in_library / from_python:8.2f} of the library's rate")
        alone, beside, checkpoints = beside_checkpoints(store, table, given.rows, given.width, 4 * given.seconds)
        print(f"put of 1024 rows, {len(checkpoints)} checkpoints of {np.median(checkpoints) * 1e3:.1f} ms")
        for what, times in (("alone", alone), ("beside a checkpoint", beside)):
            p50, p99 = np.percentile(times, [50, 99]) * 1e6
            print(f"  {what:24} {len(times):8} puts, p50 {p50:10.1f} us, p99 {p99:10.1f} us")
        print(f"lookup of {given.batch} rows into one new array")
        print(f"  {'warpkeep':44} {ours:12.2f} us")
        for what, lookup in others(Path(name), values, given.batch):
            each = median(lambda: lookup(ids), given.seconds)
            print(f"  {what:44} {each:12.2f} us {each / ours:8.1f} times")


if __name__ == "__main__":
    main()
