"""The programs in `bench`, which measure on a host with a GPU."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest

BENCH = Path(__file__).resolve().parent.parent / "bench"


def program(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(name, BENCH / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_test_is_run_on_a_gpu() -> None:
    there = {path.name for path in Path(__file__).parent.glob("test_*.py")}
    assert there == set(program("gpu").TESTS)


def test_lookups_beside_those_of_the_library(tmp_path: Path) -> None:
    gpu = program("gpu")
    figures, answer = tmp_path / "figures.csv", tmp_path / "library.json"
    figures.write_text(
        "part,case,metric,value,unit\n"
        'lookup,"1024 ids, into a tensor",median,9,us\n'
        'lookup,"1024 ids, into a tensor",rate,60,M ids/s\n'
        'sgd,"1024 ids, into a tensor",rate,1,M ids/s\n'
    )

    def summary(batch: int, metric: str, rate: float) -> dict[str, Any]:
        return {"case": f"get, uniform, batches of {batch}", "metric": metric, "spread": {"median": rate}}

    rates = [summary(1024, "rate", 5e7), summary(1024, "rate", 8e7), summary(1024, "rate, 4 batches under way", 9e7), summary(4096, "rate", 1e8)]
    answer.write_text(json.dumps({"summaries": [*rates, {"case": "limits of sim", "metric": "rate", "spread": {"median": 1}}]}))
    rows = gpu.beside_the_library(figures, answer)
    assert [row[1:] for row in rows] == [
        ["1024 ids", "rate", "80", "M ids/s"],
        ["1024 ids, into a tensor", "of the library's rate", "0.75", "times"],
        ["4096 ids", "rate", "100", "M ids/s"],
    ]


def test_steps_at_even_distances() -> None:
    pytest.importorskip("torch", reason="SKIPPED: no PyTorch")
    measures = program("measures")
    steps = object.__new__(measures.Steps)
    taken: list[float] = []

    def one() -> float:
        taken.append(measures.time.perf_counter())
        return 0.0

    steps.bench = type("Bench", (), {"late": lambda self: False})()
    steps.one, steps.distance, steps.due = one, 0.01, measures.time.perf_counter()
    assert len(steps.paced(lambda: len(taken) < 8)) == 8
    assert taken[-1] - taken[0] >= 0.065
    steps.bench = type("Bench", (), {"late": lambda self: True})()
    assert steps.paced(lambda: True) == []
