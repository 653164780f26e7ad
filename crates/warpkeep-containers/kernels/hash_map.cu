// Hash maps of 64-bit keys and 64-bit values.
#include "hash_batch.h"

WK_HASH_KERNELS(hash_map, wk::u64, wk::u64)

// The host has the same: src/hash_map/op.rs.
WK_AGREE(hash_map_inserted, wk::MapStatus::Inserted)
WK_AGREE(hash_map_updated, wk::MapStatus::Updated)
WK_AGREE(hash_map_found, wk::MapStatus::Found)
WK_AGREE(hash_map_absent, wk::MapStatus::Absent)
WK_AGREE(hash_map_erased, wk::MapStatus::Erased)
WK_AGREE(hash_map_full, wk::MapStatus::Full)
WK_AGREE(hash_map_insert, wk::MapOp::Insert)
WK_AGREE(hash_map_put, wk::MapOp::Put)
WK_AGREE(hash_map_add, wk::MapOp::Add)
WK_AGREE(hash_map_min, wk::MapOp::Min)
WK_AGREE(hash_map_max, wk::MapOp::Max)
WK_AGREE(hash_map_find_op, wk::MapOp::Find)
WK_AGREE(hash_map_contains, wk::MapOp::Contains)
WK_AGREE(hash_map_erase, wk::MapOp::Erase)
