"""Arrow and Parquet."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pa = pytest.importorskip("pyarrow", reason="SKIPPED: no pyarrow")
import pyarrow.parquet as pq  # noqa: E402

import warpkeep as wk  # noqa: E402

IDS = np.arange(1000, dtype=np.uint64) * np.uint64(7919)
ROWS = np.random.default_rng(3).random((1000, 4), np.float32)


def lists(rows: np.ndarray, width: int = 4) -> object:
    return pa.FixedSizeListArray.from_arrays(pa.array(rows.reshape(-1)), width)


@pytest.mark.parametrize(
    ("key", "value"),
    [(wk.u64, wk.row("f32", 4)), (wk.i64, wk.f64), (wk.fixed(8), wk.fixed(5)), (wk.var(20), wk.var(50))],
)
def test_there_and_back(store: wk.Store, key: wk.Spec, value: wk.Spec) -> None:
    table = store.table("t", key=key, value=value)
    cells = {
        wk.row("f32", 4): ROWS[0].tolist(), wk.f64: 0.5, wk.fixed(5): b"abcde", wk.var(50): b"some"
    }  # fmt: skip
    for number in range(300):
        table[number if key in (wk.u64, wk.i64) else b"%08d" % number] = cells[value]
    arrow = pa.table(table)
    assert arrow.num_rows == 300 and arrow.column_names == ["key", "value"]
    copy = store.table("copy", key=key, value=value)
    assert copy.read_arrow(arrow) == 300
    assert copy.read_arrow(table) == 300
    assert copy.read_arrow(table.to_arrow(batch=50)) == 300
    one = {key: np.asarray(value).tolist() for key, value in table.items()}
    assert {key: np.asarray(value).tolist() for key, value in copy.items()} == one and len(one) == 300


def test_columns_of_others(rows: wk.Table) -> None:
    source = pa.table({"id": pa.array(IDS.astype(np.int32)), "vector": pa.array(list(ROWS.tolist()), pa.list_(pa.float32()))})
    assert rows.read_arrow(source, key="id", value="vector") == 1000
    got, found = rows.lookup(IDS)
    assert found.all() and np.array_equal(got, ROWS)
    # A part of a batch begins in the middle of its memory.
    part = pa.record_batch({"key": pa.array(IDS), "value": lists(ROWS * 2)}).slice(100, 50)
    assert rows.read_arrow(part) == 50
    got, _ = rows.lookup(IDS)
    assert np.array_equal(got[100:150], ROWS[100:150] * 2) and np.array_equal(got[:100], ROWS[:100])


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ({"key": pa.array(IDS), "other": lists(ROWS)}, "no column 'value'"),
        ({"key": pa.array([1, None]), "value": lists(ROWS[:2])}, "'key' has 1 nulls"),
        ({"key": pa.array(IDS), "value": lists(ROWS.astype(np.float64))}, "double.*cast"),
        ({"key": pa.array(IDS[:800]), "value": lists(ROWS, 5)}, "lists of 4"),
        ({"key": pa.array([1, 2]), "value": pa.array([[1.0] * 4, [1.0] * 3], pa.list_(pa.float32()))}, "lists of 4"),
        ({"key": pa.array([1]), "value": pa.array([[1.0, None, 1.0, 1.0]], pa.list_(pa.float32(), 4))}, "1 nulls"),
        ({"key": pa.array([0.5]), "value": lists(ROWS[:1])}, "double.*uint64"),
        ({"key": pa.array([1]), "value": pa.array(["text"])}, "string.*lists"),
    ],
)
def test_bad_columns(rows: wk.Table, source: dict[str, object], message: str) -> None:
    with pytest.raises(wk.SpecError, match=message):
        rows.read_arrow(pa.table(source))
    assert len(rows) == 0


def test_what_is_not_arrow(rows: wk.Table) -> None:
    with pytest.raises(TypeError, match="pyarrow"):
        rows.read_arrow([1, 2])
    with pytest.raises(pa.ArrowInvalid):
        rows.read_arrow(pa.table({"key": pa.array([-1]), "value": lists(ROWS[:1])}))


def test_parquet(rows: wk.Table, tmp_path: Path) -> None:
    for part in range(3):
        where = slice(part * 300, part * 300 + 300)
        pq.write_table(pa.table({"key": IDS[where], "value": lists(ROWS[where]), "more": IDS[where]}), tmp_path / f"{part}.parquet")
    assert wk.load_parquet(tmp_path / "0.parquet", rows) == 300
    assert wk.load_parquet(str(tmp_path / "*.parquet"), rows, durability="power") == 900
    assert wk.load_parquet([tmp_path / "1.parquet"], rows) == 300
    got, found = rows.lookup(IDS)
    assert found.sum() == 900 and np.array_equal(got[:900], ROWS[:900])
    pq.write_table(pa.table(rows), tmp_path / "out.parquet")
    assert pq.read_table(tmp_path / "out.parquet").num_rows == 900
    with pytest.raises(FileNotFoundError):
        wk.load_parquet(tmp_path / "none-*.parquet", rows)
    with pytest.raises(wk.SpecError, match="no column 'id'"):
        wk.load_parquet(tmp_path / "0.parquet", rows, key="id")
