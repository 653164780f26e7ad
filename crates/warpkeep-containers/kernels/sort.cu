// Sort, scan, runs and merges of columns in device memory.
#include "warpkeep/device_scan.h"
#include "warpkeep/radix_sort.h"
#include "warpkeep/sorted_runs.h"

using wk::u32;
using wk::u64;

WK_KERNEL_OF(containers_count_u32_16, wk::RadixPass, wk::kSortThreads) { wk::count_digits<u32, 16>(p); }
WK_KERNEL_OF(containers_count_u64_12, wk::RadixPass, wk::kSortThreads) { wk::count_digits<u64, 12>(p); }
WK_KERNEL_OF(containers_count_u64_16, wk::RadixPass, wk::kSortThreads) { wk::count_digits<u64, 16>(p); }

WK_KERNEL_OF(containers_scan_digits, wk::RadixPass, wk::kScanAloneThreads) { wk::scan_digits(p); }

WK_KERNEL_OF(containers_scatter_u32, wk::RadixPass, wk::kSortThreads) { wk::scatter_items<u32, wk::NoValue>(p); }
WK_KERNEL_OF(containers_scatter_u32_u32, wk::RadixPass, wk::kSortThreads) { wk::scatter_items<u32, u32>(p); }
WK_KERNEL_OF(containers_scatter_u32_u64, wk::RadixPass, wk::kSortThreads) { wk::scatter_items<u32, u64>(p); }
WK_KERNEL_OF(containers_scatter_u64, wk::RadixPass, wk::kSortThreads) { wk::scatter_items<u64, wk::NoValue>(p); }
WK_KERNEL_OF(containers_scatter_u64_u32, wk::RadixPass, wk::kSortThreads) { wk::scatter_items<u64, u32>(p); }
WK_KERNEL_OF(containers_scatter_u64_u64, wk::RadixPass, wk::kSortThreads) { wk::scatter_items<u64, u64>(p); }

WK_KERNEL_OF(containers_tile_u32, wk::RadixPass, wk::kSortThreads) { wk::sort_tile<u32, wk::NoValue>(p); }
WK_KERNEL_OF(containers_tile_u32_u32, wk::RadixPass, wk::kSortThreads) { wk::sort_tile<u32, u32>(p); }
WK_KERNEL_OF(containers_tile_u32_u64, wk::RadixPass, wk::kSortThreads) { wk::sort_tile<u32, u64>(p); }
WK_KERNEL_OF(containers_tile_u64, wk::RadixPass, wk::kSortThreads) { wk::sort_tile<u64, wk::NoValue>(p); }
WK_KERNEL_OF(containers_tile_u64_u32, wk::RadixPass, wk::kSortThreads) { wk::sort_tile<u64, u32>(p); }
WK_KERNEL_OF(containers_tile_u64_u64, wk::RadixPass, wk::kSortThreads) { wk::sort_tile<u64, u64>(p); }

WK_KERNEL_OF(containers_sum_tiles, wk::DeviceScan, wk::kScanTileThreads) { wk::sum_tiles(p); }
WK_KERNEL_OF(containers_scan_sums, wk::DeviceScan, wk::kScanAloneThreads) { wk::scan_sums(p); }
WK_KERNEL_OF(containers_scan_items, wk::DeviceScan, wk::kScanAloneThreads) { wk::scan_items(p); }
WK_KERNEL_OF(containers_scan_tiles, wk::DeviceScan, wk::kScanTileThreads) { wk::scan_tiles(p); }

WK_KERNEL_OF(containers_count_runs_u32, wk::RunSearch, wk::kRunThreads) { wk::count_runs<u32>(p); }
WK_KERNEL_OF(containers_list_runs_u32, wk::RunSearch, wk::kRunThreads) { wk::list_runs<u32>(p); }
WK_KERNEL_OF(containers_count_runs_u64, wk::RunSearch, wk::kRunThreads) { wk::count_runs<u64>(p); }
WK_KERNEL_OF(containers_list_runs_u64, wk::RunSearch, wk::kRunThreads) { wk::list_runs<u64>(p); }

WK_KERNEL(containers_merge_u32, wk::SortedMerge) { wk::merge_sorted<u32, wk::NoValue>(p); }
WK_KERNEL(containers_merge_u32_u32, wk::SortedMerge) { wk::merge_sorted<u32, u32>(p); }
WK_KERNEL(containers_merge_u32_u64, wk::SortedMerge) { wk::merge_sorted<u32, u64>(p); }
WK_KERNEL(containers_merge_u64, wk::SortedMerge) { wk::merge_sorted<u64, wk::NoValue>(p); }
WK_KERNEL(containers_merge_u64_u32, wk::SortedMerge) { wk::merge_sorted<u64, u32>(p); }
WK_KERNEL(containers_merge_u64_u64, wk::SortedMerge) { wk::merge_sorted<u64, u64>(p); }

// The host has the same: src/sort.rs.
WK_AGREE(containers_digits, wk::kDigits)
WK_AGREE(containers_sort_threads, wk::kSortThreads)
WK_AGREE(containers_items_u32_u32, (wk::kSortItems<u32, u32>))
WK_AGREE(containers_items_u64_u32, (wk::kSortItems<u64, u32>))
WK_AGREE(containers_items_u32_u64, (wk::kSortItems<u32, u64>))
WK_AGREE(containers_items_u64, (wk::kSortItems<u64, wk::NoValue>))
WK_AGREE(containers_items_u64_u64, (wk::kSortItems<u64, u64>))
WK_AGREE(containers_scan_tile, wk::kScanTile)
WK_AGREE(containers_scan_threads, wk::kScanTileThreads)
WK_AGREE(containers_scan_alone_threads, wk::kScanAloneThreads)
WK_AGREE(containers_scan_alone_each, wk::kScanAloneEach)
WK_AGREE(containers_run_tile, wk::kRunTile)
WK_AGREE(containers_merge_each, wk::kMergeEach)
