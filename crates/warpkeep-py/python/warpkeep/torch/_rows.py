"""Rows of a table as weights with the optimizer's state, and steps that are atomic."""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from torch.autograd.function import once_differentiable

from .. import Status, _native
from .._errors import SpecError, StepError
from . import _init
from ._optimizers import Optimizer

_ATTRIBUTE = "torch.rows"
# The row of this id holds the number of the last step. Like all ids of PyTorch it is signed; as a key it is the largest number.
_MARKER = -1
_NO_ID = "the id -1 holds the number of the step; map it to another id, or use padding_idx"
# Statuses below it are those of rows that were found, those above it of rows that could not be read.
_NOT_FOUND = int(Status.NOT_FOUND)
# Larger than all statuses.
_REFUSED = 0xFF


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


@dataclass
class _Gathered:
    """Rows of ids, each id once, as they were when the table had this count of writes."""

    ids: torch.Tensor
    # One row more than there are ids: a step writes its number there. None once a step has taken the rows, which it changes in place.
    rows: torch.Tensor | None
    writes: int | None

    def current(self, table: _native.Table) -> torch.Tensor | None:
        """The rows, if the table still has these."""
        return self.rows if self.writes is not None and self.writes == table.write_count else None


@dataclass
class _Noted:
    """Gradients of ids for the next step."""

    ids: torch.Tensor
    gradients: torch.Tensor
    # The rows for which the gradients were computed, one for each gradient; None if an id may be there twice.
    gathered: _Gathered | None = None


def _sums(places: torch.Tensor, gradients: torch.Tensor, count: int) -> torch.Tensor:
    """The sums of the gradients of each of `count` places."""
    if gradients.device.type == "cpu":
        # On the CPU it is the faster one by far; on a GPU it sorts the places.
        return torch.ops.aten.embedding_dense_backward(gradients, places, count, -1, False)
    return _sums_by_adding(places, gradients, count)


def _sums_by_adding(places: torch.Tensor, gradients: torch.Tensor, count: int) -> torch.Tensor:
    width = gradients.shape[-1]
    return gradients.new_zeros(count, width).index_add_(0, places.reshape(-1), gradients.reshape(-1, width))


class _Taken(torch.autograd.Function):
    """Weights of gathered rows by their places. The backward pass notes the sum of the gradients of each row for the next step."""

    @staticmethod
    def forward(ctx: Any, anchor: torch.Tensor, places: torch.Tensor, rows: Rows, gathered: _Gathered) -> torch.Tensor:
        ctx.save_for_backward(places)
        ctx.rows, ctx.gathered = rows, gathered
        return torch.nn.functional.embedding(places, rows.weights_of(gathered, places.device))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        (places,) = ctx.saved_tensors
        ctx.rows._note(_Noted(ctx.gathered.ids, _sums(places, gradient, len(ctx.gathered.ids)), ctx.gathered))
        return None, None, None, None


