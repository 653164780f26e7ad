"""The rows of ids that no step has touched: a function of seed and id, so that they need not be stored."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import torch

# A word such as "normal:0.01", or a function from ids to rows.
Init = str | Callable[[npt.NDArray[np.uint64], int], npt.NDArray[np.float32]]


def _mixed(words: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """A bijection of 64-bit words whose output looks random: the finalizer of splitmix64."""
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))


def _uniform(ids: npt.NDArray[np.uint64], dim: int, seed: int, stream: int) -> npt.NDArray[np.float64]:
    """Numbers in (0, 1), one for each id and column."""
    start = np.array([(seed * 2 + stream) % 2**64], np.uint64)
    golden = np.uint64(0x9E3779B97F4A7C15)
    columns = np.arange(1, dim + 1, dtype=np.uint64) * golden
    words = _mixed(_mixed(ids + _mixed(start + golden))[:, None] + columns[None, :])
    return ((words >> np.uint64(11)).astype(np.float64) + 0.5) / 2.0**53


def check(init: Init) -> None:
    """Refuses a word that is none."""
    if callable(init):
        return
    kind, _, scale = init.partition(":")
    try:
        known = (kind == "zeros" and not scale) or (kind in ("normal", "uniform") and float(scale) >= 0)
    except ValueError:
        known = False
    if not known:
        raise ValueError(f"'{init}' is no initial value; write 'zeros', 'normal:STD', 'uniform:LIMIT', or give a function")


def initial_rows(init: Init, ids: npt.NDArray[np.uint64], dim: int, seed: int) -> npt.NDArray[np.float32]:
    """The initial rows of these ids."""
    if callable(init):
        rows = np.ascontiguousarray(init(ids, dim), np.float32)
        if rows.shape != (len(ids), dim):
            raise ValueError(f"the function of initial rows gave shape {rows.shape}; ({len(ids)}, {dim}) is needed")
        return rows
    kind, _, scale = init.partition(":")
    if kind == "zeros":
        return np.zeros((len(ids), dim), np.float32)
    first = _uniform(ids, dim, seed, 0)
    if kind == "uniform":
        return ((2 * first - 1) * float(scale)).astype(np.float32)
    # Box and Muller's way from two uniform numbers to a normal one.
    angle = 2 * np.pi * _uniform(ids, dim, seed, 1)
    return (np.sqrt(-2 * np.log(first)) * np.cos(angle) * float(scale)).astype(np.float32)


# The same in PyTorch, for ids on a GPU: its integers are signed, so words are taken bit by bit.


def _signed(word: int) -> int:
    return word - 2**64 if word >= 2**63 else word


def _shifted(words: torch.Tensor, bits: int) -> torch.Tensor:
    """A shift to the right that fills with zeros."""
    return (words >> bits) & (2 ** (64 - bits) - 1)


def _mixed_tensor(words: torch.Tensor) -> torch.Tensor:
    words = (words ^ _shifted(words, 30)) * _signed(0xBF58476D1CE4E5B9)
    words = (words ^ _shifted(words, 27)) * _signed(0x94D049BB133111EB)
    return words ^ _shifted(words, 31)


def _uniform_tensor(ids: torch.Tensor, dim: int, seed: int, stream: int) -> torch.Tensor:
    golden = 0x9E3779B97F4A7C15
    start = torch.tensor([_signed(((seed * 2 + stream) + golden) % 2**64)], device=ids.device)
    columns = torch.arange(1, dim + 1, device=ids.device) * _signed(golden)
    words = _mixed_tensor(_mixed_tensor(ids + _mixed_tensor(start))[:, None] + columns[None, :])
    return (_shifted(words, 11).double() + 0.5) / 2.0**53


def initial_tensor(init: Init, ids: torch.Tensor, dim: int, seed: int) -> torch.Tensor:
    """The initial rows of these ids, where the ids are. On a GPU the last bit of normal numbers may be another one than on the CPU."""
    if ids.device.type == "cpu" or callable(init):
        return torch.from_numpy(initial_rows(init, ids.cpu().numpy().view(np.uint64), dim, seed)).to(ids.device)
    return _computed(init, ids, dim, seed)


def _computed(init: str, ids: torch.Tensor, dim: int, seed: int) -> torch.Tensor:
    kind, _, scale = init.partition(":")
    if kind == "zeros":
        return torch.zeros(len(ids), dim, device=ids.device)
    first = _uniform_tensor(ids, dim, seed, 0)
    if kind == "uniform":
        return ((2 * first - 1) * float(scale)).float()
    angle = 2 * np.pi * _uniform_tensor(ids, dim, seed, 1)
    return (torch.sqrt(-2 * torch.log(first)) * torch.cos(angle) * float(scale)).float()
