"""The extension module, in Rust."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, final

import numpy as np
import numpy.typing as npt

__version__: str

_Path = str | os.PathLike[str]
_Durability = Literal["process", "power"]
# A NumPy array, a tensor of a library with DLPack, or a DeviceArray; of bytes, a list.
_Array = Any
_Key = int | bytes
# An answer of a container: a NumPy array, or a tensor for tensors of PyTorch.
_Answer = Any
# The type of keys or values of an ordered map: a name, a NumPy dtype or a Spec such as warpkeep.u64.
_Dtype = Any

@final
class Spec:
    """What a table's keys or values are."""

    @property
    def nbytes(self) -> int:
        """Bytes of a key or value; the longest if they differ."""
    @property
    def dtype(self) -> np.dtype[Any] | None:
        """The NumPy dtype of the elements, or None for bytes."""
    @property
    def width(self) -> int | None:
        """How many elements a row has; None if it is no row."""
    def __hash__(self) -> int: ...
    def __reduce__(self) -> Any: ...

@final
class DeviceArray:
    """An array in the memory of the device of a store or a container."""

    def numpy(self) -> npt.NDArray[Any]:
        """A copy in host memory."""
    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """Where it lies, for libraries that use memory of CUDA in place: `torch.as_tensor(array, device="cuda")`."""
    @property
    def shape(self) -> list[int]: ...
    @property
    def dtype(self) -> np.dtype[Any]: ...
    @property
    def device(self) -> str: ...
    def __len__(self) -> int: ...

@final
class Graph:
    """A graph whose edges change in batches, in the memory of the host or of a device; not a table of a store."""

    def __new__(
        cls,
        device: str = "cpu",
        undirected: bool = False,
        weights: bool = False,
        ids: bool = False,
        times: bool = False,
        *,
        loops: bool = False,
    ) -> Graph: ...
    @staticmethod
    def load(
        path: _Path,
        device: str = "cpu",
        undirected: bool = False,
        weights: bool = False,
        ids: bool = False,
        times: bool = False,
        *,
        loops: bool = False,
    ) -> Graph:
        """The graph of a file that `save` wrote, with the options that the saved graph had."""
    def add_edges(
        self, src: _Array, dst: _Array, *, weight: _Array | None = None, id: _Array | None = None, time: _Array | None = None
    ) -> _Answer:
        """Adds edges; which of them are new. Those that are there have the new weights, ids and times."""
    def remove_edges(self, src: _Array, dst: _Array) -> _Answer:
        """Removes edges; which of them were there."""
    def remove_nodes(self, nodes: _Array) -> int:
        """Removes all edges from and to these nodes; how many there were. It looks at every edge of the graph."""
    def has_edges(self, src: _Array, dst: _Array) -> _Answer:
        """Which edges are there."""
    def degrees(self, nodes: _Array) -> _Answer:
        """How many edges leave each node."""
    def neighbours(self, nodes: _Array) -> GraphCsr:
        """The edges that leave these nodes: a list for each in the order given."""
    def csr(self) -> GraphCsr:
        """All edges: list `i` is that of node `i`. Those of undirected graphs are in the lists of both ends."""
    def sample(
        self,
        seeds: _Array,
        fanouts: Sequence[int],
        *,
        times: _Array | None = None,
        pick: Literal["uniform", "weighted", "last"] = "uniform",
        replace: bool = False,
        window: int | None = None,
        strict: bool = False,
        seed: int = 0,
    ) -> GraphSample:
        """Samples the neighbourhood of seeds, a hop for each fan-out. With `times`, one for each seed, no edge is later than the time of its seed."""
    def edges(self) -> GraphEdges:
        """All edges in ascending order of source and target. Those of undirected graphs are there once, with the smaller end as the source."""
    def add_nodes(self, count: int) -> range:
        """Makes nodes without edges: their numbers, which follow that of the last node. Edges make the nodes that they name by themselves."""
    def bfs(self, sources: _Array) -> _Answer:
        """How many edges lead from the nearest of these nodes to each node of the graph, at least; -1 where no path leads."""
    def components(self) -> npt.NDArray[np.int64]:
        """The smallest node of the component of each node. Directions of edges do not matter."""
    def triangles(self) -> int:
        """How many triangles an undirected graph has. Loops belong to none."""
    def core_numbers(self) -> npt.NDArray[np.int64]:
        """The core number of each node of an undirected graph. Loops do not count."""
    def pagerank(
        self, damping: float = 0.85, *, rounds: int = 100, tolerance: float | None = None, start: _Array | None = None
    ) -> _Answer:
        """The PageRank of each node after `rounds` rounds, or after the first that changes all ranks together by no more than `tolerance`.

        Ranks begin with `start`, those of an earlier call, or are equal. Every device gives the same ranks.
        """
    def to_device(self, array: _Array) -> DeviceArray:
        """A copy of an array in the memory of the graph's device."""
    def save(self, path: _Path) -> None:
        """Writes all edges to a file."""
    @property
    def num_nodes(self) -> int:
        """The largest node that an edge was added for, or that was made, plus 1."""
    @property
    def num_edges(self) -> int:
        """The number of edges; one of an undirected graph counts once."""
    @property
    def undirected(self) -> bool: ...
    @property
    def device(self) -> str: ...

