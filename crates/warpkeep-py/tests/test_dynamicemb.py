"""The external storage of dynamicemb, against the interface that dynamicemb publishes and a plain dictionary."""

from __future__ import annotations

import copy
import dataclasses
import enum
import inspect
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="SKIPPED: no PyTorch; scripts/python setup --torch")

import warpkeep as wk  # noqa: E402
import warpkeep.dynamicemb as wkd  # noqa: E402
from conftest import has_simulator  # noqa: E402

# The methods that its class `Storage` asks for, with the parameters that its callers give.
INTERFACE = {
    "find": ["unique_keys", "table_ids", "copy_mode", "lfu_accumulated_frequency"],
    "insert": ["keys", "table_ids", "values", "scores", "preserve_existing"],
    "dump": ["table_id", "meta_file_path", "emb_key_path", "embedding_file_path", "score_file_path", "opt_file_path", "timestamp"],
    "load": ["table_id", "meta_file_path", "emb_file_path", "embedding_file_path", "score_file_path", "opt_file_path", "include_optim", "timestamp"],
    "embedding_dtype": [],
    "embedding_dim": ["table_id"],
    "value_dim": ["table_id"],
    "max_embedding_dim": [],
    "max_value_dim": [],
    "init_optimizer_state": [],
    "export_keys_values": ["device", "batch_size", "table_id"],
}


class CopyMode(enum.Enum):
    EMBEDDING = "embedding"
    VALUE = "value"


@dataclasses.dataclass
class Options:
    dim: int
    embedding_dtype: Any = torch.float32
    init_capacity: int = 100
    max_capacity: int = 1000
    external_storage: Any = None


class AdamStandIn:
    """What a storage asks an optimizer of dynamicemb for."""

    def __init__(self, kind: str = "adam") -> None:
        self.arguments = {"opt_type": kind, "lr": 0.1}

    def get_state_dim(self, dim: int) -> int:
        return 2 * dim

    def get_initial_optim_states(self) -> float:
        return 0.25

    def get_opt_args(self) -> dict[str, Any]:
        return dict(self.arguments)

    def set_opt_args(self, arguments: dict[str, Any]) -> None:
        self.arguments = dict(arguments)


DIMS = [3, 8]


def opened(store: wk.Store, dims: list[int] = DIMS, **options: Any) -> wkd.WarpkeepStorage:
    # As dynamicemb does: options are copied, and the class that they name is called.
    given = [Options(dim, external_storage=wkd.storage(store, **options)) for dim in dims]
    return copy.deepcopy(given)[0].external_storage(given, AdamStandIn())


def test_it_has_what_the_interface_asks_for(store: wk.Store) -> None:
    for name, wanted in INTERFACE.items():
        parameters = list(inspect.signature(getattr(wkd.WarpkeepStorage, name)).parameters.values())[1:]
        assert [each.name for each in parameters if each.name in wanted] == wanted, name
        assert all(each.default is not each.empty for each in parameters if each.name not in wanted), name
    ours = opened(store)
    assert [ours.embedding_dim(i) for i in (0, 1)] == DIMS and [ours.value_dim(i) for i in (0, 1)] == [9, 24]
    assert (ours.max_embedding_dim(), ours.max_value_dim(), ours.init_optimizer_state(), ours.num_tables) == (8, 24, 0.25, 2)
    assert ours.embedding_dtype() == torch.float32 and store.tables() == ["dynamicemb.0", "dynamicemb.1"]


