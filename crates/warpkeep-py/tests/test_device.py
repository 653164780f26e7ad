"""Tables on a device. The simulator stands in for a GPU; the last test needs one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import warpkeep as wk
from conftest import has_simulator

needs_simulator = pytest.mark.skipif(not has_simulator(), reason="SKIPPED: no simulator was built")


@pytest.fixture
def simulated(tmp_path: Path) -> Iterator[wk.Store]:
    with wk.open(tmp_path / "s", device="sim") as store:
        yield store


@needs_simulator
def test_host_arrays(simulated: wk.Store) -> None:
    table = simulated.table("t", value=wk.row("f32", 8), merge="add")
    assert simulated.device == "sim"
    ids = np.arange(3000, dtype=np.uint64)
    table.put(ids, np.ones((3000, 8), np.float32))
    table.add(ids[:10], np.ones((10, 8), np.float32))
    got, found = table.lookup(ids)
    assert found.all() and (got[:10] == 2).all() and (got[10:] == 1).all()


@needs_simulator
def test_arrays_in_device_memory(simulated: wk.Store) -> None:
    table = simulated.table("t", value=wk.row("f32", 8), merge="add")
    ids = simulated.to_device(np.arange(1000, dtype=np.uint64))
    rows = simulated.to_device(np.ones((1000, 8), np.float32))
    assert ids.shape == [1000] and ids.dtype == np.uint64 and ids.device == "sim" and len(ids) == 1000
    statuses = table.put(ids, rows, durability="power")
    assert (statuses.numpy() == wk.Status.CREATED).all()
    assert (table.add(ids, rows).numpy() == wk.Status.OK).all()
    more = simulated.to_device(np.arange(998, 1002, dtype=np.int64))
    got, found = table.lookup(more)
    assert isinstance(got, wk.DeviceArray) and found.tolist() == [True, True, False, False]
    assert got.numpy()[:, 0].tolist() == [2, 2, 0, 0]
    out = simulated.to_device(np.full((4, 8), 7, np.float32))
    assert table.lookup(more, out=out)[0] is out
    assert out.numpy()[:, 0].tolist() == [2, 2, 0, 0]
    out = simulated.to_device(np.full((4, 8), 7, np.float32))
    table.lookup(more, out=out, fill=None)
    assert out.numpy()[:, 0].tolist() == [2, 2, 7, 7]
    statuses, versions = table.put(more, out, versions=True)
    assert (versions.numpy() > 0).all()
    swapped, _ = table.swap(more, versions, out)
    assert (swapped.numpy() == wk.Status.OK).all()
    assert (table.delete(more).numpy() == wk.Status.OK).all()
    assert len(table) == 998


@needs_simulator
def test_arrays_that_do_not_go_together(simulated: wk.Store, tmp_path: Path) -> None:
    table = simulated.table("t", value=wk.row("f32", 8))
    host = np.arange(4, dtype=np.uint64)
    ids, rows = simulated.to_device(host), np.ones((4, 8), np.float32)
    with pytest.raises(TypeError, match="one memory"):
        table.put(ids, rows)
    with pytest.raises(TypeError, match="one memory"):
        table.lookup(ids, out=rows)
    with pytest.raises(TypeError, match="one memory"):
        table.lookup(host, out=simulated.to_device(rows))
    with pytest.raises(TypeError, match="found="):
        table.lookup(ids, found=np.zeros(4, bool))
    with pytest.raises(TypeError, match="versions"):
        table.lookup(ids, versions=True)
    with pytest.raises(TypeError, match="atomic"):
        table.put(ids, simulated.to_device(rows), atomic=True)
    with pytest.raises(TypeError, match="fill=None"):
        table.lookup(ids, fill=3)
    assert len(table.lookup(ids, versions=False)) == 2
    with pytest.raises(TypeError, match="float64"):
        table.lookup(simulated.to_device(np.zeros(4)))
    with wk.open(tmp_path / "cpu") as store, pytest.raises(TypeError, match="CPU"):
        store.table("t", value=wk.row("f32", 8)).lookup(ids)
    with wk.open(tmp_path / "cpu") as store, pytest.raises(TypeError, match="CPU"):
        store.to_device(host)
    assert len(table) == 0


def test_cuda_tensors(tmp_path: Path) -> None:
    """Tensors of PyTorch on a GPU, in a stream of the caller's."""
    torch = pytest.importorskip("torch", reason="SKIPPED: no PyTorch")
    if not torch.cuda.is_available():
        pytest.skip("SKIPPED: no GPU")
    with wk.open(tmp_path / "s", device="cuda:0", image=f"/dev/shm/warpkeep-py-{tmp_path.name}") as store:
        table = store.table("t", value=wk.row("f32", 64), merge="add")
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            ids = torch.arange(100_000, device="cuda")
            rows = torch.randn(100_000, 64, device="cuda")
            table.put(ids, rows)
            out = torch.empty(100_000, 64, device="cuda")
            address = out.data_ptr()
            got, found = table.lookup(ids, out=out)
            assert got is out and out.data_ptr() == address and bool(found.all()) and torch.equal(out, rows)
            table.add(ids, rows)
            got, found = table.lookup(torch.cat([ids[:5], ids[:5] + 1_000_000]))
            assert found.tolist() == [True] * 5 + [False] * 5
            assert torch.allclose(got[:5], 2 * rows[:5]) and (got[5:] == 0).all()
            with pytest.raises(TypeError, match="cpu"):
                table.put(ids, rows.cpu())
