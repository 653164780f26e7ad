"""The examples, and the programs in the documentation."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent
EXAMPLES = PACKAGE / "examples"
PAGES = {"README.md": PACKAGE / "README.md", "python.md": PACKAGE.parent.parent / "docs" / "python.md"}


def run(*command: str, cwd: Path) -> str:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(PACKAGE / "python"), os.environ.get("PYTHONPATH", "")])}
    done = subprocess.run([sys.executable, *command], cwd=cwd, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_quick_start(tmp_path: Path) -> None:
    assert "9999 rows, False None" in run(str(EXAMPLES / "quick_start.py"), str(tmp_path / "store"), cwd=tmp_path)


def test_a_recommender_survives_kill(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="SKIPPED: no PyTorch")
    said = run(str(EXAMPLES / "recommender.py"), "--demo", "--steps", "90", cwd=tmp_path)
    assert said.count("killed after step") == 2 and "the same as those" in said
    losses = [float(loss) for loss in re.findall(r"loss ([0-9.]+)", said)]
    assert losses[-1] < losses[0]


def programs() -> list[object]:
    found = []
    for name, page in PAGES.items():
        for number, block in enumerate(re.findall(r"^```python\n(.*?)^```", page.read_text(), re.S | re.M)):
            found.append(pytest.param(block, id=f"{name}-{number}"))
    return found


@pytest.mark.parametrize("program", programs())
def test_programs_of_the_pages(program: str, tmp_path: Path) -> None:
    """Each runs by itself, in an empty folder."""
    for library in ("torch", "pyarrow", "lmdb"):
        if re.search(rf"^\s*(import|from) {library}\b|warpkeep\.{library}\b", program, re.M) and not importlib.util.find_spec(library):
            pytest.skip(f"SKIPPED: no {library}")
    (tmp_path / "program.py").write_text(program)
    run("program.py", cwd=tmp_path)
