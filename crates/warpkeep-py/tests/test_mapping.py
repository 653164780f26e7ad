"""Tables as the mappings of Python."""

from __future__ import annotations

import threading
from collections.abc import MutableMapping
from pathlib import Path

import numpy as np
import pytest

import warpkeep as wk


def test_a_table_is_a_mutable_mapping(rows: wk.Table) -> None:
    assert isinstance(rows, MutableMapping) and issubclass(wk.Table, MutableMapping)


def test_pop(store: wk.Store) -> None:
    names = store.table("names", key=wk.var(20), value=wk.var(20))
    names.update({b"a": b"1", b"b": b"2"})
    assert names.pop(b"a") == b"1" and b"a" not in names
    assert names.pop(b"a", None) is None and names.pop(b"a", b"x") == b"x"
    with pytest.raises(KeyError, match="a"):
        names.pop(b"a")
    with pytest.raises(TypeError, match="at most one"):
        names.pop(b"a", 1, 2)  # type: ignore[call-overload]
    assert names.popitem() == (b"b", b"2") and len(names) == 0
    with pytest.raises(KeyError, match="empty"):
        names.popitem()


def test_setdefault(rows: wk.Table) -> None:
    first = rows.setdefault(5, [1, 2, 3, 4])
    assert first.dtype == np.float32 and first.tolist() == [1, 2, 3, 4]
    assert rows.setdefault(5, [9] * 4).tolist() == [1, 2, 3, 4] == rows[5].tolist()
    with pytest.raises(ValueError, match="shape"):
        rows.setdefault(5, [1])
    assert len(rows) == 1


def test_update_as_of_a_dict(store: wk.Store) -> None:
    rows = store.table("rows", value=wk.row("f32", 2))
    assert rows.update({1: [1, 2], 2: np.array([3, 4])}) is None
    rows.update([(2, [5, 6]), (3, [7, 8]), (3, [9, 9])])
    assert {key: value.tolist() for key, value in rows.items()} == {1: [1, 2], 2: [5, 6], 3: [9, 9]}
    rows.update({})
    # With values, a batch that changes what is there.
    statuses = rows.update(np.array([1, 7], np.uint64), np.zeros((2, 2), np.float32))
    assert statuses.tolist() == [wk.Status.OK, wk.Status.NOT_FOUND]
    other = store.table("other", value=wk.row("f32", 2))
    other.update(rows)
    assert len(other) == 3 and other[3].tolist() == [9, 9]
    for wrong, message in ((5, "pairs"), ([5], "pairs"), ([(1, 2, 3)], "pairs"), ({1: [1]}, "shape"), ({"a": [1, 2]}, "key is a str")):
        with pytest.raises((TypeError, ValueError), match=message):
            other.update(wrong)
    with pytest.raises(TypeError, match="update\\(ids, values\\)"):
        other.update({1: [1, 2]}, versions=True)
    signed = store.table("signed", key=wk.i64, value=wk.i64)
    signed.update({-1: -2, 5: 6}, durability="power", atomic=True)
    assert dict(signed.items()) == {-1: -2, 5: 6}
    short = store.table("short", key=wk.fixed(2), value=wk.fixed(3))
    short.update({b"ab": b"abc"})
    assert short[b"ab"] == b"abc"
    with pytest.raises(wk.Error):
        short.update({b"ab": b"abcd"})


def test_update_reads_the_pairs_before_it_stores_any(rows: wk.Table) -> None:
    with pytest.raises(OverflowError):
        rows.update([(1, [1, 2, 3, 4]), (-1, [1, 2, 3, 4])])
    assert len(rows) == 0


def test_clear(store: wk.Store) -> None:
    for name, key, keys in (("numbers", wk.u64, range(5000)), ("names", wk.var(9), [str(each).encode() for each in range(5000)])):
        table = store.table(name, key=key, value=wk.u64)
        table.update((each, 1) for each in keys)
        assert len(table) == 5000
        table.clear()
        assert len(table) == 0 and list(table) == []


def test_a_key_is_popped_once(store: wk.Store) -> None:
    table = store.table("jobs", value=wk.u64)
    table.update((key, key) for key in range(2000))
    taken: list[int] = []

    def work() -> None:
        for key in range(2000):
            if table.pop(key, None) is not None:
                taken.append(key)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(taken) == list(range(2000))


def test_a_mapping_that_is_read_only(tmp_path: Path) -> None:
    with wk.open(tmp_path / "s") as store:
        store.table("t", value=wk.u64)[1] = 2
    with wk.open(tmp_path / "s", read_only=True) as store:
        table = store["t"]
        assert table.setdefault(1, 5) == 2
        for call in (lambda: table.pop(1), lambda: table.setdefault(2, 5), lambda: table.update({1: 3}), lambda: table.clear(), lambda: table.popitem()):
            with pytest.raises(wk.ReadOnlyError):
                call()
        assert dict(table.items()) == {1: 2}
