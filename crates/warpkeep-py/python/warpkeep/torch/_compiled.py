"""An operator for `torch.compile`, in versions of PyTorch that have custom operators."""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable
from typing import Any

import torch

gathered: Callable[[Any, torch.Tensor], torch.Tensor] | None = None

# The modules that compiled code names by number.
_numbers = itertools.count(1)
_modules: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()


def _there(module: int, ids: torch.Tensor) -> torch.Tensor:
    """Which ids are no padding."""
    padding = _modules[module].padding_idx
    return torch.ones_like(ids, dtype=torch.bool) if padding is None else ids != padding


def _define() -> Callable[[Any, torch.Tensor], torch.Tensor]:
    library = torch.library

    @library.custom_op("warpkeep::gather", mutates_args=())
    def gather(ids: torch.Tensor, anchor: torch.Tensor, module: int, dim: int) -> torch.Tensor:
        rows, there = _modules[module].rows, _there(module, ids)
        rows.check_ids(ids[there])
        unique, inverse = torch.unique(ids[there], return_inverse=True)
        weights, _ = rows.gather(unique)
        found = torch.zeros((*ids.shape, dim), dtype=torch.float32, device=ids.device)
        found[there] = weights.to(ids.device)[inverse]
        return found

    @gather.register_fake
    def _(ids: torch.Tensor, anchor: torch.Tensor, module: int, dim: int) -> torch.Tensor:
        return ids.new_empty((*ids.shape, dim), dtype=torch.float32)

    # The gradients are noted by an operator, too, so that compiled code keeps the call.
    @library.custom_op("warpkeep::note", mutates_args=())
    def note(ids: torch.Tensor, gradient: torch.Tensor, module: int) -> torch.Tensor:
        there = _there(module, ids)
        _modules[module].rows.note(ids[there], gradient[there])
        # The gradient of the anchor, which lies on the CPU.
        return torch.zeros(())

    @note.register_fake
    def _(ids: torch.Tensor, gradient: torch.Tensor, module: int) -> torch.Tensor:
        return torch.empty(())

    def remember(ctx: Any, inputs: Any, output: Any) -> None:
        ids, _, module, _ = inputs
        ctx.save_for_backward(ids)
        ctx.module = module

    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        (ids,) = ctx.saved_tensors
        return None, note(ids, gradient, ctx.module), None, None

    gather.register_autograd(backward, setup_context=remember)

    def call(module: Any, ids: torch.Tensor) -> torch.Tensor:
        # Autograd follows an operator that has an input which needs a gradient.
        anchor = module.anchor if module.training else module.anchor.detach()
        found: torch.Tensor = gather(ids, anchor, module.number, module.rows.dim)
        return found

    return call


def register(module: Any) -> int:
    """The number by which compiled code names a module."""
    number = next(_numbers)
    _modules[number] = module
    return number


if hasattr(torch.library, "custom_op"):
    gathered = _define()
