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
        init: _init.Init = "zeros",
        seed: int = 0,
        durability: Literal["process", "power"] = "power",
        padding_idx: int | None = None,
    ) -> None:
        super().__init__()
        if isinstance(table, Rows):
            if dim not in (None, table.dim) or optimizer is not None:
                raise ValueError("dim and optimizer are those of the rows; leave them out")
            self.rows = table
        else:
            if dim is None or optimizer is None:
                raise ValueError("give dim and optimizer, or Rows that another module has")
            self.rows = Rows(table, dim, optimizer, init, seed, durability)
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
    """Sums or means of rows of bags of ids, as `torch.nn.EmbeddingBag` gives them."""

    def __init__(self, *args: Any, mode: str = "sum", **options: Any) -> None:
        super().__init__(*args, **options)
        if mode not in ("sum", "mean"):
            raise ValueError(f"'{mode}' is no mode; write 'sum' or 'mean'")
        if self.padding_idx is not None:
            raise ValueError("bags have any length; leave padding out of them instead of naming padding_idx")
        self.mode = mode

    def forward(
        self, ids: torch.Tensor, offsets: torch.Tensor | None = None, per_sample_weights: torch.Tensor | None = None
    ) -> torch.Tensor:
        if (ids.dim() == 2) == (offsets is not None):
            raise ValueError("give ids of shape (bags, length), or of one dimension with offsets")
        if gathered is not None and torch.compiler.is_compiling():
            return self._compiled(gathered(self, ids), offsets, per_sample_weights)
        if offsets is not None:
            offsets = offsets.to(torch.int64)
        unique, places, anchor = self._unique(ids)
        weights = self.rows.whole(unique, anchor)
        if len(weights) == 0:
            # PyTorch takes no empty table.
            weights = weights.new_zeros(1, self.rows.dim)
        elif per_sample_weights is not None and per_sample_weights.requires_grad:
            # PyTorch keeps the rows for the gradient of these weights, and a step changes them in place.
            weights = weights.clone()
        return torch.nn.functional.embedding_bag(
            places, weights, offsets, mode=self.mode, per_sample_weights=per_sample_weights
        )


    def _compiled(self, found: torch.Tensor, offsets: torch.Tensor | None, shares: torch.Tensor | None) -> torch.Tensor:
        """Sums or means of rows of which each id has its own, in operations that compiled code takes into one kernel."""
        if shares is not None:
            if self.mode != "sum":
                raise ValueError("per_sample_weights are for mode='sum'; leave them out, or choose it")
            found = found * shares.unsqueeze(-1)
        if offsets is None:
            return found.sum(dim=1) if self.mode == "sum" or found.shape[1] == 0 else found.mean(dim=1)
        # The bag of each row: how many bags begin at it or before, less one.
        starts = torch.zeros(len(found) + 1, dtype=torch.int64, device=found.device)
        starts = starts.index_add(0, offsets.to(torch.int64), torch.ones_like(offsets, dtype=torch.int64))
        bags = starts.cumsum(0)[:-1] - 1
        sums = found.new_zeros(len(offsets), found.shape[1]).index_add(0, bags, found)
        if self.mode == "sum":
            return sums
        counts = torch.zeros(len(offsets), device=found.device).index_add(0, bags, torch.ones(len(found), device=found.device))
        return sums / counts.clamp(min=1).unsqueeze(-1)


def step(model: torch.nn.Module, number: int | None = None) -> bool:
    """Does the step of all rows that modules of `model` have. Returns whether any table had not done it before."""
    rows = {id(module.rows): module.rows for module in model.modules() if isinstance(module, _Module)}
    return any([each.step(number) for each in rows.values()])
