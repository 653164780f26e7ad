//! The headers of the runtime: hash, scan, partition, append, cooperative reads, SM affinity, duplicate keys.

use std::collections::BTreeMap;

use bytemuck::NoUninit;
use warpkeep_core::{Seed, hash_bytes, second_hash};
use warpkeep_device::{
    AffineBatch, Buffer, Device, DevicePtr, DuplicateTable, Grid, KernelCache, KernelSet as _, Partition,
    PartitionPlan, SmAffinity, StagedBuffer, Stream, TypedKernel, fault,
};

use super::programs::items;

/// `runtime::Params`.
#[derive(Clone, Copy, NoUninit)]
#[repr(C)]
pub(crate) struct Params {
    input: DevicePtr,
    out: DevicePtr,
    more: DevicePtr,
    count: u64,
    extra: u64,
    partition: Partition,
    affinity: SmAffinity,
    duplicates: DuplicateTable,
}

warpkeep_device::kernel_set! {
    /// Kernels that use each header.
    pub(crate) struct RuntimeKernels in "runtime.cu", prefix "runtime_" {
        hash: Params,
        append: Params,
        count: Params,
        scan: Partition,
        place: Params,
        visit: Params,
        lines: Params,
        block_duplicates: Params,
        insert_duplicates: Params,
        find_duplicates: Params,
        shared: Params,
    }
    agree {
        scanned_buckets = PartitionPlan::SCANNED_BUCKETS,
        scan_threads = PartitionPlan::SCAN_THREADS,
        head_words = PartitionPlan::HEAD_WORDS,
        sm_words = SmAffinity::SM_WORDS,
        entry_bytes = DuplicateTable::ENTRY_BYTES,
    }
}

/// A device with the kernels, and input and output of one launch.
struct Bench {
    device: Device,
    kernels: RuntimeKernels,
    stream: Stream,
    input: Buffer,
    out: Buffer,
    more: Buffer,
    params: Params,
}

impl Bench {
    fn new(device: &Device, input: &[u64], out: usize, more: usize) -> Bench {
        let buffer = |words: usize| device.allocate_zeroed(8 * words).unwrap();
        let (input_in, out, more) = (device.upload(input).unwrap(), buffer(out), buffer(more));
        let params = Params {
            input: input_in.ptr(),
            out: out.ptr(),
            more: more.ptr(),
            count: input.len() as u64,
            extra: 0,
            partition: Partition::NONE,
            affinity: SmAffinity::NONE,
            duplicates: DuplicateTable::NONE,
        };
        Bench {
            kernels: RuntimeKernels::load_with(device, &KernelCache::none()).unwrap(),
            stream: device.stream().unwrap(),
            device: device.clone(),
            input: input_in,
            out,
            more,
            params,
        }
    }

    fn launch(&self, kernel: fn(&RuntimeKernels) -> &TypedKernel<Params>, grid: Grid) {
        // SAFETY: the buffers are as long as the kernels take them to be, and stay until the stream is synchronised.
        unsafe { kernel(&self.kernels).launch(grid, &self.params, &self.stream).unwrap() };
        self.stream.synchronize().unwrap();
    }

    fn out(&self) -> Vec<u64> {
        self.out.to_vec().unwrap()
    }

    fn more(&self) -> Vec<u64> {
        self.more.to_vec().unwrap()
    }
}

