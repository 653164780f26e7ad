"""Loaders of PyTorch Geometric over graphs that change. Without it the tests are skipped; test_torch.py has stand-ins for its classes."""

from __future__ import annotations

import dataclasses
import os
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="SKIPPED: no PyTorch; scripts/python setup --torch")
pytest.importorskip("torch_geometric", reason="SKIPPED: no PyTorch Geometric; scripts/python setup --torch")

from torch_geometric.data import Data  # noqa: E402
from torch_geometric.loader import NeighborLoader, NodeLoader  # noqa: E402

import warpkeep as wk  # noqa: E402
from conftest import has_simulator  # noqa: E402

DEVICES = [os.environ.get("WARPKEEP_TEST_DEVICE") or ("sim" if has_simulator() else "cpu"), "cpu"]
NODES = 300


@pytest.fixture(params=sorted(set(DEVICES)))
def graph(request: pytest.FixtureRequest) -> wk.Graph:
    return wk.Graph(device=request.param, ids=True, times=True)


def some_data(graph: wk.Graph, edges: int = 2000) -> Data:
    """A random graph, added to `graph` and as PyTorch Geometric holds one. The features of a node are its number."""
    chance = np.random.default_rng(5)
    pairs = np.unique(chance.integers(0, NODES, (edges, 2)), axis=0)
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    src, dst = pairs[:, 0].copy(), pairs[:, 1].copy()
    time = chance.integers(0, 1000, len(src))
    graph.add_edges(dst, src, id=np.arange(len(src)), time=time)
    return Data(
        x=torch.arange(NODES, dtype=torch.float32)[:, None],
        y=torch.arange(NODES) % 3,
        edge_index=torch.from_numpy(np.stack([src, dst])),
        edge_attr=torch.from_numpy(time),
        time=torch.full((NODES,), 500),
    )


def loaders(data: Data, graph: wk.Graph, fanouts: list[int], **options: Any) -> list[Any]:
    sampler = wk.pyg.GraphSampler(graph, fanouts)
    return [
        NodeLoader(data, sampler, batch_size=64, **options),
        NeighborLoader(data, fanouts, neighbor_sampler=sampler, batch_size=64, **options),
    ]


def test_loaders(graph: wk.Graph) -> None:
    data = some_data(graph)
    seeds = torch.randperm(NODES, generator=torch.Generator().manual_seed(1))[:150]
    for loader in loaders(data, graph, [4, 3], input_nodes=seeds):
        seen = []
        for batch in loader:
            assert torch.equal(batch.x[:, 0].long(), batch.n_id) and torch.equal(batch.y, batch.n_id % 3)
            # Each edge of the sample is one of the graph, with the data of that one.
            assert torch.equal(batch.n_id[batch.edge_index], data.edge_index[:, batch.e_id])
            assert torch.equal(batch.edge_attr, data.edge_attr[batch.e_id])
            into = torch.bincount(batch.edge_index[1], minlength=batch.num_nodes)
            whole = torch.bincount(data.edge_index[1], minlength=NODES)[batch.n_id]
            first = torch.arange(batch.num_nodes) < batch.batch_size
            assert torch.equal(into[first], whole[first].clamp(max=4)) and (into <= 4).all()
            seen.append(batch.n_id[: batch.batch_size])
        assert torch.equal(torch.cat(seen), seeds) and len(seen) == 3


def test_times_of_seeds(graph: wk.Graph) -> None:
    data = some_data(graph)
    times = torch.arange(NODES) * 3
    loader = NodeLoader(data, wk.pyg.GraphSampler(graph, [-1, -1]), batch_size=40, input_nodes=None, input_time=times)
    edges = 0
    for batch in loader:
        of_seed = times[batch.n_id[: batch.batch_size]]
        assert (batch.edge_attr <= of_seed[batch.batch[batch.edge_index[1]]]).all()
        # All edges into a seed until its time.
        for seed in range(batch.batch_size):
            into = (batch.edge_index[1] == seed).sum()
            assert into == ((data.edge_index[1] == batch.n_id[seed]) & (data.edge_attr <= of_seed[seed])).sum()
            edges += int(into)
    assert 0 < edges < data.num_edges


def test_each_batch_sees_the_graph_as_it_is_then(graph: wk.Graph) -> None:
    data = some_data(graph)
    loader = NodeLoader(data, wk.pyg.GraphSampler(graph, [-1]), batch_size=100, input_nodes=None)
    degrees = torch.bincount(data.edge_index[1], minlength=NODES)
    for number, batch in enumerate(loader):
        expected = degrees[batch.n_id[: batch.batch_size]].sum()
        assert len(batch.e_id) == (0 if number else expected)
        graph.remove_nodes(np.arange(NODES))


