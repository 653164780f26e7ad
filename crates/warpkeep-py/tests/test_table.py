"""Tables: single keys, batches, scans."""

from __future__ import annotations

import mmap
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import warpkeep as wk
from warpkeep._native import time_lookups


def test_a_table_is_a_mapping(rows: wk.Table) -> None:
    rows[7] = [1, 2, 3, 4]
    rows[2**64 - 1] = np.full(4, 9, np.float32)
    assert rows[7].dtype == np.float32 and rows[7].tolist() == [1, 2, 3, 4]
    assert 7 in rows and 8 not in rows and 2**64 - 1 in rows
    assert rows.get(8) is None and rows.get(8, "none") == "none"
    assert len(rows) == 2 and sorted(rows) == [7, 2**64 - 1]
    assert {key: value.tolist() for key, value in rows.items()} == {7: [1, 2, 3, 4], 2**64 - 1: [9] * 4}
    assert sorted(value[0] for value in rows.values()) == [1, 9]
    version, value = rows.get_versioned(7)
    assert version > 0 and value.tolist() == [1, 2, 3, 4]
    assert rows.get_versioned(8) is None
    del rows[7]
    assert 7 not in rows
    with pytest.raises(KeyError):
        rows[7]
    with pytest.raises(KeyError):
        del rows[7]
    with pytest.raises(OverflowError, match="2\\*\\*64"):
        rows[-1]
    with pytest.raises(TypeError, match="lookup"):
        rows[np.arange(3)]
    with pytest.raises(ValueError, match="shape"):
        rows[1] = [1, 2, 3]


def test_batches(rows: wk.Table) -> None:
    ids = np.arange(100, dtype=np.uint64)
    values = np.arange(400, dtype=np.float32).reshape(100, 4)
    assert (rows.put(ids, values) == wk.Status.CREATED).all()
    assert (rows.put(ids, values) == wk.Status.OK).all()
    wanted = np.array([5, 1000, 99, 5], dtype=np.int64)
    got, found = rows.lookup(wanted)
    assert got.dtype == np.float32 and found.dtype == bool
    assert found.tolist() == [True, False, True, True]
    assert got.tolist() == [values[5].tolist(), [0] * 4, values[99].tolist(), values[5].tolist()]
    assert rows.add(ids[:2], np.ones((2, 4), np.float32)).tolist() == [wk.Status.OK] * 2
    assert rows[1].tolist() == [5, 6, 7, 8]
    some = np.array([99, 100], np.uint64)
    assert rows.insert(some, values[:2]).tolist() == [wk.Status.ALREADY_EXISTS, wk.Status.CREATED]
    assert rows.update(some + 1, values[:2]).tolist() == [wk.Status.OK, wk.Status.NOT_FOUND]
    assert rows.delete(some + 1).tolist() == [wk.Status.OK, wk.Status.NOT_FOUND]
    assert len(rows) == 100


def test_answers_into_the_callers_arrays(rows: wk.Table) -> None:
    rows.put(np.arange(3, dtype=np.uint64), np.ones((3, 4), np.float32))
    ids = np.array([0, 9, 2], np.uint64)
    whole = np.full((8, 4), -1, np.float32)
    out, found = whole[2:5], np.zeros(3, bool)
    answer = rows.lookup(ids, out=out, found=found)
    assert answer[0] is out and answer[1] is found
    assert whole[:, 0].tolist() == [-1, -1, 1, 0, 1, -1, -1, -1] and found.tolist() == [True, False, True]
    out[:] = 7
    rows.lookup(ids, out=out, fill=None)
    assert out[:, 0].tolist() == [1, 7, 1]
    rows.lookup(ids, out=out, fill=2.5)
    assert out[1].tolist() == [2.5] * 4
    flags = np.full(3, 9, np.uint8)
    rows.lookup(ids, found=flags)
    assert flags.tolist() == [1, 0, 1]
    versions = np.zeros(3, np.uint64)
    *_, given = rows.lookup(ids, versions=versions)
    assert given is versions and versions[0] > 0 and versions[1] == 0
    assert (rows.lookup(ids, versions=True)[2] == versions).all()
    assert len(rows.lookup(ids, versions=False)) == 2


