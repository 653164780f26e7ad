"""Rows over the processes of a group, each of which has a store with those that belong to it."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch.autograd.function import once_differentiable

from .. import _native
from .._errors import SpecError, StepError
from ._compiled import exchanged
from ._init import _mixed_tensor
from ._modules import _Module
from ._rows import _ATTRIBUTE, _MARKER, Rows


# In the place of a count of ids: the process has refused its ids.
_REFUSED = -1


def owner_of(ids: torch.Tensor, ranks: int) -> torch.Tensor:
    """The process of `ranks` that has the row of each id. Consecutive ids are spread."""
    return (_mixed_tensor(ids.to(torch.int64)) >> 33 & 0x3FFFFFFF) % ranks


@dataclass
class _Asked:
    """Ids that processes have asked this one for, and how they were sent."""

    ids: torch.Tensor
    # Of this process's own ids, by the process that has them.
    order: torch.Tensor
    # How many ids it has sent to each process, and received from it.
    sent: list[int]
    received: list[int]


class ShardedEmbedding(_Module):
    """Rows by id, of all processes of a group. Each process gives its own table, and any ids.

    `forward`, the backward pass and `step` talk to all processes: each of them calls them equally often, with no ids if it has none.
    Arguments are those of `Embedding`; `group` is a process group, by default that of the program.
    """

    def __init__(self, *args: Any, group: Any = None, **options: Any) -> None:
        super().__init__(*args, **options)
        if self.padding_idx is not None:
            raise ValueError("rows over several processes have no padding_idx; leave padding out of the ids")
        self.group = group
        self.ranks, self.rank = dist.get_world_size(group), dist.get_rank(group)
        # Gloo takes tensors of the host alone.
        self._on_host = dist.get_backend(group) == "gloo"

    def step_number(self) -> int:
        """The last step that all processes have. After a crash some may have the next one already; repeating it brings the others up."""
        place = self.rows._device()
        if not self._on_host and place.type != "cuda":
            # The rows are on the host, and the group talks between GPUs.
            place = torch.device("cuda")
        number = torch.tensor([self.rows.step_number], device="cpu" if self._on_host else place)
        dist.all_reduce(number, dist.ReduceOp.MIN, group=self.group)
        return int(number)

    def _exchange(self, tensor: torch.Tensor, sent: list[int], received: list[int]) -> torch.Tensor:
        """Sends parts of a tensor, the given number of elements to each process, and returns the received parts."""
        device = tensor.device
        tensor = (tensor.cpu() if self._on_host else tensor).contiguous()
        found = tensor.new_empty(sum(received), *tensor.shape[1:])
        dist.all_to_all_single(found, tensor, received, sent, group=self.group)
        return found.to(device)

    def ask(self, ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, _Asked]:
        """Sends the ids that occur to the processes that have their rows: those ids, for each id which of them it is, and what was asked."""
        refused = None
        try:
            self.rows.check_ids(ids)
        except (TypeError, ValueError) as error:
            # The other processes wait for this one. Its counts make them refuse the call, too.
            refused, ids = error, ids.new_zeros(0, dtype=torch.int64)
        unique, places = torch.unique(ids.to(torch.int64), return_inverse=True)
        owners = owner_of(unique, self.ranks)
        order = torch.argsort(owners)
        sent = torch.bincount(owners, minlength=self.ranks).tolist()
        counts = torch.tensor(sent if refused is None else [_REFUSED] * self.ranks, device=ids.device)
        received = self._exchange(counts, [1] * self.ranks, [1] * self.ranks).tolist()
        if refused is not None:
            raise refused
        if _REFUSED in received:
            raise ValueError(f"process {received.index(_REFUSED)} of the group was given ids that are none, and refused them; this process did nothing")
        return unique, places, _Asked(self._exchange(unique[order], sent, received), order, sent, received)

    def weights_of(self, asked: _Asked) -> torch.Tensor:
        """The weights of the ids that this process has asked for."""
        # Several processes may have asked for one row.
        own, place = torch.unique(asked.ids, return_inverse=True)
        weights = self.rows.gather(own)[0][place].to(asked.ids.device)
        return self._exchange(weights, asked.received, asked.sent)[torch.argsort(asked.order)]

    def send(self, asked: _Asked, gradients: torch.Tensor) -> None:
        """Sends the gradients of the ids that this process has asked for, and notes those of its own rows."""
        self.rows.note(asked.ids, self._exchange(gradients[asked.order], asked.sent, asked.received))

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        if exchanged is not None and torch.compiler.is_compiling():
            return exchanged(self, ids)
        _, places, asked = self.ask(ids)
        weights: torch.Tensor = _Exchanged.apply(self.anchor if self.training else self.anchor.detach(), self, asked)
        return torch.nn.functional.embedding(places, weights)


class _Exchanged(torch.autograd.Function):
    """The weights that processes have sent. The backward pass sends their gradients."""

    @staticmethod
    def forward(ctx: Any, anchor: torch.Tensor, module: ShardedEmbedding, asked: _Asked) -> torch.Tensor:
        ctx.module, ctx.asked = module, asked
        return module.weights_of(asked)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        ctx.module.send(ctx.asked, gradient)
        return None, None, None


def load_shards(rows: Rows, stores: Sequence[str | os.PathLike[str]], rank: int, ranks: int, images: Sequence[Any] | None = None) -> int:
    """Fills an empty table with the rows that process `rank` of `ranks` has, from the stores of any number of processes.

    Each process of the new number calls it with all stores of the old ones, in the order of their ranks, of which none is open for writing;
    its own store is a new one. If it is interrupted, call it again: what it finds in the table is removed first. Returns how many rows there
    were. `images` are the images of the stores, if they do not lie in them.
    """
    if not 0 <= rank < ranks:
        raise ValueError(f"rank {rank} of {ranks}; ranks count from 0")
    if images is not None and len(images) != len(stores):
        raise ValueError(f"{len(images)} images for {len(stores)} stores; give one for each")
    if rows.step_number:
        raise StepError(f"the table '{rows.table.name}' holds step {rows.step_number} already; give an empty one")
    own = os.path.realpath(rows.table.store_path)
    if any(os.path.realpath(path) == own for path in stores):
        raise ValueError(f"the table lies in {own}, which is one of the stores to load from; open a new directory for it")
    with contextlib.ExitStack() as stack:
        tables = []
        for path, image in zip(stores, images or [None] * len(stores)):
            store = stack.enter_context(_native.open(path, image=image, read_only=True))
            tables.append(store[rows.table.name])
        # Before anything is stored, so that a call that is refused leaves the table empty.
        step = _common_step(rows, tables, stores)
        rows.table.clear()
        count = 0
        for position in range(len(tables)):
            count += _load_shard(rows, tables, position, rank, ranks, stores)
    # Last, so that a table with a step is whole: the log keeps the order.
    marker = np.zeros((1, rows.table.value.nbytes // 4), np.float32)
    marker[0, :2] = np.array([step], np.int64).view(np.float32)
    rows.table.put(np.array([_MARKER], np.int64), marker, durability=rows.durability)
    return count


def _common_step(rows: Rows, tables: Sequence[_native.Table], stores: Sequence[Any]) -> int:
    """The step that all of these tables hold. Refuses tables of other settings."""
    steps, wanted = [], rows.table.attributes.get(_ATTRIBUTE)
    for table, path in zip(tables, stores):
        kept = table.attributes.get(_ATTRIBUTE)
        if table.value != rows.table.value or kept != wanted:
            raise SpecError(f"the table of {path} was trained with {kept}, this one is for {wanted}; open it with the settings of the old one")
        marker, found = table.lookup(np.array([_MARKER], np.int64))
        steps.append(int(marker.view(np.int64)[0, 0]) if found[0] else 0)
    if len(set(steps)) != 1:
        raise StepError(f"the stores hold the steps {steps}; let the old processes repeat the step that some of them lack, then load")
    return steps[0]


def _load_shard(rows: Rows, tables: Sequence[_native.Table], position: int, rank: int, ranks: int, stores: Sequence[Any]) -> int:
    """Stores the rows of `rank` that the process `position` of the old ones had. Returns how many there were."""
    count = 0
    for keys, values in tables[position].scan():
        ids = torch.from_numpy(keys.view(np.int64))
        owners = owner_of(ids, len(tables))
        there = ids != _MARKER
        # Rows of another process are older than those that it has itself: an interrupted load may have left them.
        for other in owners[there & (owners != position)].unique().tolist():
            left = ids[there & (owners == other)].numpy()
            if not tables[other].lookup(left)[1].all():
                rows.table.clear()
                raise ValueError(f"{stores[position]} has rows of process {other} of {len(tables)}; give all stores, in the order of their ranks")
        own = (there & (owners == position) & (owner_of(ids, ranks) == rank)).numpy()
        if own.any():
            rows.table.put(np.ascontiguousarray(keys[own]), np.ascontiguousarray(values[own]), durability="process")
            count += int(own.sum())
    return count
