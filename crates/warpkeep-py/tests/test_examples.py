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
TUTORIAL = PACKAGE.parent.parent / "docs" / "python-tutorial.md"
PAGES = {"README.md": PACKAGE / "README.md", "python.md": PACKAGE.parent.parent / "docs" / "python.md"}


def skip_without(program: str, *libraries: str) -> None:
    """Skips a program that imports a library which is not there."""
    for library in libraries:
        if re.search(rf"^\s*(import|from) {library}\b|warpkeep\.{library}\b", program, re.M) and not importlib.util.find_spec(library):
            pytest.skip(f"SKIPPED: no {library}")


def run(*command: str, cwd: Path) -> str:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(PACKAGE / "python"), os.environ.get("PYTHONPATH", "")])}
    done = subprocess.run([sys.executable, *command], cwd=cwd, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_quick_start(tmp_path: Path) -> None:
    assert "9999 rows, False None" in run(str(EXAMPLES / "quick_start.py"), str(tmp_path / "store"), cwd=tmp_path)


def test_a_recommender_survives_kill(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="SKIPPED: no PyTorch")
    said = run(str(EXAMPLES / "recommender.py"), "--demo", "--steps", "60", cwd=tmp_path)
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
    skip_without(program, "torch", "pyarrow", "lmdb")
    (tmp_path / "program.py").write_text(program)
    run("program.py", cwd=tmp_path)


def sections() -> list[object]:
    """The programs and commands of each section of the tutorial."""
    parts = re.split(r"^## (.*)\n", TUTORIAL.read_text(), flags=re.M)[1:]
    return [
        pytest.param(re.findall(r"^```(python|sh)\n(.*?)^```", text, re.S | re.M), id=title.replace(" ", "-"))
        for title, text in zip(parts[::2], parts[1::2], strict=True)
    ]


@pytest.mark.parametrize("blocks", sections())
def test_the_tutorial(blocks: list[tuple[str, str]], tmp_path: Path) -> None:
    """As a reader does it: programs are saved under the names in their first lines, and commands run in the same folder."""
    skip_without("".join(block for _, block in blocks), "torch", "torch_geometric")
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(PACKAGE / "python"), os.environ.get("PYTHONPATH", "")])}
    (tmp_path / "bin").mkdir()
    # A link would not find the environment of the interpreter.
    (tmp_path / "bin" / "python").write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    (tmp_path / "bin" / "python").chmod(0o755)
    environment["PATH"] = f"{tmp_path / 'bin'}{os.pathsep}{environment['PATH']}"
    commands = 0
    for kind, block in blocks:
        if kind == "python":
            name = re.match(r"# (\w+\.py)\n", block)
            assert name, "a program begins with its name"
            (tmp_path / name[1]).write_text(block)
        else:
            commands += 1
            done = subprocess.run(["bash", "-euo", "pipefail", "-c", block], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120)
            assert done.returncode == 0, done.stdout + done.stderr
    assert commands
