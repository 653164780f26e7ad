"""Stores: opening, durability, backups, reports, closing."""

from __future__ import annotations

import os
import time
from pathlib import Path

import numpy as np
import pytest

import warpkeep as wk


def test_what_is_written_is_there_again(tmp_path: Path) -> None:
    ids = np.arange(1000, dtype=np.uint64)
    values = np.random.default_rng(1).random((1000, 8), np.float32)
    with wk.open(tmp_path / "s") as store:
        table = store.table("t", value=wk.row("f32", 8))
        table.put(ids, values, durability="power")
        assert "t" in store and store.tables() == ["t"]
    with wk.open(tmp_path / "s") as store:
        got, found = store["t"].lookup(ids)
        assert found.all() and np.array_equal(got, values)
        store.drop_table("t")
        assert store.tables() == []


def test_a_closed_store(tmp_path: Path) -> None:
    store = wk.open(tmp_path / "s")
    table = store.table("t", value=wk.f32)
    table[1] = 1
    scan = iter(table)
    store.close()
    store.close()
    assert store.closed
    for use in (
        lambda: table[1],
        lambda: table.lookup(np.zeros(1, np.uint64)),
        lambda: len(table),
        lambda: list(table),
        lambda: next(scan),
        lambda: store.flush(),
        lambda: store.table("t"),
        lambda: store.stat(),
    ):
        with pytest.raises(wk.ClosedError, match="open"):
            use()


def test_durability(tmp_path: Path) -> None:
    with wk.open(tmp_path / "volatile", log=False) as store:
        table = store.table("t", value=wk.f32)
        table[1] = 1
        with pytest.raises(wk.DurabilityError, match="log"):
            table.put(np.zeros(1, np.uint64), np.zeros(1, np.float32), durability="power")
        with pytest.raises(ValueError, match="'process'"):
            table.put(np.zeros(1, np.uint64), np.zeros(1, np.float32), durability="disk")
    with wk.open(tmp_path / "s", durability="power") as store:
        table = store.table("t", value=wk.f32)
        table[1] = 1
        table.put(np.zeros(1, np.uint64), np.zeros(1, np.float32))
        del table[1]
        assert store.stat()["status"]["log"]["since_checkpoint"] > 0
        store.flush()
        store.checkpoint()
        assert store.stat()["status"]["log"]["since_checkpoint"] == 0


def test_backup_restore_verify(tmp_path: Path) -> None:
    with wk.open(tmp_path / "s") as store:
        table = store.table("t", key=wk.i64, value=wk.row("f32", 2))
        table.put(np.arange(10), np.ones((10, 2), np.float32))
        # The table, its attributes and ten rows.
        assert store.backup(tmp_path / "b")["items"] >= 10
        with pytest.raises(wk.Error, match="not empty"):
            store.backup(tmp_path / "b")
        with pytest.raises(wk.Error):
            wk.verify(tmp_path / "s")
    assert wk.verify(tmp_path / "s")["sound"]
    wk.restore(tmp_path / "b", tmp_path / "again")
    with wk.open(tmp_path / "again") as store:
        assert len(store["t"]) == 10 and store["t"].key == wk.i64


def test_read_only(tmp_path: Path) -> None:
    with pytest.raises(wk.NoStoreError, match="no store"):
        wk.open(tmp_path / "s", read_only=True)
    with wk.open(tmp_path / "s") as store:
        store.table("t", value=wk.f32)[1] = 2
        for read_only in (True, False):
            with pytest.raises(wk.BusyError):
                wk.open(tmp_path / "s", read_only=read_only)
    with wk.open(tmp_path / "s", read_only=True) as one, wk.open(tmp_path / "s", read_only=True) as two:
        assert one["t"][1] == two["t"][1] == 2 and one.read_only
        assert one.table("t", value=wk.f32)[1] == 2
        with pytest.raises(wk.ReadOnlyError, match="writing"):
            one["t"][1] = 3
        with pytest.raises(wk.NoTableError):
            one.table("other", value=wk.f32)
        with pytest.raises(wk.SpecError, match="fixed:4"):
            one.table("t", value=wk.f64)


def test_reports(tmp_path: Path) -> None:
    with wk.open(tmp_path / "s", image=tmp_path / "image") as store:
        table = store.table("t", value=wk.f32)
        table.put(np.arange(5, dtype=np.uint64), np.zeros(5, np.float32))
        stat = store.stat()
        assert stat["tables"][0] == {
            "name": "t", "items": 5, "key": "u64", "value": "f32", "merge": "none", "index": "gphash",
        }  # fmt: skip
        assert table.stat()["items"] == 5
        assert store.device == "cpu" and Path(store.path) == tmp_path / "s"
        assert (tmp_path / "image").exists()
        assert "t" in repr(table) and "s'" in repr(store)
    # The counters are passed on in the background, and at the latest when the store is closed.
    assert "warpkeep_open_seconds" in wk.metrics()


