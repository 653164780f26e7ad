// Kernels that use a hash map as anybody's kernels may: those of the example hash_map_kernel, and of the tests of warpkeep/hash_map.h.
#include "warpkeep/hash_map.h"

namespace hash_map_calls {

using namespace wk;

struct Calls {
    HashMapRef map;
    const u64* keys;
    const u64* operands;
    u8* statuses;
    u64* before;
    u64 count;
    u64 op;
};

struct Words {
    HashMapRef map;
    const u64* words;
    u8* statuses;
    u64 count;
};

struct Keys {
    HashSetRef set;
    const u64* keys;
    u8* statuses;
    u64 count;
    u64 op;
};

}  // namespace hash_map_calls

// Counts words. Those that are answered Full were not counted: the host counts them, which makes room.
WK_KERNEL(hash_map_calls_count_words, hash_map_calls::Words) {
    using namespace hash_map_calls;
    u64 i = global_index();
    if (i >= p.count) return;
    store(p.statuses + i, (u8)p.map.upsert(MapOp::Add, load(p.words + i), 1));
}

// Adds keys to a set, removes them or asks for them, in whatever order the threads come.
WK_KERNEL(hash_map_calls_run_keys, hash_map_calls::Keys) {
    using namespace hash_map_calls;
    u64 i = global_index();
    if (i >= p.count) return;
    u64 key = load(p.keys + i);
    MapStatus status;
    switch ((MapOp)p.op) {
        case MapOp::Insert: status = p.set.insert(key); break;
        case MapOp::Erase: status = p.set.erase(key); break;
        default: status = p.set.contains(key) ? MapStatus::Found : MapStatus::Absent; break;
    }
    store(p.statuses + i, (u8)status);
}

// A call of a thread for each key, in whatever order the threads come.
WK_KERNEL(hash_map_calls_run, hash_map_calls::Calls) {
    using namespace hash_map_calls;
    u64 i = global_index();
    if (i >= p.count) return;
    u64 key = load(p.keys + i), operand = load(p.operands + i), before = 0;
    MapStatus status;
    switch ((MapOp)p.op) {
        case MapOp::Find: status = p.map.find(key, before) ? MapStatus::Found : MapStatus::Absent; break;
        case MapOp::Contains: status = p.map.contains(key) ? MapStatus::Found : MapStatus::Absent; break;
        case MapOp::Erase: status = p.map.erase(key, &before); break;
        case MapOp::Insert: status = p.map.insert(key, operand, &before); break;
        default: status = p.map.upsert((MapOp)p.op, key, operand, &before); break;
    }
    store(p.statuses + i, (u8)status);
    store(p.before + i, before);
}
