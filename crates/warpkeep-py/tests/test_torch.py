"""Embeddings of PyTorch; test_training.py compares them with PyTorch's own on every device. Without PyTorch the tests are skipped."""

from __future__ import annotations

import dataclasses
import os
import signal
import subprocess
import sys
import time
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="SKIPPED: no PyTorch; scripts/python setup --torch")

import warpkeep as wk  # noqa: E402
import warpkeep.torch as wkt  # noqa: E402


def test_tensors_in_and_out(rows: wk.Table) -> None:
    ids, values = torch.arange(10), torch.randn(10, 4)
    statuses = rows.put(ids, values)
    assert isinstance(statuses, torch.Tensor) and (statuses == wk.Status.CREATED).all()
    got, found = rows.lookup(torch.tensor([3, 99]))
    assert isinstance(got, torch.Tensor) and got.dtype == torch.float32 and found.dtype == torch.bool
    assert torch.equal(got[0], values[3]) and found.tolist() == [True, False]
    out = torch.zeros(10, 4)
    address = out.data_ptr()
    answer, _ = rows.lookup(ids, out=out)
    assert answer is out and out.data_ptr() == address and torch.equal(out, values)
    got, _, versions = rows.lookup(ids, versions=True)
    assert versions.dtype == torch.int64 and (versions > 0).all()
    assert rows.swap(ids, versions, values)[0].tolist() == [wk.Status.OK] * 10
    with pytest.raises(TypeError, match="float64"):
        rows.put(ids, values.double())
    with pytest.raises(ValueError, match="contiguous"):
        rows.put(ids, torch.randn(4, 10).t())
    with pytest.raises(TypeError, match="int32"):
        rows.lookup(ids.int())
    with pytest.raises((BufferError, RuntimeError), match="gradient"):
        rows.put(ids, torch.randn(10, 4, requires_grad=True))


def embedding(store: wk.Store, optimizer: Any, dim: int = 8, name: str = "items", **options: Any) -> wkt.Embedding:
    table = wkt.create_table(store, name, dim=dim, optimizer=optimizer)
    return wkt.Embedding(table, dim=dim, optimizer=optimizer, **options)


def test_rowwise_adagrad(store: wk.Store) -> None:
    ours = embedding(store, wkt.RowwiseAdagrad(lr=0.1), init="uniform:1", seed=1)
    ids = torch.tensor([5, 5, 7])
    weights, sums = {i: ours.rows.gather(torch.tensor([i]))[0][0].double() for i in (5, 7)}, {5: 0.0, 7: 0.0}
    for _ in range(3):
        (ours(ids) ** 2).sum().backward()
        wkt.step(ours)
        for i, count in ((5, 2), (7, 1)):
            gradient = 2 * count * weights[i]
            sums[i] += float((gradient**2).mean())
            weights[i] = weights[i] - 0.1 * gradient / (sums[i] ** 0.5 + 1e-10)
    got, state = ours.rows.gather(torch.tensor([5, 7]))
    assert torch.allclose(got, torch.stack([weights[5], weights[7]]).float(), atol=1e-5)
    assert state.flatten().tolist() == pytest.approx([sums[5], sums[7]], rel=1e-4)


def test_only_touched_rows_are_stored(store: wk.Store) -> None:
    ours = embedding(store, wkt.SGD(lr=0.1), init="normal:1")
    ours(torch.arange(1000)).sum()
    assert len(ours.rows.table) == 0
    ours(torch.tensor([3, 3, 2**40])).sum().backward()
    ours.rows.step()
    # Both rows, and the number of the step.
    assert len(ours.rows.table) == 3
    with torch.no_grad():
        ours(torch.tensor([8]))
    ours.rows.step()
    assert len(ours.rows.table) == 3 and ours.rows.step_number == 2


