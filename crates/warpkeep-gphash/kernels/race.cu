// For tests: readers beside writers in one launch.
#include "race.h"
