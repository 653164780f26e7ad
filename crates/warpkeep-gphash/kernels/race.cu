// For tests: readers and writers in one launch.
#include "race.h"
