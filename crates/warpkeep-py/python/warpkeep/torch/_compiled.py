"""Operators for `torch.compile`, in versions of PyTorch that have custom operators."""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable
from typing import Any

import torch

from ._rows import _Gathered, _Noted, _sums

# Rows of ids for compiled code, and those that other processes of a group have.
gathered: Callable[[Any, torch.Tensor], torch.Tensor] | None = None
exchanged: Callable[[Any, torch.Tensor], torch.Tensor] | None = None

# The modules that compiled code names by number.
_numbers = itertools.count(1)
_modules: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()

# Rows that a forward pass has read have a number, since operators take tensors and numbers alone. A module keeps its last ones.
_readings = itertools.count(1)


def _read(module: Any, ids: torch.Tensor) -> tuple[_Gathered, torch.Tensor]:
    """The rows of ids, and the place of each. Padding has the place behind the last row."""
    module.rows.check_type(ids)
    if module.padding_idx is None:
        unique, places = torch.unique(ids, return_inverse=True)
    else:
        there = ids != module.padding_idx
        unique, inverse = torch.unique(ids[there], return_inverse=True)
        places = torch.full_like(ids, len(unique), dtype=torch.int64)
        places[there] = inverse
    return module.rows._gather(unique), places


def _note(module: Any, ids: torch.Tensor, places: torch.Tensor, reading: int, gradient: torch.Tensor) -> None:
    """Notes the gradients of a forward pass: with the rows that it has read if no other pass came since."""
    last = module.last_reading
    if last is None or last[0] != reading:
        if module.padding_idx is None:
            # A copy: autograd may add later gradients to this one in place.
            module.rows.note(ids.reshape(-1), gradient.reshape(-1, module.rows.dim).clone())
        else:
            there = ids != module.padding_idx
            module.rows.note(ids[there], gradient[there])
        return
    rows = last[1]
    # One place more than there are ids: that of padding.
    sums = _sums(places, gradient.contiguous(), len(rows.ids) + 1)[:-1]
    module.rows._note(_Noted(rows.ids, sums, rows))


def _define_gathered() -> Callable[[Any, torch.Tensor], torch.Tensor]:
    library = torch.library

    @library.custom_op("warpkeep::gather", mutates_args=())
    def gather(ids: torch.Tensor, anchor: torch.Tensor, module: int, dim: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        own = _modules[module]
        rows, places = _read(own, ids)
        weights = own.rows.weights_of(rows, ids.device)
        if own.padding_idx is not None:
            weights = torch.cat([weights, weights.new_zeros(1, dim)])
        reading = next(_readings)
        if own.training:
            own.last_reading = reading, rows
        return torch.nn.functional.embedding(places, weights), places, torch.tensor(reading)

    @gather.register_fake
    def _(ids: torch.Tensor, anchor: torch.Tensor, module: int, dim: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        found = ids.new_empty((*ids.shape, dim), dtype=torch.float32)
        return found, ids.new_empty(ids.shape, dtype=torch.int64), torch.empty((), dtype=torch.int64)

    # The gradients are noted by an operator, too, so that compiled code keeps the call.
    @library.custom_op("warpkeep::note", mutates_args=())
    def note(ids: torch.Tensor, places: torch.Tensor, reading: torch.Tensor, gradient: torch.Tensor, module: int) -> torch.Tensor:
        _note(_modules[module], ids, places, int(reading), gradient)
        # The gradient of the anchor, which lies on the CPU.
        return torch.zeros(())

    @note.register_fake
    def _(ids: torch.Tensor, places: torch.Tensor, reading: torch.Tensor, gradient: torch.Tensor, module: int) -> torch.Tensor:
        return torch.empty(())

    def remember(ctx: Any, inputs: Any, output: Any) -> None:
        ids, _, module, _ = inputs
        _, places, reading = output
        ctx.save_for_backward(ids, places, reading)
        ctx.module = module

    def backward(ctx: Any, gradient: torch.Tensor, *_: Any) -> Any:
        ids, places, reading = ctx.saved_tensors
        return None, note(ids, places, reading, gradient, ctx.module), None, None

    gather.register_autograd(backward, setup_context=remember)

    def call(module: Any, ids: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = gather(ids, _anchor(module), module.number, module.rows.dim)[0]
        return found

    return call


def _define_exchanged() -> Callable[[Any, torch.Tensor], torch.Tensor]:
    library = torch.library

    @library.custom_op("warpkeep::exchange", mutates_args=())
    def exchange(ids: torch.Tensor, anchor: torch.Tensor, module: int, dim: int) -> torch.Tensor:
        own = _modules[module]
        unique, places, asked = own.ask(ids)
        return torch.nn.functional.embedding(places, own.weights_of(asked))

    @exchange.register_fake
    def _(ids: torch.Tensor, anchor: torch.Tensor, module: int, dim: int) -> torch.Tensor:
        return ids.new_empty((*ids.shape, dim), dtype=torch.float32)

    @library.custom_op("warpkeep::note_exchanged", mutates_args=())
    def note(ids: torch.Tensor, gradient: torch.Tensor, module: int) -> torch.Tensor:
        own = _modules[module]
        # Asked again, by all processes, so that nothing has to be kept from the forward pass.
        unique, places, asked = own.ask(ids)
        own.send(asked, _sums(places, gradient.contiguous(), len(unique)))
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

    exchange.register_autograd(backward, setup_context=remember)

    def call(module: Any, ids: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = exchange(ids, _anchor(module), module.number, module.rows.dim)
        return found

    return call


def _anchor(module: Any) -> torch.Tensor:
    """Autograd follows an operator that has an input which needs a gradient."""
    anchor: torch.Tensor = module.anchor if module.training else module.anchor.detach()
    return anchor


def register(module: Any) -> int:
    """The number by which compiled code names a module."""
    number = next(_numbers)
    _modules[number] = module
    return number


if hasattr(torch.library, "custom_op"):
    gathered = _define_gathered()
    exchanged = _define_exchanged()
