"""Training where the tensors are: on the CPU, with a simulated device, and on a GPU if WARPKEEP_TEST_DEVICE=cuda:0 says so."""

from __future__ import annotations

import os
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="SKIPPED: no PyTorch; scripts/python setup --torch")

import warpkeep as wk  # noqa: E402
import warpkeep.torch as wkt  # noqa: E402
from conftest import has_simulator  # noqa: E402

GPU = os.environ.get("WARPKEEP_TEST_DEVICE", "").startswith("cuda")
# Where tensors lie; the simulator takes those of the host.
PLACE = torch.device(os.environ["WARPKEEP_TEST_DEVICE"] if GPU else "cpu")


@pytest.fixture(params=[os.environ["WARPKEEP_TEST_DEVICE"]] if GPU else ["cpu", "sim"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[wk.Store]:
    device = request.param
    if device == "sim" and not has_simulator():
        pytest.skip("SKIPPED: no simulator was built")
    with tempfile.TemporaryDirectory(prefix="warpkeep-", dir="/dev/shm") as image:
        options: Any = {"image": Path(image) / "image"} if GPU else {}
        with wk.open(tmp_path / "store", device=device, **options) as store:
            yield store


def embedding(store: wk.Store, optimizer: Any, dim: int = 8, **options: Any) -> wkt.Embedding:
    table = wkt.create_table(store, "items", dim=dim, optimizer=optimizer)
    return wkt.Embedding(table, dim=dim, optimizer=optimizer, **options)


def reference(kind: str, weights: Any) -> tuple[Any, Any]:
    """The same with PyTorch's own module, whose table is dense."""
    dense = torch.nn.Embedding.from_pretrained(weights.clone(), freeze=False, sparse=kind in ("sgd", "adam"))
    made = {
        "sgd": lambda: torch.optim.SGD(dense.parameters(), lr=0.1),
        "adagrad": lambda: torch.optim.Adagrad(dense.parameters(), lr=0.1),
        "adam": lambda: torch.optim.SparseAdam(dense.parameters(), lr=0.1),
    }
    return dense, made[kind]()


@pytest.mark.parametrize("calls", [1, 2])
@pytest.mark.parametrize("kind", ["sgd", "adagrad", "adam"])
def test_training_is_that_of_pytorch(store: wk.Store, kind: str, calls: int) -> None:
    """With one forward pass in a step, whose rows are used again, and with two."""
    optimizer = {"sgd": wkt.SGD(lr=0.1), "adagrad": wkt.Adagrad(lr=0.1), "adam": wkt.Adam(lr=0.1)}[kind]
    ours = embedding(store, optimizer, dim=7, init="normal:0.5", seed=3)
    everything = torch.arange(50, device=PLACE)
    ours.eval()
    theirs, their_optimizer = reference(kind, ours(everything))
    ours.train()
    torch.manual_seed(1)
    for number in range(1, 7):
        batches = [(torch.randint(0, 50, (6, 4), device=PLACE), torch.randn(6, 4, 7, device=PLACE)) for _ in range(calls)]
        for module in (ours, theirs):
            for ids, target in batches:
                ((module(ids) - target) ** 2).sum().backward()
        assert wkt.step(ours, number)
        their_optimizer.step()
        their_optimizer.zero_grad()
    ours.eval()
    assert torch.allclose(ours(everything), theirs.weight.detach(), atol=1e-5)
    assert ours.rows.step_number == 6


def test_rows_are_read_once_a_step(store: wk.Store, monkeypatch: pytest.MonkeyPatch) -> None:
    ours = embedding(store, wkt.RowwiseAdagrad(lr=1.0))
    ids, reads = torch.tensor([3, 3, 9], device=PLACE), []
    gather = wkt.Rows._gather
    monkeypatch.setattr(wkt.Rows, "_gather", lambda rows, ids: reads.append(len(ids)) or gather(rows, ids))
    for number in range(1, 4):
        ours(ids).sum().backward()
        assert wkt.step(ours, number) and reads == [2] * number
    state = ours.rows.gather(torch.tensor([3, 9], device=PLACE))[1]
    assert state.flatten().tolist() == pytest.approx([12, 3], rel=1e-6)


def test_a_step_that_failed_reads_its_rows_again(store: wk.Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """The update changes the rows of the forward pass in place, so that they are of no use after a failure."""
    ours = embedding(store, wkt.Adagrad(lr=1.0))
    ids = torch.tensor([3, 3, 9], device=PLACE)
    loss = ours(ids).sum()
    loss.backward(retain_graph=True)
    update = wkt.Adagrad.update

    def fail(*arguments: Any) -> None:
        update(*arguments)
        raise RuntimeError("no space")

    monkeypatch.setattr(wkt.Adagrad, "update", fail)
    with pytest.raises(RuntimeError, match="no space"):
        wkt.step(ours)
    monkeypatch.setattr(wkt.Adagrad, "update", update)
    assert wkt.step(ours)
    weights, state = ours.rows.gather(ids[1:])
    assert torch.allclose(weights, torch.full_like(weights, -1)) and state[:, 0].tolist() == [4, 1]
    # The graph of the forward pass is still there; its rows are not.
    loss.backward()
    assert wkt.step(ours)
    assert ours.rows.gather(ids[1:])[1][:, 0].tolist() == [8, 2]


def test_gradients_of_places(store: wk.Store) -> None:
    """The sums on a GPU are those on the CPU."""
    places, gradients = torch.randint(0, 7, (4, 6), device=PLACE), torch.randn(4, 6, 5, device=PLACE)
    expected = torch.zeros(9, 5, device=PLACE)
    for place, gradient in zip(places.flatten().tolist(), gradients.reshape(-1, 5)):
        expected[place] += gradient
    for sums in (wkt._rows._sums, wkt._rows._sums_by_adding):
        assert torch.allclose(sums(places, gradients, 9), expected, atol=1e-5)


def test_rows_of_which_some_are_there(store: wk.Store) -> None:
    """Weights and state of rows that are absent do not depend on what was in memory before."""
    ours = embedding(store, wkt.Adam(lr=0.1), init="uniform:1", seed=2)
    ids = torch.arange(200, device=PLACE)
    first = ours.rows.gather(ids)[0].clone()
    ours(ids[::3]).sum().backward()
    assert wkt.step(ours)
    weights, state = ours.rows.gather(ids)
    touched = ids % 3 == 0
    assert torch.equal(weights[~touched], first[~touched]) and (state[~touched] == 0).all()
    assert (weights[touched] != first[touched]).all() and (state[touched] != 0).all()
    assert ours(ids[:0]).shape == (0, 8)


def test_a_gradient_of_the_weights_of_a_bag(store: wk.Store) -> None:
    """It needs the rows of the forward pass, also after a step has changed those of the table."""
    rows = embedding(store, wkt.SGD(lr=1.0), init="normal:1").rows
    bags, ids = wkt.EmbeddingBag(rows), torch.tensor([[1, 2], [2, 3]], device=PLACE)
    shares = torch.rand(2, 2, device=PLACE, requires_grad=True)
    before = rows.gather(ids.reshape(-1))[0].clone()
    loss = bags(ids, per_sample_weights=shares).sum()
    loss.backward(retain_graph=True)
    assert wkt.step(bags)
    loss.backward()
    assert torch.allclose(shares.grad.reshape(-1), 2 * before.sum(dim=1), atol=1e-5)


@pytest.mark.parametrize("passes", [2, 3])
@pytest.mark.parametrize("bag", [False, True])
def test_gradients_of_several_backward_passes_add_up(store: wk.Store, bag: bool, passes: int) -> None:
    """As with PyTorch's own modules, whose weights add up what each pass through a kept graph gives."""
    ours = embedding(store, wkt.SGD(lr=1.0), init="normal:1")
    module = wkt.EmbeddingBag(ours.rows) if bag else ours
    dense = torch.nn.EmbeddingBag if bag else torch.nn.Embedding
    everything = torch.arange(10, device=PLACE)
    options = {"mode": "sum"} if bag else {}
    theirs = dense.from_pretrained(ours.rows.gather(everything)[0].clone(), freeze=False, **options)
    ids = torch.tensor([[3, 4], [3, 5]], device=PLACE)
    for each in (module, theirs):
        found = each(ids)
        loss = (found**2).sum()
        for number in range(1, passes + 1):
            # Another gradient in each pass, so that a pass counted twice shows.
            loss.backward(torch.tensor(float(number), device=PLACE), retain_graph=number < passes)
    assert wkt.step(ours)
    with torch.no_grad():
        theirs.weight -= theirs.weight.grad
    assert torch.allclose(ours.rows.gather(everything)[0], theirs.weight.detach(), atol=1e-4)


def test_steps_of_several_threads_add_up(store: wk.Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Modules of their own over one table, whose steps touch the same row at the same time."""
    update, threads, steps = wkt.SGD.update, 3, 8

    def slow(*arguments: Any) -> None:
        update(*arguments)
        time.sleep(0.003)

    monkeypatch.setattr(wkt.SGD, "update", slow)
    modules = [embedding(store, wkt.SGD(lr=1.0)) for _ in range(threads)]
    failed: list[BaseException] = []

    def train(module: wkt.Embedding) -> None:
        try:
            for _ in range(steps):
                module(torch.tensor([5], device=PLACE)).sum().backward()
                assert wkt.step(module)
        except BaseException as error:  # noqa: BLE001
            failed.append(error)

    running = [threading.Thread(target=train, args=(module,)) for module in modules]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    assert not failed
    assert modules[0].rows.gather(torch.tensor([5], device=PLACE))[0].tolist() == [[-threads * steps] * 8]
    assert modules[0].rows.step_number == threads * steps


def test_a_write_between_forward_and_step_is_seen(store: wk.Store) -> None:
    ours = embedding(store, wkt.SGD(lr=1.0))
    found = ours(torch.tensor([1, 2], device=PLACE))
    other = store["items"]
    other.put(np.array([1], np.uint64), np.full((1, 8), 10, np.float32))
    found.sum().backward()
    wkt.step(ours)
    assert ours(torch.tensor([1, 2], device=PLACE))[:, 0].tolist() == [9, -1]
    # So is another step number.
    other.put(np.array([-1], np.int64), np.array([[41, 0, 0, 0]], np.int64).view(np.float32))
    assert ours.rows.step_number == 41


def test_untouched_rows(store: wk.Store) -> None:
    ours = embedding(store, wkt.SGD(lr=1.0), init="normal:2", seed=5).eval()
    ids = np.array([0, 1, 2**40, 2**63 + 5, 2**64 - 2], np.uint64)
    expected = torch.from_numpy(wkt.initial_rows("normal:2", ids, 8, 5))
    assert torch.allclose(ours(torch.from_numpy(ids.view(np.int64)).to(PLACE)).cpu(), expected, atol=1e-6)
    assert len(ours.rows.table) == 0


@pytest.mark.parametrize("init", ["zeros", "uniform:3", "normal:2"])
def test_initial_rows_of_tensors(init: str) -> None:
    """The computation for ids on a GPU is that of NumPy."""
    ids = np.concatenate([np.arange(500, dtype=np.uint64), np.arange(2**64 - 500, 2**64 - 1, dtype=np.uint64)])
    for seed in (0, 7, 2**62 + 3):
        ours = wkt._init._computed(init, torch.from_numpy(ids.view(np.int64)).to(PLACE), 6, seed).cpu().numpy()
        theirs = wkt.initial_rows(init, ids, 6, seed)
        assert ours.dtype == np.float32 and np.allclose(ours, theirs, rtol=1e-6, atol=1e-7)
        assert init == "normal:2" or np.array_equal(ours, theirs)


def test_bags_and_padding(store: wk.Store) -> None:
    ours = embedding(store, wkt.SGD(lr=1.0), padding_idx=-1)
    found = ours(torch.tensor([[4, -1], [-1, 5]], device=PLACE))
    assert found.device.type == PLACE.type and (found == 0).all()
    found.sum().backward()
    bags = wkt.EmbeddingBag(ours.rows)
    bags(torch.tensor([4, 4, 6], device=PLACE), torch.tensor([0, 1], device=PLACE)).sum().backward()
    assert wkt.step(ours)
    assert ours(torch.tensor([4, 5, 6, -1], device=PLACE))[:, 0].tolist() == [-3, -1, -1, 0]
    with pytest.raises(ValueError, match="-1"):
        bags(torch.tensor([[-1]], device=PLACE))
    # Ids that PyTorch has on the host.
    assert ours(torch.tensor([4])).device.type == "cpu"


@pytest.mark.parametrize("options", [{"momentum": 0.9}, {"weight_decay": 0.05}, {"momentum": 0.9, "weight_decay": 0.05, "nesterov": True}])
def test_momentum_and_decay_are_those_of_pytorch(store: wk.Store, options: dict[str, Any]) -> None:
    """Where each step has all rows; a step that does not have a row leaves it and its moment as they are."""
    ours = embedding(store, wkt.SGD(lr=0.1, **options), dim=7, init="normal:0.5", seed=3)
    everything = torch.arange(20, device=PLACE)
    ours.eval()
    dense = torch.nn.Embedding.from_pretrained(ours(everything).clone(), freeze=False)
    ours.train()
    sgd = torch.optim.SGD(dense.parameters(), lr=0.1, **options)
    torch.manual_seed(1)
    other = torch.tensor([77], device=PLACE)
    for number in range(1, 7):
        ids, target = everything[torch.randperm(20, device=PLACE)].reshape(5, 4), torch.randn(5, 4, 7, device=PLACE)
        for module in (ours, dense):
            ((module(ids) - target) ** 2).sum().backward()
        if number == 1:
            ours(other).sum().backward()
        assert wkt.step(ours, number)
        sgd.step()
        sgd.zero_grad()
        if number == 1:
            once = [part.clone() for part in ours.rows.gather(other)]
    ours.eval()
    assert torch.allclose(ours(everything), dense.weight.detach(), atol=1e-5)
    assert all(torch.equal(one, now) for one, now in zip(once, ours.rows.gather(other)))
    assert once[1].shape[1] == (7 if "momentum" in options else 0)


def test_settings_of_sgd(store: wk.Store) -> None:
    for wrong, message in (({"momentum": 1.0}, "momentum"), ({"weight_decay": -1.0}, "decay"), ({"nesterov": True}, "nesterov")):
        with pytest.raises(ValueError, match=message):
            wkt.SGD(lr=0.1, **wrong)
    assert wkt.SGD(lr=0.1, weight_decay=0.1).settings() == {"name": "sgd"}
    ours = embedding(store, wkt.SGD(lr=0.1, momentum=0.9))
    ours(torch.tensor([1], device=PLACE)).sum().backward()
    assert wkt.step(ours)
    with pytest.raises(wk.SpecError, match="momentum"):
        embedding(store, wkt.SGD(lr=0.1, momentum=0.5))
