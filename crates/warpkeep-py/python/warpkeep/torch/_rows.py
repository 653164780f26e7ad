"""Rows of a table as weights with the optimizer's state, and steps that are atomic."""

from __future__ import annotations

import json
import threading
from typing import Any, Literal

import numpy as np
import torch

from .. import _native
from .._errors import SpecError, StepError
from . import _init
from ._optimizers import Optimizer

_ATTRIBUTE = "torch.rows"
# The row of this id holds the number of the last step. Like all ids of PyTorch it is signed; as a key it is the largest number.
_MARKER = -1


def row_width(dim: int, optimizer: Optimizer) -> int:
    """Floats in a row: weights and state, in whole words of 8 bytes, so that a row has room for the number of a step."""
    width = dim + optimizer.state_width(dim)
    return width + width % 2


def create_table(
    store: _native.Store, name: str, *, dim: int, optimizer: Optimizer, capacity: int = 1024
) -> _native.Table:
    """The table of this name with rows for such weights and state: opened, or created."""
    if dim < 1:
        raise ValueError(f"dim is {dim}; give how many weights a row has")
    return store.table(name, key=_native.scalar("u64"), value=_native.row("f32", row_width(dim, optimizer)), capacity=capacity)


class Rows:
    """The rows of a table, for one or several modules.

    Gradients are noted by id in the backward pass. `step` adds up those of one id, updates the rows that were touched, and stores
    them with the number of the step in one batch. With durability "power", which is the default, the batch is whole or absent
    after any crash.
    """

    def __init__(
        self,
        table: _native.Table,
        dim: int,
        optimizer: Optimizer,
        init: _init.Init = "zeros",
        seed: int = 0,
        durability: Literal["process", "power"] = "power",
    ) -> None:
        _init.check(init)
        width = row_width(dim, optimizer)
        if table.value != _native.row("f32", width) or table.key.nbytes != 8:
            raise SpecError(
                f"the table '{table.name}' has values of {table.value}; rows of {dim} weights with {optimizer} are f32x{width} under "
                f"u64: make it with warpkeep.torch.create_table"
            )
        if durability not in ("process", "power"):
            raise ValueError(f"'{durability}' is no durability; write 'process' or 'power'")
        self.table, self.dim, self.optimizer, self.init, self.seed = table, dim, optimizer, init, seed
        self.durability: Literal["process", "power"] = durability
        self._width = width
        self._pending: list[tuple[torch.Tensor, torch.Tensor]] = []
        self._lock = threading.Lock()
        self._check_attribute()

    def settings(self) -> dict[str, Any]:
        """What the stored rows mean."""
        init = self.init if isinstance(self.init, str) else "function"
        return {"dim": self.dim, "optimizer": self.optimizer.settings(), "init": init, "seed": self.seed}

    def _check_attribute(self) -> None:
        wanted = self.settings()
        kept = self.table.attributes.get(_ATTRIBUTE)
        if kept is None:
            if not self._is_read_only():
                self.table.set_attribute(_ATTRIBUTE, json.dumps(wanted, sort_keys=True))
        elif json.loads(kept) != wanted:
            raise SpecError(
                f"the table '{self.table.name}' was trained with {kept}, the program asks for {json.dumps(wanted, sort_keys=True)}; use "
                f"the settings of the table, or choose another one"
            )

    def _is_read_only(self) -> bool:
        return self.table.read_only

    @property
    def step_number(self) -> int:
        """The number of the last step that the table holds; 0 if there was none."""
        rows, found = self.table.lookup(np.array([_MARKER], np.int64))
        return int(rows.view(np.int64)[0, 0]) if found[0] else 0

    def _device(self) -> torch.device:
        """Where the table takes tensors."""
        device = self.table.device
        return torch.device(device if device.startswith("cuda") else "cpu")

    def gather(self, ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Weights and state of ids, each once; those that no step has touched are initial."""
        ids = ids.detach().to(self._device(), torch.int64).contiguous()
        rows, found = self.table.lookup(ids)
        if not bool(found.all()):
            absent = (~found).nonzero().flatten()
            missing = ids[absent].cpu().numpy().view(np.uint64)
            initial = _init.initial_rows(self.init, missing, self.dim, self.seed)
            rows[absent, : self.dim] = torch.from_numpy(initial).to(rows.device)
        return rows[:, : self.dim], rows[:, self.dim : self.dim + self.optimizer.state_width(self.dim)]

    def check_ids(self, ids: torch.Tensor) -> None:
        """Refuses what is no id."""
        if ids.dtype not in (torch.int64, torch.int32):
            raise TypeError(f"ids are {ids.dtype}; give int64: ids.long()")
        if ids.numel() and bool((ids == _MARKER).any()):
            raise ValueError("the id -1 holds the number of the step; map it to another id, or use padding_idx")

    def weights(self, unique: torch.Tensor, record: bool) -> torch.Tensor:
        """The weights of ids, each once. If `record`, their gradient is noted for the next step when it is computed."""
        gathered, _ = self.gather(unique)
        weights = gathered.to(unique.device).contiguous()
        if record:
            weights.requires_grad_()
            weights.register_hook(lambda gradient: self.note(unique, gradient))
        return weights

    def note(self, ids: torch.Tensor, gradients: torch.Tensor) -> None:
        """Notes gradients for the next step."""
        with self._lock:
            self._pending.append((ids.detach(), gradients.detach()))

    def zero_grad(self) -> None:
        """Forgets the gradients that were noted since the last step."""
        with self._lock:
            self._pending.clear()

    def step(self, number: int | None = None) -> bool:
        """Updates the rows whose gradients were noted, as step `number`, by default the next one.

        Returns False, and does nothing, if the table holds that step already: a program that begins again after a crash may repeat
        the steps since its own checkpoint.
        """
        current = self.step_number
        number = current + 1 if number is None else number
        if number < 1:
            raise StepError(f"the step has number {number}; steps are counted from 1")
        with self._lock:
            pending, self._pending = self._pending, []
        if number <= current:
            return False
        try:
            self._store(pending, number)
        except BaseException:
            # The step can be tried again.
            with self._lock:
                self._pending = pending + self._pending
            raise
        return True

    def _store(self, pending: list[tuple[torch.Tensor, torch.Tensor]], number: int) -> None:
        """Updates the rows of these gradients, and stores them with the number of the step."""
        device = self._device()
        with torch.no_grad():
            ids = torch.cat([ids.to(device, torch.int64) for ids, _ in pending]) if pending else torch.zeros(0, dtype=torch.int64, device=device)
            unique, inverse = torch.unique(ids, return_inverse=True)
            rows = torch.zeros(len(unique) + 1, self._width, device=device)
            if pending:
                noted = torch.cat([gradient.to(device, torch.float32) for _, gradient in pending])
                gradients = torch.zeros(len(unique), self.dim, device=device).index_add_(0, inverse, noted)
                weights, state = self.gather(unique)
                weights, state = weights.clone(), state.clone()
                self.optimizer.update(weights, state, gradients, number)
                rows[:-1, : self.dim] = weights
                rows[:-1, self.dim : self.dim + state.shape[1]] = state
            # As bits, since a float counts no further than 2**24.
            marker = torch.from_numpy(np.array([number], np.int64).view(np.float32))
            rows[-1, :2] = marker.to(device)
            keys = torch.cat([unique, torch.full((1,), _MARKER, dtype=torch.int64, device=device)])
            # Arrays in device memory have no atomic batches: there a step that finds no space may be done in part.
            self.table.put(keys, rows, durability=self.durability, atomic=device.type == "cpu")
