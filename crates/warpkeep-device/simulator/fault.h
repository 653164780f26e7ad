// What a kernel did that it must not do, and where.
#pragma once
#include "warpkeep/simt.h"

namespace wk::sim {

// The numbers are known to the Rust side.
enum class FaultKind : u32 {
    None = 0,
    Diverged = 1,
    LaneGone = 2,
    NotInMask = 3,
    BarrierDiverged = 4,
    Deadlock = 5,
    Runaway = 6,
    Assertion = 7,
    OutOfBounds = 8,
    UseAfterFree = 9,
    Uninitialised = 10,
    Misaligned = 11,
    ReadOnlyChanged = 12,
    SharedMemory = 13,
    BadParams = 14,
    Resources = 15,
};

// The text is in place: a fault is reported on a lane's stack, which is dropped and never unwound.
struct Fault {
    FaultKind kind = FaultKind::None;
    u32 block = 0;
    u32 warp = 0;
    u32 lane = 0;
    u32 code = 0;
    Site at = {"", 0};
    char detail[384] = "";
};

}  // namespace wk::sim