@final
class GraphCsr:
    """Lists of edges in compressed sparse rows. Weights, ids and times are None if the edges have none."""

    @property
    def indptr(self) -> _Answer:
        """Where each list begins, and where the last one ends."""
    @property
    def indices(self) -> _Answer:
        """The nodes that edges lead to, in ascending order within each list."""
    @property
    def weights(self) -> _Answer: ...
    @property
    def ids(self) -> _Answer: ...
    @property
    def times(self) -> _Answer: ...

@final
class GraphEdges:
    """Edges one by one. Weights, ids and times are None if the edges have none."""

    @property
    def src(self) -> npt.NDArray[np.int64]:
        """The node that each edge leaves."""
    @property
    def dst(self) -> npt.NDArray[np.int64]:
        """The node that each edge leads to."""
    @property
    def weights(self) -> npt.NDArray[np.float32] | None: ...
    @property
    def ids(self) -> npt.NDArray[np.int64] | None: ...
    @property
    def times(self) -> npt.NDArray[np.int64] | None: ...

@final
class GraphSample:
    """The nodes and edges that were found from some seeds. Nodes are renumbered in the order in which they were found, the seeds first.

    NumPy arrays of int64, or tensors if the seeds are a tensor; of seeds in device memory, tensors of int64 or arrays of this package of uint32
    there.
    """

    @property
    def nodes(self) -> Any:
        """The node of each new number."""
    @property
    def seeds(self) -> Any:
        """The new number of each seed."""
    @property
    def row(self) -> Any:
        """For each edge the new number of its source."""
    @property
    def col(self) -> Any:
        """For each edge the new number of its target."""
    @property
    def batch(self) -> Any:
        """The position of the seed that each node was found from, if seeds have times; None otherwise, where seeds share nodes."""
    @property
    def ids(self) -> Any: ...
    @property
    def times(self) -> Any: ...
    @property
    def nodes_per_hop(self) -> list[int]:
        """How many nodes the seeds are, and how many each hop found."""
    @property
    def edges_per_hop(self) -> list[int]:
        """How many edges each hop found."""

@final
class HashMap:
    """A map from 64-bit keys to 64-bit values, in the memory of the host or of a device; not a table of a store.

    Keys and values of a call lie both in host memory, and then the answers are NumPy arrays, or both in that of the map's device: arrays of
    `to_device`, and tensors of PyTorch and CuPy, whose answers are tensors there.
    """

    def __new__(cls, capacity: int = 0, *, device: str = "cpu", seed: int | None = None) -> HashMap: ...
    @staticmethod
    def load(path: _Path, *, device: str = "cpu") -> HashMap:
        """The map of a file that `save` wrote."""
    def insert(self, keys: _Array, values: _Array) -> Any:
        """Adds keys; which of them are new. A key that is there keeps its value."""
    def put(
        self, keys: _Array, values: _Array, *, how: Literal["replace", "add", "min", "max"] = "replace"
    ) -> Any:
        """Adds keys, or changes the values of those that are there; which of them are new. "min" and "max" compare unsigned integers."""
    def find(self, keys: _Array) -> tuple[Any, Any]:
        """The values of keys, 0 where there is none, and which keys were found."""
    def contains(self, keys: _Array) -> Any:
        """Which keys are there."""
    def erase(self, keys: _Array) -> Any:
        """Removes keys; which of them were there."""
    def items(self) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint64]]:
        """All keys and their values, in no order."""
    def clear(self) -> None:
        """Removes all keys."""
    def save(self, path: _Path) -> None:
        """Writes all keys and values to a file."""
    def to_device(self, array: _Array) -> DeviceArray:
        """A copy of an array in the memory of the map's device."""
    @property
    def device(self) -> str: ...
    def __len__(self) -> int: ...
    def __bool__(self) -> bool: ...
    def __contains__(self, key: int, /) -> bool: ...

