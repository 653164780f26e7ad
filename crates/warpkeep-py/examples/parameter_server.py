"""Embeddings over several processes: each has a store with a part of the rows, and asks the others for theirs.

    python parameter_server.py DIRECTORY --ranks 2 --steps 100     trains; run it again and it goes on
    python parameter_server.py DIRECTORY --ranks 3 --steps 200     goes on with another number of processes

Every process trains on its part of a batch. Rows and gradients travel by torch.distributed, here with Gloo on one machine.
"""

import argparse
import shutil
import sys
import tempfile
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist

import warpkeep as wk
import warpkeep.torch as wkt

USERS, ITEMS, DIM, BATCH = 2_000, 1_000, 16, 600
# Ids of items begin here; those of users end before.
FIRST_ITEM = 1 << 40


def ratings(number: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The users, items and ratings of a step: always the same for a number."""
    chance = np.random.default_rng(number)
    users, items = chance.integers(0, USERS, BATCH), chance.integers(0, ITEMS, BATCH)
    taste = wkt.initial_rows("normal:0.7", users.astype(np.uint64), 4, seed=99)
    kind = wkt.initial_rows("normal:0.7", items.astype(np.uint64), 4, seed=100)
    return torch.from_numpy(users), torch.from_numpy(items), torch.from_numpy((taste * kind).sum(axis=1))


def stores_of(directory: Path, ranks: int) -> list[Path]:
    return [directory / f"{rank}-of-{ranks}" for rank in range(ranks)]


def earlier_ranks(directory: Path, ranks: int) -> int | None:
    """How many processes trained here last, if that was another number. Older stores of this number are removed: they are behind."""
    note = directory / "ranks"
    last = int(note.read_text()) if note.exists() else ranks
    if last == ranks:
        return None
    for path in stores_of(directory, ranks):
        shutil.rmtree(path, ignore_errors=True)
    return last


def train(rank: int, ranks: int, directory: Path, steps: int, meeting: str, earlier: int | None) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=ranks)
    with wk.open(stores_of(directory, ranks)[rank]) as store:
        optimizer = wkt.RowwiseAdagrad(lr=0.3)
        table = wkt.create_table(store, "factors", dim=DIM, optimizer=optimizer, capacity=(USERS + ITEMS) // ranks)
        factors = wkt.ShardedEmbedding(table, dim=DIM, optimizer=optimizer, init="normal:0.3", seed=1)
        if earlier is not None:
            wkt.load_shards(factors.rows, stores_of(directory, earlier), rank, ranks)
        dist.barrier()
        if rank == 0:
            (directory / "ranks").write_text(str(ranks))
        for number in range(factors.step_number() + 1, steps + 1):
            users, items, rating = (part[rank::ranks] for part in ratings(number))
            both = factors(torch.cat([users, items + FIRST_ITEM]))
            loss = ((both[: len(users)] * both[len(users) :]).sum(dim=1) - rating).square().sum()
            loss.backward()
            wkt.step(factors, number)
            total = loss.detach().clone()
            dist.all_reduce(total)
            if rank == 0:
                print(f"step {number} loss {float(total) / BATCH:.4f}", flush=True)
        print(f"rank {rank} has {len(table) - 1} rows", flush=True)
    dist.destroy_process_group()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--steps", type=int, default=100)
    given = parser.parse_args()
    given.directory.mkdir(parents=True, exist_ok=True)
    earlier = earlier_ranks(given.directory, given.ranks)
    if earlier is not None:
        print(f"going on with {given.ranks} processes from the stores of {earlier}", flush=True)
    with tempfile.TemporaryDirectory() as home:
        arguments = (given.ranks, given.directory.absolute(), given.steps, f"{home}/meeting", earlier)
        torch.multiprocessing.spawn(train, arguments, nprocs=given.ranks)


if __name__ == "__main__":
    sys.exit(main())
