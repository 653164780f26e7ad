//! Many reads at once, for which blocks keep the upper levels of the directory, and reads at both ends.

use std::collections::BTreeMap;
use std::ops::Bound::{Excluded, Included};

use warpkeep_containers::{
    DeviceOrderedAnswers, DeviceOrderedOps, DevicePairs, Near, OrderedKey, OrderedMap, OrderedMapOptions,
    OrderedOpKind, OrderedOpKinds, OrderedSnapshot, OrderedWord, PairLayout,
};
use warpkeep_device::{Buffer, Device, Mode};

use crate::model::key_of;

const FOUND: u8 = 3;
const ABSENT: u8 = 4;
const TRUNCATED: u8 = 6;

/// As many reads as there must be: the simulator runs a block of 512 threads on each core, and each thread has four
/// reads.
fn many() -> usize {
    4 * 512 * std::thread::available_parallelism().map_or(1, usize::from)
}

/// What a call answers to each operation.
struct Answers<K, V> {
    statuses: Vec<u8>,
    keys: Vec<K>,
    values: Vec<V>,
    counts: Vec<u32>,
    pair_keys: Vec<K>,
    pair_values: Vec<V>,
    offsets: Vec<u32>,
}

/// What stands in room for pairs where none were written.
const UNTOUCHED: u8 = 0x77;

/// Reads of one kind in device memory; the pairs of ranges with this stride, or one range behind the other.
fn read<K: OrderedKey<V>, V: OrderedWord>(
    device: &Device,
    state: &OrderedSnapshot<K, V>,
    kind: OrderedOpKind,
    (lows, highs): (&[K], &[K]),
    stride: Option<usize>,
    room: usize,
) -> Answers<K, V> {
    let (stream, count, of_key, of_value) =
        (device.stream().unwrap(), lows.len(), size_of::<K>(), size_of::<V>());
    let (keys, ends) = (device.upload(lows).unwrap(), device.upload(highs).unwrap());
    let [mut statuses, mut found, mut values, mut counts, mut offsets] =
        [count, of_key * count, of_value * count, 4 * count, 4 * (count + 1)]
            .map(|bytes| device.allocate_zeroed(bytes).unwrap());
    let [mut pair_keys, mut pair_values] =
        [of_key * room, of_value * room].map(|bytes| device.upload(&vec![UNTOUCHED; bytes]).unwrap());
    let ops = DeviceOrderedOps {
        kinds: OrderedOpKinds::All(kind),
        keys: &keys,
        ends: Some(&ends),
        values: None,
        count,
    };
    let layout = stride.map_or_else(|| PairLayout::Offsets(&mut offsets), PairLayout::Stride);
    let answers = DeviceOrderedAnswers {
        statuses: &mut statuses,
        values: Some(&mut values),
        keys: Some(&mut found),
        counts: Some(&mut counts),
        pairs: Some(DevicePairs { keys: &mut pair_keys, values: &mut pair_values, layout }),
    };
    state.read_on(ops, answers, &stream).unwrap();
    fn all<T: bytemuck::Pod>(buffer: &Buffer) -> Vec<T> {
        buffer.to_vec().unwrap()
    }
    Answers {
        statuses: all(&statuses),
        keys: all(&found),
        values: all(&values),
        counts: all(&counts),
        pair_keys: all(&pair_keys),
        pair_values: all(&pair_values),
        offsets: all(&offsets),
    }
}

/// All kinds of reads of a state, beside those of a map of the standard library.
fn check<K: OrderedKey<V>, V: OrderedWord>(
    device: &Device,
    state: &OrderedSnapshot<K, V>,
    model: &BTreeMap<K, V>,
    lows: &[K],
    highs: &[K],
) {
    let count = lows.len();
    let none = (K::default(), V::default());
    for kind in
        [OrderedOpKind::Successor, OrderedOpKind::Ceiling, OrderedOpKind::Predecessor, OrderedOpKind::Floor]
    {
        let pair = |key: &K| match kind {
            OrderedOpKind::Successor => model.range((Excluded(*key), Included(K::LARGEST))).next(),
            OrderedOpKind::Ceiling => model.range(*key..).next(),
            OrderedOpKind::Predecessor => model.range(..*key).next_back(),
            _ => model.range(..=*key).next_back(),
        };
        // The range above the largest key is none that the standard library takes.
        let pair = |key: &K| match kind {
            OrderedOpKind::Successor if *key == K::LARGEST => None,
            _ => pair(key).map(|(key, value)| (*key, *value)),
        };
        let right: Vec<Option<(K, V)>> = lows.iter().map(pair).collect();
        let answers = read(device, state, kind, (lows, highs), None, 1);
        assert_eq!((answers.counts, answers.offsets), (vec![0; count], vec![0; count + 1]), "{kind:?}");
        let status = |pair: &Option<(K, V)>| if pair.is_some() { FOUND } else { ABSENT };
        assert_eq!(answers.statuses, right.iter().map(status).collect::<Vec<u8>>(), "{kind:?}");
        let found = answers.keys.into_iter().zip(answers.values);
        assert!(found.eq(right.iter().map(|pair| pair.unwrap_or(none))), "{kind:?}");
    }
    let near = Near::or_equal().within(key_of(20));
    let right = lows.iter().map(|key| {
        let found = model.range(..=*key).next_back().map(|(key, value)| (*key, *value))?;
        (key.to_u128() - found.0.to_u128() <= near_limit::<K>()).then_some(found)
    });
    assert!(state.predecessor(lows, near).unwrap().into_iter().eq(right));

    let inside = |(low, high): (&K, &K)| match low <= high {
        true => model.range(*low..=*high).map(|(key, value)| (*key, *value)).collect(),
        false => vec![],
    };
    let right: Vec<Vec<(K, V)>> = lows.iter().zip(highs).map(inside).collect();
    let counts: Vec<u32> = right.iter().map(|pairs| pairs.len() as u32).collect();
    let total: usize = right.iter().map(Vec::len).sum();
    let answers = read(device, state, OrderedOpKind::Count, (lows, highs), Some(8), 8);
    assert_eq!(answers.counts, counts);
    // Places that are multiples of sixteen bytes, and others; less room at the end than pairs; and one range behind the
    // other.
    let strides = [Some(8), Some(7), Some(3), Some(1), Some(0), None];
    for stride in strides {
        let room = stride.map_or(total.saturating_sub(5), |stride| (stride * count).saturating_sub(3));
        let answers = read(device, state, OrderedOpKind::Range, (lows, highs), stride, room);
        assert_eq!(answers.counts, counts, "stride {stride:?}");
        let untouched: K = bytemuck::pod_read_unaligned(&[UNTOUCHED; 16][..size_of::<K>()]);
        let (mut keys, mut values) = (vec![untouched; room], vec![None; room]);
        let (mut first, mut statuses) = (0, vec![]);
        for (at, pairs) in right.iter().enumerate() {
            let begin = stride.map_or(first, |stride| at * stride);
            let end = stride.map_or(room, |stride| room.min(begin + stride));
            statuses.push(match pairs.len() {
                0 => ABSENT,
                pairs if begin + pairs > end => TRUNCATED,
                _ => FOUND,
            });
            for (to, (key, value)) in (begin..end).zip(pairs) {
                (keys[to], values[to]) = (*key, Some(*value));
            }
            first += pairs.len();
        }
        assert_eq!(answers.statuses, statuses, "stride {stride:?}");
        assert!(answers.pair_keys == keys, "stride {stride:?}");
        for (at, value) in values.iter().enumerate() {
            let untouched =
                bytemuck::bytes_of(&answers.pair_values[at]).iter().all(|byte| *byte == UNTOUCHED);
            assert!(value.map_or(untouched, |value| value == answers.pair_values[at]), "{at}, {stride:?}");
        }
        if stride.is_none() {
            assert_eq!(answers.offsets[count] as usize, total);
        }
    }
}

