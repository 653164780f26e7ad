"""The Python package on a host with a GPU: tests, then measurements. Needs Python and PyTorch, and neither Rust nor a network.

    scripts/python gpu WHEEL_OR_FOLDER [OPTIONS]

WHEEL_OR_FOLDER is a wheel, or a folder that has the package `warpkeep` with its extension. Tests and measurements are processes of their own:
one that fails or takes too long leaves the others. Figures go to OUT/python-gpu.csv, what the processes said to OUT/*.log, and a table to the
standard output. Exits with 0 only if everything ran and passed.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path

BENCH = Path(__file__).resolve().parent
PACKAGE = BENCH.parent
# Those that need a GPU first. Those that need Hypothesis are left out where it is not.
TESTS = [
    *("test_device.py", "test_training.py", "test_torch.py", "test_pyg.py", "test_dynamicemb.py", "test_containers.py", "test_hash_map.py"),
    *("test_slab.py", "test_sharded.py", "test_table.py", "test_arguments.py", "test_store.py", "test_processes.py", "test_arrow.py"),
    *("test_examples.py", "test_bench.py", "test_oracle.py", "test_package.py", "test_mapping.py", "test_graph_algorithms.py"),
]
PARTS = ["lookup", "sgd", "rowwise_adagrad", "checkpoint_process", "checkpoint_power"]
# Several parts by one word.
GROUPS = {"checkpoint": ["checkpoint_process", "checkpoint_power"]}


def unpacked(given: Path, home: Path) -> Path:
    """The folder that has the package."""
    if given.suffix == ".whl":
        folder = home / "package"
        with zipfile.ZipFile(given) as wheel:
            wheel.extractall(folder)
        return folder
    for folder in (given, given / "python"):
        if list((folder / "warpkeep").glob("_native*.so")):
            return folder
    wheels = sorted(given.glob("warpkeep-*.whl"), key=lambda wheel: wheel.stat().st_mtime)
    if wheels:
        return unpacked(wheels[-1], home)
    raise SystemExit(f"{given} is no wheel, and has neither one nor a package with an extension; build one: scripts/python wheel")


# The machine, in one line; that it runs shows that the extension loads.
MACHINE = """
import platform, torch, warpkeep as wk
name = torch.cuda.get_device_name() if torch.cuda.is_available() else "no GPU"
print(f"warpkeep {wk.__version__}, Python {platform.python_version()}, PyTorch {torch.__version__}, {name}, {wk.devices()}")
"""


class Round:
    """What was run, and how it ended."""

    def __init__(self, out: Path, environment: dict[str, str]) -> None:
        self.out, self.environment, self.failed = out, environment, 0

    def run(self, name: str, command: list[str], cwd: Path, seconds: float, answer: Path | None = None) -> None:
        """Runs a process. What it says goes to the log; with `answer`, its standard output goes there."""
        log = self.out / f"{name}.log"
        begun = time.monotonic()
        with log.open("w") as file, answer.open("w") if answer else contextlib.nullcontext(file) as output:
            # A group of its own, so that what the process started ends with it.
            errors = file if answer else subprocess.STDOUT
            process = subprocess.Popen(command, cwd=cwd, env=self.environment, stdout=output, stderr=errors, start_new_session=True)
            try:
                code: int | str = process.wait(timeout=seconds)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, 9)
                process.wait()
                code = f"ended after {seconds:.0f} s"
        lines = log.read_text(errors="replace").splitlines()
        said = next((line for line in reversed(lines) if line.strip()), "")
        print(f"{'ok    ' if code == 0 else 'FAILED'} {name:16} {time.monotonic() - begun:6.1f} s  {said[:140]}", flush=True)
        if code != 0:
            self.failed += 1
            print(f"  {name}: {code}; the end of {log}:")
            print("\n".join(f"  | {line}" for line in lines[-40:]), flush=True)


def library(program: Path, given: argparse.Namespace, home: str, memory: str) -> list[str]:
    """The command that measures the same lookups in the library, without Python."""
    what = ["--operations", "get", "--strategies", "image,index,ordered", "--distribution", "uniform", "--value-bytes", "128"]
    sizes = ["--items", str(number(given.rows)), "--batch", ",".join(str(number(batch)) for batch in given.batch), "--rounds", "3"]
    return [str(program), "bench", "device", "--device", given.device, *what, *sizes, "--json", "--dir", home, "--image-dir", memory]


def beside_the_library(figures: Path, answer: Path) -> list[list[str]]:
    """For each size, how fast lookups into a tensor are, as a share of the library's fastest way: rows for the figures."""
    rates: dict[str, float] = {}
    for each in json.loads(answer.read_text())["summaries"]:
        if each["metric"] == "rate" and each["case"].startswith("get, uniform, batches of "):
            batch = each["case"].rsplit(" ", 1)[1]
            rates[batch] = max(rates.get(batch, 0.0), each["spread"]["median"])
    with figures.open() as file:
        ours = {row["case"]: float(row["value"]) * 1e6 for row in csv.DictReader(file) if row["part"] == "lookup" and row["metric"] == "rate"}
    rows = []
    for batch, rate in rates.items():
        rows.append(["library", f"{batch} ids", "rate", f"{rate / 1e6:.6g}", "M ids/s"])
        if (mine := ours.get(f"{batch} ids, into a tensor")) is not None:
            rows.append(["library", f"{batch} ids, into a tensor", "of the library's rate", f"{mine / rate:.6g}", "times"])
    return rows