def test_initial_rows_are_a_function_of_seed_and_id() -> None:
    ids = np.array([0, 1, 2**63, 2**64 - 2], np.uint64)
    one = wkt.initial_rows("normal:2", ids, 16, 7)
    assert np.array_equal(wkt.initial_rows("normal:2", ids[2:3], 16, 7)[0], one[2])
    assert not np.array_equal(wkt.initial_rows("normal:2", ids, 16, 8), one)
    many = wkt.initial_rows("normal:2", np.arange(20_000, dtype=np.uint64), 8, 1)
    assert abs(many.mean()) < 0.02 and abs(many.std() - 2) < 0.02
    assert abs(np.corrcoef(many.T)[0, 1:]).max() < 0.03
    even = wkt.initial_rows("uniform:3", np.arange(20_000, dtype=np.uint64), 8, 1)
    assert even.min() > -3 and even.max() < 3 and abs(even.mean()) < 0.03 and even.std() == pytest.approx(3**0.5, rel=0.02)
    for bad in ("normal", "normal:x", "uniform:-1", "ones", "zeros:1"):
        with pytest.raises(ValueError, match="zeros"):
            wkt._init.check(bad)


@pytest.mark.parametrize("padding", [None, 2])
@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_bags(store: wk.Store, mode: str, padding: int | None) -> None:
    optimizer = wkt.SGD(lr=0.1)
    table = wkt.create_table(store, "bags", dim=4, optimizer=optimizer)
    ours = wkt.EmbeddingBag(table, dim=4, optimizer=optimizer, init="normal:1", mode=mode, padding_idx=padding)
    last = wkt.EmbeddingBag(ours.rows, mode=mode, padding_idx=padding, include_last_offset=True)
    everything, _ = ours.rows.gather(torch.arange(30))
    options = {"freeze": False, "mode": mode, "padding_idx": padding}
    theirs = torch.nn.EmbeddingBag.from_pretrained(everything.clone(), **options)
    their_last = torch.nn.EmbeddingBag.from_pretrained(everything.clone(), include_last_offset=True, **options)
    their_last.weight = theirs.weight
    sgd = torch.optim.SGD(theirs.parameters(), lr=0.1)
    # An empty bag, and one of padding alone.
    ids, offsets = torch.tensor([1, 2, 2, 9, 29, 1, 2]), torch.tensor([0, 3, 3, 6])
    for _ in range(3):
        for module, to_the_end in ((ours, last), (theirs, their_last)):
            (module(ids, offsets) ** 2).sum().backward()
            (module(ids[:6].reshape(3, 2)) ** 2).sum().backward()
            (to_the_end(ids, torch.tensor([0, 3, 3, 6, 7])) ** 2).sum().backward()
        wkt.step(ours)
        sgd.step()
        sgd.zero_grad()
    assert torch.allclose(ours.rows.gather(torch.arange(30))[0], theirs.weight.detach(), atol=1e-6)
    weights = torch.rand(7)
    if mode == "sum":
        assert torch.allclose(ours(ids, offsets, weights), theirs(ids, offsets, weights), atol=1e-6)
    else:
        with pytest.raises(ValueError, match="mode='sum'"):
            ours(ids, offsets, weights)
    assert ours(torch.zeros(0, dtype=torch.int64), torch.tensor([0, 0])).tolist() == [[0] * 4] * 2
    with pytest.raises(ValueError, match="offsets"):
        ours(ids)
    with pytest.raises(ValueError, match="'max'"):
        wkt.EmbeddingBag(ours.rows, mode="least")


@pytest.mark.filterwarnings("ignore:scatter_reduce")
@pytest.mark.parametrize("padding", [None, 2])
@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_what_compiled_bags_compute(store: wk.Store, mode: str, padding: int | None) -> None:
    """Without the compiler, which older versions do not have: from rows of which each id has its own."""
    table = wkt.create_table(store, "bags", dim=4, optimizer=wkt.SGD(lr=0.1))
    rows = wkt.Rows(table, 4, wkt.SGD(lr=0.1), init="normal:1")
    one = wkt.Embedding(rows, padding_idx=padding)
    bags = [wkt.EmbeddingBag(rows, mode=mode, padding_idx=padding, include_last_offset=last) for last in (False, True)]
    flat = torch.tensor([1, 2, 2, 9, 29, 1, 2, 2])
    offsets = torch.tensor([0, 3, 3, 6, 8])
    with torch.no_grad():
        for ids in (flat.reshape(4, 2), flat.reshape(2, 4)):
            for bag in bags:
                assert torch.allclose(bag._compiled(ids, one(ids), None, None), bags[0](ids), atol=1e-6)
        # PyTorch refuses these.
        none = flat[:0].reshape(3, 0)
        assert bags[0]._compiled(none, one(none), None, None).tolist() == [[0] * 4] * 3
        for bag, ends in ((bags[0], offsets[:-1]), (bags[0], offsets), (bags[1], offsets), (bags[1], torch.tensor([0, 2, 5]))):
            assert torch.allclose(bag._compiled(flat, one(flat), ends, None), bag(flat, ends), atol=1e-6)
        if mode == "sum":
            shares = torch.rand(8)
            assert torch.allclose(bags[0]._compiled(flat, one(flat), offsets, shares), bags[0](flat, offsets, shares), atol=1e-6)


