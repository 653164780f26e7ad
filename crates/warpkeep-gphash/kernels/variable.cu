// Gets of keys or values of any length.
#include "variable.h"
