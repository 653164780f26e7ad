"""Tables on a device. The simulator stands in for a GPU; the last tests need one."""

from __future__ import annotations

import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
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


def lets_others_run(call: Callable[[], object], seconds: float = 20) -> bool:
    """Whether a call releases the GIL: another thread, which otherwise would have to wait for long, runs meanwhile."""
    begin, ran = threading.Lock(), []

    def other() -> None:
        with begin:
            ran.append(True)

    interval = sys.getswitchinterval()
    begin.acquire()
    thread = threading.Thread(target=other)
    thread.start()
    sys.setswitchinterval(1000)
    try:
        begin.release()
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            call()
            if ran:
                return True
        return False
    finally:
        sys.setswitchinterval(interval)
        thread.join()


@needs_simulator
def test_calls_that_may_wait_for_the_device_release_the_gil(simulated: wk.Store, tmp_path: Path) -> None:
    table = simulated.table("t", value=wk.row("f32", 8))
    host = np.ones((4, 8), np.float32)
    there, row = simulated.to_device(host), host[0]
    calls: dict[str, Callable[[], object]] = {
        "put": lambda: table.__setitem__(1, row),
        "get": lambda: table.get(1),
        "versioned": lambda: table.get_versioned(1),
        "in": lambda: 1 in table,
        "len": lambda: len(table),
        "upload": lambda: simulated.to_device(host),
        "download": there.numpy,
    }
    for name, call in calls.items():
        assert lets_others_run(call), name

    def delete() -> None:
        table[1] = row
        del table[1]

    assert lets_others_run(delete)
    # The measure can tell: on the CPU, a single key is there before the GIL could be released.
    with wk.open(tmp_path / "cpu") as store:
        table = store.table("t", value=wk.row("f32", 8))
        table[1] = row
        assert not lets_others_run(lambda: table.get(1), 0.2) and not lets_others_run(lambda: table.__setitem__(1, row), 0.2)


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
    there = simulated.to_device(np.zeros(4, np.uint64))
    with pytest.raises(TypeError, match="versions: lies in the memory of device 0"):
        table.lookup(host, versions=there)
    notes = simulated.table("notes", value=wk.var(100))
    with pytest.raises(TypeError, match="versions: lies in the memory of device 0"):
        notes.lookup(host, versions=there)
    assert there.numpy().tolist() == [0] * 4
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


@needs_simulator
def test_values_that_the_device_keeps(tmp_path: Path) -> None:
    """Cached values as a share or in bytes; answers are the same."""
    ids = np.arange(600, dtype=np.uint64)
    for number, kept in enumerate((0.5, 1 << 20, 0)):
        with wk.open(tmp_path / str(number), device="sim", device_values=kept) as store:
            table = store.table("t", value=wk.row("f32", 32))
            table.put(ids, np.repeat(ids[:, None], 32, axis=1).astype(np.float32))
            for _ in range(6):
                got, found = table.lookup(ids)
                assert found.all() and np.array_equal(got[:, 5], ids.astype(np.float32))
            table.put(ids[:300], np.zeros((300, 32), np.float32))
            assert (table.lookup(ids)[0][:300] == 0).all()
    with pytest.raises(wk.Error, match="from 0 to 1"):
        wk.open(tmp_path / "bad", device="sim", device_values=1.5)
    for bad in ("half", -1):
        with pytest.raises(TypeError, match="share of the values"):
            wk.open(tmp_path / "bad", device="sim", device_values=bad)  # type: ignore[arg-type]


@pytest.fixture
def on_gpu(tmp_path: Path) -> Iterator[wk.Store]:
    torch = pytest.importorskip("torch", reason="SKIPPED: no PyTorch")
    if not torch.cuda.is_available():
        pytest.skip("SKIPPED: no GPU")
    with tempfile.TemporaryDirectory(prefix="warpkeep-", dir="/dev/shm") as image:
        with wk.open(tmp_path / "s", device="cuda:0", image=Path(image) / "image") as store:
            yield store


def test_cuda_tensors(on_gpu: wk.Store) -> None:
    """Tensors of PyTorch on a GPU, in a stream of the caller's."""
    import torch

    table = on_gpu.table("t", value=wk.row("f32", 64), merge="add")
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
        with pytest.raises(TypeError, match="one memory"):
            table.put(ids, rows.cpu())


def test_batches_wait_for_the_stream_of_the_caller(on_gpu: wk.Store) -> None:
    """The ids are written by a kernel that is still waiting when the batch is called."""
    import torch

    table = on_gpu.table("t", value=wk.row("f32", 4))
    ids = torch.arange(1000, device="cuda")
    rows = ids.float()[:, None].expand(1000, 4).contiguous()
    late, late_rows = torch.full_like(ids, 5), torch.zeros_like(rows)
    torch.cuda.synchronize()
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(200_000_000)
        late.copy_(ids)
        late_rows.copy_(rows)
        table.put(late, late_rows)
        late.fill_(7)
        torch.cuda._sleep(200_000_000)
        late.copy_(ids)
        got, found = table.lookup(late)
        assert bool(found.all()) and torch.equal(got, rows)
    assert len(table) == 1000
    # Named by its number, from another current stream.
    late.fill_(2000)
    torch.cuda.synchronize()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(200_000_000)
        late.copy_(ids)
    got, found = table.lookup(late, stream=stream.cuda_stream)
    assert bool(found.all()) and torch.equal(got, rows)