def test_padding(store: wk.Store) -> None:
    ours = embedding(store, wkt.Adam(lr=0.1), init="normal:1", padding_idx=-1)
    found = ours(torch.tensor([[4, -1], [-1, 5]]))
    assert (found[0, 1] == 0).all() and (found[1, 0] == 0).all() and not (found[0, 0] == 0).any()
    found.sum().backward()
    ours.rows.step()
    assert len(ours.rows.table) == 3
    with pytest.raises(ValueError, match="-1"):
        embedding(store, wkt.Adam(lr=0.1), init="normal:1")(torch.tensor([-1]))
    with pytest.raises(TypeError, match="long"):
        ours(torch.tensor([1.0]))


def test_shared_rows(store: wk.Store) -> None:
    one = embedding(store, wkt.SGD(lr=1.0))
    two = wkt.EmbeddingBag(one.rows, mode="sum")
    model = torch.nn.ModuleList([one, two])
    (one(torch.tensor([1])).sum() + two(torch.tensor([[1, 2]])).sum()).backward()
    assert wkt.step(model) and one.rows.step_number == 1
    assert one.rows.gather(torch.tensor([1, 2]))[0][:, 0].tolist() == [-2, -1]


def test_a_step_is_done_once(store: wk.Store) -> None:
    ours = embedding(store, wkt.SGD(lr=1.0))

    def again(number: int) -> bool:
        ours(torch.tensor([1])).sum().backward()
        return wkt.step(ours, number)

    assert again(1) and again(2) and not again(2) and not again(1)
    assert ours(torch.tensor([1])).flatten().tolist() == [-2] * 8
    ours.rows.zero_grad()
    with pytest.raises(wk.StepError, match="from 1"):
        again(0)
    ours(torch.tensor([1])).sum().backward()
    ours.rows.zero_grad()
    assert again(7) and ours.rows.step_number == 7
    assert ours(torch.tensor([1])).flatten().tolist() == [-3] * 8


def test_gradients_that_are_left_out(store: wk.Store) -> None:
    """What a program does that meets a loss that is not finite."""
    inner = embedding(store, wkt.SGD(lr=1.0))
    model = torch.nn.Sequential(inner)
    (model(torch.tensor([1])).sum() * float("nan")).backward()
    wkt.zero_grad(model)
    model(torch.tensor([1])).sum().backward()
    assert wkt.step(model) and inner.rows.gather(torch.tensor([1]))[0].tolist() == [[-1] * 8]
    (inner(torch.tensor([1])).sum() * float("inf")).backward()
    inner.zero_grad()
    wkt.EmbeddingBag(inner.rows).zero_grad(set_to_none=True)
    assert wkt.step(model) and inner.rows.gather(torch.tensor([1]))[0].tolist() == [[-1] * 8]


def test_gradients_of_a_scaled_loss(store: wk.Store) -> None:
    ours = embedding(store, wkt.SGD(lr=1.0))
    ids, scale = torch.tensor([1, 1, 2]), 65536.0
    # One forward pass, and two.
    for passes in (1, 2):
        for _ in range(passes):
            (ours(ids).sum() * scale).backward()
        assert wkt.step(ours, scale=scale)
    assert ours.rows.gather(torch.tensor([1, 2]))[0][:, 0].tolist() == [-6, -3]
    ours(ids).sum().backward()
    for wrong in (0.0, -1.0, float("nan"), float("inf")):
        with pytest.raises(ValueError, match="scale"):
            wkt.step(ours, scale=wrong)
    # The gradients are still there.
    assert wkt.step(ours) and ours.rows.gather(torch.tensor([1]))[0][0, 0] == -8


