"""Read-only stores in other processes: what pickle makes of them."""

from __future__ import annotations

import os
import threading

from . import _native

# Kept for the next handle: a worker gets one with each piece of work, and drops it before the next.
_stores: dict[tuple[int, str, str | None], _native.Store] = {}
_lock = threading.Lock()


def _new_lock() -> None:
    """In a child made by fork: a thread of the parent, which the child does not have, may have held the lock."""
    global _lock
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_new_lock)


def reopen(path: os.PathLike[str] | str, image: os.PathLike[str] | str | None) -> _native.Store:
    """The read-only store at this path: one for a process, until it is closed, however many handles are unpickled."""
    pid = os.getpid()
    key = (pid, os.fspath(path), None if image is None else os.fspath(image))
    with _lock:
        # Those of a process that forked this one cannot be used here, nor asked whether they are closed.
        for other in [each for each, store in _stores.items() if each[0] != pid or store.closed]:
            del _stores[other]
        store = _stores.get(key)
        if store is None:
            store = _stores[key] = _native.open(path, image=image, read_only=True)
        return store


def reopen_table(
    path: os.PathLike[str] | str, image: os.PathLike[str] | str | None, name: str
) -> _native.Table:
    """A table of that store."""
    return reopen(path, image).table(name)