def test_no_room(tmp_path: Path) -> None:
    with wk.open(tmp_path / "s", max_bytes=64 << 20) as store:
        table = store.table("t", value=wk.row("u8", 1 << 20))
        ids = np.arange(200, dtype=np.uint64)
        with pytest.raises(wk.BatchError, match="out of space.*delete") as raised:
            table.put(ids, np.zeros((200, 1 << 20), np.uint8))
        error = raised.value
        assert error.status == "out of space" and error.statuses.shape == (200,)
        assert error.statuses[error.index] == wk.Status.OUT_OF_SPACE
        assert len(table) == (error.statuses == wk.Status.CREATED).sum()
        with pytest.raises(wk.FullError, match="limit"):
            table[1000] = np.zeros(1 << 20, np.uint8)


def test_no_room_for_an_atomic_batch(tmp_path: Path) -> None:
    with wk.open(tmp_path / "s", max_bytes=64 << 20) as store:
        table = store.table("t", value=wk.row("u8", 1 << 20))
        table.put(np.arange(5, dtype=np.uint64), np.zeros((5, 1 << 20), np.uint8), atomic=True)
        for durability in ("process", "power"):
            with pytest.raises(wk.BatchError, match="out of space"):
                table.put(np.arange(100, dtype=np.uint64), np.ones((100, 1 << 20), np.uint8), durability=durability, atomic=True)
            assert len(table) == 5 and not table[0].any()


def test_bad_arguments_of_open(tmp_path: Path) -> None:
    with pytest.raises(wk.DeviceError, match="no device is called"):
        wk.open(tmp_path / "s", device="tpu")
    with pytest.raises(wk.DeviceError, match="cuda:77"):
        wk.open(tmp_path / "s", device="cuda:77")
    with pytest.raises(ValueError, match="durability"):
        wk.open(tmp_path / "s", durability="none")
    (tmp_path / "file").write_text("not a store")
    with pytest.raises(wk.Error):
        wk.open(tmp_path / "file")
    (tmp_path / "damaged").mkdir()
    (tmp_path / "damaged" / "image").write_bytes(b"x" * 100_000)
    with pytest.raises(wk.Error, match="not a Warpkeep image"):
        wk.open(tmp_path / "damaged")
    assert [name for name, _ in wk.devices()][:2] == ["cpu", "sim"]


def test_checkpoints_that_the_program_takes(tmp_path: Path) -> None:
    """A log that is long enough for a checkpoint, with and without automatic ones."""
    ids, rows = np.arange(4096, dtype=np.uint64), np.ones((4096, 256), np.float32)
    for word, expected in (("automatic", True), ("manual", False)):
        with wk.open(tmp_path / word, checkpoints=word) as store:  # type: ignore[arg-type]
            table = store.table("t", value=wk.row("f32", 256), capacity=4096)
            for _ in range(18):
                table.put(ids, rows)
            log = store.stat()["status"]["log"]
            end = time.monotonic() + (20 if expected else 0.3)
            while not log["checkpoints"] and time.monotonic() < end:
                time.sleep(0.01)
                log = store.stat()["status"]["log"]
            assert (log["checkpoints"] > 0) == expected, log
            before = log["checkpoints"]
            store.checkpoint()
            assert store.stat()["status"]["log"]["checkpoints"] > before
    with pytest.raises(ValueError, match="'manual'"):
        wk.open(tmp_path / "bad", checkpoints="never")  # type: ignore[arg-type]
    assert not (tmp_path / "bad").exists()


def test_attributes_that_contradict_the_table(tmp_path: Path) -> None:
    with wk.open(tmp_path / "s") as store:
        table = store.table("t", value=wk.row("f32", 2))
        table[1] = [1, 2]
        for text in ("f32x3", "nonsense", "var:8", "f32x99999999999999999999", f"f32x{2**62 + 2}", "?x2"):
            table.set_attribute("python.value", text)
            assert store["t"].value == wk.fixed(8) and store["t"][1] == np.array([1, 2], np.float32).tobytes()


def resident() -> int:
    """Bytes of this process that are in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_metrics_take_memory_once(rows: wk.Table) -> None:
    """A batch of 16 is two samples of histograms, which the recorder keeps until they are summed up."""
    ids, out, found = np.arange(16, dtype=np.uint64), np.zeros((16, 4), np.float32), np.zeros(16, bool)

    def counted() -> float:
        lines = [line for line in wk.metrics().splitlines() if line.startswith("warpkeep_batch_operations_count") and '"rows"' in line]
        return sum(float(line.split()[-1]) for line in lines)

    def look(rounds: int) -> None:
        for _ in range(rounds):
            rows.lookup(ids, out=out, found=found)

    before = counted()
    look(100_000)
    first = resident()
    look(200_000)
    assert resident() - first < 1 << 20
    # None was lost.
    assert counted() - before == 300_000
