"""Modules over rows of a table."""

from __future__ import annotations

from typing import Any, Literal

import torch

from .. import _native
from .._errors import StepError
from . import _init
from ._compiled import gathered, register
from ._optimizers import Optimizer
from ._rows import Rows


class _Module(torch.nn.Module):
    """What both modules share: rows, and a state that names them."""

    def __init__(
        self,
        table: _native.Table | Rows,
        dim: int | None = None,
        optimizer: Optimizer | None = None,
        init: _init.Init | None = None,
        seed: int | None = None,
        durability: Literal["process", "power"] | None = None,
        padding_idx: int | None = None,
    ) -> None:
        super().__init__()
        if isinstance(table, Rows):
            given = {"dim": dim, "optimizer": optimizer, "init": init, "seed": seed, "durability": durability}
            others = [name for name, value in given.items() if value is not None and value != getattr(table, name)]
            if others:
                raise ValueError(f"{', '.join(others)}: modules that share rows have those of the rows; leave them out")
            self.rows = table
        else:
            if dim is None or optimizer is None:
                raise ValueError("give dim and optimizer, or Rows that another module has")
            self.rows = Rows(table, dim, optimizer, init or "zeros", seed or 0, durability or "power")
        self.padding_idx = padding_idx
        # Autograd follows a function that has an input which needs a gradient. The number is for compiled code.
        self.number, self.anchor = register(self), torch.zeros((), requires_grad=True)
        # The number of the last forward pass of compiled code, and the rows that it has read.
        self.last_reading: tuple[int, Any] | None = None

    def _unique(self, ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """The ids that occur, for each id which of them it is, and an anchor: if it needs a gradient, those of the rows are noted."""
        self.rows.check_type(ids)
        unique, places = torch.unique(ids, return_inverse=True)
        return unique, places, self.anchor if self.training else self.anchor.detach()

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forgets the gradients of the rows that were noted since the last step, also those that other modules of these rows have noted.

        PyTorch does not call it for modules inside of other ones: `warpkeep.torch.zero_grad(model)` does.
        """
        super().zero_grad(set_to_none)
        self.rows.zero_grad()

    def get_extra_state(self) -> dict[str, Any]:
        """The state of the module: the name of its rows. The store is the checkpoint."""
        table = self.rows.table
        return {"store": str(table.store_path), "table": table.name, "step": self.rows.step_number, **self.rows.settings()}

    def set_extra_state(self, state: dict[str, Any]) -> None:
        """Checks that the table is the one that the state names, and not behind it."""
        wanted = {name: value for name, value in state.items() if name not in ("store", "step")}
        found = {"table": self.rows.table.name, **self.rows.settings()}
        if wanted != found:
            raise StepError(f"the state is of {wanted}, the module of {found}; open the table that the state names")
        if self.rows.step_number < state["step"]:
            raise StepError(
                f"the table '{found['table']}' holds step {self.rows.step_number}, the state is of step {state['step']} of {state['store']}; open "
                f"that store, or load a state that is not newer than the table"
            )

    def extra_repr(self) -> str:
        return f"'{self.rows.table.name}', dim={self.rows.dim}, optimizer={self.rows.optimizer}"


class Embedding(_Module):
    """Rows by id, as `torch.nn.Embedding` gives them."""

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        if gathered is not None and torch.compiler.is_compiling():
            return gathered(self, ids)
        if self.padding_idx is None:
            unique, places, anchor = self._unique(ids)
            return self.rows.taken(unique, places, anchor)
        # Rows of padding are zeros that no step changes.
        there = ids != self.padding_idx
        unique, places, anchor = self._unique(ids[there])
        weights = self.rows.taken(unique, places, anchor)
        found = weights.new_zeros(*ids.shape, self.rows.dim)
        found[there] = weights
        return found


class EmbeddingBag(_Module):
    """Sums, means or largest elements of rows of bags of ids, as `torch.nn.EmbeddingBag` gives them.

    Ids that are `padding_idx` count in no bag. With `include_last_offset`, the last of the offsets is the end of the last bag.
    """

    def __init__(self, *args: Any, mode: str = "sum", include_last_offset: bool = False, **options: Any) -> None:
        super().__init__(*args, **options)
        if mode not in ("sum", "mean", "max"):
            raise ValueError(f"'{mode}' is no mode; write 'sum', 'mean' or 'max'")
        self.mode, self.include_last_offset = mode, include_last_offset

    def forward(
        self, ids: torch.Tensor, offsets: torch.Tensor | None = None, per_sample_weights: torch.Tensor | None = None
    ) -> torch.Tensor:
        if (ids.dim() == 2) == (offsets is not None):
            raise ValueError("give ids of shape (bags, length), or of one dimension with offsets")
        if self.include_last_offset and offsets is not None and len(offsets) == 0:
            raise ValueError("with include_last_offset the offsets end with the end of the last bag; give at least that one: [0]")
        if per_sample_weights is not None and self.mode != "sum":
            raise ValueError("per_sample_weights are for mode='sum'; leave them out, or choose it")
        if gathered is not None and torch.compiler.is_compiling():
            return self._compiled(ids, gathered(self, ids), offsets, per_sample_weights)
        if offsets is not None:
            offsets = offsets.to(torch.int64)
            if self.include_last_offset and ids.device.type == "cpu":
                # Behind the last bag, older versions of PyTorch write to memory that is not theirs.
                end = int(offsets[-1])
                ids = ids[:end]
                per_sample_weights = None if per_sample_weights is None else per_sample_weights[:end]
        if self.padding_idx is None:
            unique, places, anchor = self._unique(ids)
        else:
            there = ids != self.padding_idx
            unique, found, anchor = self._unique(ids[there])
            # Padding has a place of its own behind the rows.
            places = torch.full_like(ids, len(unique), dtype=torch.int64)
            places[there] = found
        weights = self.rows.whole(unique, anchor)
        padding = None
        if self.padding_idx is not None:
            padding, weights = len(unique), torch.cat([weights, weights.new_zeros(1, self.rows.dim)])
        elif len(weights) == 0:
            # PyTorch takes no empty table.
            weights = weights.new_zeros(1, self.rows.dim)
        elif per_sample_weights is not None and per_sample_weights.requires_grad:
            # PyTorch keeps the rows for the gradient of these weights, and a step changes them in place.
            weights = weights.clone()
        return torch.nn.functional.embedding_bag(
            places,
            weights,
            offsets,
            mode=self.mode,
            per_sample_weights=per_sample_weights,
            # Bags of one length have no offsets; PyTorch would leave the last one out.
            include_last_offset=self.include_last_offset and offsets is not None,
            padding_idx=padding,
        )

    def _compiled(
        self, ids: torch.Tensor, found: torch.Tensor, offsets: torch.Tensor | None, shares: torch.Tensor | None
    ) -> torch.Tensor:
        """What `forward` gives, of rows of which each id has its own, in operations that compiled code takes into one kernel."""
        if shares is not None:
            found = found * shares.unsqueeze(-1)
        counted = None if self.padding_idx is None else ids != self.padding_idx
        if offsets is not None:
            return self._compiled_parts(found, counted, offsets)
        if self.mode == "sum" or found.shape[1] == 0:
            return found.sum(dim=1)
        if counted is None:
            return found.mean(dim=1) if self.mode == "mean" else found.amax(dim=1)
        counts = counted.sum(dim=1).unsqueeze(-1)
        if self.mode == "mean":
            return found.sum(dim=1) / counts.clamp(min=1)
        return found.masked_fill(~counted.unsqueeze(-1), float("-inf")).amax(dim=1).masked_fill(counts == 0, 0)

    def _compiled_parts(self, found: torch.Tensor, counted: torch.Tensor | None, offsets: torch.Tensor) -> torch.Tensor:
        """The same of bags that begin at offsets."""
        # The bag of each row: how many bags begin at it or before, less one. What lies behind an end of all bags counts as one more.
        starts = torch.zeros(len(found) + 1, dtype=torch.int64, device=found.device)
        starts = starts.index_add(0, offsets.to(torch.int64), torch.ones_like(offsets, dtype=torch.int64))
        bags = starts.cumsum(0)[:-1] - 1
        wanted = len(offsets) - 1 if self.include_last_offset else len(offsets)
        ones = torch.ones(len(found), device=found.device) if counted is None else counted.to(found.dtype)
        counts = torch.zeros(len(offsets), device=found.device).index_add(0, bags, ones)[:wanted].unsqueeze(-1)
        if self.mode == "max":
            largest = found.new_full((len(offsets), found.shape[1]), float("-inf"))
            if counted is not None:
                found = found.masked_fill(~counted.unsqueeze(-1), float("-inf"))
            largest = largest.scatter_reduce(0, bags.unsqueeze(-1).expand_as(found), found, "amax")
            return largest[:wanted].masked_fill(counts == 0, 0)
        sums = found.new_zeros(len(offsets), found.shape[1]).index_add(0, bags, found)[:wanted]
        return sums if self.mode == "sum" else sums / counts.clamp(min=1)


def _rows_of(model: torch.nn.Module) -> list[Rows]:
    """The rows that modules of `model` have, each once."""
    return list({id(module.rows): module.rows for module in model.modules() if isinstance(module, _Module)}.values())


def step(model: torch.nn.Module, number: int | None = None, scale: float = 1.0) -> bool:
    """Does the step of all rows that modules of `model` have. Returns whether any table had not done it before.

    The gradients are divided by `scale`: what the loss was multiplied by, as `GradScaler.get_scale()` says.
    """
    return any([each.step(number, scale) for each in _rows_of(model)])


def zero_grad(model: torch.nn.Module) -> None:
    """Forgets the gradients of all rows that modules of `model` have, for a step that is left out.

    `zero_grad` of PyTorch's optimizers and of a model around these modules does not know of them.
    """
    for each in _rows_of(model):
        each.zero_grad()
