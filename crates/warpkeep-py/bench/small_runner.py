"""Runs test files where pytest is not installed: it stands in for the parts of pytest that the tests of this package use.

    python small_runner.py tests/test_device.py...
"""

from __future__ import annotations

import contextlib
import importlib
import inspect
import io
import itertools
import math
import re
import sys
import tempfile
import traceback
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any


class Skipped(BaseException):
    """A test that cannot run here."""


class Param:
    """`pytest.param`."""

    def __init__(self, *values: Any, id: str | None = None, marks: Any = None) -> None:
        self.values = values
        # A mark is a function that notes on a test; here it notes on the value.
        self.skip_reason: str | None = None
        if marks is not None:
            marks(self)


class Marks:
    """`pytest.mark`."""

    @staticmethod
    def skipif(condition: bool, *, reason: str) -> Callable[[Any], Any]:
        return lambda test: _noted(test, "skip_reason", reason if condition else None)

    @staticmethod
    def parametrize(names: Any, values: Any) -> Callable[[Any], Any]:
        def note(test: Any) -> Any:
            columns = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
            rows = []
            for value in values:
                if isinstance(value, Param):
                    if value.skip_reason:
                        print(f"skipped {test.__name__} {value.values} {value.skip_reason}", flush=True)
                        continue
                    row = value.values
                else:
                    row = value if len(columns) > 1 else (value,)
                rows.append(dict(zip(columns, row, strict=True)))
            return _noted(test, "cases", [*getattr(test, "cases", []), rows])

        return note

    def __getattr__(self, name: str) -> Callable[[Any], Any]:
        return lambda test: test


def _noted(test: Any, name: str, value: Any) -> Any:
    if value is not None:
        setattr(test, name, value)
    return test


def fixture(function: Any = None, *, params: Any = None) -> Any:
    if function is None:
        return lambda function: fixture(function, params=params)
    function.is_fixture, function.params = True, params
    return function


@contextlib.contextmanager
def raises(expected: Any, match: str | None = None) -> Iterator[Any]:
    info = types.SimpleNamespace(value=None)
    try:
        yield info
    except expected as error:
        if match is not None and not re.search(match, str(error)):
            raise AssertionError(f"'{match}' is not in '{error}'") from error
        info.value = error
        return
    raise AssertionError(f"{expected} was not raised")


def skip(reason: str) -> None:
    raise Skipped(reason)


def importorskip(name: str, *, reason: str = "") -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise Skipped(reason or str(error)) from error


class approx:  # noqa: N801
    """Numbers, or lists of them, that are almost these."""

    def __init__(self, expected: Any, rel: float = 1e-6) -> None:
        self.expected, self.rel = expected, rel

    def __eq__(self, found: object) -> bool:
        ours, theirs = ([each] if isinstance(each, (int, float)) else list(each) for each in (self.expected, found))  # type: ignore[call-overload]
        return len(ours) == len(theirs) and all(math.isclose(a, b, rel_tol=self.rel, abs_tol=1e-12) for a, b in zip(ours, theirs, strict=True))


class Capture:
    """What was printed since the last time it was asked for."""

    def __init__(self) -> None:
        self.text = io.StringIO()

    def readouterr(self) -> types.SimpleNamespace:
        said = self.text.getvalue()
        self.text.seek(0)
        self.text.truncate()
        return types.SimpleNamespace(out=said, err="")


class MonkeyPatch:
    def __init__(self) -> None:
        self.undo: list[Callable[[], object]] = []

    def setattr(self, target: Any, name: str, value: Any) -> None:
        before = getattr(target, name)
        self.undo.append(lambda: setattr(target, name, before))
        setattr(target, name, value)

    def setitem(self, target: Any, name: Any, value: Any) -> None:
        absent = name not in target
        before = target.get(name)
        self.undo.append(lambda: target.pop(name) if absent else target.__setitem__(name, before))
        target[name] = value

    def setenv(self, name: str, value: str) -> None:
        import os

        self.setitem(os.environ, name, value)