@final
class OrderedMap:
    """A map from unsigned keys in their order to numbers of the same size, in the memory of the host or of a device; not a table of a store."""

    def __new__(cls, key: _Dtype | None = None, value: _Dtype | None = None, *, device: str = "cpu") -> OrderedMap: ...
    @staticmethod
    def load(path: _Path, key: _Dtype | None = None, value: _Dtype | None = None, *, device: str = "cpu") -> OrderedMap:
        """The map of a file that `save` wrote, with the types that the saved map had."""
    def insert(self, keys: _Array, values: _Array) -> _Answer:
        """Adds keys; which of them are new. A key that is there keeps its value."""
    def upsert(
        self, keys: _Array, values: _Array, *, how: Literal["replace", "add", "min", "max"] = "replace"
    ) -> _Answer:
        """Adds keys, or changes the values of those that are there; which of them are new."""
    def erase(self, keys: _Array) -> _Answer:
        """Removes keys; which of them were there."""
    def snapshot(self) -> OrderedSnapshot:
        """The state now, which later changes leave as it is. It keeps memory until it is closed."""
    @property
    def device(self) -> str: ...
    def get(self, keys: _Array) -> tuple[_Answer, _Answer]:
        """The values of keys, 0 where there is none, and which keys were found."""
    def contains(self, keys: _Array) -> _Answer:
        """Which keys are there."""
    def range(
        self, lo: _Array, hi: _Array, *, limit: int | None = None
    ) -> tuple[_Answer, _Answer, _Answer]:
        """The keys and values of ranges, one range behind the other, and where each begins; both bounds are included."""
    def count(self, lo: _Array, hi: _Array) -> _Answer:
        """How many keys each range has; both bounds are included."""
    def successor(self, keys: _Array) -> tuple[_Answer, _Answer, _Answer]:
        """The smallest key above each key, its value, and whether there is one."""
    def predecessor(self, keys: _Array) -> tuple[_Answer, _Answer, _Answer]:
        """The largest key below each key, its value, and whether there is one."""
    def asof(
        self,
        keys: _Array,
        direction: Literal["backward", "forward"] = "backward",
        tolerance: int | None = None,
        *,
        group_bits: int | None = None,
    ) -> tuple[_Answer, _Answer, _Answer]:
        """An as-of join: each key if it is there, or the nearest before it ("backward") or after it ("forward"); its value, and whether there is one."""
    def min(self) -> tuple[int, Any] | None:
        """The smallest key and its value; None if there are no keys."""
    def max(self) -> tuple[int, Any] | None:
        """The largest key and its value; None if there are no keys."""
    def items(self) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
        """All keys in order, and their values."""
    def save(self, path: _Path) -> None:
        """Writes all keys and values to a file."""
    def __len__(self) -> int: ...
    def __bool__(self) -> bool: ...
    def __contains__(self, key: int, /) -> bool: ...