def test_a_lookup_that_fails_leaves_flags(store: wk.Store, tmp_path: Path) -> None:
    """The caller's flags are flags, and rows that were not read are filled, also if the call raises."""
    table = store.table("checked", value=wk.row("f32", 64), check_gets=True)
    ids, values = np.arange(10, dtype=np.uint64), np.full((10, 64), 1.2345e10, np.float32)
    table.put(ids, values)
    # One byte of one row.
    with (tmp_path / "store" / "image").open("r+b") as file, mmap.mmap(file.fileno(), 0) as image:
        place = image.find(values[0].tobytes())
        image[place] ^= 1
    out, found = np.full((10, 64), 7, np.float32), np.ones(10, bool)
    with pytest.raises(wk.BatchError, match="corrupt") as raised:
        table.lookup(ids, out=out, found=found)
    damaged = raised.value.index
    assert raised.value.statuses[damaged] == wk.Status.CORRUPT
    assert set(found.view(np.uint8).tolist()) == {0, 1} and found.sum() == 9 and not found[damaged]
    assert (out[damaged] == 0).all() and (out[found] == values[found]).all()

    # A fill that is no number leaves everything as it was.
    out, found = np.full((10, 64), 7, np.float32), np.ones(10, bool)
    with pytest.raises((TypeError, ValueError)):
        table.lookup(ids, out=out, found=found, fill="nothing")
    assert (out == 7).all() and found.view(np.uint8).tolist() == [1] * 10
    # So do arrays that share memory.
    with pytest.raises(ValueError, match="share memory"):
        table.lookup(ids, out=out, found=out.view(bool).reshape(-1)[:10])
    assert (out == 7).all()


def test_empty_batches(rows: wk.Table) -> None:
    none = np.zeros(0, np.uint64)
    got, found = rows.lookup(none)
    assert got.shape == (0, 4) and found.shape == (0,)
    assert rows.put(none, np.zeros((0, 4), np.float32)).shape == (0,)
    assert rows.delete(none).shape == (0,)
    assert list(rows) == [] and list(rows.scan()) == []


def test_compare_and_swap(rows: wk.Table) -> None:
    ids = np.arange(3, dtype=np.uint64)
    one = np.ones((3, 4), np.float32)
    statuses, versions = rows.put(ids[:2], one[:2], versions=True)
    expected = np.array([versions[0], versions[1] + 1, 1], np.uint64)
    statuses, now = rows.swap(ids, expected, one * 2)
    assert statuses.tolist() == [wk.Status.OK, wk.Status.VERSION_MISMATCH, wk.Status.NOT_FOUND]
    assert now[0] > versions[0] and now[1] == versions[1] and now[2] == 0
    assert rows[0].tolist() == [2] * 4 and rows[1].tolist() == [1] * 4


def test_counters(store: wk.Store) -> None:
    visits = store.table("visits", key=wk.var(64), value=wk.u64, merge="add")
    before = visits.fetch_add([b"/", b"/a", b"/"], np.array([1, 5, 2], np.uint64))
    assert before.tolist() == [0, 0, 1]
    assert visits[b"/"] == 3 and visits[b"/a"] == 5
    visits.add([b"/"], np.array([4], np.uint64))
    visits[b"/b"] = 2**64 - 1
    assert visits[b"/"] == 7 and visits[b"/b"] == 2**64 - 1
    largest = store.table("largest", value=wk.u64, merge="max")
    largest.merge(np.array([1, 1], np.uint64), np.array([7, 3], np.uint64))
    assert largest[1] == 7


def test_bytes_of_any_length(store: wk.Store) -> None:
    notes = store.table("notes", key=wk.var(100), value=wk.var(10_000))
    notes[b"a"] = b"first"
    notes[b""] = b""
    assert notes[b"a"] == b"first" and notes[b""] == b""
    notes.put([b"b", b"c"], [b"x" * 10_000, b"\0"])
    values, found = notes.lookup([b"b", b"none", b"c"])
    assert values == [b"x" * 10_000, None, b"\0"] and found.tolist() == [True, False, True]
    assert sorted(notes) == [b"", b"a", b"b", b"c"]
    scanned = {key: value for keys, values in notes.scan(batch=2) for key, value in zip(keys, values)}
    assert scanned == dict(notes.items())
    with pytest.raises(TypeError, match="encode"):
        notes["a"]
    with pytest.raises(TypeError, match="encode"):
        notes.lookup(["a"])
    with pytest.raises(wk.SpecError, match="10001"):
        notes[b"a"] = b"x" * 10_001
    with pytest.raises(wk.SpecError, match="101"):
        notes.lookup([b"x" * 101])


def test_bytes_of_one_length(store: wk.Store) -> None:
    table = store.table("hashes", key=wk.fixed(16), value=wk.fixed(3))
    table[bytes(range(16))] = b"abc"
    assert table[bytes(range(16))] == b"abc"
    keys = np.frombuffer(bytes(range(32)), np.uint8).reshape(2, 16)
    got, found = table.lookup(keys)
    assert found.tolist() == [True, False] and got[0].tobytes() == b"abc" and got.dtype == np.uint8
    assert table.lookup(keys.view("V16").reshape(2))[1].tolist() == [True, False]
    table.put([b"k" * 16], [b"val"])
    assert table[b"k" * 16] == b"val"
    with pytest.raises(wk.SpecError):
        table.put([b"k" * 15], [b"val"])


