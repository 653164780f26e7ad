//! Containers and primitives in the memory of a GPU, or of the simulator of one.
//!
//! | type | what it does |
//! | --- | --- |
//! | [`Sorter`] | stable radix sort of keys with payloads, exclusive scan, runs of equal keys, merge of sorted columns |
//! | [`SlabAlloc`] | units of 32 to 512 bytes that kernels claim and give back |
//! | [`SlabMap`], [`SlabSet`], [`SlabMultiMap`] | hash tables of chains of slabs, of 32 or 64 bits, with any mix of requests in one launch |
//! | [`HashMap`] | keys of 4 or 8 bytes to values of 4, 8 or 16; grows by itself; batches of mixed operations in their order |
//! | [`HashSet`] | the same without values |
//! | [`CuckooIndex`] | 64-bit hashes of keys to 32-bit locations, eight bytes an entry: Mega-KV's index; batches of mixed operations in their order |
//! | [`OrderedMap`], [`OrderedSnapshot`] | keys in order: ranges, neighbours, ranks, snapshots; batches of mixed operations in their order |
//! | [`Graph`], [`GraphSnapshot`] | a directed or undirected graph whose edges change in batches; neighbour sampling, also by time; algorithms, CSR, snapshots |
//!
//! Columns are [buffers](warpkeep_device::Buffer) of the caller. Calls run after the work in the caller's stream.

mod batch_columns;
mod batch_plan;
mod columns;
mod cuckoo_index;
mod error;
mod file;
mod graph;
mod hash_map;
mod ordered_map;
mod slab_alloc;
mod slab_hash;
mod sort;
mod spread_count;

pub use columns::{SortKey, SortValue};
pub use cuckoo_index::{
    CuckooIndex, CuckooIndexOptions, CuckooIndexRef, CuckooIndexStats, DeviceIndexAnswers, DeviceIndexOps,
    IndexAnswer, IndexEntry, IndexOp, IndexOpKind, IndexOpKinds, IndexStatus, NO_LOCATION,
};
pub use error::ContainerError;
pub use graph::generate;
pub use graph::{
    DeviceCsr, DeviceEdgeOps, DeviceNeighbours, DeviceSample, DeviceSeeds, Edge, EdgeList, EdgeOp,
    EdgeOpKind, EdgeOpKinds, EdgeStatus, Graph, GraphCsr, GraphOptions, GraphPin, GraphRef, GraphSample,
    GraphSnapshot, GraphStats, NO_VERTEX, PageRanks, SampleOptions, TriangleChange,
};
pub use hash_map::{
    DeviceAnswers, DeviceOps, HashMap, HashMapOptions, HashMapRef, HashMapStats, HashSet, HashSetRef,
    MapAnswer, MapKey, MapOp, MapOpKind, MapOpKinds, MapStatus, MapValue, Upsert,
};
pub use ordered_map::{
    DeviceFound, DeviceOrderedAnswers, DeviceOrderedOps, DevicePairs, Near, OrderedAnswer, OrderedChange,
    OrderedKey, OrderedMap, OrderedMapOptions, OrderedMapRef, OrderedMapStats, OrderedOp, OrderedOpKind,
    OrderedOpKinds, OrderedPin, OrderedRanges, OrderedSnapshot, OrderedStatus, OrderedWord, OrderedWriter,
    OrderedWriterRef, PairLayout,
};
pub use slab_alloc::{SlabAlloc, SlabAllocContents, SlabAllocOptions, SlabAllocRef, SlabAllocStats};
pub use slab_hash::{
    DeviceSlabAnswers, DeviceSlabOps, SlabAnswer, SlabHashOptions, SlabHashStats, SlabKey, SlabMap,
    SlabMultiMap, SlabMultiRequest, SlabOpKind, SlabOpKinds, SlabRequest, SlabSet, SlabStatus, SlabTableRef,
    SlabValue,
};
pub use sort::{Sorted, Sorter};
pub use warpkeep_device::{DeviceError, Result};
