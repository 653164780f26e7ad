"""Tables of rows under ids that survive a crash, read and written as arrays.

    import numpy as np
    import warpkeep as wk

    with wk.open("./store") as store:
        items = store.table("items", key=wk.u64, value=wk.row("f32", 64), merge="add")
        ids = np.arange(1000, dtype=np.uint64)
        items.put(ids, np.zeros((1000, 64), np.float32), durability="power")
        rows, found = items.lookup(ids)
"""

from __future__ import annotations

import enum
import importlib
import os
from collections.abc import Iterable, MutableMapping
from typing import Any, Literal

from ._errors import (
    BatchError,
    BusyError,
    ClosedError,
    DamagedError,
    DeviceError,
    DurabilityError,
    Error,
    ForkError,
    FullError,
    NoStoreError,
    NoTableError,
    ReadOnlyError,
    SpecError,
    StepError,
)
from ._native import (
    DeviceArray,
    Graph,
    GraphCsr,
    GraphEdges,
    GraphSample,
    HashMap,
    OrderedMap,
    OrderedSnapshot,
    SlabMap,
    SlabMultiMap,
    SlabSet,
    Spec,
    Store,
    Table,
    __version__,
    devices,
    fixed,
    metrics,
    open,
    restore,
    row,
    scalar,
    var,
    verify,
)

# It has what functions over mappings call; `update` of ids and values is a batch.
MutableMapping.register(Table)

u8, u16, u32, u64 = (scalar(name) for name in ("u8", "u16", "u32", "u64"))
i8, i16, i32, i64 = (scalar(name) for name in ("i8", "i16", "i32", "i64"))
f16, f32, f64 = (scalar(name) for name in ("f16", "f32", "f64"))


class Status(enum.IntEnum):
    """The result of one operation of a batch: what the arrays of statuses hold."""

    PENDING = 0x00
    """No answer yet."""
    OK = 0x10
    """Done, and the key existed."""
    CREATED = 0x11
    """Done, and the key was not there before."""
    NOT_FOUND = 0x20
    """Nothing done: the key does not exist."""
    ALREADY_EXISTS = 0x21
    """Nothing done: the key exists already."""
    VERSION_MISMATCH = 0x22
    """Nothing done: the key has another version."""
    TOO_LARGE = 0x30
    WRONG_TYPE = 0x31
    MALFORMED = 0x32
    TABLE_FULL = 0x40
    OUT_OF_SPACE = 0x41
    OUTPUT_FULL = 0x42
    CORRUPT = 0x50
    INDETERMINATE = 0x51


class SlabOp(enum.IntEnum):
    """What a request of `SlabMap.apply` does."""

    SEARCH = 0
    INSERT = 1
    REPLACE = 2
    DELETE = 3


class SlabStatus(enum.IntEnum):
    """What a request of `SlabMap.apply` came to."""

    INSERTED = 1
    """Stored, and the key was not there."""
    UPDATED = 2
    """Stored in the place of another value, which is the answer's."""
    FOUND = 3
    REMOVED = 4
    PRESENT = 5
    """Not stored: the key is there, with the value of the answer."""
    ABSENT = 6
    FULL = 7
    """Not stored: there is no memory for more slabs."""


def load_parquet(
    files: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    table: Table,
    *,
    key: str = "key",
    value: str = "value",
    durability: Literal["process", "power"] | None = None,
) -> int:
    """Stores the rows of Parquet files (a path, a pattern with * or a list of paths) in a table; how many there were. Needs pyarrow."""
    from . import arrow

    return arrow.load_parquet(files, table, key, value, durability)


def __getattr__(name: str) -> Any:
    # Imported when they are used: they need other packages.
    if name in ("arrow", "dynamicemb", "pyg", "torch"):
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")


__all__ = [
    "BatchError",
    "BusyError",
    "ClosedError",
    "DamagedError",
    "DeviceArray",
    "DeviceError",
    "DurabilityError",
    "Error",
    "ForkError",
    "FullError",
    "Graph",
    "GraphCsr",
    "GraphEdges",
    "GraphSample",
    "HashMap",
    "NoStoreError",
    "NoTableError",
    "OrderedMap",
    "OrderedSnapshot",
    "ReadOnlyError",
    "SlabMap",
    "SlabMultiMap",
    "SlabOp",
    "SlabSet",
    "SlabStatus",
    "Spec",
    "SpecError",
    "Status",
    "StepError",
    "Store",
    "Table",
    "__version__",
    "devices",
    "f16",
    "f32",
    "f64",
    "fixed",
    "i8",
    "i16",
    "i32",
    "i64",
    "load_parquet",
    "metrics",
    "open",
    "restore",
    "row",
    "scalar",
    "u8",
    "u16",
    "u32",
    "u64",
    "var",
    "verify",
]