def test_a_scaled_step_that_failed_can_be_tried_again(store: wk.Store, monkeypatch: pytest.MonkeyPatch) -> None:
    ours = embedding(store, wkt.SGD(lr=1.0))
    (ours(torch.tensor([1])).sum() * 4).backward()
    update = wkt.SGD.update

    def fail(*_: Any) -> None:
        raise RuntimeError("no space")

    monkeypatch.setattr(wkt.SGD, "update", fail)
    with pytest.raises(RuntimeError, match="no space"):
        wkt.step(ours, scale=4.0)
    monkeypatch.setattr(wkt.SGD, "update", update)
    assert wkt.step(ours, scale=4.0) and ours.rows.gather(torch.tensor([1]))[0][0, 0] == -1


def test_settings_of_shared_rows(store: wk.Store) -> None:
    one = embedding(store, wkt.SGD(lr=1.0), init="normal:1", seed=3)
    for name, value in (("dim", 9), ("optimizer", wkt.SGD(lr=1.0)), ("init", "zeros"), ("seed", 4), ("durability", "process")):
        with pytest.raises(ValueError, match=f"{name}: .*leave them out"):
            wkt.Embedding(one.rows, **{name: value})
    wkt.Embedding(one.rows, dim=8, init="normal:1", seed=3, durability="power", optimizer=one.rows.optimizer)


def test_a_step_that_failed_can_be_tried_again(tmp_path: Path) -> None:
    with wk.open(tmp_path / "s", log=False) as store:
        ours = embedding(store, wkt.SGD(lr=1.0))
        ours(torch.tensor([1])).sum().backward()
        with pytest.raises(wk.DurabilityError, match="log"):
            wkt.step(ours)
        assert ours.rows.step_number == 0 and len(ours.rows.table) == 0
        ours.rows.durability = "process"
        assert wkt.step(ours)
        assert ours(torch.tensor([1])).flatten().tolist() == [-1] * 8


def test_state(tmp_path: Path) -> None:
    with wk.open(tmp_path / "s") as store:
        ours = embedding(store, wkt.SGD(lr=1.0))
        ours(torch.tensor([1])).sum().backward()
        wkt.step(ours)
        torch.save(ours.state_dict(), tmp_path / "state.pt")
        (extra,) = ours.state_dict().values()
        assert extra["table"] == "items" and extra["step"] == 1 and extra["store"] == str(tmp_path / "s")
    state = torch.load(tmp_path / "state.pt")
    with wk.open(tmp_path / "s") as store:
        ours = embedding(store, wkt.SGD(lr=0.5))
        ours.load_state_dict(state)
        with pytest.raises(wk.StepError, match="open the table"):
            embedding(store, wkt.SGD(lr=1.0), name="other").load_state_dict(state)
        with pytest.raises(wk.SpecError, match="sgd"):
            embedding(store, wkt.SGD(lr=1.0), seed=4)
        with pytest.raises(wk.SpecError, match="f32x"):
            wkt.Embedding(store["items"], dim=9, optimizer=wkt.SGD(lr=1.0))
    with wk.open(tmp_path / "empty") as store, pytest.raises(wk.StepError, match="holds step 0"):
        embedding(store, wkt.SGD(lr=1.0)).load_state_dict(state)
    with wk.open(tmp_path / "s", read_only=True) as store:
        ours = embedding(store, wkt.SGD(lr=1.0)).eval()
        assert ours(torch.tensor([1])).flatten().tolist() == [-1] * 8


class OpensItself(torch.utils.data.Dataset):
    """A dataset that opens the store in the process that reads it: for workers of any start method."""

    def __init__(self, path: Path) -> None:
        self.path, self.opened = path, (0, None)

    def __len__(self) -> int:
        return 40

    def __getitem__(self, index: int) -> Any:
        if self.opened[0] != os.getpid():
            self.opened = (os.getpid(), wk.open(self.path, read_only=True)["t"])
        return torch.from_numpy(self.opened[1][index])

    def __getstate__(self) -> Any:
        return self.__dict__ | {"opened": (0, None)}


class HasAHandle(torch.utils.data.Dataset):
    """A dataset that was given a handle."""

    def __init__(self, table: wk.Table) -> None:
        self.table = table

    def __len__(self) -> int:
        return 40

    def __getitem__(self, index: int) -> Any:
        return torch.from_numpy(self.table[index])


