"""Embeddings of PyTorch whose rows lie in a table: weights, and the optimizer's state beside them.

    import warpkeep as wk
    import warpkeep.torch as wkt

    optimizer = wkt.RowwiseAdagrad(lr=0.1)
    table = wkt.create_table(store, "items", dim=64, optimizer=optimizer)
    items = wkt.Embedding(table, dim=64, optimizer=optimizer, init="normal:0.01", seed=7)
    for number in range(items.rows.step_number + 1, steps + 1):
        loss = model(items(ids_of(number))).mean()
        loss.backward()                 # notes gradients by id; no gradient of the whole table exists
        wkt.step(items, number)         # one atomic batch: after a crash all of it is there, or nothing

A step that was done before is done no second time, so that a program that begins again may repeat it.
"""

from __future__ import annotations

from ._init import Init, initial_rows
from ._modules import Embedding, EmbeddingBag, step, zero_grad
from ._optimizers import SGD, Adagrad, Adam, Optimizer, RowwiseAdagrad
from ._rows import Rows, create_table
from ._sharded import ShardedEmbedding, load_shards, owner_of

__all__ = [
    "SGD",
    "Adagrad",
    "Adam",
    "Embedding",
    "EmbeddingBag",
    "Init",
    "Optimizer",
    "Rows",
    "RowwiseAdagrad",
    "ShardedEmbedding",
    "create_table",
    "initial_rows",
    "load_shards",
    "owner_of",
    "step",
    "zero_grad",
]
