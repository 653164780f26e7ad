// Gets with keys and answers in device memory whose values the cores of the host copy: small batches, and large ones part by part. Values here and there come over the link
// one translation of an address after the other; cores gather them several times as fast, and the link carries them up in a row. So each block
// answers what it knows itself, tells the host which records are left, waits until the host has gathered their values, and copies them up. All of
// it is one launch: the host begins with the first records while others are located, and its first rows go up while it gathers the last.
//
// A block does not wait for ever. If the host is late, because its threads have something else to do or there are none, the block fetches
// its values itself. What the host writes after that nobody reads.
#pragma once
#include "few.h"

namespace gphash {

// Words that both share have in their upper bits which launch they are of: those of others say nothing.
constexpr u32 kTagShift = 48;
// What the host says of the values of a block: that they are gathered; that there is something among them which is no record.
constexpr u64 kGathered = 1;
constexpr u64 kDeclined = 2;
// Words from one block's to the next: cores that write them do not get in each other's way.
constexpr u32 kVerdictWords = 8;

struct AskHostParams {
    GetParams get;
    // What words of this launch have in their upper bits.
    u64 tag;
    // In memory of the host: for each key the record whose value the host is to copy; 0 if there is none, or the key is answered.
    u64* records;
    // There, too, for each block what the host says.
    const u64* verdicts;
    // What the host has copied, by the indices of the keys.
    const u64* values;
    const u64* versions;
    // How often a block looks before it does without the host, and nanoseconds in between.
    u64 patience;
    u64 pause;
    // Whether rows and records are aligned to 16 bytes.
    u64 wide;
};

// Waits for the host; whether it has gathered the values of this block. One thread.
WK_DEVICE bool host_has_gathered(const AskHostParams& p) {
    const u64* verdict = p.verdicts + (u64)block_index() * kVerdictWords;
    for (u64 look = 0; look < p.patience; look++) {
        u64 said = load<Scope::System, Order::Acquire>(verdict);
        if (said >> kTagShift == p.tag >> kTagShift) return said == (p.tag | kGathered);
        // A look takes as long as the way there and back, and many of them keep others from it.
        backoff((u32)p.pause);
    }
    return false;
}

}  // namespace gphash

// Answers keys, with the host. A thread a key.
WK_KERNEL(gphash_ask_host, gphash::AskHostParams) {
    using namespace gphash;
    const GetParams& get = p.get;
    const Table& t = get.table;
    WK_SHARED(u32, gathered, 1);
    u64 index = global_index(), first = index - lane();
    bool mine = index < get.count, there = false;
    u64 record = 0;
    if (first < get.count) {
        FewFound found = locate_few(get, index);
        there = found.there;
        record = there ? record_behind(t, found.record) : 0;
        if (mine) store<Scope::System, Order::Relaxed>(p.records + index, p.tag | record);
        if (mine && !found.asks) {
            store(get.statuses + index, (u8)(there ? kOk : kNotFound));
            if (get.versions && !there) store(get.versions + index, (u64)0);
        }
        ask_image(get, first, found.hash, Warp().ballot(found.asks));
    }
    if (thread_index() == 0) gathered.store(0, host_has_gathered(p));
    sync_block();
    bool by_host = gathered.load(0);
    // The host need not begin any more.
    if (!by_host && there) store<Scope::System, Order::Relaxed>(p.records + index, p.tag);
    if (first >= get.count) return;
    u64 version = !there || !get.versions ? 0 : by_host ? load(p.versions + index) : version_behind(t, record);
    // An offset of 0 is none, so the base is one word before.
    const u64* base = by_host ? p.values - 1 : t.at(0);
    u64 from = !there ? 0 : by_host ? 8 + index * t.value_words() * 8 : value_behind(t, record);
    if (p.wide) copy_rows<U128>(get, base, from, index);
    else copy_rows<u64>(get, base, from, index);
    if (there && get.versions) store(get.versions + index, version);
}