def test_data_loaders(tmp_path: Path) -> None:
    with wk.open(tmp_path / "s") as store:
        table = store.table("t", value=wk.row("f32", 4))
        table.put(torch.arange(40), torch.arange(160.0).reshape(40, 4))

    def total(dataset: Any, method: str) -> float:
        loader = torch.utils.data.DataLoader(dataset, batch_size=8, num_workers=1, multiprocessing_context=method)
        return sum(float(batch.sum()) for batch in loader)

    with wk.open(tmp_path / "s", read_only=True) as store:
        table = store["t"]
        for dataset, method in ((OpensItself(tmp_path / "s"), "fork"), (OpensItself(tmp_path / "s"), "spawn"), (HasAHandle(table), "spawn")):
            assert total(dataset, method) == sum(range(160)), method
        with pytest.raises(Exception, match="ForkError"):
            total(HasAHandle(table), "fork")


TRAINER = """
import sys, torch, warpkeep as wk, warpkeep.torch as wkt
torch.set_num_threads(1)
with wk.open(sys.argv[1]) as store:
    optimizer = wkt.Adam(lr=0.05)
    table = wkt.create_table(store, "items", dim=8, optimizer=optimizer)
    items = wkt.Embedding(table, dim=8, optimizer=optimizer, init="normal:1", seed=5)
    for number in range(items.rows.step_number + 1, int(sys.argv[2]) + 1):
        generator = torch.Generator().manual_seed(number)
        ids = torch.randint(0, 200, (64,), generator=generator)
        (items(ids) ** 2).sum().backward()
        wkt.step(items, number)
        print(number, flush=True)
"""


def test_kill_in_a_training_step(tmp_path: Path) -> None:
    """A training that is killed again and again ends in the state of one that is not, bit by bit."""
    steps = 120
    # So that the kills meet different parts of a step.
    delays = [0.002, 0.005, 0.009, 0.014]

    def start(where: Path) -> Any:
        command = [sys.executable, "-c", TRAINER, str(where), str(steps)]
        return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=os.environ | {"OMP_NUM_THREADS": "1"})

    calm = start(tmp_path / "calm")
    calm.communicate()
    assert calm.returncode == 0
    acknowledged, kills = 0, 0
    while acknowledged < steps:
        trainer = start(tmp_path / "killed")
        first = trainer.stdout.readline()
        assert int(first) in (acknowledged + 1, acknowledged + 2), "a step was lost, or done twice"
        acknowledged = int(first)
        for line in trainer.stdout:
            acknowledged = int(line)
            if kills < len(delays) and acknowledged >= 25 * kills + 7 and trainer.poll() is None:
                time.sleep(delays[kills])
                trainer.send_signal(signal.SIGKILL)
                kills += 1
        trainer.wait()
    assert kills == len(delays)
    with wk.open(tmp_path / "calm") as calm_store, wk.open(tmp_path / "killed") as killed_store:
        ids = np.append(np.arange(200, dtype=np.uint64), np.uint64(2**64 - 1))
        one, found = calm_store["items"].lookup(ids)
        other, also = killed_store["items"].lookup(ids)
        assert found.sum() > 150 and np.array_equal(found, also) and np.array_equal(one.view(np.uint32), other.view(np.uint32))


@pytest.mark.skipif(not hasattr(torch.library, "custom_op"), reason="SKIPPED: this PyTorch has no custom operators")
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_compile(store: wk.Store, backend: str) -> None:
    ours = embedding(store, wkt.SGD(lr=1.0), init="normal:1", padding_idx=0)
    compiled = torch.compile(lambda ids: (ours(ids) * 2).sum(), fullgraph=True, backend=backend)
    ids = torch.tensor([1, 1, 2, 0])
    before, _ = ours.rows.gather(torch.tensor([1, 2]))
    before = before.clone()
    loss = compiled(ids)
    assert loss.item() == pytest.approx((ours(ids) * 2).sum().item())
    loss.backward()
    ours.rows.step()
    after, _ = ours.rows.gather(torch.tensor([1, 2]))
    assert torch.allclose(before - after, torch.tensor([[4.0], [2.0]]).expand(2, 8))


