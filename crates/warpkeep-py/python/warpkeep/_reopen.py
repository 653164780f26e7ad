"""Read-only stores in other processes: what pickle makes of them."""

from __future__ import annotations

import os
import threading
import weakref

from . import _native

_stores: weakref.WeakValueDictionary[tuple[int, str, str | None], _native.Store] = weakref.WeakValueDictionary()
_lock = threading.Lock()


def _new_lock() -> None:
    """In a child made by fork: a thread of the parent, which the child does not have, may have held the lock."""
    global _lock
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_new_lock)


def reopen(path: os.PathLike[str] | str, image: os.PathLike[str] | str | None) -> _native.Store:
    """The read-only store at this path: one for a process, however many handles are unpickled."""
    key = (os.getpid(), os.fspath(path), None if image is None else os.fspath(image))
    with _lock:
        store = _stores.get(key)
        if store is None or store.closed:
            store = _native.open(path, image=image, read_only=True)
            _stores[key] = store
        return store


def reopen_table(
    path: os.PathLike[str] | str, image: os.PathLike[str] | str | None, name: str
) -> _native.Table:
    """A table of that store."""
    return reopen(path, image).table(name)
