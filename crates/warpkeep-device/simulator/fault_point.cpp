// What fault points of kernels and of the host look at: see include/warpkeep/fault_point.h and src/fault.rs.
#include "warpkeep/simt.h"

extern "C" {
wk::u64 wk_fault_active = 0;
wk::u64 wk_fault_reached = 0;
}
