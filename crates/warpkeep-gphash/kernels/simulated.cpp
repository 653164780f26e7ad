// The kernels, for the simulator.
#include "gphash.cu"

// The number of the step that is left out; 0 for none.
extern "C" {
wk::u32 gphash_left_out = 0;
}
