"""What the package is published with."""

from __future__ import annotations

import importlib.metadata
from pathlib import Path

import pytest

import warpkeep as wk

PACKAGE = Path(__file__).resolve().parent.parent


def test_the_size_of_the_extension() -> None:
    """Twice what the one of a release may have, which scripts/python wheel checks: code without optimization is larger."""
    (extension,) = Path(wk.__file__).parent.glob("_native*.so")
    assert extension.stat().st_size < 16 << 20


def test_metadata() -> None:
    try:
        metadata = importlib.metadata.metadata("warpkeep")
    except importlib.metadata.PackageNotFoundError:
        pytest.skip("SKIPPED: the package is used without having been installed")
    assert metadata["Version"] == wk.__version__ and metadata["Summary"] and metadata["Requires-Python"] == ">=3.11"
    assert metadata["License-Expression"] == "MIT OR Apache-2.0"
    assert sorted(metadata.get_all("License-File", [])) == ["LICENSE-APACHE", "LICENSE-MIT"]
    assert metadata["Description-Content-Type"].startswith("text/markdown")
    assert metadata.get_payload().strip() == (PACKAGE / "README.md").read_text().strip()
    assert any(each.startswith("numpy") for each in metadata.get_all("Requires-Dist", []))


def test_the_licences_are_those_of_the_project() -> None:
    for name in ("LICENSE-APACHE", "LICENSE-MIT"):
        text = (PACKAGE / name).read_text()
        assert len(text) > 500 and text == (PACKAGE.parent.parent / name).read_text()
