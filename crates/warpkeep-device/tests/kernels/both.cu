// Kernels that tests run on the simulator and on a GPU.
#include "publish.h"
#include "table.h"

// What tests/device_body/programs.rs has the same value for.
WK_AGREE(table_slots, table::kSlots)