@pytest.mark.parametrize("device", ["cpu", pytest.param("sim", marks=pytest.mark.skipif(not has_simulator(), reason="SKIPPED: no simulator"))])
def test_against_a_dictionary(tmp_path: Path, device: str) -> None:
    chance = torch.Generator().manual_seed(4)
    model: dict[tuple[int, int], tuple[Any, int]] = {}
    with wk.open(tmp_path / "s", device=device) as store:
        ours = opened(store)
        for number in range(12):
            pairs = torch.unique(torch.randint(0, 60, (40,), generator=chance))
            # Ids of all 64 bits, tables in turns, in no order.
            keys, tables = pairs // 2 - 2**62, pairs % 2
            order = torch.randperm(len(keys), generator=chance)
            keys, tables = keys[order], tables[order]
            named = [(int(table), int(key)) for table, key in zip(tables, keys)]
            mode = (CopyMode.VALUE, CopyMode.EMBEDDING)[number % 2]
            counts = torch.randint(1, 9, (len(keys),), generator=chance) if number % 3 else None
            missing, missing_keys, positions, missing_tables, missing_scores, founds, scores, values = ours.find(keys, tables, mode, counts)

            absent = [i for i, name in enumerate(named) if name not in model]
            assert missing == len(absent) and positions.tolist() == absent and founds.tolist() == [name in model for name in named]
            assert missing_keys.tolist() == keys[absent].tolist() and missing_tables.tolist() == tables[absent].tolist()
            assert missing_scores is None if counts is None else missing_scores.tolist() == counts[absent].tolist()
            assert values.shape == (len(keys), 24 if mode is CopyMode.VALUE else 8)
            for i, name in enumerate(named):
                if name in model:
                    row, score = model[name]
                    assert torch.equal(values[i], row[: values.shape[1]]) and scores[i] == score + (0 if counts is None else counts[i])
                else:
                    assert (values[i] == 0).all() and scores[i] == 0

            fresh = torch.randn(len(keys), 24, generator=chance)
            for i, (table, _) in enumerate(named):
                # The parts of a row that the narrower table has.
                fresh[i, DIMS[table] : 8] = 0
                fresh[i, 8 + 2 * DIMS[table] :] = 0
            given = torch.randint(-(2**62), 2**62, (len(keys),), generator=chance) if number % 4 else None
            ours.set_score(number)
            preserve = number % 5 == 0
            ours.insert(keys, tables, fresh, given, preserve_existing=preserve)
            for i, name in enumerate(named):
                score = number if given is None else int(given[i])
                model[name] = (fresh[i], model[name][1] if preserve and name in model else score)
        assert ours.size() == len(model)
        exported = {}
        for table in (0, 1):
            for keys, embeddings, states, scores in ours.export_keys_values(torch.device("cpu"), 7, table):
                for i, key in enumerate(keys.tolist()):
                    exported[table, key] = (embeddings[i], states[i], int(scores[i]))
        assert exported.keys() == model.keys()
        for (table, key), (row, score) in model.items():
            embedding, state, found = exported[table, key]
            dim = DIMS[table]
            assert torch.equal(embedding, row[:dim]) and torch.equal(state, row[8 : 8 + 2 * dim]) and found == score
    # The next run finds all of it.
    with wk.open(tmp_path / "s") as store:
        assert opened(store).size() == len(model)


def fill(ours: wkd.WarpkeepStorage, count: int = 500) -> tuple[Any, Any]:
    keys, values = torch.arange(count) * 7 - 50, torch.randn(count, 24, generator=torch.Generator().manual_seed(1))
    ours.insert(keys, torch.ones_like(keys), values, torch.arange(count) + 1000)
    return keys, values


def paths(home: Path) -> list[str]:
    return [str(home / name) for name in ("meta.json", "keys", "values", "scores", "states")]


def test_files_of_dynamicemb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with wk.open(tmp_path / "one") as store:
        ours = opened(store)
        keys, values = fill(ours)
        ours.dump(1, *paths(tmp_path), timestamp=5000, current_score=77)
    order = np.argsort(np.fromfile(tmp_path / "keys", np.int64))
    assert np.array_equal(np.fromfile(tmp_path / "keys", np.int64)[order], keys.numpy())
    assert np.array_equal(np.fromfile(tmp_path / "values", np.float32).reshape(-1, 8)[order], values[:, :8].numpy())
    assert np.array_equal(np.fromfile(tmp_path / "states", np.float32).reshape(-1, 16)[order], values[:, 8:].numpy())
    assert np.array_equal(5000 - np.fromfile(tmp_path / "scores", np.int64)[order], np.arange(500) + 1000)
    assert json.loads((tmp_path / "meta.json").read_text()) == {"opt_type": "adam", "lr": 0.1, "step_score": 77}

    # By three processes, each of which keeps its own keys; the files are of one.
    total = 0
    for rank in range(3):
        monkeypatch.setattr(wkd, "_ranks", lambda: (3, rank))
        with wk.open(tmp_path / f"of-{rank}") as store:
            ours = opened(store)
            assert ours.load(1, *paths(tmp_path), timestamp=5000) == 77
            own = keys[keys % 3 == rank]
            assert ours.size() == len(own)
            total += len(own)
            *_, founds, scores, found = ours.find(own, torch.ones_like(own), CopyMode.VALUE)
            assert founds.all() and torch.equal(found, values[keys % 3 == rank]) and torch.equal(scores, torch.arange(500)[keys % 3 == rank] + 1000)
    assert total == 500
    monkeypatch.setattr(wkd, "_ranks", lambda: (1, 0))

    with wk.open(tmp_path / "other") as store:
        # Another optimizer: its states begin anew.
        ours = wkd.storage(store)([Options(dim) for dim in DIMS], AdamStandIn("lamb"))
        ours.load(1, *paths(tmp_path))
        *_, found = ours.find(keys, torch.ones_like(keys), CopyMode.VALUE)
        assert torch.equal(found[:, :8], values[:, :8]) and (found[:, 8:] == 0.25).all()
        (tmp_path / "scores").write_bytes(b"1234567")
        with pytest.raises(ValueError, match="500 keys"):
            ours.load(1, *paths(tmp_path))


