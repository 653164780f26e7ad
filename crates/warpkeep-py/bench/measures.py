"""What `gpu.py` measures, a part in each process. Every part checks the rows that it has read or trained."""

from __future__ import annotations

import argparse
import contextlib
import csv
import faulthandler
import os
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

import warpkeep as wk
import warpkeep.torch as wkt


def size(text: str) -> int:
    base, _, power = text.partition("^")
    return int(base) ** int(power) if power else int(base)


class Bench:
    """Device, sizes and figures of a process."""

    def __init__(self, given: argparse.Namespace) -> None:
        self.given, self.part = given, given.part
        # The simulator takes tensors of the host.
        self.place = torch.device(given.device if given.device.startswith("cuda") else "cpu")
        self.figures: list[tuple[str, str, float, str]] = []
        self.end = time.perf_counter() + given.seconds - 10

    @property
    def cuda(self) -> bool:
        return self.place.type == "cuda"

    def late(self) -> bool:
        """Whether what there is has to be noted now."""
        return time.perf_counter() > self.end

    def wait(self) -> None:
        if self.cuda:
            torch.cuda.synchronize()

    def note(self, case: str, metric: str, value: float, unit: str) -> None:
        self.figures.append((case, metric, value, unit))
        path = Path(self.given.csv)
        new = not path.exists()
        with path.open("a", newline="") as file:
            writer = csv.writer(file)
            if new:
                writer.writerow(["part", "case", "metric", "value", "unit"])
            writer.writerow([self.part, case, metric, f"{value:.6g}", unit])
        print(f"{case}: {metric} {value:,.3f} {unit}", flush=True)

    def times(self, case: str, work: Callable[[int], object], rounds: int, items: int, warm: int = 3) -> list[float]:
        """Times of a call, each waited for; notes median and rate."""
        for number in range(warm):
            work(number)
        taken = []
        for number in range(rounds):
            self.wait()
            begun = time.perf_counter()
            work(number)
            self.wait()
            taken.append(time.perf_counter() - begun)
        median = float(np.median(taken))
        self.note(case, "median", median * 1e6, "us")
        self.note(case, "p99", float(np.percentile(taken, 99)) * 1e6, "us")
        self.note(case, "rate", items / median / 1e6, "M ids/s")
        return taken

    @contextlib.contextmanager
    def store(self, **options: Any) -> Iterator[wk.Store]:
        memory = Path(self.given.memory)
        logs = self.given.directory if options.get("log", True) else str(memory)
        with tempfile.TemporaryDirectory(dir=logs) as name:
            with wk.open(Path(name) / "store", device=self.given.device, image=memory / "image", **options) as store:
                yield store

    def ids(self, rows: int, count: int, seed: int) -> torch.Tensor:
        generator = torch.Generator(device=self.place).manual_seed(seed)
        return torch.randint(0, rows, (count,), generator=generator, device=self.place)

    def fill(self, put: wk.Table, rows: int, row: Callable[[torch.Tensor], torch.Tensor]) -> None:
        """Stores a row for each id below `rows`."""
        begun = time.perf_counter()
        for start in range(0, rows, 2**20):
            ids = torch.arange(start, min(start + 2**20, rows), device=self.place)
            put.put(ids, row(ids), durability="process")
        self.wait()
        self.note(f"{rows} rows", "filled at", rows / (time.perf_counter() - begun) / 1e6, "M rows/s")


def lookup(bench: Bench) -> None:
    """Lookups of rows of 128 bytes, ids and answers as tensors; no copy, in the caller's stream."""
    rows = bench.given.rows

    def row(ids: torch.Tensor) -> torch.Tensor:
        return (ids % 8191).float()[:, None] + torch.arange(32, device=ids.device)

    with bench.store(log=False) as store:
        table = store.table("t", value=wk.row("f32", 32), capacity=rows)
        bench.fill(table, rows, row)
        for batch in bench.given.batch:
            many = [bench.ids(rows, batch, seed) for seed in range(8)]
            out = torch.empty(batch, 32, device=bench.place)
            stream = torch.cuda.Stream() if bench.cuda else None
            with torch.cuda.stream(stream) if bench.cuda else contextlib.nullcontext():
                for ids in many[:2]:
                    address, before = out.data_ptr(), 0
                    if bench.cuda:
                        torch.cuda.synchronize()
                        torch.cuda.reset_peak_memory_stats()
                        before = torch.cuda.memory_allocated()
                    answer, found = table.lookup(ids, out=out)
                    more = torch.cuda.max_memory_allocated() - before if bench.cuda else 0
                    if answer is not out or out.data_ptr() != address or more >= out.numel() * 2:
                        raise SystemExit(f"the rows were copied: {more} bytes were allocated")
                    if not bool(found.all()) or not torch.equal(out, row(ids)):
                        raise SystemExit("the rows are wrong")
                bench.times(f"{batch} ids, into a tensor", lambda n: table.lookup(many[n % 8], out=out), bench.given.rounds, batch)
                bench.times(f"{batch} ids, a new tensor", lambda n: table.lookup(many[n % 8]), bench.given.rounds, batch)
            host = [ids.cpu().numpy().view(np.uint64) for ids in many]
            out_host, found_host = np.empty((batch, 32), np.float32), np.empty(batch, bool)
            bench.times(
                f"{batch} ids, NumPy arrays", lambda n: table.lookup(host[n % 8], out=out_host, found=found_host), bench.given.rounds, batch
            )
            with contextlib.suppress(ImportError):
                cupy_lookup(bench, table, batch, many)


