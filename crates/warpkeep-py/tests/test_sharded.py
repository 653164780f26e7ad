"""Rows over several processes, each with a store of its own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="SKIPPED: no PyTorch; scripts/python setup --torch")
if not torch.distributed.is_available():
    pytest.skip("SKIPPED: this PyTorch has no torch.distributed", allow_module_level=True)

import warpkeep as wk  # noqa: E402
import warpkeep.torch as wkt  # noqa: E402

PACKAGE = Path(__file__).parent.parent
MARKER = 2**64 - 1


def run(directory: Path, ranks: int, steps: int) -> str:
    command = [sys.executable, str(PACKAGE / "examples" / "parameter_server.py"), str(directory), "--ranks", str(ranks), "--steps", str(steps)]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(PACKAGE / "python"), os.environ.get("PYTHONPATH", "")]), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


def rows_of(*stores: Path) -> dict[int, Any]:
    found: dict[int, Any] = {}
    for path in stores:
        with wk.open(path, read_only=True) as store:
            items = dict(store["factors"].items())
            assert not (found.keys() & items.keys()) - {MARKER}, "a row is in two stores"
            found |= items
    return found


def test_processes_train_as_one_does(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Two processes, then one, with the rows of two, and one that trained all of it by itself."""
    sys.path.insert(0, str(PACKAGE / "examples"))
    import parameter_server as example

    said = run(tmp_path / "shards", 2, 5)
    assert said.count("loss") == 5
    rows = [int(count) for count in re.findall(r"has (\d+) rows", said)]
    assert len(rows) == 2 and min(rows) > 0.4 * sum(rows)
    after_two = rows_of(*example.stores_of(tmp_path / "shards", 2))
    # In this process, which saves starting others.
    assert example.earlier_ranks(tmp_path / "shards", 2) is None and example.earlier_ranks(tmp_path / "shards", 1) == 2
    example.train(0, 1, tmp_path / "shards", 8, str(tmp_path / "meeting"), 2)
    assert capsys.readouterr().out.count("loss") == 3 and example.earlier_ranks(tmp_path / "shards", 1) is None

    with wk.open(tmp_path / "alone") as store:
        optimizer = wkt.RowwiseAdagrad(lr=0.3)
        table = wkt.create_table(store, "factors", dim=example.DIM, optimizer=optimizer)
        factors = wkt.Embedding(table, dim=example.DIM, optimizer=optimizer, init="normal:0.3", seed=1)
        for number in range(1, 9):
            users, items, rating = example.ratings(number)
            both = factors(torch.cat([users, items + example.FIRST_ITEM]))
            ((both[: len(users)] * both[len(users) :]).sum(dim=1) - rating).square().sum().backward()
            wkt.step(factors, number)
            if number in (5, 8):
                expected = dict(table.items())
                found = after_two if number == 5 else rows_of(tmp_path / "shards" / "0-of-1")
                assert found.keys() == expected.keys() and len(found) > 1000
                keys = [key for key in expected if key != MARKER]
                ours, theirs = (np.stack([each[key] for key in keys]) for each in (found, expected))
                assert np.allclose(ours, theirs, atol=1e-3) and found[MARKER].tobytes() == expected[MARKER].tobytes()


KILLED = """
import os, signal, sys
from pathlib import Path
import torch, warpkeep.torch as wkt
sys.path.insert(0, sys.argv[3])
import parameter_server as example

def work(rank, home, dies):
    def step(rows, number=None, scale=1.0):
        if number == 4:
            os.kill(os.getpid(), signal.SIGKILL)
        return whole(rows, number, scale)

    whole = wkt.Rows.step
    if dies and rank == 1:
        wkt.Rows.step = step
    example.train(rank, 2, Path(home), 6, f"{home}/meeting-{dies}", None)

if __name__ == "__main__":
    # Which imports PyTorch once; no store is open here.
    torch.multiprocessing.start_processes(work, (sys.argv[1], sys.argv[2] == "dies"), nprocs=2, start_method="fork")
"""


def test_a_process_that_is_killed_catches_up(tmp_path: Path) -> None:
    """One has a step that the other lacks; both repeat it, and the first does not do it twice."""
    (tmp_path / "killed.py").write_text(KILLED)

    def train(word: str) -> str:
        command = [sys.executable, str(tmp_path / "killed.py"), str(tmp_path), word, str(PACKAGE / "examples")]
        environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(PACKAGE / "python"), os.environ.get("PYTHONPATH", "")])}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
        assert (done.returncode == 0) == (word == "goes on"), done.stderr
        return done.stdout

    def steps() -> list[int]:
        return [int(np.frombuffer(rows_of(tmp_path / f"{rank}-of-2")[MARKER].tobytes(), np.int64)[0]) for rank in (0, 1)]

    assert train("dies").count("loss") == 3 and steps() == [4, 3]
    ahead = rows_of(tmp_path / "0-of-2")
    said = train("goes on")
    assert said.startswith("step 4 loss") and said.count("loss") == 3 and steps() == [6, 6]
    # Rows of step 4 that the last two did not touch are those of the step that was done once.
    sys.path.insert(0, str(PACKAGE / "examples"))
    import parameter_server as example

    later = {int(each) for number in (5, 6) for ids, first in zip(example.ratings(number), (0, example.FIRST_ITEM)) for each in ids + first}
    now = rows_of(tmp_path / "0-of-2")
    kept = [key for key in ahead if key not in later and key != MARKER]
    assert len(kept) > 50 and all(np.array_equal(ahead[key], now[key]) for key in kept)


