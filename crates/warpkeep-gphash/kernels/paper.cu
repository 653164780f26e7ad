// The paper's kernels, baselines of benchmarks.
#include "paper/alone.h"
#include "paper/cache.h"

WK_AGREE(gphash_paper_filling_bytes, sizeof(gphash::CacheFill))
WK_AGREE(gphash_paper_not_cached, gphash::kNotCached)
WK_AGREE(gphash_paper_lru, gphash::kLru)
WK_AGREE(gphash_paper_lfu, gphash::kLfu)