def cupy_lookup(bench: Bench, table: wk.Table, batch: int, many: list[torch.Tensor]) -> None:
    if not bench.cuda:
        return
    import cupy

    arrays = [cupy.from_dlpack(ids) for ids in many]
    out = cupy.empty((batch, 32), cupy.float32)
    address = out.data.ptr
    answer, found = table.lookup(arrays[0], out=out)
    if answer is not out or answer.data.ptr != address or not bool(found.all()) or not bool((out[:, 0] == arrays[0] % 8191).all()):
        raise SystemExit("the rows in CuPy's array are wrong, or a copy")
    bench.times(f"{batch} ids, CuPy arrays", lambda n: table.lookup(arrays[n % 8], out=out), bench.given.rounds, batch)


def train(bench: Bench, optimizer: wkt.Optimizer, dim: int) -> None:
    """Training steps in a store without a log: lookup, backward, update, and storing the rows. Gradients are ones, so that the sums are exact."""
    rows, batch, steps = bench.given.rows, bench.given.ids, bench.given.steps
    with bench.store(log=False) as store:
        table = wkt.create_table(store, "items", dim=dim, optimizer=optimizer, capacity=rows)
        width = table.value.nbytes // 4
        bench.fill(table, rows, lambda ids: torch.zeros(len(ids), width, device=bench.place))
        module = wkt.Embedding(table, dim=dim, optimizer=optimizer, durability="process")
        ones = torch.ones(batch, dim, device=bench.place)
        counts = torch.zeros(rows, device=bench.place)
        squares = torch.zeros(rows, device=bench.place)
        parts: list[tuple[float, ...]] = []
        unique = 0
        for number in range(1, steps + 4):
            ids = bench.ids(rows, batch, number)
            bench.wait()
            times = [time.perf_counter()]
            found = module(ids)
            bench.wait()
            times.append(time.perf_counter())
            found.backward(ones)
            bench.wait()
            times.append(time.perf_counter())
            wkt.step(module, number)
            bench.wait()
            times.append(time.perf_counter())
            del found
            each = torch.bincount(ids, minlength=rows).float()
            counts += each
            squares += each.square()
            unique += int((each > 0).sum())
            # The first ones allocate.
            if number > 3:
                parts.append((*np.diff(times), times[-1] - times[0]))
        case = f"{batch} ids of {rows} rows of {4 * width} bytes"
        medians = np.median(np.array(parts), axis=0)
        for what, median in zip(("forward", "backward", "step", "all"), medians, strict=True):
            bench.note(case, f"{what}, median", median * 1e6, "us")
        bench.note(case, "all, p99", float(np.percentile([each[-1] for each in parts], 99)) * 1e6, "us")
        bench.note(case, "rate", batch / medians[-1] / 1e6, "M ids/s")
        bench.note(case, "distinct ids of a batch", unique / (steps + 3), "")
        for start in range(0, rows, 2**20):
            ids = torch.arange(start, min(start + 2**20, rows), device=bench.place)
            weights, state = module.rows.gather(ids)
            part = slice(start, start + len(ids))
            if optimizer.name == "sgd":
                right = torch.equal(weights, -optimizer.lr * counts[part, None].expand_as(weights))
            else:
                touched = counts[part] > 0
                right = torch.allclose(state[:, 0], squares[part], rtol=1e-5) and bool(((weights[:, 0] < 0) == touched).all())
            if not right:
                raise SystemExit(f"the rows from {start} on are wrong")
        print("all rows are right")


def sgd(bench: Bench) -> None:
    train(bench, wkt.SGD(lr=0.5), 32)


def rowwise_adagrad(bench: Bench) -> None:
    # Weights and state: 128 bytes as well.
    train(bench, wkt.RowwiseAdagrad(lr=0.5), 31)


# How many checkpoints a process measures.
CHECKPOINTS = 3


