"""What the tests share."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

import warpkeep as wk

# The same cases in every run; WARPKEEP_EXPLORE=full tries more of them.
FULL = os.environ.get("WARPKEEP_EXPLORE") == "full"
try:
    import hypothesis
except ImportError:
    # Only test_oracle.py needs it.
    pass
else:
    hypothesis.settings.register_profile(
        "warpkeep", derandomize=True, deadline=None, database=None, max_examples=300 if FULL else 15
    )
    hypothesis.settings.load_profile("warpkeep")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[wk.Store]:
    with wk.open(tmp_path / "store") as store:
        yield store


@pytest.fixture
def rows(store: wk.Store) -> wk.Table:
    """A table of rows of four floats."""
    return store.table("rows", key=wk.u64, value=wk.row("f32", 4), merge="add")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "slow: takes more than a second")


def has_simulator() -> bool:
    return dict(wk.devices()).get("sim", "not there") is None