@pytest.mark.parametrize("name", ["u8", "i16", "u32", "i64", "f16", "f32", "f64"])
def test_numbers(store: wk.Store, name: str) -> None:
    spec = getattr(wk, name)
    table = store.table(name, value=spec)
    table[1] = 7
    assert table[1] == 7
    ids = np.arange(5, dtype=np.uint64)
    table.put(ids, np.arange(5).astype(spec.dtype))
    got, _ = table.lookup(ids)
    assert got.dtype == spec.dtype and got.tolist() == [0, 1, 2, 3, 4]


def test_signed_keys(store: wk.Store) -> None:
    table = store.table("signed", key=wk.i64, value=wk.f64)
    table[-5] = 0.25
    assert list(table) == [-5] and -5 in table
    got, found = table.lookup(np.array([-5, 5], np.int64))
    assert found.tolist() == [True, False] and got[0] == 0.25


def test_a_scan_meets_every_item_once(store: wk.Store) -> None:
    table = store.table("many", value=wk.row("u64", 2))
    ids = np.arange(30_000, dtype=np.uint64) * np.uint64(2654435761)
    table.put(ids, np.stack([ids, ids + np.uint64(1)], axis=1))
    keys, values = zip(*table.scan(batch=1000), strict=True)
    assert len(keys) > 10
    keys, values = np.concatenate(keys), np.concatenate(values)
    assert np.array_equal(np.sort(keys), np.sort(ids))
    assert np.array_equal(values[:, 0], keys) and np.array_equal(values[:, 1], keys + np.uint64(1))
    assert len(list(table)) == 30_000
    with pytest.raises(ValueError, match="batch"):
        table.scan(batch=0)


