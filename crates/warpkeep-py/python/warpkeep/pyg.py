"""Neighbour sampling for PyTorch Geometric, of a graph that may change between batches.

    from torch_geometric.loader import NodeLoader
    import warpkeep as wk
    import warpkeep.pyg

    graph = wk.Graph(ids=True)
    graph.add_edges(dst, src, id=edge_ids)        # from a node to those that its messages come from
    loader = NodeLoader(data, wk.pyg.GraphSampler(graph, [10, 10]), input_nodes=train_nodes)
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, Literal

try:
    import torch
    from torch_geometric.sampler import BaseSampler, NodeSamplerInput, SamplerOutput
except ImportError as error:
    raise ImportError(
        f"warpkeep.pyg needs PyTorch and PyTorch Geometric from 2.3 on ({error}); install them: pip install torch torch_geometric"
    ) from error

from ._native import Graph


class GraphSampler(BaseSampler):
    """Samples the neighbourhoods of seed nodes in a `Graph`, for `torch_geometric.loader.NodeLoader`.

    The edges of the graph lead from a node to the nodes that its messages come from: `graph.add_edges(dst, src)` for the edges of an
    `edge_index`, or an undirected graph. The random numbers are those of PyTorch: `torch.manual_seed` repeats a sample, and the workers of a
    loader have different ones. `edge` of the output is the ids of the edges, if the graph has ids.
    """

    def __init__(
        self,
        graph: Graph,
        fanouts: Sequence[int],
        *,
        pick: Literal["uniform", "weighted", "last"] = "uniform",
        replace: bool = False,
        window: int | None = None,
        strict: bool = False,
    ) -> None:
        self.graph = graph
        self.fanouts = list(fanouts)
        self.pick = pick
        self.replace = replace
        self.window = window
        self.strict = strict

    def sample_from_nodes(self, index: NodeSamplerInput, **kwargs: Any) -> SamplerOutput:
        """The neighbourhood of the nodes of a batch. If they have times, no edge is later than the time of its seed."""
        seeds = index.node.cpu().contiguous().numpy()
        times = None if index.time is None else index.time.cpu().contiguous().numpy()
        sample = self.graph.sample(
            seeds,
            self.fanouts,
            times=times,
            pick=self.pick,
            replace=self.replace,
            window=self.window,
            strict=self.strict,
            seed=int(torch.randint(2**62, (1,))),
        )
        if sample.nodes_per_hop[0] != len(seeds):
            raise ValueError("a node is there twice in one batch, and the loader needs one row for each seed; give each node once, or times")
        # The loader takes these from PyTorch Geometric 2.4 on.
        counts = {"num_sampled_nodes": sample.nodes_per_hop, "num_sampled_edges": sample.edges_per_hop}
        known = {field.name for field in dataclasses.fields(SamplerOutput)}
        return SamplerOutput(
            node=torch.from_numpy(sample.nodes),
            # Messages go against the direction of sampling.
            row=torch.from_numpy(sample.col),
            col=torch.from_numpy(sample.row),
            edge=None if sample.ids is None else torch.from_numpy(sample.ids),
            batch=None if sample.batch is None else torch.from_numpy(sample.batch),
            metadata=(index.input_id, index.time),
            **{name: count for name, count in counts.items() if name in known},
        )

    def sample_from_edges(self, index: Any, neg_sampling: Any = None) -> SamplerOutput:
        """Not there: link loaders need negative edges."""
        raise NotImplementedError("GraphSampler samples from nodes; use it with NodeLoader, or sample both ends of the links as nodes")