@final
class OrderedSnapshot:
    """The state of an ordered map at one time; changes that come later are not in it."""

    def close(self) -> None:
        """Frees what only this snapshot needs."""
    def __enter__(self) -> OrderedSnapshot: ...
    def __exit__(self, *_exception: object) -> None: ...
    def get(self, keys: _Array) -> tuple[_Answer, _Answer]:
        """The values of keys, 0 where there is none, and which keys were found."""
    def contains(self, keys: _Array) -> _Answer:
        """Which keys are there."""
    def range(
        self, lo: _Array, hi: _Array, *, limit: int | None = None
    ) -> tuple[_Answer, _Answer, _Answer]:
        """The keys and values of ranges, one range behind the other, and where each begins; both bounds are included."""
    def count(self, lo: _Array, hi: _Array) -> _Answer:
        """How many keys each range has; both bounds are included."""
    def successor(self, keys: _Array) -> tuple[_Answer, _Answer, _Answer]:
        """The smallest key above each key, its value, and whether there is one."""
    def predecessor(self, keys: _Array) -> tuple[_Answer, _Answer, _Answer]:
        """The largest key below each key, its value, and whether there is one."""
    def asof(
        self,
        keys: _Array,
        direction: Literal["backward", "forward"] = "backward",
        tolerance: int | None = None,
        *,
        group_bits: int | None = None,
    ) -> tuple[_Answer, _Answer, _Answer]:
        """An as-of join: each key if it is there, or the nearest before it ("backward") or after it ("forward"); its value, and whether there is one."""
    def min(self) -> tuple[int, Any] | None:
        """The smallest key and its value; None if there are no keys."""
    def max(self) -> tuple[int, Any] | None:
        """The largest key and its value; None if there are no keys."""
    def items(self) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
        """All keys in order, and their values."""
    def save(self, path: _Path) -> None:
        """Writes all keys and values to a file."""
    def __len__(self) -> int: ...
    def __bool__(self) -> bool: ...
    def __contains__(self, key: int, /) -> bool: ...

@final
class SlabMap:
    """A map from keys to values of 32 or 64 bits whose batches mix requests: the slab hash; not a table of a store."""

    def __new__(
        cls, key: _Dtype | None = None, value: _Dtype | None = None, *, device: str = "cpu", capacity: int = 0, slab_bytes: int = 0, seed: int | None = None,
        most_slabs: int | None = None, most_buckets: int | None = None
    ) -> SlabMap: ...
    @staticmethod
    def load(
        path: _Path, key: _Dtype | None = None, value: _Dtype | None = None, *, device: str = "cpu", slab_bytes: int = 0, seed: int | None = None
    ) -> SlabMap:
        """The map of a file that `save` wrote, with the types that the saved one had."""
    def insert(self, keys: _Array, values: _Array) -> _Answer:
        """Adds keys; which of them are new. A key that is there keeps its value."""
    def put(self, keys: _Array, values: _Array) -> _Answer:
        """Adds keys, or replaces the values of those that are there; which of them are new."""
    def find(self, keys: _Array) -> tuple[_Answer, _Answer]:
        """The values of keys, 0 where there is none, and which keys were found."""
    def erase(self, keys: _Array) -> _Answer:
        """Removes keys; which of them were there."""
    def apply(self, kinds: _Array, keys: _Array, values: _Array | None = None) -> tuple[_Answer, _Answer]:
        """Runs requests of any kinds, named by `SlabOp`, at the same time: a `SlabStatus` for each, and the value that its key had before, or 0."""
    def items(self) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
        """All keys and their values, in no order."""
    def contains(self, keys: _Array) -> _Answer:
        """Which keys are there."""
    def reserve(self, items: int) -> None:
        """Makes room for `items` items in all, so that no batch grows the table before."""
    def flush(self) -> None:
        """Packs all chains, which removes the places of erased keys. Needs no memory."""
    def clear(self) -> None:
        """Removes everything."""
    def save(self, path: _Path) -> None:
        """Writes everything to a file."""
    @property
    def device(self) -> str: ...
    def __len__(self) -> int: ...
    def __bool__(self) -> bool: ...
    def __contains__(self, key: int, /) -> bool: ...

@final
class SlabSet:
    """A set of keys of 32 or 64 bits: the slab hash without values; not a table of a store."""

    def __new__(
        cls, key: _Dtype | None = None, *, device: str = "cpu", capacity: int = 0, slab_bytes: int = 0, seed: int | None = None,
        most_slabs: int | None = None, most_buckets: int | None = None
    ) -> SlabSet: ...
    @staticmethod
    def load(
        path: _Path, key: _Dtype | None = None, *, device: str = "cpu", slab_bytes: int = 0, seed: int | None = None
    ) -> SlabSet:
        """The set of a file that `save` wrote, with the types that the saved one had."""
    def insert(self, keys: _Array) -> _Answer:
        """Adds keys; which of them are new."""
    def erase(self, keys: _Array) -> _Answer:
        """Removes keys; which of them were there."""
    def keys(self) -> npt.NDArray[Any]:
        """All keys, in no order."""
    def contains(self, keys: _Array) -> _Answer:
        """Which keys are there."""
    def reserve(self, items: int) -> None:
        """Makes room for `items` items in all, so that no batch grows the table before."""
    def flush(self) -> None:
        """Packs all chains, which removes the places of erased keys. Needs no memory."""
    def clear(self) -> None:
        """Removes everything."""
    def save(self, path: _Path) -> None:
        """Writes everything to a file."""
    @property
    def device(self) -> str: ...
    def __len__(self) -> int: ...
    def __bool__(self) -> bool: ...
    def __contains__(self, key: int, /) -> bool: ...

