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
        # For compiled code.
        self.number, self.anchor = register(self), torch.zeros((), requires_grad=True)

    def _unique(self, ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """The weights of the ids that occur, and for each id which of them is its own."""
        self.rows.check_ids(ids)
        unique, inverse = torch.unique(ids, return_inverse=True)
        record = self.training and torch.is_grad_enabled()
        return self.rows.weights(unique, record), inverse

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
            weights, inverse = self._unique(ids)
            return torch.nn.functional.embedding(inverse, weights)
        # Rows of padding are zeros that no step changes.
        there = ids != self.padding_idx
        weights, inverse = self._unique(ids[there])
        found = weights.new_zeros(*ids.shape, self.rows.dim)
        found[there] = torch.nn.functional.embedding(inverse, weights)
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
        if offsets is not None:
            offsets = offsets.to(torch.int64)
        weights, inverse = self._unique(ids)
        if len(weights) == 0:
            # PyTorch takes no empty table.
            weights = weights.new_zeros(1, self.rows.dim)
        return torch.nn.functional.embedding_bag(
            inverse, weights, offsets, mode=self.mode, per_sample_weights=per_sample_weights
        )


def step(model: torch.nn.Module, number: int | None = None) -> bool:
    """Does the step of all rows that modules of `model` have. Returns whether any table had not done it before."""
    rows = {id(module.rows): module.rows for module in model.modules() if isinstance(module, _Module)}
    return any([each.step(number) for each in rows.values()])
