"""Node numbers of a graph on a GPU, which have 32 bits, as tensors, which have 64."""

from __future__ import annotations

import torch

# The largest 32-bit number stands for no node.
_LAST = 2**32 - 2


def narrowed(nodes: torch.Tensor) -> torch.Tensor:
    """The lower bits of node numbers; refused if one is no node."""
    if nodes.dtype not in (torch.int64, torch.int32):
        raise TypeError(f"seeds are {nodes.dtype}; give int64: seeds.long()")
    if nodes.numel():
        smallest, largest = torch.stack((nodes.min(), nodes.max())).tolist()
        if smallest < 0 or largest > _LAST:
            wrong = smallest if smallest < 0 else largest
            raise ValueError(f"seeds: there is {wrong}; nodes are numbers from 0 to 2^32 - 2, so renumber them")
    # Numbers from 2^31 on become negative ones with the same bits.
    return torch.where(nodes > 2**31 - 1, nodes - 2**32, nodes).to(torch.int32) if nodes.dtype == torch.int64 else nodes


def widened(nodes: torch.Tensor) -> torch.Tensor:
    """The node numbers whose bits these are."""
    return nodes.to(torch.int64) & 0xFFFFFFFF
