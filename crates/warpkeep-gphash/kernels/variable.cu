// Gets from tables with keys or values of variable length.
#include "read/variable.h"