@pytest.mark.skipif(not hasattr(torch.library, "custom_op"), reason="SKIPPED: this PyTorch has no custom operators")
def test_compiled_steps_read_their_rows_once(store: wk.Store, monkeypatch: pytest.MonkeyPatch) -> None:
    ours = embedding(store, wkt.SGD(lr=1.0), padding_idx=0)
    compiled = torch.compile(lambda ids: ours(ids).sum(), fullgraph=True, backend="aot_eager")
    ids, reads = torch.tensor([3, 3, 9, 0]), []
    gather = wkt.Rows._gather
    monkeypatch.setattr(wkt.Rows, "_gather", lambda rows, ids: reads.append(len(ids)) or gather(rows, ids))
    for number in range(1, 4):
        compiled(ids).backward()
        assert wkt.step(ours, number) and reads == [2] * number
    assert ours.rows.gather(torch.tensor([3, 9]))[0][:, 0].tolist() == [-6, -3]
    # Two passes before their gradients: the step reads what both have touched.
    losses = [compiled(torch.tensor([3, 5])), compiled(torch.tensor([9, 5]))]
    for loss in losses:
        loss.backward()
    assert wkt.step(ours)
    assert ours.rows.gather(torch.tensor([3, 5, 9]))[0][:, 0].tolist() == [-7, -2, -4]
    assert len(ours.rows.table) == 4


@pytest.mark.skipif(not hasattr(torch.library, "custom_op"), reason="SKIPPED: this PyTorch has no custom operators")
@pytest.mark.parametrize("padding", [None, 2])
@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_compiled_bags(store: wk.Store, mode: str, padding: int | None) -> None:
    """The answers and the gradients of a bag that is not compiled."""
    torch._dynamo.reset()
    rows = [embedding(store, wkt.SGD(lr=1.0), init="normal:1", name=name).rows for name in ("one", "other")]
    bags = [wkt.EmbeddingBag(each, mode=mode, padding_idx=padding) for each in rows]
    compiled = torch.compile(bags[0], fullgraph=True, backend="aot_eager")
    flat, offsets = torch.tensor([1, 2, 2, 9, 29, 1]), torch.tensor([0, 3, 3, 6])
    calls: list[tuple[Any, ...]] = [(flat.reshape(3, 2),), (flat, offsets), (flat, torch.tensor([0]))]
    if mode == "sum":
        calls += [(flat, offsets, torch.rand(6)), (flat.reshape(2, 3), None, torch.rand(2, 3))]
    for call in calls:
        found, expected = compiled(*call), bags[1](*call)
        assert torch.allclose(found, expected, atol=1e-6)
        for each in (found, expected):
            (each**2).sum().backward()
        for each in bags:
            assert wkt.step(each)
        ids = torch.arange(30)
        assert torch.allclose(rows[0].gather(ids)[0], rows[1].gather(ids)[0], atol=1e-5)


def test_node_numbers_as_tensors() -> None:
    """Numbers of 32 bits and of 64, without a change of their bits."""
    from warpkeep._tensors import narrowed, widened

    nodes = torch.tensor([0, 5, 2**31 - 1, 2**31, 2**32 - 2])
    narrow = narrowed(nodes)
    assert narrow.dtype == torch.int32 and narrow.numpy().view(np.uint32).tolist() == nodes.tolist()
    assert torch.equal(widened(narrow), nodes) and len(narrowed(nodes[:0])) == 0
    assert narrowed(nodes[:3].int()).tolist() == [0, 5, 2**31 - 1]
    for wrong in (-1, 2**32 - 1, 2**40):
        with pytest.raises(ValueError, match=f"{wrong}; nodes are numbers"):
            narrowed(torch.tensor([3, wrong]))
    with pytest.raises(TypeError, match="long"):
        narrowed(torch.tensor([1.0]))


@dataclasses.dataclass
class StubInput:
    input_id: Any
    node: Any
    time: Any = None
    input_type: Any = None


@dataclasses.dataclass
class OldStubOutput:
    node: Any
    row: Any
    col: Any
    edge: Any
    batch: Any = None
    metadata: Any = None


@dataclasses.dataclass
class StubOutput(OldStubOutput):
    num_sampled_nodes: Any = None
    num_sampled_edges: Any = None


