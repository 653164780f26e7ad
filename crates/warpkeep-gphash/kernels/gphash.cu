// All kernels of GPHash tables.
#include "drain.h"
#include "get.h"
#include "layout.h"
#include "load.h"
#include "lookup.h"
#include "reflect.h"
#include "stage.h"
