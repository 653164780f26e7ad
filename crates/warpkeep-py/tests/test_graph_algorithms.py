"""Algorithms over a graph, against short ones in Python."""

from __future__ import annotations

from collections import deque

import numpy as np
import pytest

import warpkeep as wk
from conftest import has_simulator

DEVICES = ["cpu", pytest.param("sim", marks=pytest.mark.skipif(not has_simulator(), reason="SKIPPED: no simulator"))]
NODES = 60


def made(device: str, undirected: bool, edges: int = 90) -> tuple[wk.Graph, list[set[int]]]:
    """A random graph, and the targets of each node."""
    chance = np.random.default_rng(4)
    src, dst = chance.integers(0, NODES - 5, edges), chance.integers(0, NODES - 5, edges)
    graph = wk.Graph(device, undirected, loops=True)
    graph.add_edges(src, dst)
    first = graph.num_nodes
    assert graph.add_nodes(NODES - first) == range(first, NODES) and graph.num_nodes == NODES
    lists: list[set[int]] = [set() for _ in range(NODES)]
    for source, target in zip(src.tolist(), dst.tolist(), strict=True):
        lists[source].add(target)
        if undirected:
            lists[target].add(source)
    return graph, lists


def reached(lists: list[set[int]], sources: list[int]) -> list[int]:
    levels, queue = [-1] * len(lists), deque(sources)
    for source in sources:
        levels[source] = 0
    while queue:
        node = queue.popleft()
        for target in lists[node]:
            if levels[target] < 0:
                levels[target] = levels[node] + 1
                queue.append(target)
    return levels


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("undirected", [False, True])
def test_levels_and_components(device: str, undirected: bool) -> None:
    graph, lists = made(device, undirected)
    for sources in ([0], [3, 17], list(range(0, NODES, 7))):
        levels = graph.bfs(np.array(sources))
        assert levels.dtype == np.int64 and levels.tolist() == reached(lists, sources)
    assert graph.bfs(np.zeros(0, np.int64)).tolist() == [-1] * NODES
    both = [{*own, *(node for node in range(NODES) if at in lists[node])} for at, own in enumerate(lists)]
    expected = [min(node for node, level in enumerate(reached(both, [at])) if level >= 0) for at in range(NODES)]
    assert graph.components().tolist() == expected


@pytest.mark.parametrize("device", DEVICES)
def test_triangles_and_cores(device: str) -> None:
    graph, lists = made(device, True, 400)
    near = [own - {at} for at, own in enumerate(lists)]
    count = sum(c in near[a] for a in range(NODES) for b in near[a] if b > a for c in near[b] if c > b)
    assert graph.triangles() == count > 50
    numbers, left, k = [0] * NODES, {at: set(own) for at, own in enumerate(near)}, 0
    while left:
        gone = [at for at, own in left.items() if len(own) <= k]
        for at in gone:
            numbers[at] = k
            for other in left.pop(at):
                left[other].discard(at) if other in left else None
        k += not gone
    assert graph.core_numbers().tolist() == numbers and max(numbers) > 3
    directed = made(device, False)[0]
    for call in (directed.triangles, directed.core_numbers):
        with pytest.raises(ValueError, match="undirected=True"):
            call()


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("undirected", [False, True])
def test_pagerank(device: str, undirected: bool) -> None:
    graph, lists = made(device, undirected)
    ranks = np.full(NODES, 1 / NODES)
    for _ in range(20):
        given = np.zeros(NODES)
        for node, targets in enumerate(lists):
            for target in targets:
                given[target] += ranks[node] / len(targets)
        given += sum(rank for rank, targets in zip(ranks, lists, strict=True) if not targets) / NODES
        ranks = 0.15 / NODES + 0.85 * given
    found = graph.pagerank(rounds=20)
    assert found.dtype == np.float64 and np.allclose(found, ranks, atol=1e-12) and found.sum() == pytest.approx(1)
    exact = graph.pagerank(tolerance=1e-12, rounds=500)
    again = graph.pagerank(start=exact, rounds=1)
    assert np.allclose(exact, again, atol=1e-11) and np.allclose(graph.pagerank(start=ranks, rounds=500), exact, atol=1e-11)
    assert not np.allclose(graph.pagerank(0.5), exact)
    with pytest.raises(wk.Error, match="ranks"):
        graph.pagerank(start=np.full(NODES, -1.0))
    with pytest.raises(TypeError, match="float64"):
        graph.pagerank(start=np.ones(NODES, np.float32))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("undirected", [False, True])
def test_edges(device: str, undirected: bool) -> None:
    graph = wk.Graph(device, undirected, weights=True, ids=True, times=True)
    src, dst = np.array([5, 1, 1]), np.array([2, 7, 3])
    graph.add_edges(src, dst, weight=np.array([1, 2, 3], np.float32), id=np.array([10, 20, 30]), time=np.array([-1, -2, -3]))
    edges = graph.edges()
    expected = [(1, 3, 3.0, 30, -3), (1, 7, 2.0, 20, -2), (5, 2, 1.0, 10, -1)]
    if undirected:
        expected = [*expected[:2], (2, 5, 1.0, 10, -1)]
    columns = (edges.src, edges.dst, edges.weights, edges.ids, edges.times)
    assert all(column is not None for column in columns)
    assert list(zip(*(column.tolist() for column in columns if column is not None), strict=True)) == expected
    plain = wk.Graph(device, undirected)
    plain.add_edges(edges.src, edges.dst)
    none = plain.edges()
    assert none.src.dtype == np.int64 and len(none.src) == 3 and none.weights is None and none.ids is None and none.times is None
    assert wk.Graph(device).edges().src.tolist() == [] and wk.Graph(device).components().tolist() == []


def test_too_many_nodes() -> None:
    graph = wk.Graph()
    with pytest.raises(wk.Error):
        graph.add_nodes(2**40)
    assert graph.num_nodes == 0
