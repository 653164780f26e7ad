"""Tables of a store as the external storage of dynamicemb (NVIDIA recsys-examples).

    import warpkeep as wk
    import warpkeep.dynamicemb

    store = wk.open("./store", device="cuda:0", image="/dev/shm/items")
    options = DynamicEmbTableOptions(..., caching=True, external_storage=wk.dynamicemb.storage(store))

A row holds the embedding, the state of the optimizer, and the score of its key. The rows that the cache evicts, or flushes, survive the
process, or with durability="power" the machine; the next run finds them.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Sequence
from typing import Any, Literal

import numpy as np
import torch

from ._native import Store, Table, row, scalar

try:
    from dynamicemb.types import Storage as _Storage
except (ImportError, OSError):
    # The class has what the interface asks for; a program without dynamicemb can use it, too.
    _Storage = object

_ATTRIBUTE = "dynamicemb"


def storage(
    store: Store, *, prefix: str = "dynamicemb", names: Sequence[str] | None = None, durability: Literal["process", "power"] = "process"
) -> type[WarpkeepStorage]:
    """A class for `DynamicEmbTableOptions.external_storage`, whose tables lie in this store.

    The table with the number `i` has the name `names[i]`, or by default the prefix, a dot and `i`. Modules that train at the same time need
    prefixes or names of their own.
    """
    given, first, level = store, prefix, durability
    all_names = None if names is None else list(names)

    class Bound(WarpkeepStorage):
        store = given
        prefix = first
        names = all_names
        durability = level

    Bound.__name__ = Bound.__qualname__ = "WarpkeepStorage"
    return Bound


class WarpkeepStorage(_Storage):
    """The storage of dynamicemb over tables of a store. `storage` makes the class for one."""

    store: Store | None = None
    prefix = "dynamicemb"
    names: list[str] | None = None
    durability: Literal["process", "power"] = "process"

    def __init__(self, options: Sequence[Any], optimizer: Any) -> None:
        if self.store is None:
            raise TypeError("this class has no store; make one that has: external_storage=warpkeep.dynamicemb.storage(store)")
        if any(option.embedding_dtype != torch.float32 for option in options):
            found = sorted({str(option.embedding_dtype) for option in options})
            raise ValueError(f"the embeddings are {', '.join(found)}; Warpkeep stores float32: set embedding_dtype=torch.float32")
        if self.names is not None and len(self.names) != len(options):
            raise ValueError(f"{len(self.names)} names for {len(options)} tables; give a name for each")
        self.optimizer = optimizer
        self.training = True
        self._dims = [int(option.dim) for option in options]
        self._states = [int(optimizer.get_state_dim(dim)) for dim in self._dims]
        if max(self._dims) + max(self._states) != self.max_value_dim():
            raise ValueError("the widest embedding has not the widest state; give these tables to modules of their own")
        self._initial_state = float(optimizer.get_initial_optim_states())
        self._score: int | None = None
        self._tables = [self._open(number, option) for number, option in enumerate(options)]

    def _open(self, number: int, option: Any) -> Table:
        assert self.store is not None
        name = f"{self.prefix}.{number}" if self.names is None else self.names[number]
        width = self._dims[number] + self._states[number] + 2
        capacity = int(getattr(option, "init_capacity", None) or 1024)
        # An even number of floats, so that rows are whole words.
        table = self.store.table(name, key=scalar("u64"), value=row("f32", width + width % 2), capacity=capacity)
        wanted = json.dumps({"dim": self._dims[number], "state": self._states[number]}, sort_keys=True)
        kept = table.attributes.get(_ATTRIBUTE)
        if kept is None and not table.read_only:
            table.set_attribute(_ATTRIBUTE, wanted)
        elif kept is not None and kept != wanted:
            raise ValueError(f"the table '{name}' holds rows of {kept}, the options ask for {wanted}; use other names, or the options of the table")
        return table

    # Rows are embedding, state, possibly one float of padding, and the score as the bits of two floats.

    def _place(self, table: Table) -> torch.device:
        device = table.device
        return torch.device(device if device.startswith("cuda") else "cpu")

    def _parts(self, table_ids: torch.Tensor) -> Iterator[tuple[int, Any]]:
        """The tables that occur, and which positions are theirs."""
        if len(self._tables) == 1:
            yield 0, slice(None)
            return
        for number in range(len(self._tables)):
            index = (table_ids == number).nonzero().flatten()
            if index.numel():
                yield number, index

    def find(
        self, unique_keys: torch.Tensor, table_ids: torch.Tensor, copy_mode: Any, lfu_accumulated_frequency: torch.Tensor | None = None
    ) -> tuple[int, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor | None, torch.Tensor, torch.Tensor, torch.Tensor]:
        """How many keys are missing; their keys, positions, tables and scores; which were found, with scores, and the values of all keys.

        Values are embeddings, or with the mode VALUE embeddings and states, each padded to the widest of the tables. Those of missing keys are 0.
        """
        with_state = str(getattr(copy_mode, "value", copy_mode)) == "value"
        device, count = unique_keys.device, unique_keys.numel()
        widest = self.max_embedding_dim()
        values = torch.zeros(count, self.max_value_dim() if with_state else widest, device=device)
        founds = torch.zeros(count, dtype=torch.bool, device=device)
        scores = torch.zeros(count, dtype=torch.int64, device=device)
        for number, index in self._parts(table_ids):
            table, dim, state = self._tables[number], self._dims[number], self._states[number]
            rows, found = table.lookup(unique_keys[index].to(self._place(table), torch.int64).contiguous())
            rows, found = rows.to(device), found.to(device)
            values[index, :dim] = rows[:, :dim]
            if with_state:
                values[index, widest : widest + state] = rows[:, dim : dim + state]
            founds[index] = found
            scores[index] = rows[:, -2:].contiguous().view(torch.int64).flatten()
        if lfu_accumulated_frequency is not None:
            scores += torch.where(founds, lfu_accumulated_frequency.to(device, torch.int64), torch.zeros_like(scores))
        missing = (~founds).nonzero().flatten()
        missing_scores = None if lfu_accumulated_frequency is None else lfu_accumulated_frequency[missing]
        return missing.numel(), unique_keys[missing], missing, table_ids[missing], missing_scores, founds, scores, values

    def insert(
        self,
        keys: torch.Tensor,
        table_ids: torch.Tensor,
        values: torch.Tensor,
        scores: torch.Tensor | None = None,
        preserve_existing: bool = False,
    ) -> None:
        """Stores values. With `preserve_existing`, keys that are there keep their scores.

        Keys without a score have that of `set_score`, or else the time in nanoseconds.
        """
        if values.dim() != 2 or values.shape[1] < self.max_value_dim():
            raise ValueError(f"values of shape {tuple(values.shape)}; ({keys.numel()}, {self.max_value_dim()}) is needed: embeddings and states")
        widest = self.max_embedding_dim()
        for number, index in self._parts(table_ids):
            table, dim, state = self._tables[number], self._dims[number], self._states[number]
            place = self._place(table)
            own = keys[index].to(place, torch.int64).contiguous()
            rows = torch.zeros(own.numel(), table.value.nbytes // 4, device=place)
            part = values[index]
            rows[:, :dim] = part[:, :dim].to(place)
            rows[:, dim : dim + state] = part[:, widest : widest + state].to(place)
            if scores is not None and scores.numel():
                bits = scores[index].to(place, torch.int64).clone()
            else:
                bits = torch.full((own.numel(),), time.time_ns() if self._score is None else self._score, dtype=torch.int64, device=place)
            if preserve_existing:
                old, found = table.lookup(own)
                bits = torch.where(found, old[:, -2:].contiguous().view(torch.int64).flatten(), bits)
            rows[:, -2:] = bits[:, None].view(torch.float32)
            table.put(own, rows, durability=self.durability)

    def set_score(self, score: int) -> None:
        """The score of keys that are inserted without one."""
        self._score = int(score)

    def export_keys_values(
        self, device: torch.device, batch_size: int = 65536, table_id: int = 0
    ) -> Iterator[tuple[torch.Tensor, torch.Tensor, torch.Tensor | None, torch.Tensor]]:
        """Keys, embeddings, states and scores of a table, in batches. A key may come twice if others are added meanwhile."""
        dim, state = self._dims[table_id], self._states[table_id]
        for keys, rows in self._tables[table_id].scan(batch_size):
            all_rows = torch.from_numpy(rows)
            yield (
                torch.from_numpy(keys.view(np.int64)).to(device),
                all_rows[:, :dim].contiguous().to(device),
                all_rows[:, dim : dim + state].contiguous().to(device) if state else None,
                all_rows[:, -2:].contiguous().view(torch.int64).flatten().to(device),
            )

    def dump(
        self,
        table_id: int,
        meta_file_path: str,
        emb_key_path: str,
        embedding_file_path: str,
        score_file_path: str | None,
        opt_file_path: str | None,
        include_optim: bool = True,
        include_meta: bool = True,
        timestamp: int = 0,
        current_score: int | None = None,
    ) -> None:
        """Writes a table to files of dynamicemb: raw columns of int64 keys, float32 embeddings and states, and int64 scores.

        The store needs none of them: `Store.checkpoint` and `Store.backup` are its own way. With a timestamp, the files hold ages, not scores.
        """
        if include_meta:
            meta = {**self.optimizer.get_opt_args(), **({} if current_score is None else {"step_score": current_score})}
            with open(meta_file_path, "w") as file:
                json.dump(meta, file)
        paths = [emb_key_path, embedding_file_path, opt_file_path if include_optim else None, score_file_path]
        files = [None if path is None else open(path, "wb") for path in paths]
        try:
            for batch in self.export_keys_values(torch.device("cpu"), table_id=table_id):
                columns = [*batch[:3], timestamp - batch[3] if timestamp else batch[3]]
                for column_file, column in zip(files, columns, strict=True):
                    if column_file is not None and column is not None:
                        column_file.write(column.numpy().tobytes())
        finally:
            for each in files:
                if each is not None:
                    each.close()

    def load(
        self,
        table_id: int,
        meta_file_path: str,
        emb_file_path: str,
        embedding_file_path: str,
        score_file_path: str | None,
        opt_file_path: str | None,
        include_optim: bool = True,
        timestamp: int = 0,
    ) -> int | None:
        """Stores the rows of files of dynamicemb: of several ranks, those whose keys are this rank's. Returns the score of the step that the files name."""
        meta: dict[str, Any] = {}
        if meta_file_path and os.path.exists(meta_file_path):
            with open(meta_file_path) as file:
                meta = json.load(file)
        dim, state = self._dims[table_id], self._states[table_id]
        same = meta.get("opt_type") in (None, self.optimizer.get_opt_args().get("opt_type"))
        with_state = bool(include_optim and same and state and opt_file_path and os.path.exists(opt_file_path))
        if with_state and meta:
            self.optimizer.set_opt_args(meta)
        keys = _column(emb_file_path, np.int64, os.path.getsize(emb_file_path) // 8, 1).reshape(-1)
        embeddings = _column(embedding_file_path, np.float32, len(keys), dim)
        states = _column(opt_file_path, np.float32, len(keys), state) if with_state and opt_file_path else None
        scores = None
        if score_file_path and os.path.exists(score_file_path):
            scores = _column(score_file_path, np.int64, len(keys), 1)
        ranks, rank = _ranks()
        widest = self.max_embedding_dim()
        for start in range(0, len(keys), 65536):
            part = slice(start, start + 65536)
            own = keys[part] % ranks == rank
            values = torch.zeros(int(own.sum()), self.max_value_dim())
            values[:, :dim] = torch.from_numpy(embeddings[part][own])
            values[:, widest : widest + state] = self._initial_state if states is None else torch.from_numpy(states[part][own])
            ids = torch.from_numpy(keys[part][own])
            kept = None
            if scores is not None:
                kept = torch.from_numpy(scores[part][own]).flatten()
                kept = (timestamp - kept).clamp(min=0) if timestamp else kept
            self.insert(ids, torch.full_like(ids, table_id), values, kept)
        found: int | None = meta.get("step_score")
        return found

    def embedding_dtype(self) -> torch.dtype:
        """The type of embeddings and states."""
        return torch.float32

    def embedding_dim(self, table_id: int) -> int:
        """Floats of an embedding of a table."""
        return self._dims[table_id]

    def value_dim(self, table_id: int) -> int:
        """Floats of an embedding and its state."""
        return self._dims[table_id] + self._states[table_id]

    def max_embedding_dim(self) -> int:
        """Floats of the widest embedding."""
        return max(self._dims)

    def max_value_dim(self) -> int:
        """Floats of the widest embedding with its state."""
        return max(dim + state for dim, state in zip(self._dims, self._states, strict=True))

    def init_optimizer_state(self) -> float:
        """The state of new rows."""
        return self._initial_state

    @property
    def num_tables(self) -> int:
        """How many tables there are."""
        return len(self._tables)

    def size(self) -> int:
        """How many keys all tables have."""
        return sum(len(table) for table in self._tables)


def _column(path: str, dtype: Any, count: int, width: int) -> Any:
    """A file as rows; refused if it has another number of them than there are keys."""
    found, wanted = os.path.getsize(path), count * width * np.dtype(dtype).itemsize
    if found != wanted:
        raise ValueError(f"{path} has {found} bytes, {count} keys with {width} numbers each need {wanted}; give the files of one dump")
    return np.memmap(path, dtype, "c", shape=(count, width)) if found else np.zeros((count, width), dtype)


def _ranks() -> tuple[int, int]:
    """How many processes train together, and which of them this is."""
    distributed = torch.distributed
    if distributed.is_available() and distributed.is_initialized():
        return distributed.get_world_size(), distributed.get_rank()
    return 1, 0