def test_owners_are_spread() -> None:
    for ids in (torch.arange(6000), torch.arange(6000) * 64 - 2**62):
        for ranks in (1, 2, 3, 7):
            owners = wkt.owner_of(ids, ranks)
            counts = torch.bincount(owners, minlength=ranks)
            assert len(counts) == ranks and counts.min() > 0.8 * 6000 / ranks
            assert torch.equal(owners[100:200], wkt.owner_of(ids[100:200], ranks))


def shard(path: Path, steps: int, ids: list[int], **options: Any) -> Path:
    with wk.open(path) as store:
        rows = made(store, **options)
        for _ in range(steps):
            rows.note(torch.tensor(ids), torch.ones(len(ids), 4))
            rows.step()
    return path


def made(store: wk.Store, **options: Any) -> wkt.Rows:
    optimizer = wkt.SGD(lr=1.0)
    return wkt.Rows(wkt.create_table(store, "factors", dim=4, optimizer=optimizer), 4, optimizer, **options)


def test_loading_of_shards(tmp_path: Path) -> None:
    everything = list(range(300))
    owners = wkt.owner_of(torch.arange(300), 2).tolist()
    stores = [shard(tmp_path / str(rank), 3, [each for each in everything if owners[each] == rank]) for rank in range(2)]
    counts = []
    for rank in range(3):
        with wk.open(tmp_path / f"new-{rank}") as store:
            rows = made(store)
            # What an interrupted one left.
            rows.table.put(np.array([7], np.uint64), np.zeros((1, 4), np.float32)) if rank == int(wkt.owner_of(torch.tensor([7]), 3)) else None
            counts.append(wkt.load_shards(rows, stores, rank, 3))
            own = torch.arange(300)[wkt.owner_of(torch.arange(300), 3) == rank]
            assert rows.step_number == 3 and len(rows.table) == len(own) + 1 == counts[-1] + 1
            assert (rows.gather(own)[0] == -3).all()
            with pytest.raises(wk.StepError, match="empty one"):
                wkt.load_shards(rows, stores, rank, 3)
    assert sum(counts) == 300
    with wk.open(tmp_path / "bad") as store:
        with pytest.raises(wk.SpecError, match="settings"):
            wkt.load_shards(made(store, init="normal:1"), stores, 0, 1)
        with pytest.raises(ValueError, match="rank 3 of 3"):
            wkt.load_shards(made(store, init="normal:1"), stores, 3, 3)
    ahead = shard(tmp_path / "ahead", 4, [1])
    with wk.open(tmp_path / "other") as store:
        rows = made(store)
        with pytest.raises(wk.StepError, match=r"\[3, 4\]"):
            wkt.load_shards(rows, [stores[0], ahead], 0, 1)
        assert rows.step_number == 0 and len(rows.table) == 0
        with pytest.raises(ValueError, match="1 images for 2 stores"):
            wkt.load_shards(rows, stores, 0, 1, images=[None])
        with pytest.raises(ValueError, match="new directory"):
            wkt.load_shards(rows, [stores[0], tmp_path / "x" / ".." / "other"], 0, 1)
        # Rows of the wrong processes.
        with pytest.raises(ValueError, match="order of their ranks"):
            wkt.load_shards(rows, stores[::-1], 0, 1)
        assert rows.step_number == 0 and len(rows.table) == 0
        assert wkt.load_shards(rows, stores, 0, 1) == 300


def test_loading_after_an_interrupted_one(tmp_path: Path) -> None:
    """One process, then three whose start is interrupted, then two, then one: no row of an earlier step comes back."""
    everything = torch.arange(300)
    first = shard(tmp_path / "first", 3, everything.tolist())

    def part(rank: int, ranks: int) -> Any:
        return everything[wkt.owner_of(everything, ranks) == rank]

    for rank in range(2):
        with wk.open(tmp_path / str(rank)) as store:
            rows = made(store)
            # What the interrupted one left.
            left = part(rank, 3)
            rows.table.put(left, torch.full((len(left), 4), -3.0))
            assert wkt.load_shards(rows, [first], rank, 2) == len(part(rank, 2))
            assert sorted(key for key in rows.table if key != MARKER) == part(rank, 2).tolist()
            rows.note(part(rank, 2), torch.ones(len(part(rank, 2)), 4))
            assert rows.step(4)
    with wk.open(tmp_path / "last") as store:
        rows = made(store)
        assert wkt.load_shards(rows, [tmp_path / "0", tmp_path / "1"], 0, 1) == 300 and rows.step_number == 4
        assert (rows.gather(everything)[0] == -4).all()


