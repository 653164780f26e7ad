//! A batch after a kernel of the caller in the caller's stream, which nothing has waited for.

use warpkeep_containers::{
    DeviceAnswers, DeviceOps, HashMap, HashMapOptions, HashMapRef, MapOpKind, MapOpKinds, MapStatus,
};
use warpkeep_device::{Buffer, Device, Grid, KernelSet as _, Stream};

use crate::calls::{CallKernels, Params};

/// Enqueues a kernel that adds to keys of a map.
fn enqueue(
    kernels: &CallKernels,
    map: HashMapRef,
    [keys, operands, statuses, before]: [&Buffer; 4],
    count: u64,
    stream: &Stream,
) {
    let [keys, operands, statuses, before] = [keys, operands, statuses, before].map(Buffer::ptr);
    let params = Params { map, keys, operands, statuses, before, count, op: MapOpKind::Add as u64 };
    // SAFETY: the columns have `count` elements; the caller waits for the stream before they or the map are used otherwise.
    unsafe { kernels.run_8_8.launch(Grid::covering(count, 128), &params, stream).unwrap() };
}

/// `slow` threads compete for one key of another map first, so that the batch is asked for before its map is filled. Then a kernel fills the empty map, and
/// a batch inserts the same keys with other values: they keep the first ones.
pub(crate) fn a_batch_sees_what_kernels_before_it_in_the_stream_do(device: &Device, slow: u64) {
    const KEYS: u64 = 300;
    let (kernels, stream) = (CallKernels::load(device).unwrap(), device.stream().unwrap());
    // Calls of kernels displace no key. So much room that no key's two buckets are full, with any seed.
    let options = HashMapOptions::default().items(64 * KEYS);
    let map = HashMap::<u64, u64>::new(device, &options).unwrap();
    let other = HashMap::<u64, u64>::new(device, &options).unwrap();
    let upload = |values: Vec<u64>| device.upload(&values).unwrap();
    let same_key = [upload(vec![5; slow as usize]), upload(vec![1; slow as usize])];
    let slow_answers = [device.allocate(slow as usize).unwrap(), device.allocate(8 * slow as usize).unwrap()];
    let (keys, firsts) = (upload((0..KEYS).collect()), upload((1000..1000 + KEYS).collect()));
    let answers = [device.allocate(KEYS as usize).unwrap(), device.allocate(8 * KEYS as usize).unwrap()];
    // Half of them are new.
    let (more, seconds) = (upload((KEYS / 2..KEYS + KEYS / 2).collect()), upload(vec![7; KEYS as usize]));
    let (mut statuses, mut before) =
        (device.allocate(KEYS as usize).unwrap(), device.allocate(8 * KEYS as usize).unwrap());
    let (filled, warmed) = (map.reference().unwrap(), other.reference().unwrap());

    let [slow_statuses, slow_before] = &slow_answers;
    enqueue(&kernels, warmed, [&same_key[0], &same_key[1], slow_statuses, slow_before], slow, &stream);
    enqueue(&kernels, filled, [&keys, &firsts, &answers[0], &answers[1]], KEYS, &stream);
    let kinds = MapOpKinds::All(MapOpKind::Insert);
    let ops = DeviceOps { kinds, keys: &more, values: Some(&seconds), count: KEYS as usize };
    let to = DeviceAnswers { statuses: &mut statuses, before: Some(&mut before) };
    map.apply_on(ops, to, &stream).unwrap();

    let (statuses, before) = (statuses.to_vec::<u8>().unwrap(), before.to_vec::<u64>().unwrap());
    for (at, key) in (KEYS / 2..KEYS + KEYS / 2).enumerate() {
        let right = match key < KEYS {
            true => (MapStatus::Found as u8, 1000 + key),
            false => (MapStatus::Inserted as u8, 0),
        };
        assert_eq!((statuses[at], before[at]), right, "key {key}");
    }
    let found = map.find(&[0, KEYS - 1, KEYS]).unwrap();
    assert_eq!(found, [Some(1000), Some(1000 + KEYS - 1), Some(7)]);
    assert_eq!(map.len().unwrap(), KEYS + KEYS / 2);
    map.verify().unwrap();

    // The same of a list of all pairs: what is in the stream is there.
    enqueue(
        &kernels,
        map.reference().unwrap(),
        [&same_key[0], &same_key[1], slow_statuses, slow_before],
        slow,
        &stream,
    );
    let last = upload((5000..5000 + KEYS).collect());
    enqueue(&kernels, map.reference().unwrap(), [&last, &firsts, &answers[0], &answers[1]], KEYS, &stream);
    let room = 8 * 3 * KEYS as usize;
    let (mut all_keys, mut all_values) = (device.allocate(room).unwrap(), device.allocate(room).unwrap());
    let listed = map.retrieve_all_on(&mut all_keys, &mut all_values, &stream).unwrap();
    assert_eq!(listed, 2 * KEYS + KEYS / 2);
}
