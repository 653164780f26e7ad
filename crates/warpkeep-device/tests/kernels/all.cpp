// All kernels of the tests, for the simulator.
#include "collectives.h"
#include "every.h"
#include "faults.h"
#include "publish.h"
#include "table.h"
