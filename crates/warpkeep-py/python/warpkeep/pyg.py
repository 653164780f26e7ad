"""Neighbour sampling for PyTorch Geometric, of a graph that may change between batches.

    from torch_geometric.loader import NodeLoader
    import warpkeep as wk
    import warpkeep.pyg

    graph = wk.Graph(ids=True)
    graph.add_edges(dst, src, id=edge_ids)        # from a node to those that its messages come from
    loader = NodeLoader(data, wk.pyg.GraphSampler(graph, [10, 10]), input_nodes=train_nodes)

`FeatureStore` and `GraphStore` stand for `data` where the features are rows of tables: `NodeLoader((features, edges), ...)`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np

try:
    import torch
    import torch_geometric.data as pyg_data
    from torch_geometric.sampler import BaseSampler, NodeSamplerInput, SamplerOutput
except ImportError as error:
    raise ImportError(
        f"warpkeep.pyg needs PyTorch and PyTorch Geometric from 2.3 on ({error}); install them: pip install torch torch_geometric"
    ) from error

from ._native import Graph, Table


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
        seeds = self._where(index.node)
        times = None if index.time is None else self._where(index.time)
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
            node=torch.as_tensor(sample.nodes),
            # Messages go against the direction of sampling.
            row=torch.as_tensor(sample.col),
            col=torch.as_tensor(sample.row),
            edge=None if sample.ids is None else torch.as_tensor(sample.ids),
            batch=None if sample.batch is None else torch.as_tensor(sample.batch),
            metadata=(index.input_id, index.time),
            **{name: count for name, count in counts.items() if name in known},
        )

    def _where(self, numbers: torch.Tensor) -> Any:
        """Numbers where the graph takes them: those on its own GPU as they are, others in host memory."""
        if numbers.is_cuda and str(numbers.device) == self.graph.device:
            return numbers.contiguous()
        return numbers.cpu().contiguous().numpy()

    def sample_from_edges(self, index: Any, neg_sampling: Any = None) -> SamplerOutput:
        """Not there: link loaders need negative edges."""
        raise NotImplementedError("GraphSampler samples from nodes; use it with NodeLoader, or sample both ends of the links as nodes")


class FeatureStore(pyg_data.FeatureStore):
    """Features of nodes that are rows of tables, under the numbers of the nodes: `FeatureStore({"x": table, "y": labels})`.

    A batch reads the rows of its nodes. Nodes without a row have zeros. `num_nodes` is for callers that ask for all of them.
    """

    def __init__(self, tables: Mapping[str, Table], num_nodes: int | None = None) -> None:
        super().__init__()
        self.tables = dict(tables)
        self.num_nodes = num_nodes

    def _table(self, attr: Any) -> Table:
        if attr.attr_name not in self.tables:
            raise KeyError(f"there is no feature '{attr.attr_name}'; those that are: {', '.join(self.tables)}")
        return self.tables[attr.attr_name]

    def _index(self, attr: Any) -> torch.Tensor:
        """The nodes that are meant, as ids."""
        index = attr.index
        if index is None or (isinstance(index, slice) and index == slice(None)):
            if self.num_nodes is None:
                raise ValueError("how many nodes there are is not known; give it: FeatureStore(tables, num_nodes=...)")
            return torch.arange(self.num_nodes)
        if isinstance(index, slice):
            if index.step not in (None, 1) or index.stop is None or min(index.start or 0, index.stop) < 0:
                raise ValueError(f"{index} is no range of nodes; give start:stop, or a tensor of nodes")
            return torch.arange(index.start or 0, index.stop)
        index = torch.as_tensor(index)
        if index.dtype == torch.bool:
            index = index.nonzero().flatten()
        return index.to(torch.int64).contiguous()

    def _get_tensor(self, attr: Any) -> torch.Tensor:
        rows, _ = self._table(attr).lookup(self._index(attr))
        return rows

    def _put_tensor(self, tensor: Any, attr: Any) -> bool:
        rows = torch.as_tensor(tensor).detach().contiguous()
        whole = attr.index is None or (isinstance(attr.index, slice) and attr.index == slice(None))
        self._table(attr).put(torch.arange(len(rows), device=rows.device) if whole else self._index(attr).to(rows.device), rows)
        return True

    def _remove_tensor(self, attr: Any) -> bool:
        raise NotImplementedError("a loader does not remove rows; use table.delete, or store.drop_table")

    def _get_tensor_size(self, attr: Any) -> tuple[int, ...]:
        value = self._table(attr).value
        count = len(self._index(attr))
        return (count,) if value.width is None else (count, value.width)

    def get_all_tensor_attrs(self) -> list[Any]:
        """The features that there are, for all nodes."""
        return [pyg_data.TensorAttr(None, name, None) for name in self.tables]


class GraphStore(pyg_data.GraphStore):
    """The edges of a `Graph` as `edge_index`, which leads against the edges of the graph: from nodes to those that get their messages."""

    def __init__(self, graph: Graph) -> None:
        super().__init__()
        self.graph = graph

    def _get_edge_index(self, edge_attr: Any) -> tuple[torch.Tensor, torch.Tensor] | None:
        csr = self.graph.csr()
        sources, starts = torch.from_numpy(csr.indices), torch.from_numpy(csr.indptr)
        layout = edge_attr.layout.value
        if layout == "csc":
            return sources, starts
        if layout == "coo":
            return sources, torch.repeat_interleave(torch.arange(len(starts) - 1), starts.diff())
        raise ValueError(f"edges are given as coo or csc, not as {layout}; ask for one of them")

    def _put_edge_index(self, edge_index: Any, edge_attr: Any) -> bool:
        if edge_attr.layout.value != "coo":
            raise ValueError(f"edges are added as coo, not as {edge_attr.layout.value}; give rows and columns")
        source, target = (torch.as_tensor(each).cpu().contiguous().numpy() for each in edge_index)
        self.graph.add_edges(target, source)
        return True

    def _remove_edge_index(self, edge_attr: Any) -> bool:
        return self.graph.remove_nodes(np.arange(self.graph.num_nodes)) > 0

    def get_all_edge_attrs(self) -> list[Any]:
        """The one kind of edges, in the form that costs least."""
        size = (self.graph.num_nodes, self.graph.num_nodes)
        return [pyg_data.EdgeAttr(None, pyg_data.graph_store.EdgeLayout.CSC, True, size)]
