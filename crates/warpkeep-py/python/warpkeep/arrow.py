"""Tables from and to Arrow and Parquet, by pyarrow."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable, Iterator
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.parquet

from . import _native
from ._errors import SpecError

_Durability = Literal["process", "power"] | None


def _type_of(spec: _native.Spec) -> Any:
    """The Arrow type of keys or values."""
    if spec.dtype is not None:
        element = pa.from_numpy_dtype(spec.dtype)
        return element if spec.width is None else pa.list_(element, spec.width)
    return pa.binary(spec.nbytes) if repr(spec).startswith("fixed") else pa.binary()


def _to_arrow(column: Any, spec: _native.Spec) -> Any:
    """Cells of a scan as an Arrow array."""
    if isinstance(column, list):
        return pa.array(column, pa.binary())
    if spec.width is not None:
        return pa.FixedSizeListArray.from_arrays(pa.array(column.reshape(-1)), spec.width)
    if spec.dtype is None:
        # Bytes of one length, one behind the other.
        return pa.FixedSizeBinaryArray.from_buffers(pa.binary(spec.nbytes), len(column), [None, pa.py_buffer(column)])
    return pa.array(column)


def to_arrow(table: _native.Table, batch: int = 65_536) -> Any:
    """All items as a `pyarrow.RecordBatchReader` with the columns key and value."""
    schema = pa.schema([("key", _type_of(table.key)), ("value", _type_of(table.value))])

    def batches() -> Iterator[Any]:
        for keys, values in table.scan(batch):
            yield pa.record_batch([_to_arrow(keys, table.key), _to_arrow(values, table.value)], schema=schema)

    return pa.RecordBatchReader.from_batches(schema, batches())


def _from_arrow(array: Any, spec: _native.Spec, name: str) -> Any:
    """An Arrow array as the table takes it: in place, where its memory allows."""
    if array.null_count:
        raise SpecError(f"the column '{name}' has {array.null_count} nulls; drop or fill those rows first")
    if spec.dtype is None:
        if not (pa.types.is_binary(array.type) or pa.types.is_large_binary(array.type) or pa.types.is_fixed_size_binary(array.type)):
            raise SpecError(f"the column '{name}' is {array.type}; the table takes bytes: cast it to binary")
        return array.to_pylist()
    if spec.width is not None:
        kind = array.type
        if pa.types.is_fixed_size_list(kind):
            fits = kind.list_size == spec.width
        elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
            fits = bool((np.diff(array.offsets.to_numpy()) == spec.width).all())
        else:
            fits = False
        if not fits:
            raise SpecError(f"the column '{name}' is {kind}; the table takes lists of {spec.width} {spec.dtype} each")
        array = array.flatten()
        if array.null_count:
            raise SpecError(f"the lists of the column '{name}' have {array.null_count} nulls; fill them first")
    elif spec.dtype.kind in "ui" and pa.types.is_integer(array.type):
        # Keys and numbers that fit; one that does not is an error of the cast.
        array = array.cast(pa.from_numpy_dtype(spec.dtype))
    if array.type != pa.from_numpy_dtype(spec.dtype):
        raise SpecError(f"the column '{name}' has elements of {array.type}, the table of {spec.dtype}; cast the column first")
    numbers = array.to_numpy(zero_copy_only=True)
    return numbers if spec.width is None else numbers.reshape(-1, spec.width)


def _batches(source: Any) -> Iterator[Any]:
    """The record batches of a table, a batch, a reader, or what has Arrow's stream or array interface."""
    if isinstance(source, pa.RecordBatch):
        yield source
        return
    if isinstance(source, pa.Table):
        source = source.to_reader()
    elif not isinstance(source, pa.RecordBatchReader):
        if hasattr(source, "__arrow_c_stream__"):
            source = pa.RecordBatchReader.from_stream(source)
        elif hasattr(source, "__arrow_c_array__"):
            yield pa.record_batch(source)
            return
        else:
            raise TypeError(f"{type(source).__name__} is nothing of Arrow; give a pyarrow table, reader or batch")
    yield from source


def _store(table: _native.Table, batches: Iterable[Any], key: str, value: str, durability: _Durability) -> int:
    stored = 0
    for batch in batches:
        for name in (key, value):
            if name not in batch.schema.names:
                raise SpecError(f"there is no column '{name}'; name one of {batch.schema.names}: key=..., value=...")
        keys, values = _from_arrow(batch[key], table.key, key), _from_arrow(batch[value], table.value, value)
        table.put(keys, values, durability=durability)
        stored += batch.num_rows
    return stored


def read_arrow(table: _native.Table, source: Any, key: str = "key", value: str = "value", durability: _Durability = None) -> int:
    """Stores the items of an Arrow table, reader, batch or stream; how many there were."""
    return _store(table, _batches(source), key, value, durability)


def load_parquet(
    files: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    table: _native.Table,
    key: str = "key",
    value: str = "value",
    durability: _Durability = None,
) -> int:
    """Stores the rows of Parquet files; how many there were."""
    if isinstance(files, (str, os.PathLike)):
        pattern = os.fspath(files)
        paths = sorted(glob.glob(pattern)) if glob.has_magic(pattern) else [pattern]
        if not paths:
            raise FileNotFoundError(f"no file is called {pattern}; check the path")
    else:
        paths = [os.fspath(path) for path in files]
    stored = 0
    for path in paths:
        with pyarrow.parquet.ParquetFile(path) as file:
            names = file.schema_arrow.names
            batches = file.iter_batches(columns=[name for name in (key, value) if name in names])
            stored += _store(table, batches, key, value, durability)
    return stored