fn scatter(i: u64) -> u64 {
    (i + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(23)
}

pub(crate) fn hashes_are_those_of_the_host(device: &Device) {
    for len in [1_usize, 3, 4, 8, 9, 15, 16, 17, 24, 32, 47, 64, 100] {
        let row = len.div_ceil(8);
        let keys: Vec<Vec<u8>> =
            (0..70).map(|i| (0..len as u64).map(|byte| scatter(100 * i + byte) as u8).collect()).collect();
        let words: Vec<u64> = keys
            .iter()
            .flat_map(|key| {
                let mut padded = key.clone();
                padded.resize(8 * row, 0);
                bytemuck::pod_collect_to_vec::<u8, u64>(&padded)
            })
            .collect();
        let mut bench = Bench::new(device, &words, keys.len(), 1);
        (bench.params.count, bench.params.extra) = (keys.len() as u64, len as u64);
        let grid = Grid::covering(bench.params.count, 64);
        bench.launch(|kernels| &kernels.hash, grid);
        let first: Vec<u64> = keys.iter().map(|key| hash_bytes(Seed(7), key)).collect();
        let second: Vec<u64> = first.iter().map(|hash| second_hash(*hash)).collect();
        assert_eq!(bench.out(), second, "{len}");
        if len == 8 && device.simulator().is_some() {
            let active = fault::activate("runtime.second_hash");
            bench.launch(|kernels| &kernels.hash, grid);
            assert_eq!((bench.out(), active.reached()), (first, 70), "a kernel's fault point is left out");
        }
    }
}

pub(crate) fn appended_items_are_in_their_lists_once(device: &Device) {
    let count = items(device) as usize;
    let input: Vec<u64> = (0..count as u64).map(|i| scatter(i) >> 61).collect();
    let bench = Bench::new(device, &input, 3 * count, 3);
    bench.launch(|kernels| &kernels.append, Grid::covering(count as u64, 128));
    let (lists, lengths) = (bench.out(), bench.more());
    for list in 0..3 {
        let mut found = lists[list * count..][..lengths[list] as usize].to_vec();
        // Neighbours of one warp stay neighbours.
        assert!(found.windows(2).filter(|pair| pair[0] > pair[1]).count() <= count / 32);
        found.sort_unstable();
        let expected: Vec<u64> = (0..count as u64).filter(|i| input[*i as usize] >> list & 1 == 1).collect();
        assert_eq!(found, expected, "list {list}");
    }
}

pub(crate) fn a_partition_sorts_and_its_items_are_visited_once(device: &Device) {
    let (count, end) = (items(device), 1_u64 << 30);
    // A third of the items has one address.
    let input: Vec<u64> =
        (0..count).map(|i| if i % 3 == 0 { 12_345_678 } else { scatter(i) % end }).collect();
    let mut bench = Bench::new(device, &input, count as usize, count as usize);
    let plan = PartitionPlan::for_items(end, count);
    let (mut column, mut counters) = (StagedBuffer::default(), StagedBuffer::default());
    bench.params.partition = plan.zeroed(device, &mut column, &bench.stream).unwrap();
    let grid = Grid::covering(count, 128);
    bench.launch(|kernels| &kernels.count, grid);
    // SAFETY: the partition is that of the plan, and its column stays.
    unsafe { bench.params.partition.scan(&bench.kernels.scan, &bench.stream).unwrap() };
    bench.launch(|kernels| &kernels.place, grid);
    let sorted = bench.more();
    assert!(sorted.is_sorted_by_key(|address| address >> plan.shift()));
    let mut expected = input.clone();
    expected.sort_unstable();
    let mut found = sorted;
    found.sort_unstable();
    assert_eq!(found, expected);

    let threads = 64;
    let sms = device.info().abilities.multiprocessors;
    let resident_blocks = bench.kernels.visit.resident_blocks(threads, 0).unwrap();
    let batch = AffineBatch { sms, end, items: count, threads, resident_blocks };
    for affinity in [SmAffinity::sorted(&batch, plan), SmAffinity::sorted(&batch, plan).with_one_slot()] {
        bench.out.fill(0).unwrap();
        let counts = counters.zeros(&bench.device, SmAffinity::bytes(sms), &bench.stream).unwrap();
        bench.params.affinity = affinity.at(counts);
        bench.launch(|kernels| &kernels.visit, affinity.grid(threads));
        assert!(bench.out().iter().all(|visits| *visits == 1), "{affinity:?}");
    }
}

pub(crate) fn lines_are_read_together(device: &Device) {
    const LINES: u64 = 50;
    for stride in [8_u64, 10] {
        let count = 77;
        let numbers: Vec<u64> = (0..count).map(|i| scatter(i) % LINES).collect();
        let words: Vec<u64> = (0..LINES * stride).map(|word| scatter(word) >> 61).collect();
        // Lines begin behind the numbers, at a multiple of 16 bytes.
        let mut input = numbers.clone();
        input.resize(numbers.len().next_multiple_of(2), 0);
        input.extend(&words);
        let mut bench = Bench::new(device, &input, 8 * count as usize + 8, count as usize + 1);
        (bench.params.count, bench.params.extra) = (count.next_multiple_of(2), stride);
        bench.launch(|kernels| &kernels.lines, Grid::covering(count, 64));
        let (out, fives) = (bench.out(), bench.more());
        for (i, number) in numbers.iter().enumerate() {
            let line = &words[(number * stride) as usize..][..8];
            assert_eq!(&out[8 * i..][..8], line);
            let expected: u64 = (0..8).filter(|word| line[*word] == 5).map(|word| 1 << word).sum();
            assert_eq!(fives[i], expected);
        }
    }
}

pub(crate) fn duplicates_of_blocks_and_batches_are_found(device: &Device) {
    let count = 1000_usize;
    let keys: Vec<u64> = (0..count as u64).map(|i| scatter(i) % 300 * 0x10_0001).collect();
    let mut bench = Bench::new(device, &keys, count, count);
    let threads = 128;
    bench.launch(|kernels| &kernels.block_duplicates, Grid::covering(count as u64, threads));
    let (first, uses) = (bench.out(), bench.more());
    for (block, keys) in keys.chunks(threads as usize).enumerate() {
        let begin = block * threads as usize;
        for (i, key) in keys.iter().enumerate() {
            let first = first[begin + i] as usize - begin;
            assert_eq!(keys[first], *key, "only equal keys are duplicates");
        }
        // A thread that is first counts those that follow it, and keys that are not duplicates count themselves.
        let counted: u64 = uses[begin..begin + keys.len()].iter().sum();
        assert_eq!(counted, keys.len() as u64);
    }

    let mut column = StagedBuffer::default();
    let entries = column.zeros(device, DuplicateTable::bytes(count as u64), &bench.stream).unwrap();
    bench.params.duplicates = DuplicateTable::at(entries, count as u64);
    assert!(keys.contains(&0), "the hash that also means free is among them");
    let grid = Grid::covering(count as u64, threads);
    bench.launch(|kernels| &kernels.insert_duplicates, grid);
    bench.launch(|kernels| &kernels.find_duplicates, grid);
    let mut ends = BTreeMap::new();
    for (i, key) in (0_u64..).zip(&keys) {
        ends.entry(*key).or_insert((i, i)).1 = i;
    }
    let expected: Vec<u64> = keys.iter().map(|key| ends[key].0 | ends[key].1 << 32).collect();
    assert_eq!(bench.out(), expected);
    assert_eq!(bench.input.to_vec::<u64>().unwrap(), keys);
}

pub(crate) fn a_launch_has_all_the_shared_memory_of_the_device(device: &Device) {
    let most = device.info().abilities.shared_bytes_per_block;
    let mut bench = Bench::new(device, &[], 2, 1);
    for shared_bytes in [1 << 10, 40 << 10, most / 2, most] {
        let words = u64::from(shared_bytes) / 8;
        bench.params.extra = words;
        bench.out.fill(0).unwrap();
        bench.launch(|kernels| &kernels.shared, Grid { blocks: 2, threads: 64, shared_bytes });
        assert_eq!(bench.out(), [words * (words - 1) / 2; 2], "{shared_bytes} bytes");
    }
}
