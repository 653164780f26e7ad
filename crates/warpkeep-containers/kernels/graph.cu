// Graphs whose edges change in batches.
#include "graph_algorithms.h"
#include "graph_batch.h"
#include "graph_cores.h"
#include "graph_large.h"
#include "graph_number.h"
#include "graph_sample.h"
#include "graph_small.h"
#include "graph_triangles.h"
#include "graph_whole.h"

#define WK_GRAPH_KERNEL(space, name, Params) \
    WK_KERNEL_OF(graph_##name, space::Params, graph_batch::kThreads) { space::name(p); }

WK_GRAPH_KERNEL(graph_batch, largest, Expand)
WK_GRAPH_KERNEL(graph_batch, expand, Expand)
WK_GRAPH_KERNEL(graph_batch, resolve, Update)
WK_GRAPH_KERNEL(graph_batch, relocate, Update)
WK_GRAPH_KERNEL(graph_batch, put, Update)
WK_GRAPH_KERNEL(graph_batch, commit, Update)
WK_KERNEL_OF(graph_plan, graph_batch::Update, graph_small::kPlanThreads) { graph_small::plan(p); }
WK_GRAPH_KERNEL(graph_small, finish, Update)
WK_KERNEL_OF(graph_sum_runs, graph_batch::Update, graph_large::kSumThreads) { graph_large::sum_runs(p); }
WK_GRAPH_KERNEL(graph_large, place, Update)
WK_GRAPH_KERNEL(graph_large, measure, Update)
WK_KERNEL_OF(graph_sum_segments, graph_batch::Update, graph_large::kSumThreads) { graph_large::sum_segments(p); }
WK_KERNEL_OF(graph_settle_needs, graph_batch::Update, graph_batch::kThreads) { graph_large::settle(p); }
WK_GRAPH_KERNEL(graph_large, finish_short, Update)
WK_GRAPH_KERNEL(graph_large, finish_medium, Update)
WK_GRAPH_KERNEL(graph_whole, exists, Lookup)
WK_GRAPH_KERNEL(graph_whole, degrees, Gather)
WK_GRAPH_KERNEL(graph_whole, gather, Gather)
WK_GRAPH_KERNEL(graph_whole, list_blocks, Compact)
WK_GRAPH_KERNEL(graph_whole, measure_blocks, Compact)
WK_GRAPH_KERNEL(graph_whole, fetch_part, Compact)
WK_GRAPH_KERNEL(graph_whole, store_part, Compact)
WK_GRAPH_KERNEL(graph_whole, rebase, Compact)
WK_GRAPH_KERNEL(graph_whole, measure_purge, Purge)
WK_GRAPH_KERNEL(graph_whole, purge, Purge)
WK_GRAPH_KERNEL(graph_whole, count_frozen, Held)
WK_GRAPH_KERNEL(graph_whole, count_held, Held)
WK_GRAPH_KERNEL(graph_whole, verify, Verify)
WK_GRAPH_KERNEL(graph_sampling, allot, Choose)
WK_GRAPH_KERNEL(graph_sampling, choose_any, Choose)
WK_GRAPH_KERNEL(graph_sampling, choose_some, Choose)
WK_GRAPH_KERNEL(graph_sampling, stage, Choose)
WK_GRAPH_KERNEL(graph_sampling, stage_by_warp, Choose)
WK_GRAPH_KERNEL(graph_sampling, fetch, Choose)
WK_GRAPH_KERNEL(graph_numbers, enter, Number)
WK_GRAPH_KERNEL(graph_numbers, mark, Number)
WK_GRAPH_KERNEL(graph_numbers, assign, Number)
WK_GRAPH_KERNEL(graph_algorithms, advance, Level)
WK_GRAPH_KERNEL(graph_algorithms, join, Join)
WK_GRAPH_KERNEL(graph_algorithms, shorten, Join)
WK_GRAPH_KERNEL(graph_algorithms, spread, Rank)
WK_GRAPH_KERNEL(graph_algorithms, settle, Rank)
WK_GRAPH_KERNEL(graph_triangles, list_degrees, Orient)
WK_GRAPH_KERNEL(graph_triangles, orient, Orient)
WK_GRAPH_KERNEL(graph_triangles, orient_hubs, Orient)
WK_GRAPH_KERNEL(graph_triangles, count_tiny, Orient)
WK_GRAPH_KERNEL(graph_triangles, count_short, Orient)
WK_GRAPH_KERNEL(graph_triangles, count_long, Orient)
WK_GRAPH_KERNEL(graph_triangles, count_changed, Changed)
WK_GRAPH_KERNEL(graph_cores, prepare, Peel)
WK_GRAPH_KERNEL(graph_cores, take, Peel)
WK_GRAPH_KERNEL(graph_cores, peel, Peel)

// The host has the same: src/graph.
WK_AGREE(graph_ref_bytes, sizeof(wk::GraphRef))
WK_AGREE(graph_control_words, graph_batch::kControlWords)
WK_AGREE(graph_plan_threads, graph_small::kPlanThreads)
WK_AGREE(graph_most_runs, graph_small::kMostRuns)
WK_AGREE(graph_mediums, graph_batch::kMediums)
WK_AGREE(graph_run_sums, graph_batch::kRunSums)
WK_AGREE(graph_segment_sums, graph_batch::kSegmentSums)
WK_AGREE(graph_sum_threads, graph_large::kSumThreads)
WK_AGREE(graph_short_lanes, graph_large::kShortLanes)
WK_AGREE(graph_verified_words, graph_whole::kVerifiedWords)
WK_AGREE(graph_purged_words, graph_whole::kPurgedWords)
WK_AGREE(graph_triangle_words, graph_triangles::kControlWords)
WK_AGREE(graph_found, graph_triangles::kFound)
WK_AGREE(graph_hub, graph_triangles::kHub)
WK_AGREE(graph_tiny, graph_triangles::kTiny)
WK_AGREE(graph_short, graph_triangles::kShort)
WK_AGREE(graph_block_slots, graph_triangles::kBlockSlots)
WK_AGREE(graph_adds, graph_batch::kAdd)
WK_AGREE(graph_removes, graph_batch::kRemove)
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
WK_AGREE(graph_no_vertex, graph_sampling::kNoVertex)
