// Kernels of the simulator's own tests.
#include "collectives.h"
#include "every.h"
#include "faults.h"
