// Graphs whose edges change in batches.
#include "graph_algorithms.h"
#include "graph_batch.h"
#include "graph_sample.h"
#include "graph_whole.h"

#define WK_GRAPH_KERNEL(space, name, Params) \
    WK_KERNEL_OF(graph_##name, space::Params, graph_batch::kThreads) { space::name(p); }

WK_GRAPH_KERNEL(graph_batch, largest, Expand)
WK_GRAPH_KERNEL(graph_batch, expand, Expand)
WK_GRAPH_KERNEL(graph_batch, resolve, Update)
WK_GRAPH_KERNEL(graph_batch, measure, Update)
WK_GRAPH_KERNEL(graph_batch, relocate, Update)
WK_GRAPH_KERNEL(graph_batch, shift, Update)
WK_GRAPH_KERNEL(graph_batch, put, Update)
WK_GRAPH_KERNEL(graph_batch, commit, Update)
WK_GRAPH_KERNEL(graph_whole, exists, Lookup)
WK_GRAPH_KERNEL(graph_whole, degrees, Gather)
WK_GRAPH_KERNEL(graph_whole, gather, Gather)
WK_GRAPH_KERNEL(graph_whole, list_blocks, Compact)
WK_GRAPH_KERNEL(graph_whole, measure_blocks, Compact)
WK_GRAPH_KERNEL(graph_whole, fetch_part, Compact)
WK_GRAPH_KERNEL(graph_whole, store_part, Compact)
WK_GRAPH_KERNEL(graph_whole, rebase, Compact)
WK_GRAPH_KERNEL(graph_whole, purge, Purge)
WK_GRAPH_KERNEL(graph_whole, verify, Verify)
WK_GRAPH_KERNEL(graph_sampling, sample, Sample)
WK_GRAPH_KERNEL(graph_algorithms, advance, Level)
WK_GRAPH_KERNEL(graph_algorithms, join, Join)
WK_GRAPH_KERNEL(graph_algorithms, shorten, Join)
WK_GRAPH_KERNEL(graph_algorithms, triangles, Count)
WK_GRAPH_KERNEL(graph_algorithms, spread, Rank)
WK_GRAPH_KERNEL(graph_algorithms, settle, Rank)

// The host has the same: src/graph.
WK_AGREE(graph_ref_bytes, sizeof(wk::GraphRef))
WK_AGREE(graph_control_words, graph_batch::kControlWords)
WK_AGREE(graph_needed, graph_batch::kNeeded)
WK_AGREE(graph_verified_words, graph_whole::kVerifiedWords)
WK_AGREE(graph_insert, graph_batch::Op::Insert)
WK_AGREE(graph_delete, graph_batch::Op::Delete)
WK_AGREE(graph_inserted, graph_batch::Status::Inserted)
WK_AGREE(graph_updated, graph_batch::Status::Updated)
WK_AGREE(graph_deleted, graph_batch::Status::Deleted)
WK_AGREE(graph_absent, graph_batch::Status::Absent)
WK_AGREE(graph_loop_dropped, graph_batch::Status::Loop)
WK_AGREE(graph_uniform, graph_sampling::Pick::Uniform)
WK_AGREE(graph_weighted, graph_sampling::Pick::Weighted)
WK_AGREE(graph_last, graph_sampling::Pick::Last)
