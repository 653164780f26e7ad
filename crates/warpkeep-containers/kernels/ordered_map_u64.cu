// Ordered maps of 64-bit keys and 64-bit values.
#include "ordered_pool.h"

using OrderedU64 = ordered_map::Params<wk::u64, wk::u64>;
WK_ORDERED_KERNELS(ordered_map_u64, OrderedU64)

// The host has the same: src/ordered_map/op.rs.
WK_AGREE(ordered_map_u64_inserted, wk::OrderedStatus::Inserted)
WK_AGREE(ordered_map_u64_updated, wk::OrderedStatus::Updated)
WK_AGREE(ordered_map_u64_found, wk::OrderedStatus::Found)
WK_AGREE(ordered_map_u64_absent, wk::OrderedStatus::Absent)
WK_AGREE(ordered_map_u64_erased, wk::OrderedStatus::Erased)
WK_AGREE(ordered_map_u64_truncated, wk::OrderedStatus::Truncated)
WK_AGREE(ordered_map_u64_full, wk::OrderedStatus::Full)
WK_AGREE(ordered_map_u64_insert, wk::OrderedOp::Insert)
WK_AGREE(ordered_map_u64_put, wk::OrderedOp::Put)
WK_AGREE(ordered_map_u64_add, wk::OrderedOp::Add)
WK_AGREE(ordered_map_u64_min, wk::OrderedOp::Min)
WK_AGREE(ordered_map_u64_max, wk::OrderedOp::Max)
WK_AGREE(ordered_map_u64_find_op, wk::OrderedOp::Find)
WK_AGREE(ordered_map_u64_contains, wk::OrderedOp::Contains)
WK_AGREE(ordered_map_u64_erase, wk::OrderedOp::Erase)
WK_AGREE(ordered_map_u64_successor, wk::OrderedOp::Successor)
WK_AGREE(ordered_map_u64_predecessor, wk::OrderedOp::Predecessor)
WK_AGREE(ordered_map_u64_ceiling, wk::OrderedOp::Ceiling)
WK_AGREE(ordered_map_u64_floor, wk::OrderedOp::Floor)
WK_AGREE(ordered_map_u64_count, wk::OrderedOp::Count)
WK_AGREE(ordered_map_u64_range, wk::OrderedOp::Range)