/// How far away `key_of(20)` is.
fn near_limit<K: OrderedWord>() -> u128 {
    key_of::<K>(20).to_u128()
}

fn many_reads<K: OrderedKey<V>, V: OrderedWord>() {
    let device = Device::simulated(Mode::fast()).unwrap();
    let many = many() as u64;
    // Directories without a level, of one level, and of levels that do and do not fit into shared memory.
    for items in [0_u64, 5, 3000, 60_000] {
        let keys: Vec<K> = (0..items).map(|i| key_of(3 * i)).chain([K::LARGEST]).skip(1).collect();
        let values: Vec<V> = (0..keys.len() as u64).map(|i| key_of(i + 1)).collect();
        let map = OrderedMap::build_sorted(&device, &OrderedMapOptions::default(), &keys, &values).unwrap();
        let model: BTreeMap<K, V> = keys.iter().copied().zip(values).collect();
        let number = |i: u64| i.wrapping_mul(0x9E37_79B9) % (3 * items + 40);
        let mut lows: Vec<K> = (0..many).map(|i| key_of(number(i))).collect();
        let mut highs: Vec<K> = (0..many).map(|i| key_of(number(i) + i % 50)).collect();
        // Bounds behind the last key, in the wrong order, and all keys.
        (lows[7], highs[7]) = (K::LARGEST, K::LARGEST);
        (lows[8], highs[8]) = (key_of(3 * items), K::LARGEST);
        (lows[9], highs[9]) = (key_of(9), key_of(3));
        (lows[10], highs[10]) = (K::default(), K::LARGEST);
        check(&device, &map.snapshot(), &model, &lows, &highs);
        check(&device, &map.snapshot(), &model, &lows[..100], &highs[..100]);
    }
}

#[test]
fn many_neighbours_and_ranges_agree_with_a_map_of_the_standard_library() {
    many_reads::<u32, u32>();
    many_reads::<u64, u64>();
    many_reads::<u128, u64>();
}

fn ends<K: OrderedKey<V>, V: OrderedWord>() {
    // Every access is checked.
    let device = Device::simulated(Mode::seeded(1)).unwrap();
    for items in [1_u64, 11, 14, 15, 33] {
        for has_largest in [false, true] {
            let mut keys: Vec<K> = (1..=items).map(|i| key_of(10 * i)).collect();
            if has_largest {
                keys[items as usize - 1] = K::LARGEST;
            }
            let values: Vec<V> = (0..items).map(|i| key_of(i + 1)).collect();
            let map = OrderedMap::new(&device, &OrderedMapOptions::default()).unwrap();
            // The last leaf is full now and then.
            for (key, value) in keys.iter().zip(&values) {
                map.insert(&[*key], &[*value]).unwrap();
            }
            let model: BTreeMap<K, V> = keys.iter().copied().zip(values).collect();
            let last = 10 * items;
            let lows = [0, 1, 10, last - 1, last, last, last + 1, u64::MAX, 0, last + 7].map(key_of::<K>);
            let highs =
                [u64::MAX, last, last, last, last, u64::MAX, last + 9, u64::MAX, 0, last].map(key_of::<K>);
            check(&device, &map.snapshot(), &model, &lows, &highs);
        }
    }
}

#[test]
fn reads_at_the_ends_stay_inside_of_the_leaves_that_there_are() {
    ends::<u32, u32>();
    ends::<u64, u64>();
    ends::<u128, u64>();
}
