"""Random operations against a dict."""

from __future__ import annotations

import tempfile
from pathlib import Path

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

import warpkeep as wk
from conftest import has_simulator

KEYS = st.integers(0, 30) | st.integers(0, 2**64 - 1)
BATCH = st.lists(st.tuples(KEYS, st.integers(-100, 100)), max_size=40)
KINDS = st.sampled_from(["put", "insert", "update", "add", "delete", "swap", "lookup", "reopen", "single", "scan"])
DEVICES = ["cpu", pytest.param("sim", marks=pytest.mark.skipif(not has_simulator(), reason="no simulator"))]


class Model:
    """What the table should hold, and the last version of each key that was seen."""

    def __init__(self) -> None:
        self.rows: dict[int, list[float]] = {}
        self.versions: dict[int, int] = {}

    def apply(self, kind: str, key: int, number: int, expected: int) -> int:
        there, value = key in self.rows, [float(number), 1.0]
        if kind == "put" or (kind == "insert" and not there) or (kind == "update" and there):
            self.rows[key] = value
        elif kind == "insert":
            return wk.Status.ALREADY_EXISTS
        elif kind == "update":
            return wk.Status.NOT_FOUND
        elif kind == "add":
            old = self.rows.get(key, [0.0, 0.0])
            self.rows[key] = [a + b for a, b in zip(old, value, strict=True)]
        elif kind == "delete":
            if not there:
                return wk.Status.NOT_FOUND
            del self.rows[key]
        elif kind == "swap":
            if not there:
                return wk.Status.NOT_FOUND
            if self.versions.get(key) != expected:
                return wk.Status.VERSION_MISMATCH
            self.rows[key] = value
        return wk.Status.OK if there else wk.Status.CREATED


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("index", ["gphash", "turbohash"])
@given(steps=st.lists(st.tuples(KINDS, BATCH, st.sampled_from(["process", "power"])), max_size=12))
def test_against_a_dict(device: str, index: str, steps: list[tuple[str, list[tuple[int, int]], str]]) -> None:
    with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as home:
        store = wk.open(home, device=device)
        options = {"value": wk.row("f32", 2), "merge": "add", "index": index}
        table, model = store.table("t", **options), Model()
        for kind, batch, durability in steps:
            keys = [key for key, _ in batch]
            ids = np.array(keys, np.uint64)
            values = np.array([[number, 1] for _, number in batch], np.float32).reshape(-1, 2)
            if kind == "reopen":
                store.close()
                store = wk.open(home, device=device)
                table = store.table("t", **options)
            elif kind == "lookup":
                rows, found = table.lookup(ids)
                assert found.tolist() == [key in model.rows for key in keys]
                assert rows.tolist() == [model.rows.get(key, [0.0, 0.0]) for key in keys]
            elif kind == "scan":
                scanned = {int(key): row.tolist() for some in table.scan(7) for key, row in zip(*some, strict=True)}
                assert scanned == model.rows
            elif kind == "single":
                for (key, number), row in zip(batch, values, strict=True):
                    table[key] = row
                    model.rows[key] = [float(number), 1.0]
                    assert table[key].tolist() == model.rows[key]
            elif kind == "swap":
                # Each key once, half of them with the version that they have.
                once = {key: number for key, number in batch}
                ids = np.array(list(once), np.uint64)
                values = np.array([[number, 1] for number in once.values()], np.float32).reshape(-1, 2)
                versions = table.lookup(ids, versions=True)[2]
                model.versions = dict(zip(once, versions.tolist(), strict=True))
                expected = [version + number % 2 for version, number in zip(versions.tolist(), once.values(), strict=True)]
                statuses, _ = table.swap(ids, np.array(expected, np.uint64), values, durability=durability)
                wanted = [model.apply("swap", key, once[key], version) for key, version in zip(once, expected, strict=True)]
                assert statuses.tolist() == wanted
            else:
                write = getattr(table, kind)
                arguments = (ids,) if kind == "delete" else (ids, values)
                statuses = write(*arguments, durability=durability)
                assert statuses.tolist() == [model.apply(kind, key, number, 0) for key, number in batch]
            assert len(table) == len(model.rows)
        store.close()


@given(
    steps=st.lists(
        st.tuples(st.sampled_from(["put", "delete", "lookup", "single"]), st.lists(st.tuples(st.binary(max_size=8), st.binary(max_size=40)), max_size=20)),
        max_size=8,
    )
)  # fmt: skip
def test_bytes_against_a_dict(steps: list[tuple[str, list[tuple[bytes, bytes]]]]) -> None:
    with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as home, wk.open(home) as store:
        table, model = store.table("t", key=wk.var(8), value=wk.var(40)), {}
        for kind, batch in steps:
            keys, values = [key for key, _ in batch], [value for _, value in batch]
            if kind == "put":
                table.put(keys, values)
                model.update(batch)
            elif kind == "delete":
                table.delete(keys)
                for key in keys:
                    model.pop(key, None)
            elif kind == "lookup":
                assert table.lookup(keys)[0] == [model.get(key) for key in keys]
            else:
                for key, value in batch:
                    table[key] = value
                    model[key] = value
            assert dict(table.items()) == model