@final
class SlabMultiMap:
    """A map from each key to any number of values: the slab hash with duplicates; not a table of a store."""

    def __new__(
        cls, key: _Dtype | None = None, value: _Dtype | None = None, *, device: str = "cpu", capacity: int = 0, slab_bytes: int = 0, seed: int | None = None,
        most_slabs: int | None = None, most_buckets: int | None = None
    ) -> SlabMultiMap: ...
    @staticmethod
    def load(
        path: _Path, key: _Dtype | None = None, value: _Dtype | None = None, *, device: str = "cpu", slab_bytes: int = 0, seed: int | None = None
    ) -> SlabMultiMap:
        """The multimap of a file that `save` wrote, with the types that the saved one had."""
    def insert(self, keys: _Array, values: _Array) -> None:
        """Adds pairs. The values of a key keep the order of the batches in which they came."""
    def find(self, keys: _Array) -> tuple[_Answer, _Answer]:
        """The first value of each key, 0 where there is none, and which keys were found."""
    def find_all(self, keys: _Array) -> tuple[_Answer, _Answer]:
        """All values of each key, in their order, and offsets: those of key `i` are `values[offsets[i]:offsets[i + 1]]`."""
    def count(self, keys: _Array) -> _Answer:
        """How many values each key has."""
    def erase(self, keys: _Array) -> _Answer:
        """Removes the first pair of each key; which keys had one."""
    def erase_all(self, keys: _Array) -> _Answer:
        """Removes all pairs of each key; how many there were."""
    def items(self) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
        """All keys and their values. The values of a key are in their order."""
    def contains(self, keys: _Array) -> _Answer:
        """Which keys are there."""
    def reserve(self, items: int) -> None:
        """Makes room for `items` items in all, so that no batch grows the table before."""
    def flush(self) -> None:
        """Packs all chains, which removes the places of erased keys. Needs no memory."""
    def clear(self) -> None:
        """Removes everything."""
    def save(self, path: _Path) -> None:
        """Writes everything to a file."""
    @property
    def device(self) -> str: ...
    def __len__(self) -> int: ...
    def __bool__(self) -> bool: ...
    def __contains__(self, key: int, /) -> bool: ...

@final
class Scan:
    """All items of a table, in arrays."""

    def __iter__(self) -> Scan: ...
    def __next__(self) -> tuple[Any, Any]: ...

@final
class Items:
    """All items of a table, one by one."""

    def __iter__(self) -> Items: ...
    def __next__(self) -> Any: ...

