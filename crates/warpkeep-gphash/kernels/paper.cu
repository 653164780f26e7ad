// The paper's kernels that benchmarks compare the tables' own with.
#include "paper_alone.h"
#include "paper_cache.h"

WK_AGREE(gphash_paper_filling_bytes, sizeof(gphash::Filling))
WK_AGREE(gphash_paper_not_cached, gphash::kNotCached)
WK_AGREE(gphash_paper_lru, gphash::kLru)
WK_AGREE(gphash_paper_lfu, gphash::kLfu)