def test_a_cache_over_it_trains(store: wk.Store) -> None:
    """The calls of a training with a cache: rows are found or made, updated in the cache, and come back when they are evicted."""
    ours = opened(store, [4])
    chance, cache, made, plain = torch.Generator().manual_seed(2), {}, 0, torch.ones(200, 12)
    plain[:, 4:] = 0.25
    for _ in range(40):
        keys = torch.unique(torch.randint(0, 200, (30,), generator=chance))
        absent = torch.tensor([key for key in keys.tolist() if key not in cache], dtype=torch.int64)
        number, _, positions, *_, values = ours.find(absent, torch.zeros_like(absent), CopyMode.VALUE)
        values[positions] = 1
        values[positions, 4:] = ours.init_optimizer_state()
        made += number
        cache |= dict(zip(absent.tolist(), values))
        for key in keys.tolist():
            cache[key] = cache[key] + 0.5
        plain[keys] += 0.5
        evicted = [key for key in cache if len(cache) > 50 and key not in keys][: max(0, len(cache) - 50)]
        if evicted:
            ours.insert(torch.tensor(evicted), torch.zeros(len(evicted), dtype=torch.int64), torch.stack([cache.pop(key) for key in evicted]))
    left = list(cache)
    ours.insert(torch.tensor(left), torch.zeros(len(left), dtype=torch.int64), torch.stack([cache[key] for key in left]))
    everything = torch.arange(200)
    *_, founds, _, values = ours.find(everything, torch.zeros_like(everything), CopyMode.VALUE)
    assert made == founds.sum() == ours.size() > 150
    assert torch.equal(values[founds], plain[founds])


def test_bad_options(store: wk.Store) -> None:
    with pytest.raises(TypeError, match="warpkeep.dynamicemb.storage"):
        wkd.WarpkeepStorage([Options(4)], AdamStandIn())
    with pytest.raises(ValueError, match="embedding_dtype=torch.float32"):
        wkd.storage(store)([Options(4, torch.float16)], AdamStandIn())
    with pytest.raises(ValueError, match="2 names for 1"):
        wkd.storage(store, names=["a", "b"])([Options(4)], AdamStandIn())
    ours = opened(store)
    with pytest.raises(ValueError, match=r"\(2, 24\) is needed"):
        ours.insert(torch.tensor([1, 2]), torch.tensor([0, 1]), torch.zeros(2, 8))
    # 3 + 6 floats and 4 + 5 make rows of one length.
    narrow = AdamStandIn()
    narrow.get_state_dim = lambda dim: 5  # type: ignore[method-assign]
    with pytest.raises(ValueError, match="other names"):
        wkd.storage(store)([Options(4)], narrow)
    with pytest.raises(wk.SpecError):
        opened(store, [5, 8])
    assert ours.size() == 0


KILLED = """
import sys, torch, warpkeep as wk, warpkeep.dynamicemb as wkd
sys.path.insert(0, sys.argv[2])
import test_dynamicemb as shared
with wk.open(sys.argv[1]) as store:
    ours = wkd.storage(store, durability="power")([shared.Options(4)], shared.AdamStandIn())
    for number in range(10**6):
        keys = torch.arange(64) + 64 * (number % 8)
        ours.insert(keys, torch.zeros_like(keys), torch.full((64, 12), float(number)), torch.full((64,), number))
        print(number, flush=True)
"""


def test_kill(tmp_path: Path) -> None:
    """Every batch that was acknowledged is there, and each batch is whole."""
    command = [sys.executable, "-c", KILLED, str(tmp_path / "s"), str(Path(__file__).parent)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=os.environ) as trainer:
        acknowledged = -1
        for line in trainer.stdout:
            acknowledged = int(line)
            if acknowledged == 40:
                trainer.send_signal(signal.SIGKILL)
    assert acknowledged >= 40
    with wk.open(tmp_path / "s") as store:
        ours = opened(store, [4])
        keys = torch.arange(512)
        *_, founds, scores, values = ours.find(keys, torch.zeros_like(keys), CopyMode.VALUE)
        batches = scores.reshape(8, 64)
        assert founds.all() and (batches == batches[:, :1]).all() and (values == scores[:, None].float()).all()
        # One more may have been done when it was killed.
        assert batches.max() in (acknowledged, acknowledged + 1) and batches.min() == batches.max() - 7