class _Whole(torch.autograd.Function):
    """All weights of gathered rows. The backward pass notes their gradient for the next step."""

    @staticmethod
    def forward(ctx: Any, anchor: torch.Tensor, rows: Rows, gathered: _Gathered, device: torch.device) -> torch.Tensor:
        ctx.rows, ctx.gathered = rows, gathered
        return rows.weights_of(gathered, device).contiguous()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        ctx.rows._note(_Noted(ctx.gathered.ids, gradient, ctx.gathered))
        return None, None, None, None


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
        self._pending: list[_Noted] = []
        # The number of the last step, and the table's count of writes at which it was that.
        self._step: tuple[int, int] | None = None
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
        writes = self.table.write_count
        if self._step is not None and self._step[0] == writes:
            return self._step[1]
        rows, found = self.table.lookup(np.array([_MARKER], np.int64))
        number = int(rows.view(np.int64)[0, 0]) if found[0] else 0
        if writes is not None:
            self._step = (writes, number)
        return number

    def _device(self) -> torch.device:
        """Where the table takes tensors."""
        device = self.table.device
        return torch.device(device if device.startswith("cuda") else "cpu")

    def _gather(self, ids: torch.Tensor) -> _Gathered:
        """The rows of ids; those that no step has touched are initial."""
        ids = ids.detach().to(self._device(), torch.int64).contiguous()
        writes = self.table.write_count
        rows = torch.empty(len(ids) + 1, self._width, device=ids.device)
        if len(ids):
            statuses = self.table._read(ids, rows[:-1])
            # What decides comes to the host in one number: on a GPU each one costs a wait.
            largest = int(statuses.masked_fill_(ids == _MARKER, _REFUSED).max())
            if largest == _REFUSED:
                raise ValueError(_NO_ID)
            if largest >= _NOT_FOUND:
                self._fill(ids, rows, statuses)
        return _Gathered(ids, rows, writes)

    def _fill(self, ids: torch.Tensor, rows: torch.Tensor, statuses: torch.Tensor) -> None:
        """Gives initial weights and no state to those rows that were not found."""
        _native.check_statuses(statuses.cpu().numpy())
        absent = (statuses == _NOT_FOUND).nonzero().flatten()
        fresh = rows.new_zeros(len(absent), self._width)
        fresh[:, : self.dim] = _init.initial_tensor(self.init, ids[absent], self.dim, self.seed)
        rows[absent] = fresh

    def gather(self, ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Weights and state of ids, each once; those that no step has touched are initial."""
        gathered = self._gather(ids)
        assert gathered.rows is not None
        return self._parts(gathered.rows[:-1])

    def _parts(self, rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Weights and state of rows."""
        return rows[:, : self.dim], rows[:, self.dim : self.dim + self.optimizer.state_width(self.dim)]

    def check_type(self, ids: torch.Tensor) -> None:
        """Refuses what are no integers."""
        if ids.dtype not in (torch.int64, torch.int32):
            raise TypeError(f"ids are {ids.dtype}; give int64: ids.long()")

    def check_ids(self, ids: torch.Tensor) -> None:
        """Refuses what is no id, before rows are read, which refuses it as well."""
        self.check_type(ids)
        if ids.numel() and bool((ids == _MARKER).any()):
            raise ValueError(_NO_ID)

    def weights_of(self, gathered: _Gathered, device: torch.device) -> torch.Tensor:
        """The weights of rows that no step has taken, on a device."""
        assert gathered.rows is not None
        return self._parts(gathered.rows[:-1])[0].to(device)

    def taken(self, unique: torch.Tensor, places: torch.Tensor, anchor: torch.Tensor) -> torch.Tensor:
        """The weights of ids, of which each is there once, by places. With an anchor that needs a gradient, the gradients are noted."""
        weights: torch.Tensor = _Taken.apply(anchor, places, self, self._gather(unique))
        return weights

    def whole(self, unique: torch.Tensor, anchor: torch.Tensor) -> torch.Tensor:
        """The weights of ids, each once. With an anchor that needs a gradient, the gradients are noted."""
        weights: torch.Tensor = _Whole.apply(anchor, self, self._gather(unique), unique.device)
        return weights

    def note(self, ids: torch.Tensor, gradients: torch.Tensor) -> None:
        """Notes gradients for the next step. An id may be there several times."""
        self._note(_Noted(ids.detach(), gradients.detach()))

    def _note(self, noted: _Noted) -> None:
        with self._lock:
            if self._pending:
                # A step of several passes reads its rows again, so that theirs need not be kept.
                self._pending[-1].gathered = noted.gathered = None
            self._pending.append(noted)

    def zero_grad(self) -> None:
        """Forgets the gradients that were noted since the last step."""
        with self._lock:
            self._pending.clear()

    def step(self, number: int | None = None, scale: float = 1.0) -> bool:
        """Updates the rows whose gradients were noted, as step `number`, by default the next one. The gradients are divided by `scale`.

        Returns False, and does nothing, if the table holds that step already: a program that begins again after a crash may repeat
        the steps since its own checkpoint. Steps of one table are done one after another, whichever threads and modules they come from.
        """
        if not 0 < scale < float("inf"):
            raise ValueError(f"the scale is {scale}; give what the loss was multiplied by, a number above 0")
        # From the reading of the rows to their put: a step between the two would be lost.
        with self.table._step_lock:
            return self._step_alone(number, scale)

    def _step_alone(self, number: int | None, scale: float) -> bool:
        current = self.step_number
        number = current + 1 if number is None else number
        if number < 1:
            raise StepError(f"the step has number {number}; steps are counted from 1")
        with self._lock:
            pending, self._pending = self._pending, []
        if number <= current:
            return False
        try:
            self._store(pending, number, scale)
        except BaseException:
            # The step can be tried again.
            with self._lock:
                self._pending = pending + self._pending
            raise
        return True

    def _summed(self, pending: list[_Noted]) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """The ids that a step changes, their rows with one more at the end, and the sum of the gradients of each."""
        device = self._device()
        if len(pending) == 1 and (gathered := pending[0].gathered) is not None:
            # Most steps: one forward pass, and no write since. Its rows need not be read again. They are this step's from now on: if it
            # fails, it reads them again when it is tried again.
            rows, gathered.rows = gathered.current(self.table), None
            if rows is not None:
                return gathered.ids, rows, pending[0].gradients.to(device, torch.float32)
        ids = torch.cat([noted.ids.to(device, torch.int64) for noted in pending])
        gradients = torch.cat([noted.gradients.to(device, torch.float32) for noted in pending])
        unique, places = torch.unique(ids, return_inverse=True)
        again = self._gather(unique)
        assert again.rows is not None
        return unique, again.rows, _sums(places, gradients, len(unique))

    def _store(self, pending: list[_Noted], number: int, scale: float) -> None:
        """Updates the rows of these gradients, and stores them with the number of the step."""
        device = self._device()
        with torch.no_grad():
            ids, rows, gradients = torch.empty(0, dtype=torch.int64, device=device), torch.empty(1, self._width, device=device), None
            if pending:
                ids, rows, gradients = self._summed(pending)
                if scale != 1:
                    # Not in place: a step that fails is tried again with the gradients that were noted.
                    gradients = gradients / scale
                weights, state = self._parts(rows[:-1])
                self.optimizer.update(weights, state, gradients, number)
            keys = ids.new_full((len(rows),), _MARKER)
            keys[:-1] = ids
            # As bits, since a float counts no further than 2**24. Filled on the device: a copy from the host would be waited for.
            marker = rows[-1].view(torch.int64)
            marker.zero_()
            marker[:1].fill_(number)
            before = self.table.write_count
            # Arrays in device memory have no atomic batches: there a step that finds no space may be done in part.
            self.table.put(keys, rows, durability=self.durability, atomic=device.type == "cpu")
            # If others wrote meanwhile, the count is another one, and the number is looked up.
            self._step = None if before is None else (before + 1, number)
