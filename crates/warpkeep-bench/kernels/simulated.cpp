// The kernels, for the simulator.
#include "bench.cu"