def test_threads_write_at_once(rows: wk.Table) -> None:
    ids = np.arange(512, dtype=np.uint64)
    ones = np.ones((512, 4), np.float32)
    threads = [threading.Thread(target=lambda: [rows.add(ids, ones) for _ in range(50)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    got, found = rows.lookup(ids)
    assert found.all() and (got == 200).all()


def test_batches_release_the_gil(rows: wk.Table) -> None:
    """While one thread is in a batch, another one runs Python."""
    ids = np.arange(200_000, dtype=np.uint64)
    values = np.zeros((200_000, 4), np.float32)
    counted, done = 0, threading.Event()

    def count() -> None:
        nonlocal counted
        while not done.is_set():
            counted += 1

    thread = threading.Thread(target=count)
    thread.start()
    before = counted
    rows.put(ids, values)
    after = counted
    done.set()
    thread.join()
    assert after > before


def test_turbohash(store: wk.Store) -> None:
    table = store.table("turbo", value=wk.row("f32", 2), index="turbohash", capacity=10_000)
    table.put(np.arange(100, dtype=np.uint64), np.ones((100, 2), np.float32))
    assert table.index == "turbohash" and len(table) == 100
    assert table.stat()["items"] == 100
    with pytest.raises(wk.Error, match="gphash or turbohash"):
        store.table("other", value=wk.f32, index="btree")


def test_the_table_remembers_what_it_holds(tmp_path: Path) -> None:
    with wk.open(tmp_path / "s") as store:
        store.table("rows", key=wk.i64, value=wk.row("f32", 4), merge="add")
    with wk.open(tmp_path / "s") as store:
        rows = store["rows"]
        assert (rows.key, rows.value, rows.merge_rule) == (wk.i64, wk.row("f32", 4), "add-f32")
        assert rows.value.width == 4 and rows.value.nbytes == 16 and rows.value.dtype == np.float32
        store.table("rows", key=wk.i64, value=wk.row("f32", 4), merge="add")
        with pytest.raises(wk.SpecError, match="f32x4"):
            store.table("rows", key=wk.i64, value=wk.row("i32", 4), merge="add-f32")
        with pytest.raises(wk.SpecError, match="u64"):
            store.table("rows", key=wk.u64, value=wk.row("f32", 4), merge="add")
        with pytest.raises(wk.SpecError, match="fixed:16"):
            store.table("rows", key=wk.i64, value=wk.row("f32", 5), merge="add")
        with pytest.raises(wk.Error, match="merge rule"):
            store.table("rows", key=wk.i64, value=wk.row("f32", 4))
        with pytest.raises(wk.NoTableError, match="none"):
            store["none"]
        with pytest.raises(TypeError, match="values"):
            store.table("rows", key=wk.i64)
        rows.set_attribute("unit", "metres")
        assert rows.attributes["unit"] == "metres"


def test_specs() -> None:
    import pickle

    assert wk.row("float32", 4) == wk.row(np.float32, 4) != wk.row("f32", 5)
    assert len({wk.u64, wk.u64, wk.fixed(8), wk.var(8)}) == 3
    for spec in (wk.u64, wk.row("f16", 3), wk.fixed(7), wk.var(9)):
        assert pickle.loads(pickle.dumps(spec)) == spec
    with pytest.raises(ValueError, match="f32"):
        wk.row("complex64", 4)
    with pytest.raises(ValueError, match="limits"):
        wk.row("f32", 0)
    with pytest.raises(ValueError, match="limits"):
        wk.row("f64", 1 << 20)


def test_writes_are_counted(store: wk.Store, rows: wk.Table) -> None:
    """The count stays the same as long as the rows do; it is that of the table, not of a handle."""
    ids, values = np.arange(3, dtype=np.uint64), np.ones((3, 4), np.float32)
    counts = [rows.write_count]
    other = store["rows"]

    def changed() -> bool:
        counts.append(rows.write_count)
        assert rows.write_count == other.write_count
        return counts[-1] != counts[-2]

    writes: list[Callable[[], object]] = [
        lambda: rows.put(ids, values),
        lambda: other.add(ids, values),
        lambda: rows.put(ids, values, durability="power", atomic=True),
        lambda: rows.__setitem__(7, values[0]),
        lambda: other.__delitem__(7),
        lambda: rows.delete(ids[:1]),
    ]
    reads: list[Callable[[], object]] = [lambda: rows.lookup(ids), lambda: rows.get(7), lambda: list(rows.scan()), lambda: store.table("u", value=wk.u64).put(ids, ids)]
    for write in writes:
        write()
        assert changed()
        for read in reads:
            read()
            assert not changed()
    assert counts[-1] is not None


def test_times_of_the_library(rows: wk.Table) -> None:
    ids, out = np.arange(5, dtype=np.uint64), np.zeros((5, 4), np.float32)
    rows.put(ids, np.arange(20, dtype=np.float32).reshape(5, 4))
    times = time_lookups(rows, ids, out, 3)
    assert len(times) == 3 and all(0 < each < 1 for each in times) and np.array_equal(out, rows.lookup(ids)[0])
    with pytest.raises(TypeError, match="float64"):
        time_lookups(rows, ids, out.astype(np.float64), 1)
    with pytest.raises(ValueError, match="4 rows for 5 ids"):
        time_lookups(rows, ids, out[:4], 1)
    with pytest.raises(ValueError, match="share memory"):
        time_lookups(rows, out.reshape(-1).view(np.uint64)[:5], out, 1)


def test_counters_are_integers(store: wk.Store) -> None:
    signed = store.table("signed", key=wk.u64, value=wk.i64)
    ids = np.array([1, 1], np.uint64)
    assert signed.fetch_add(ids, np.array([-5, 2])).tolist() == [0, -5]
    before = signed.fetch_add(ids, np.array([1, 1]))
    assert before.dtype == np.int64 and before.tolist() == [-3, -2] and signed[1] == -1
    plain = store.table("plain", key=wk.u64, value=wk.fixed(8))
    before = plain.fetch_add(ids, np.array([1, 1], np.uint64))
    assert before.dtype == np.uint64 and before.tolist() == [0, 1] and plain[1] == b"\2" + b"\0" * 7
    for name, value in (("f64", wk.f64), ("f32x2", wk.row("f32", 2)), ("u32", wk.u32), ("var", wk.var(8))):
        table = store.table(name, key=wk.u64, value=value)
        with pytest.raises(TypeError, match="8-byte integers: u64, i64 or fixed"):
            table.fetch_add(ids, np.array([1, 1], np.uint64))
        assert len(table) == 0


def test_specs_as_keys() -> None:
    specs = [wk.fixed(1_234_567), wk.row("f32", 100_000), wk.var(99), wk.u64, wk.fixed(1_234_568)]
    assert len({*specs, wk.fixed(1_234_567)}) == len(specs)
    assert hash(wk.fixed(1_234_567)) == hash(wk.fixed(1_234_567))


def test_versions_of_bytes(store: wk.Store) -> None:
    notes = store.table("notes", value=wk.var(100))
    ids, numbers = np.arange(3, dtype=np.uint64), np.zeros(3, np.uint64)
    notes.put(ids[:2], [b"a", b"b"])
    values, found, versions = notes.lookup(ids, versions=numbers)
    assert values == [b"a", b"b", None] and versions is numbers and (numbers > 0).tolist() == [True, True, False]
    # Before the batch runs.
    for wrong in (np.zeros(2, np.uint64), np.zeros(3, np.int32)):
        with pytest.raises(TypeError, match="versions"):
            notes.lookup(ids, versions=wrong)
    with pytest.raises(ValueError, match="share memory"):
        notes.lookup(ids, versions=ids)
    assert ids.tolist() == [0, 1, 2]