@final
class Table:
    """A table of a store: a mapping of single keys, and batches of many. Several threads may use it.

    It is registered as a `collections.abc.MutableMapping`.
    """

    @property
    def name(self) -> str: ...
    @property
    def key(self) -> Spec: ...
    @property
    def value(self) -> Spec: ...
    @property
    def merge_rule(self) -> str: ...
    @property
    def index(self) -> str: ...
    @property
    def device(self) -> str:
        """Where it runs, as in `open`."""
    @property
    def store_path(self) -> Path:
        """Where its store is."""
    @property
    def write_count(self) -> int | None:
        """How many writes this process has done to the table; None while one is under way. As long as the number stays the same, so do the rows."""
    @property
    def read_only(self) -> bool:
        """Whether its store was opened to be read only."""
    @property
    def attributes(self) -> dict[str, str]:
        """Short texts that programs keep with the table."""
    def set_attribute(self, name: str, value: str | None) -> None:
        """Sets an attribute, or removes it with None."""
    def __len__(self) -> int: ...
    def __bool__(self) -> bool: ...
    def __getitem__(self, key: _Key, /) -> Any: ...
    def __setitem__(self, key: _Key, value: Any, /) -> None: ...
    def __delitem__(self, key: _Key, /) -> None: ...
    def __contains__(self, key: _Key, /) -> bool: ...
    def __iter__(self) -> Items: ...
    def __reduce__(self) -> Any: ...
    def get(self, key: _Key, default: Any = None, /) -> Any:
        """The value of a key, or the default."""
    def pop(self, key: _Key, /, *default: Any) -> Any:
        """Removes a key and gives its value, or the default if it is not there. Of several threads, one gets the value."""
    def popitem(self) -> tuple[Any, Any]:
        """Removes some key and gives it with its value."""
    def setdefault(self, key: _Key, default: Any, /) -> Any:
        """Stores the value of a key that is not there, and gives the value that the key has then."""
    def clear(self) -> None:
        """Removes all keys that are there when it is called."""
    def get_versioned(self, key: _Key, /) -> tuple[int, Any] | None:
        """Version and value of a key, or None."""
    def keys(self) -> Items: ...
    def values(self) -> Items: ...
    def items(self) -> Items: ...
    def scan(self, batch: int = 65_536) -> Scan:
        """All keys and values in arrays of about `batch` items. A key may come twice if the table grows meanwhile."""
    def lookup(
        self,
        ids: _Array,
        *,
        out: _Array | None = None,
        found: _Array | None = None,
        versions: bool | _Array | None = None,
        fill: float | None = ...,
        durability: _Durability | None = None,
        stream: int | None = None,
    ) -> Any:
        """The rows of many keys and which of them were found; with versions=True, the versions, too.

        Rows of keys that are not there are filled with `fill`, 0 by default; None leaves them as they are.
        """
    @property
    def _step_lock(self) -> Any:
        """The lock of those who read rows, change and put them. All handles of the table have the same one."""
    def _read(self, ids: _Array, out: _Array) -> Any:
        """Reads rows into an array: the statuses, of which none is refused. Rows that are not found stay as they are."""
    def put(
        self,
        ids: _Array,
        values: _Array,
        *,
        versions: bool = False,
        durability: _Durability | None = None,
        atomic: bool = False,
        stream: int | None = None,
    ) -> Any:
        """Stores many values, whether the keys are there or not. Returns statuses; with versions=True, versions, too.

        With atomic=True nothing is stored if one value finds no space; otherwise those that found some are.
        """
    def insert(
        self,
        ids: _Array,
        values: _Array,
        *,
        versions: bool = False,
        durability: _Durability | None = None,
        atomic: bool = False,
        stream: int | None = None,
    ) -> Any:
        """Stores the values of keys that are not there."""
    def update(
        self,
        ids: _Array,
        values: _Array | None = None,
        *,
        versions: bool = False,
        durability: _Durability | None = None,
        atomic: bool = False,
        stream: int | None = None,
    ) -> Any:
        """Stores the values of keys that are there.

        With a mapping or with pairs alone, `update({key: value})`, it stores all of them in one batch, as the update of a dict does, and gives None.
        """
    def merge(
        self,
        ids: _Array,
        values: _Array,
        *,
        versions: bool = False,
        durability: _Durability | None = None,
        atomic: bool = False,
        stream: int | None = None,
    ) -> Any:
        """Combines values with the stored ones by the table's merge rule."""
    def add(
        self,
        ids: _Array,
        values: _Array,
        *,
        versions: bool = False,
        durability: _Durability | None = None,
        atomic: bool = False,
        stream: int | None = None,
    ) -> Any:
        """Adds to the stored values; absent keys start from 0."""
    def delete(
        self,
        ids: _Array,
        *,
        versions: bool = False,
        durability: _Durability | None = None,
        atomic: bool = False,
        stream: int | None = None,
    ) -> Any:
        """Removes keys."""
    def swap(
        self,
        ids: _Array,
        versions: _Array,
        values: _Array,
        *,
        durability: _Durability | None = None,
        stream: int | None = None,
    ) -> tuple[Any, Any]:
        """Stores the values of keys that have these versions: statuses, and the versions they have now."""
    def fetch_add(self, ids: _Array, deltas: _Array, *, durability: _Durability | None = None) -> Any:
        """Adds to integers of 8 bytes (u64, i64 or fixed(8)), and gives what was there before."""
    def stat(self) -> dict[str, Any]:
        """How full it is, in the terms of its index."""
    def to_arrow(self, batch: int = 65_536) -> Any:
        """All items as a `pyarrow.RecordBatchReader` with the columns key and value."""
    def read_arrow(
        self, source: Any, *, key: str = "key", value: str = "value", durability: _Durability | None = None
    ) -> int:
        """Stores the items of an Arrow table, reader, batch or stream; how many there were."""
    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any: ...