def test_features_in_tables(graph: wk.Graph, store: wk.Store) -> None:
    """Features and edges come from stores; nothing is held as one tensor."""
    data = some_data(graph)
    features = wk.pyg.FeatureStore({"x": store.table("x", value=wk.row("f32", 1)), "y": store.table("y", value=wk.i64)}, num_nodes=NODES)
    edges = wk.pyg.GraphStore(graph)
    features.put_tensor(data.x, group_name=None, attr_name="x", index=None)
    features.put_tensor(data.y[:200], group_name=None, attr_name="y", index=torch.arange(200))
    seeds = torch.randperm(NODES, generator=torch.Generator().manual_seed(1))[:100]
    for batch in NodeLoader((features, edges), wk.pyg.GraphSampler(graph, [4, 3]), input_nodes=seeds, batch_size=50):
        assert torch.equal(batch.x[:, 0].long(), batch.n_id) and batch.num_nodes == len(batch.n_id) > 50
        assert torch.equal(batch.y, torch.where(batch.n_id < 200, batch.n_id % 3, 0))
        assert torch.equal(batch.n_id[batch.edge_index], data.edge_index[:, batch.e_id])
    # The features change, and the next batch has them.
    features.put_tensor(torch.full((5, 1), -1.0), group_name=None, attr_name="x", index=seeds[:5])
    batch = next(iter(NodeLoader((features, edges), wk.pyg.GraphSampler(graph, [1]), input_nodes=seeds, batch_size=10)))
    assert (batch.x[:5] == -1).all() and (batch.x[5:10] >= 0).all()

    assert features.get_tensor_size(group_name=None, attr_name="x", index=None) == (NODES, 1)
    assert features.get_tensor(group_name=None, attr_name="y", index=slice(7, 9)).tolist() == [1, 2]
    assert features.get_tensor(group_name=None, attr_name="y", index=torch.arange(NODES) == 8).tolist() == [2]
    with pytest.raises(KeyError, match="those that are: x, y"):
        features.get_tensor(group_name=None, attr_name="z", index=None)
    with pytest.raises(ValueError, match="range of nodes"):
        features.get_tensor(group_name=None, attr_name="x", index=slice(0, None, 2))
    with pytest.raises(ValueError, match="num_nodes="):
        wk.pyg.FeatureStore(features.tables).get_tensor(group_name=None, attr_name="x", index=None)
    with pytest.raises(NotImplementedError, match="table.delete"):
        features.remove_tensor(group_name=None, attr_name="x", index=None)


def test_edges_as_a_store(graph: wk.Graph) -> None:
    data = some_data(graph)
    edges = wk.pyg.GraphStore(graph)
    as_set = {tuple(pair) for pair in data.edge_index.t().tolist()}
    row, col = edges.get_edge_index(edge_type=None, layout="coo")
    assert {tuple(pair) for pair in torch.stack([row, col]).t().tolist()} == as_set and len(row) == len(as_set)
    row, starts = edges.get_edge_index(*dataclasses.astuple(edges.get_all_edge_attrs()[0]))
    assert all({(source, node) for source in row[starts[node] : starts[node + 1]].tolist()} <= as_set for node in range(graph.num_nodes))
    assert starts[-1] == len(row) == len(as_set)
    with pytest.raises(ValueError, match="coo or csc"):
        edges.get_edge_index(edge_type=None, layout="csr")
    assert edges.remove_edge_index(edge_type=None, layout="coo") and graph.num_edges == 0
    edges.put_edge_index((torch.tensor([1, 2]), torch.tensor([5, 5])), edge_type=None, layout="coo")
    assert graph.neighbours(np.array([5])).indices.tolist() == [1, 2]
    with pytest.raises(ValueError, match="rows and columns"):
        edges.put_edge_index((torch.tensor([1]), torch.tensor([0, 1])), edge_type=None, layout="csc")


def test_a_network_learns(graph: wk.Graph) -> None:
    """Labels are those of the only neighbour, so that a network without messages learns nothing."""
    from torch_geometric.nn import SAGEConv

    torch.manual_seed(3)
    labels = torch.randint(0, 3, (NODES,))
    src, dst = torch.arange(NODES), (torch.arange(NODES) + 1) % NODES
    graph.add_edges(dst, src, id=torch.arange(NODES), time=torch.zeros(NODES, dtype=torch.int64))
    data = Data(x=torch.nn.functional.one_hot(labels, 3).float(), y=labels[src][torch.argsort(dst)], edge_index=torch.stack([src, dst]))
    layer = SAGEConv(3, 3)
    optimizer = torch.optim.Adam(layer.parameters(), lr=0.2)
    for _ in range(4):
        right = 0
        for batch in NodeLoader(data, wk.pyg.GraphSampler(graph, [2]), batch_size=64, input_nodes=None):
            scores = layer(batch.x, batch.edge_index)[: batch.batch_size]
            loss = torch.nn.functional.cross_entropy(scores, batch.y[: batch.batch_size])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            right += int((scores.argmax(1) == batch.y[: batch.batch_size]).sum())
    assert right == NODES