def number(text: str) -> int:
    base, _, power = text.partition("^")
    return int(base) ** int(power) if power else int(base)


def table(path: Path) -> None:
    """Prints the figures."""
    if not path.exists():
        return
    with path.open() as file:
        for row in csv.DictReader(file):
            print(f"  {row['part']:16} {row['case']:44} {row['metric']:28} {float(row['value']):14,.3f} {row['unit']}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("package", type=Path, help="a wheel, or a folder with the package")
    parser.add_argument("--device", default="cuda:0", help="cuda:0, or sim and cpu to see that it runs")
    parser.add_argument("--out", type=Path, default=Path(os.environ.get("OUT", "python-gpu")), help="where results go; $OUT if not given")
    parser.add_argument("--part", action="append", choices=["tests", *PARTS, *GROUPS], help="what to run, by default everything; may be given several times")
    parser.add_argument("--seconds", type=float, default=150, help="the longest time of a part")
    parser.add_argument("--memory", type=Path, help="where images lie; by default /dev/shm")
    parser.add_argument("--warpkeep", type=Path, help="the program `warpkeep`: it measures the same lookups without Python, for a ratio")
    parser.add_argument("--rows", default="2^24", help="rows of the tables of lookups and training")
    parser.add_argument("--batch", action="append", help="ids of a lookup; may be given several times")
    # Other sizes are for measures.py.
    given, sizes = parser.parse_known_args()
    given.batch = given.batch or ["2^16", "2^20"]
    sizes += ["--rows", given.rows, *(word for batch in given.batch for word in ("--batch", batch))]
    given.out.mkdir(parents=True, exist_ok=True)
    out = given.out.resolve()
    figures = out / "python-gpu.csv"
    figures.unlink(missing_ok=True)
    with tempfile.TemporaryDirectory() as home:
        package = unpacked(given.package.resolve(), Path(home))
        environment = os.environ | {"PYTHONPATH": str(package), "WARPKEEP_TEST_DEVICE": given.device}
        # Files of a process that was ended go with the folder.
        environment |= {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONUNBUFFERED": "1", "TMPDIR": home}
        round_ = Round(out, environment)
        parts = [part for word in given.part or ["tests", *PARTS] for part in GROUPS.get(word, [word])]
        round_.run("machine", [sys.executable, "-c", MACHINE], Path(home), given.seconds)
        if "tests" in parts:
            runner = ["-m", "pytest", "-q", "-p", "no:cacheprovider"] if importlib.util.find_spec("pytest") else [str(BENCH / "small_runner.py")]
            for test in TESTS:
                if "from hypothesis" in (PACKAGE / "tests" / test).read_text() and not importlib.util.find_spec("hypothesis"):
                    print(f"SKIPPED {test}: no Hypothesis", flush=True)
                    continue
                round_.run(Path(test).stem, [sys.executable, *runner, f"tests/{test}"], PACKAGE, given.seconds)
        memory = given.memory or Path("/dev/shm")
        for part in parts:
            if part != "tests":
                command = [sys.executable, str(BENCH / "measures.py"), part, "--device", given.device, "--csv", str(figures), "--seconds", str(given.seconds)]
                with tempfile.TemporaryDirectory(prefix="warpkeep-", dir=memory) as where:
                    round_.run(part, [*command, "--memory", where, *sizes], Path(home), given.seconds)
        if given.warpkeep and "lookup" in parts:
            answer = out / "library.json"
            with tempfile.TemporaryDirectory(prefix="warpkeep-", dir=memory) as where:
                round_.run("library", library(given.warpkeep.resolve(), given, home, where), Path(home), given.seconds, answer)
            if figures.exists() and answer.stat().st_size:
                with figures.open("a", newline="") as file:
                    csv.writer(file).writerows(beside_the_library(figures, answer))
    table(figures)
    if round_.failed:
        raise SystemExit(f"{round_.failed} failed")


if __name__ == "__main__":
    main()