class Steps:
    """Training steps that begin at even distances, so that as many bytes are written beside a checkpoint as without one."""

    def __init__(self, bench: Bench, table: wk.Table, durability: Any) -> None:
        self.bench, self.rows, self.batch = bench, bench.given.checkpoint_rows, bench.given.checkpoint_ids
        self.module = wkt.Embedding(table, dim=32, optimizer=wkt.SGD(lr=0.5), durability=durability)
        self.ones = torch.ones(self.batch, 32, device=bench.place)
        self.done = 0
        # The first ones allocate.
        first = [self.one() for _ in range(10)]
        self.distance = 2 * float(np.median(first[5:]))
        self.due = time.perf_counter()

    def one(self) -> float:
        """The seconds of a step."""
        ids = self.bench.ids(self.rows, self.batch, self.done)
        self.bench.wait()
        begun = time.perf_counter()
        self.module(ids).backward(self.ones)
        wkt.step(self.module)
        self.bench.wait()
        self.done += 1
        return time.perf_counter() - begun

    def paced(self, on: Callable[[], bool]) -> list[float]:
        """Steps as long as there is time and `on` says so."""
        taken = []
        while on() and not self.bench.late():
            time.sleep(max(0.0, self.due - time.perf_counter()))
            # A step that took longer is not made up for.
            self.due = max(self.due, time.perf_counter() - self.distance) + self.distance
            taken.append(self.one())
        return taken


def checkpoint(bench: Bench, durability: str) -> None:
    """Times of steps without and with a checkpoint under way, in turns. There are no checkpoints but those that are measured."""
    rows, batch = bench.given.checkpoint_rows, bench.given.checkpoint_ids
    with bench.store(checkpoints="manual") as store:
        table = wkt.create_table(store, "items", dim=32, optimizer=wkt.SGD(lr=0.5), capacity=rows)
        bench.fill(table, rows, lambda ids: torch.zeros(len(ids), 32, device=bench.place))
        store.checkpoint()
        steps = Steps(bench, table, durability)
        case = f"{batch} ids of {rows} rows, '{durability}'"
        bench.note(case, "a step each", steps.distance * 1e3, "ms")
        alone: list[float] = []
        beside: list[float] = []
        for number in range(1, CHECKPOINTS + 1):
            stop = time.perf_counter() + bench.given.checkpoint_seconds / CHECKPOINTS
            alone += steps.paced(lambda stop=stop: time.perf_counter() < stop)
            ended: list[float] = []

            def work(begun: float, ended: list[float]) -> None:
                store.checkpoint()
                ended.append(time.perf_counter() - begun)

            thread = threading.Thread(target=work, args=(time.perf_counter(), ended), daemon=True)
            thread.start()
            with_it = steps.paced(thread.is_alive)
            # The last one ran on when the checkpoint had ended.
            beside += with_it if thread.is_alive() else with_it[:-1]
            if ended:
                bench.note(case, f"checkpoint {number}", ended[0] * 1e3, "ms")
            for what, times in (("alone", alone), ("beside a checkpoint", beside)):
                if times and (number == CHECKPOINTS or bench.late()):
                    bench.note(case, f"{what}, steps", len(times), "")
                    bench.note(case, f"{what}, p50", float(np.percentile(times, 50)) * 1e6, "us")
                if times:
                    bench.note(case, f"{what}, p99, {number} done", float(np.percentile(times, 99)) * 1e6, "us")
            if alone and beside:
                ratio = float(np.percentile(beside, 99) / np.percentile(alone, 99))
                bench.note(case, f"p99, beside to alone, {number} done", ratio, "times")
            if bench.late():
                print(f"checkpoint {number} of {CHECKPOINTS}: there is no time left; where the threads are:", flush=True)
                faulthandler.dump_traceback()
                # A checkpoint that does not end would keep the store from closing.
                os._exit(1)
            thread.join()


def checkpoint_process(bench: Bench) -> None:
    checkpoint(bench, "process")


def checkpoint_power(bench: Bench) -> None:
    checkpoint(bench, "power")


PARTS: dict[str, Callable[[Bench], None]] = {
    part.__name__: part for part in (lookup, sgd, rowwise_adagrad, checkpoint_process, checkpoint_power)
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", choices=list(PARTS))
    parser.add_argument("--device", required=True)
    parser.add_argument("--csv", required=True, help="the file that figures are added to")
    parser.add_argument("--memory", required=True, help="where images lie")
    parser.add_argument("--directory", help="where the store with a log lies; by default a temporary folder")
    parser.add_argument("--rows", type=size, default=2**24)
    parser.add_argument("--batch", type=size, action="append", help="ids of a lookup; may be given several times")
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--ids", type=size, default=2**20, help="ids of a training step")
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--checkpoint-rows", type=size, default=2**20)
    parser.add_argument("--checkpoint-ids", type=size, default=2**16)
    parser.add_argument("--checkpoint-seconds", type=float, default=12, help="of steps without a checkpoint, all together")
    parser.add_argument("--seconds", type=float, default=150, help="when the process is ended; a checkpoint part ends by itself 10 s before")
    given = parser.parse_args()
    given.batch = given.batch or [2**16, 2**20]
    # Who ends the process sees where it was.
    faulthandler.dump_traceback_later(max(1.0, given.seconds - 5))
    PARTS[given.part](Bench(given))


if __name__ == "__main__":
    main()
