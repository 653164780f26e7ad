"""A recommender whose embeddings survive kill -9: it goes on with the step after the last one that was whole.

    python recommender.py DIRECTORY [--steps 200]    trains; run it again and it goes on
    python recommender.py --demo                     starts a training, kills it twice, and compares it with one that was not killed

Users and items are rows of one table, so that a step is one batch.
"""

import argparse
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import torch

import warpkeep as wk
import warpkeep.torch as wkt

USERS, ITEMS, DIM, BATCH = 2_000, 1_000, 16, 512
# Ids of items begin here; those of users end before.
FIRST_ITEM = 1 << 40


def ratings(number: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The users, items and ratings of a step: always the same for a number. The ratings come from factors that the model does not see."""
    chance = np.random.default_rng(number)
    users, items = chance.integers(0, USERS, BATCH), chance.integers(0, ITEMS, BATCH)
    taste = wkt.initial_rows("normal:0.7", users.astype(np.uint64), 4, seed=99)
    kind = wkt.initial_rows("normal:0.7", items.astype(np.uint64), 4, seed=100)
    return torch.from_numpy(users), torch.from_numpy(items), torch.from_numpy((taste * kind).sum(axis=1))


def train(directory: str, steps: int) -> None:
    torch.set_num_threads(1)
    with wk.open(directory) as store:
        optimizer = wkt.RowwiseAdagrad(lr=0.3)
        table = wkt.create_table(store, "factors", dim=DIM, optimizer=optimizer, capacity=USERS + ITEMS)
        factors = wkt.Embedding(table, dim=DIM, optimizer=optimizer, init="normal:0.3", seed=1)
        for number in range(factors.rows.step_number + 1, steps + 1):
            users, items, rating = ratings(number)
            both = factors(torch.cat([users, items + FIRST_ITEM]))
            score = (both[:BATCH] * both[BATCH:]).sum(dim=1)
            loss = ((score - rating) ** 2).mean()
            # The gradient of each rating counts by itself, not as a share of the batch.
            (loss * BATCH).backward()
            wkt.step(factors, number)
            print(number, f"{loss.item():.4f}", flush=True)


def rows_of(directory: Path) -> dict[int, bytes]:
    with wk.open(directory, read_only=True) as store:
        return {key: row.tobytes() for key, row in store["factors"].items()}


def demo(steps: int) -> None:
    with tempfile.TemporaryDirectory() as home:
        killed, calm = Path(home) / "killed", Path(home) / "calm"
        last, kills = 0, 0
        while last < steps:
            training = subprocess.Popen(
                [sys.executable, __file__, str(killed), "--steps", str(steps)], stdout=subprocess.PIPE, text=True
            )
            assert training.stdout is not None
            for line in training.stdout:
                last = int(line.split()[0])
                if kills < 2 and last >= (kills + 1) * steps // 3:
                    training.send_signal(signal.SIGKILL)
                    kills += 1
                    print(f"killed after step {last}, loss {line.split()[1]}")
                    break
            training.stdout.close()
            training.wait()
        print(f"ended with step {last}, loss {line.split()[1]}")
        subprocess.run([sys.executable, __file__, str(calm), "--steps", str(steps)], check=True, stdout=subprocess.DEVNULL)
        one, other = rows_of(killed), rows_of(calm)
        assert one == other, "the rows differ from those of a training that was not killed"
        print(f"{len(one)} rows, the same as those of a training that was not killed")


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("directory", nargs="?")
    arguments.add_argument("--steps", type=int, default=200)
    arguments.add_argument("--demo", action="store_true")
    given = arguments.parse_args()
    if given.demo:
        demo(given.steps)
    elif given.directory:
        train(given.directory, given.steps)
    else:
        arguments.error("give a directory, or --demo")
