// All kernels of the benchmarks.
#include "answers.h"
#include "limits.h"