def test_rows_come_from_their_owner(tmp_path: Path) -> None:
    """A row that an earlier load left in the store of another process is older than the owner's."""
    owners = wkt.owner_of(torch.arange(100), 2)
    parts = [torch.arange(100)[owners == rank].tolist() for rank in range(2)]
    stores = [shard(tmp_path / str(rank), 3, parts[rank]) for rank in range(2)]
    with wk.open(stores[1]) as store:
        stale = torch.tensor(parts[0][:5])
        store["factors"].put(stale, torch.full((5, 4), 77.0))
    with wk.open(tmp_path / "one") as store:
        rows = made(store)
        assert wkt.load_shards(rows, stores, 0, 1) == 100
        assert (rows.gather(torch.arange(100))[0] == -3).all()


@pytest.fixture
def two_ranks(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """A group of NCCL of which this process is the first of two; the other one answers with these numbers, and what it is sent is there then."""
    answers: list[Any] = []
    dist = torch.distributed

    def exchange(found: Any, given: Any, received: list[int], sent: list[int], group: Any = None) -> None:
        answer = answers.pop(0)
        answers.append(given.clone())
        found.copy_(torch.as_tensor(answer, dtype=found.dtype).reshape(found.shape))

    monkeypatch.setattr(dist, "get_world_size", lambda group=None: 2)
    monkeypatch.setattr(dist, "get_rank", lambda group=None: 0)
    monkeypatch.setattr(dist, "get_backend", lambda group=None: "nccl")
    monkeypatch.setattr(dist, "all_to_all_single", exchange)
    return answers


def sharded(store: wk.Store) -> wkt.ShardedEmbedding:
    optimizer = wkt.SGD(lr=1.0)
    return wkt.ShardedEmbedding(wkt.create_table(store, "items", dim=4, optimizer=optimizer), dim=4, optimizer=optimizer)


def test_counts_travel_from_where_the_ids_are(store: wk.Store, two_ranks: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """NCCL takes tensors of a GPU alone. There is none here, so the place that is asked for is looked at."""
    items, places = sharded(store), []
    tensor = torch.tensor

    def recorded(data: Any, **options: Any) -> Any:
        places.append(options.get("device"))
        return tensor(data, **options)

    ids = torch.tensor([1, 2, 2, 3])
    mine = [each for each in (1, 2, 3) if int(wkt.owner_of(torch.tensor([each]), 2)) == 0]
    two_ranks += [[len(mine), 0], mine]
    monkeypatch.setattr(torch, "tensor", recorded)
    items.ask(ids)
    assert places == [ids.device] and two_ranks[0].tolist() == [len(mine), 3 - len(mine)]


def test_ids_that_are_none_are_refused_by_all(store: wk.Store, two_ranks: list[Any]) -> None:
    items = sharded(store)
    for wrong, error, message in ((torch.tensor([5, -1]), ValueError, "-1"), (torch.tensor([1.5]), TypeError, "long")):
        two_ranks[:] = [[0, 0]]
        with pytest.raises(error, match=message):
            items(wrong)
        # It has told the others.
        assert two_ranks[0].tolist() == [-1, -1]
    two_ranks[:] = [[0, -1]]
    with pytest.raises(ValueError, match="process 1 of the group"):
        items(torch.tensor([5]))
    assert len(two_ranks) == 1 and two_ranks[0].sum() == 1


@pytest.mark.skipif(not hasattr(torch.library, "custom_op"), reason="SKIPPED: this PyTorch has no custom operators")
def test_compile(tmp_path: Path) -> None:
    """One process is a group, too."""
    torch.distributed.init_process_group("gloo", init_method=f"file://{tmp_path / 'meeting'}", rank=0, world_size=1)
    try:
        with wk.open(tmp_path / "s") as store:
            optimizer, both = wkt.SGD(lr=1.0), []
            for name in ("one", "other"):
                table = wkt.create_table(store, name, dim=8, optimizer=optimizer)
                both.append(wkt.ShardedEmbedding(table, dim=8, optimizer=optimizer, init="normal:1"))
            compiled = torch.compile(both[0], fullgraph=True, backend="aot_eager")
            ids = torch.tensor([[1, 2, 2], [7, 1, 2**40]])
            for _ in range(2):
                found, expected = compiled(ids), both[1](ids)
                assert torch.allclose(found, expected) and found.shape == (2, 3, 8)
                for each in (found, expected):
                    (each**2).sum().backward()
                for each in both:
                    assert wkt.step(each)
            unique = ids.unique()
            assert torch.allclose(both[0].rows.gather(unique)[0], both[1].rows.gather(unique)[0], atol=1e-5)
    finally:
        torch.distributed.destroy_process_group()