@final
class Store:
    """A store: named tables in a directory."""

    def table(
        self,
        name: str,
        *,
        key: Spec | None = None,
        value: Spec | None = None,
        merge: str | None = None,
        capacity: int = 1024,
        index: str = "gphash",
        check_gets: bool = False,
    ) -> Table:
        """The table of this name: opened, or created if values are given. One with other keys, values or merge rule is refused."""
    def tables(self) -> list[str]:
        """The names of all tables."""
    def __contains__(self, name: str, /) -> bool: ...
    def __getitem__(self, name: str, /) -> Table: ...
    def drop_table(self, name: str) -> None:
        """Drops a table and all that is in it."""
    def flush(self) -> None:
        """Makes everything written so far survive the machine."""
    def checkpoint(self) -> None:
        """Writes all items to a checkpoint, while writers go on, and trims the log."""
    def backup(self, path: _Path) -> dict[str, Any]:
        """Copies the store to a directory that does not exist yet, while writers go on."""
    def stat(self) -> dict[str, Any]:
        """Tables, space, log and how the store was opened."""
    def metrics(self) -> str:
        """The process's metrics in Prometheus' text format."""
    def to_device(self, array: _Array) -> DeviceArray:
        """A copy of an array of numbers, of one or two dimensions, in the memory of the store's device."""
    def close(self) -> None:
        """Closes the store. Its tables raise ClosedError from then on. Closing it again does nothing."""
    @property
    def path(self) -> Path: ...
    @property
    def read_only(self) -> bool: ...
    @property
    def device(self) -> str: ...
    @property
    def closed(self) -> bool: ...
    def __enter__(self) -> Store: ...
    def __exit__(self, *_exception: Any) -> None: ...
    def __reduce__(self) -> Any: ...

def check_statuses(statuses: _Array) -> None:
    """Raises BatchError if there is an error among the statuses of gets."""

def time_lookups(table: Table, ids: _Array, out: _Array, rounds: int) -> list[float]:
    """The seconds that each of `rounds` lookups takes in the library, without Python: for benchmarks."""

def open(
    path: _Path,
    *,
    device: str = "cpu",
    image: _Path | None = None,
    log: bool = True,
    read_only: bool = False,
    durability: _Durability = "process",
    threads: int = 0,
    max_bytes: int | None = None,
    check_items: bool = False,
    abandon_image: bool = False,
    adopt_copy: bool = False,
    device_values: float | int | None = None,
    checkpoints: Literal["automatic", "manual"] = "automatic",
) -> Store:
    """Opens the store in a directory, or creates it.

    device: "cpu", "cuda:0" or another GPU, or "sim", a simulator for tests. A GPU needs the image on tmpfs or hugetlbfs.
    image: where the image lies; by default in the directory.
    log: False for a store that offers durability "process" only.
    device_values: the most requested values that a GPU keeps in its memory: a float is a share of a table's values, an integer bytes for each table.
    durability: for writes that do not name one.
    checkpoints: "manual" for those alone that `Store.checkpoint` takes; until then the log grows.
    """

def verify(path: _Path, *, image: _Path | None = None) -> dict[str, Any]:
    """Checks a store that is not in use, and changes nothing; "sound" says whether there is no damage."""

def restore(backup: _Path, path: _Path, *, image: _Path | None = None) -> dict[str, Any]:
    """Makes a store of a backup."""

def devices() -> list[tuple[str, str | None]]:
    """The devices of this machine, each with the reason why it cannot be used, or None."""

def metrics() -> str:
    """The process's metrics in Prometheus' text format."""

def row(dtype: npt.DTypeLike, width: int) -> Spec:
    """Rows of `width` numbers: u8 to u64, i8 to i64, f16, f32 or f64."""

def scalar(dtype: npt.DTypeLike) -> Spec:
    """One number."""

def fixed(nbytes: int) -> Spec:
    """Bytes of one length."""

def var(max: int = 1024) -> Spec:
    """Bytes of any length up to a limit."""

def spec_from_text(text: str) -> Spec:
    """The spec of its text, for pickle."""