@pytest.fixture(params=["library", "stub", "stub of 2.3"])
def sampler_module(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    """`torch_geometric.sampler`, or a stub of it that has the fields of the published classes and nothing else."""
    if request.param == "library":
        module = pytest.importorskip("torch_geometric.sampler", reason="SKIPPED: no PyTorch Geometric")
    else:
        output = StubOutput if request.param == "stub" else OldStubOutput
        module = types.ModuleType("torch_geometric.sampler")
        vars(module).update(BaseSampler=type("BaseSampler", (), {}), NodeSamplerInput=StubInput, SamplerOutput=output)
        parent, data = types.ModuleType("torch_geometric"), types.ModuleType("torch_geometric.data")
        vars(data).update(FeatureStore=type("FeatureStore", (), {}), GraphStore=type("GraphStore", (), {}))
        vars(parent).update(data=data, sampler=module)
        monkeypatch.setitem(sys.modules, "torch_geometric", parent)
        monkeypatch.setitem(sys.modules, "torch_geometric.data", data)
        monkeypatch.setitem(sys.modules, "torch_geometric.sampler", module)
    sys.modules.pop("warpkeep.pyg", None)
    vars(wk).pop("pyg", None)
    yield module
    sys.modules.pop("warpkeep.pyg", None)
    vars(wk).pop("pyg", None)


def test_samples_for_pytorch_geometric(sampler_module: Any) -> None:
    graph = wk.Graph(ids=True, times=True)
    # Messages come to 1 from 2 and 3, and to 2 from 4.
    edge_index = torch.tensor([[2, 3, 4], [1, 1, 2]])
    graph.add_edges(edge_index[1], edge_index[0], id=torch.arange(3), time=torch.tensor([10, 20, 5]))
    sampler = wk.pyg.GraphSampler(graph, [5, 5])
    assert isinstance(sampler, sampler_module.BaseSampler)
    ask = sampler_module.NodeSamplerInput
    out = sampler.sample_from_nodes(ask(torch.tensor([7]), torch.tensor([1])))
    assert isinstance(out, sampler_module.SamplerOutput) and out.node[0] == 1 and out.batch is None
    assert torch.equal(torch.stack([out.node[out.row], out.node[out.col]]), edge_index[:, out.edge])
    assert sorted(out.edge.tolist()) == [0, 1, 2] and out.metadata[0].tolist() == [7] and out.metadata[1] is None
    if hasattr(out, "num_sampled_nodes"):
        assert list(out.num_sampled_nodes) == [1, 2, 1] and list(out.num_sampled_edges) == [2, 1]

    # Each seed sees the edges until its time; both are node 1.
    times = torch.tensor([10, 9])
    out = sampler.sample_from_nodes(ask(torch.tensor([0, 1]), torch.tensor([1, 1]), times))
    assert out.node[:2].tolist() == [1, 1] and out.edge.tolist() == [0, 2] and out.batch.tolist() == [0, 1, 0, 0]
    assert out.metadata[1] is times
    strict = wk.pyg.GraphSampler(graph, [5], strict=True)
    assert strict.sample_from_nodes(ask(None, torch.tensor([1]), torch.tensor([10]))).edge.tolist() == []

    # The graph changes between batches.
    graph.remove_edges(np.array([1]), np.array([2]))
    assert sampler.sample_from_nodes(ask(None, torch.tensor([1]))).edge.tolist() == [1]

    with pytest.raises(ValueError, match="twice"):
        sampler.sample_from_nodes(ask(None, torch.tensor([1, 1])))
    with pytest.raises(NotImplementedError, match="NodeLoader"):
        sampler.sample_from_edges(None)


def test_pytorch_repeats_samples(sampler_module: Any) -> None:
    graph = wk.Graph(undirected=True)
    graph.add_edges(torch.zeros(1000, dtype=torch.int64), torch.arange(1, 1001))
    sampler, index = wk.pyg.GraphSampler(graph, [5]), sampler_module.NodeSamplerInput(None, torch.tensor([0]))
    torch.manual_seed(1)
    first, second = (sampler.sample_from_nodes(index).node.tolist() for _ in range(2))
    torch.manual_seed(1)
    assert sampler.sample_from_nodes(index).node.tolist() == first != second


def test_containers_answer_with_tensors() -> None:
    """Of tensors in host memory: tensors. Older versions of PyTorch have no unsigned numbers, so those are signed."""
    keys, others = torch.tensor([3, 1, 2, -7]), torch.tensor([1, 9])
    map = wk.HashMap()
    assert map.insert(keys, keys).all()
    values, found = map.find(others)
    assert isinstance(values, torch.Tensor) and values.dtype == torch.int64 and values.tolist() == [1, 0]
    assert found.dtype == torch.bool and found.tolist() == map.contains(others).tolist() == [True, False]
    assert map.put(keys, keys, how="add").tolist() == [False] * 4 and isinstance(map.erase(others), torch.Tensor)
    assert isinstance(map.items()[0], np.ndarray)

    for container in (wk.SlabMap("i64"), wk.SlabMap("i32"), wk.SlabMap("u32")):
        narrow = "32" in repr(container)
        ids = keys.int() if narrow else keys
        assert container.insert(ids, ids.numpy().view(np.uint32) if "uint32 to" in repr(container) else ids).tolist() == [True] * 4
        values, found = container.find(ids)
        assert torch.equal(values.to(torch.int64), keys) and values.dtype == ids.dtype and found.all()
        statuses, before = container.apply(torch.zeros(4, dtype=torch.uint8), ids)
        assert (statuses == wk.SlabStatus.FOUND).all() and torch.equal(before, values)
    several = wk.SlabMultiMap("i64", "f64")
    several.insert(keys, torch.rand(4, dtype=torch.float64))
    values, offsets = several.find_all(keys)
    assert values.dtype == torch.float64 and offsets.tolist() == [0, 1, 2, 3, 4] and several.count(keys).tolist() == [1] * 4
    assert isinstance(wk.SlabSet("i64").insert(keys), torch.Tensor)

    graph = wk.Graph(weights=True)
    assert graph.add_edges(keys[:2], keys[1:3], weight=torch.tensor([0.5, 2.0])).tolist() == [True, True]
    lists = graph.neighbours(keys[:2])
    assert isinstance(lists.indices, torch.Tensor) and lists.indices.tolist() == [1, 2] and lists.weights.tolist() == [0.5, 2]
    sample = graph.sample(keys[:1], [2, 2])
    assert isinstance(sample.nodes, torch.Tensor) and sample.nodes.tolist() == [3, 1, 2] and sample.row.dtype == torch.int64
    assert isinstance(graph.degrees(keys[:2]), torch.Tensor) and isinstance(graph.bfs(keys[:1]), torch.Tensor)
    assert isinstance(graph.has_edges(keys[:2], keys[1:3]), torch.Tensor) and isinstance(graph.csr().indptr, np.ndarray)


@pytest.mark.skipif(not hasattr(torch, "uint64"), reason="SKIPPED: this PyTorch has no unsigned numbers")
def test_unsigned_tensors() -> None:
    """Answers can be asked for again."""
    map = wk.OrderedMap("u64", "f64")
    keys = torch.tensor([1, 5, 9]).to(torch.uint64)
    assert map.upsert(keys, torch.rand(3, dtype=torch.float64)).all()
    near, values, found = map.successor(keys)
    assert near.dtype == torch.uint64 and found.tolist() == [True, True, False] and values.dtype == torch.float64
    assert torch.equal(map.get(near)[0][:2], values[:2])


def test_rows_of_unsigned_numbers(store: wk.Store) -> None:
    for name in ("u8", "u16", "u32", "u64"):
        table = store.table(name, value=wk.row(name, 2))
        table[1] = [1, 2]
        rows, found = table.lookup(torch.tensor([1, 2]))
        assert isinstance(rows, torch.Tensor) and rows.tolist() == [[1, 2], [0, 0]] and found.tolist() == [True, False]


def test_features_are_put_where_they_are(sampler_module: Any) -> None:
    """All rows of a feature on a GPU, for which one without memory stands here."""

    class Table:
        def put(self, ids: Any, rows: Any) -> None:
            self.ids = ids

    features = object.__new__(wk.pyg.FeatureStore)
    features.tables, features.num_nodes = {"x": Table()}, None
    attribute = types.SimpleNamespace(attr_name="x", index=None)
    for place in ("cpu", "meta"):
        assert features._put_tensor(torch.empty(5, 2, device=place), attribute)
        assert features.tables["x"].ids.device.type == place and len(features.tables["x"].ids) == 5