def stand_in() -> types.ModuleType:
    module = types.ModuleType("pytest")
    vars(module).update(
        mark=Marks(), fixture=fixture, raises=raises, skip=skip, importorskip=importorskip, approx=approx, MonkeyPatch=MonkeyPatch,
        FixtureRequest=object, Config=object, param=Param,
    )  # fmt: skip
    return module


class Case:
    """One run of a test: its fixtures are made before and ended after."""

    def __init__(self, fixtures: dict[str, Any], given: dict[str, Any], params: dict[str, Any], stack: contextlib.ExitStack) -> None:
        self.fixtures, self.given, self.params, self.stack = fixtures, given, params, stack

    def value(self, name: str) -> Any:
        if name not in self.given:
            self.given[name] = self.make(name)
        return self.given[name]

    def make(self, name: str) -> Any:
        if name == "tmp_path":
            return Path(self.stack.enter_context(tempfile.TemporaryDirectory()))
        if name == "monkeypatch":
            patch = MonkeyPatch()
            self.stack.callback(lambda: [undo() for undo in reversed(patch.undo)])
            return patch
        if name == "capsys":
            capture = Capture()
            self.stack.enter_context(contextlib.redirect_stdout(capture.text))
            return capture
        function = self.fixtures[name]
        arguments = {
            each: types.SimpleNamespace(param=self.params.get(name)) if each == "request" else self.value(each)
            for each in inspect.signature(function).parameters
        }
        made = function(**arguments)
        return self.stack.enter_context(contextlib.contextmanager(lambda: made)()) if inspect.isgenerator(made) else made


def needed(fixtures: dict[str, Any], names: Any) -> set[str]:
    """Fixtures and those that they need."""
    found: set[str] = set()
    for name in names:
        if name in fixtures and name not in found:
            found |= {name} | needed(fixtures, inspect.signature(fixtures[name]).parameters)
    return found


def runs(test: Any, fixtures: dict[str, Any]) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Arguments and parameters of fixtures for each run of a test."""
    with_params = [name for name in sorted(needed(fixtures, inspect.signature(test).parameters)) if fixtures[name].params]
    for row in itertools.product(*getattr(test, "cases", [])):
        for params in itertools.product(*(fixtures[name].params for name in with_params)):
            yield {key: value for part in row for key, value in part.items()}, dict(zip(with_params, params, strict=True))


def main() -> int:
    sys.modules["pytest"] = stand_in()
    counts = {"passed": 0, "failed": 0, "skipped": 0}

    def ended(how: str, what: str, why: str = "") -> None:
        counts[how] += 1
        if how != "passed":
            print(f"{how} {what} {why}", flush=True)

    for file in map(Path, sys.argv[1:]):
        sys.path.insert(0, str(file.resolve().parent))
        try:
            conftest = importlib.import_module("conftest")
            module = importlib.import_module(file.stem)
        except Skipped as error:
            ended("skipped", str(file), str(error))
            continue
        except Exception:
            ended("failed", str(file), traceback.format_exc())
            continue
        names = {**vars(conftest), **vars(module)}
        fixtures = {name: each for name, each in names.items() if getattr(each, "is_fixture", False)}
        for name, test in list(vars(module).items()):
            if not name.startswith("test_") or not callable(test):
                continue
            if getattr(test, "skip_reason", None):
                ended("skipped", name, test.skip_reason)
                continue
            for given, params in runs(test, fixtures):
                what = f"{file.stem}.{name} {given or ''} {params or ''}"
                try:
                    with contextlib.ExitStack() as stack:
                        case = Case(fixtures, dict(given), params, stack)
                        test(**{each: case.value(each) for each in inspect.signature(test).parameters})
                    ended("passed", what)
                except Skipped as error:
                    ended("skipped", what, str(error))
                except Exception:
                    ended("failed", what, traceback.format_exc())
    print(", ".join(f"{count} {how}" for how, count in counts.items()))
    return int(counts["failed"] > 0)


if __name__ == "__main__":
    sys.exit(main())
