// The graph of the paper, with weights (15 pairs a slab) and without (30 targets a slab).
#include "slab_graph.h"

#define BENCH_SLAB_GRAPH(name, call)                                                          \
    WK_KERNEL_OF(bench_slab_graph_##name##_map, bench::SlabGraphParams, 128) { bench::call<wk::u64>(p); } \
    WK_KERNEL_OF(bench_slab_graph_##name##_set, bench::SlabGraphParams, 128) { bench::call<wk::u32>(p); }

BENCH_SLAB_GRAPH(apply, apply_edges)
BENCH_SLAB_GRAPH(unlink, unlink)
BENCH_SLAB_GRAPH(clear, clear)
BENCH_SLAB_GRAPH(triangles, count_triangles)
BENCH_SLAB_GRAPH(collect, collect)

WK_AGREE(bench_slab_graph_sums, bench::kSums)
WK_AGREE(bench_slab_graph_slab_bytes, bench::kGraphSlabBytes)
WK_AGREE(bench_slab_graph_map_items, bench::SlabGraph<wk::u64>::kItems)
WK_AGREE(bench_slab_graph_set_items, bench::SlabGraph<wk::u32>::kItems)
WK_AGREE(bench_slab_graph_reserved, bench::kDeletedVertex)