def test_arrays_of_cupy(on_gpu: wk.Store) -> None:
    cupy = pytest.importorskip("cupy", reason="SKIPPED: no CuPy")
    table = on_gpu.table("t", value=wk.row("f32", 8), merge="add")
    ids = cupy.arange(5000, dtype=cupy.uint64)
    rows = cupy.arange(40_000, dtype=cupy.float32).reshape(5000, 8)
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        assert bool((table.put(ids, rows) == int(wk.Status.CREATED)).all())
        out = cupy.zeros((5000, 8), cupy.float32)
        address = out.data.ptr
        got, found = table.lookup(ids[::-1].copy(), out=out)
        assert got is out and out.data.ptr == address and bool(found.all()) and bool((out == rows[::-1]).all())
        got, found = table.lookup(ids[:3] + cupy.uint64(4999))
        assert isinstance(got, cupy.ndarray) and found.tolist() == [True, False, False] and bool((got[1:] == 0).all())
        assert got[0].tolist() == rows[4999].tolist()


def test_a_hash_map_with_tensors(on_gpu: wk.Store) -> None:
    """Batches in the caller's stream; the answers are tensors there."""
    import torch

    map, stream = wk.HashMap(device="cuda:0"), torch.cuda.Stream()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(50_000_000)
        keys = torch.randperm(100_000, device="cuda")
        assert bool(map.insert(keys, 2 * keys).all()) and not bool(map.put(keys, keys, how="add").any())
        values, found = map.find(keys + 50_000)
        assert values.device == keys.device and values.dtype == torch.int64 and found.dtype == torch.bool
        assert torch.equal(found, keys < 50_000) and torch.equal(values, torch.where(found, 3 * (keys + 50_000), 0))
        assert torch.equal(map.contains(keys - 1), keys > 0) and bool(map.erase(keys).all()) and len(map) == 0
        # Memory of this package as a tensor.
        array = map.to_device(np.arange(5))
        assert torch.as_tensor(array, device="cuda").tolist() == [0, 1, 2, 3, 4]
    with pytest.raises(ValueError, match="one memory"):
        map.insert(keys, keys.cpu())


def test_a_graph_with_tensors(on_gpu: wk.Store) -> None:
    """A sample of seeds on the GPU stays there, and is that of the same seeds in host memory."""
    import torch

    graph = wk.Graph(device="cuda:0", ids=True, times=True)
    chance = np.random.default_rng(1)
    src, dst = chance.integers(0, 500, 5000), chance.integers(0, 500, 5000)
    graph.add_edges(src, dst, id=np.arange(5000), time=np.arange(5000))
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        seeds = torch.arange(64, device="cuda")
        for times in (None, torch.full_like(seeds, 2500)):
            there = graph.sample(seeds, [5, 5], times=times, seed=3)
            here = graph.sample(seeds.cpu(), [5, 5], times=None if times is None else times.cpu(), seed=3)
            for name in ("nodes", "seeds", "row", "col", "batch", "ids", "times"):
                one, other = getattr(there, name), getattr(here, name)
                assert (one is None) == (other is None) == (name == "batch" and times is None)
                assert one is None or (one.is_cuda and one.dtype == torch.int64 and one.tolist() == other.tolist()), name
            assert there.nodes_per_hop == here.nodes_per_hop and there.edges_per_hop == here.edges_per_hop
        with pytest.raises(ValueError, match="renumber"):
            graph.sample(seeds - 1, [5])


@needs_simulator
@pytest.mark.parametrize(
    "array",
    [
        np.array(["a", {}], object),
        np.zeros((2, 3, 4), np.float32),
        np.array(3, np.float32),
        np.zeros(2, "datetime64[s]"),
        np.zeros(2, "timedelta64[s]"),
        np.zeros(2, np.complex64),
        np.zeros(2, "S8"),
        np.zeros(2, "V8"),
        np.zeros(2, "U2"),
        np.zeros(2, [("a", object)]),
    ],
)
def test_arrays_that_have_no_copy_on_a_device(simulated: wk.Store, array: np.ndarray) -> None:
    """Their bytes say nothing without more, or are addresses of objects."""
    for home in (simulated, wk.HashMap(device="sim")):
        with pytest.raises(TypeError, match="numbers of one or two dimensions"):
            home.to_device(array)


@needs_simulator
def test_copies_of_all_numbers(simulated: wk.Store) -> None:
    for name in ("u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8", "f2", "f4", "f8", "?"):
        for shape in ((6,), (2, 3), (0,), (0, 3)):
            array = np.arange(np.prod(shape)).reshape(shape).astype(name)
            again = simulated.to_device(array).numpy()
            assert again.dtype == array.dtype and again.shape == shape and np.array_equal(again, array)
