// Kernels that use a hash map as anybody's kernels may: those of the example hash_map_kernel, and of the tests of warpkeep/hash_map.h.
#include "warpkeep/hash_map.h"

namespace hash_map_calls {

using namespace wk;

template <class Key, class Value> struct Calls {
    HashRef<Key, Value> map;
    const Key* keys;
    const Value* operands;
    u8* statuses;
    Value* before;
    u64 count;
    u64 op;
};

struct Words {
    HashMapRef map;
    const u64* words;
    u8* statuses;
    u64 count;
};

template <class Key> struct Keys {
    HashRef<Key> set;
    const Key* keys;
    u8* statuses;
    u64 count;
    u64 op;
};

// A call of a thread for each key, in whatever order the threads come.
template <class Key, class Value> WK_DEVICE void run(const Calls<Key, Value>& p) {
    u64 i = global_index();
    if (i >= p.count) return;
    Key key = load(p.keys + i);
    Value operand = load(p.operands + i), before{};
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

// Half of the threads put values, and the others look for the same keys meanwhile: they find a value that was put, or none.
template <class Key, class Value> WK_DEVICE void put_and_find(const Calls<Key, Value>& p) {
    u64 i = global_index();
    if (i >= p.count) return;
    Key key = load(p.keys + i);
    Value before{};
    bool finds = i % 2, is_there = true;
    if (finds) is_there = p.map.find(key, before);
    else p.map.upsert(MapOp::Put, key, load(p.operands + i));
    store(p.statuses + i, (u8)(is_there ? MapStatus::Found : MapStatus::Absent));
    store(p.before + i, before);
}

// Adds keys to a set, removes them or asks for them, in whatever order the threads come.
template <class Key> WK_DEVICE void run_keys(const Keys<Key>& p) {
    u64 i = global_index();
    if (i >= p.count) return;
    Key key = load(p.keys + i);
    MapStatus status;
    switch ((MapOp)p.op) {
        case MapOp::Insert: status = p.set.insert(key); break;
        case MapOp::Erase: status = p.set.erase(key); break;
        default: status = p.set.contains(key) ? MapStatus::Found : MapStatus::Absent; break;
    }
    store(p.statuses + i, (u8)status);
}

}  // namespace hash_map_calls

// Counts words. Those that are answered Full were not counted: the host counts them, which makes room.
WK_KERNEL(hash_map_calls_count_words, hash_map_calls::Words) {
    using namespace hash_map_calls;
    u64 i = global_index();
    if (i >= p.count) return;
    store(p.statuses + i, (u8)p.map.upsert(MapOp::Add, load(p.words + i), 1));
}

WK_KERNEL(hash_map_calls_run_keys, hash_map_calls::Keys<wk::u64>) { hash_map_calls::run_keys(p); }
WK_KERNEL(hash_map_calls_run_keys_4, hash_map_calls::Keys<wk::u32>) { hash_map_calls::run_keys(p); }

#define WK_HASH_MAP_CALLS(suffix, Key, Value)                                                             \
    using hash_map_calls##suffix = hash_map_calls::Calls<Key, Value>;                                     \
    WK_KERNEL(hash_map_calls_run##suffix, hash_map_calls##suffix) { hash_map_calls::run(p); }             \
    WK_KERNEL(hash_map_calls_put_and_find##suffix, hash_map_calls##suffix) { hash_map_calls::put_and_find(p); }

WK_HASH_MAP_CALLS(_8_8, wk::u64, wk::u64)
WK_HASH_MAP_CALLS(_4_4, wk::u32, wk::u32)
WK_HASH_MAP_CALLS(_4_8, wk::u32, wk::u64)
WK_HASH_MAP_CALLS(_8_4, wk::u64, wk::u32)
WK_HASH_MAP_CALLS(_4_16, wk::u32, wk::U128)
WK_HASH_MAP_CALLS(_8_16, wk::u64, wk::U128)
