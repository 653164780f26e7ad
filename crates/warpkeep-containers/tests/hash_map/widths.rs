//! Maps of all widths: properties, growth, displacement, files, kernels of others, and work that is enqueued.

use proptest::prop_assert_eq;
use proptest::test_runner::{Config, RngSeed, TestRunner};
use warpkeep_containers::{
    ContainerError, DeviceAnswers, DeviceOps, HashMap, HashMapOptions, MapAnswer, MapOp, MapOpKind,
    MapOpKinds, MapStatus, Upsert,
};
use warpkeep_device::{Device, DeviceError, Mode, Program};
use warpkeep_suites::device::{Container, Dice, fast, losses, wrong_schedule};

use crate::container::{Pairs, device_error};
use crate::keys::{TestKey, TestValue};
use crate::model::{Model, check_answers, check_contents, expected, kinds, random_op};
use crate::properties::operations;

fn device() -> Device {
    Device::simulated(Mode::fast()).unwrap()
}

fn options() -> HashMapOptions {
    HashMapOptions::default().seed(0)
}

/// A batch in device memory, and where its answers go.
struct OnDevice<V> {
    keys: warpkeep_device::Buffer,
    values: warpkeep_device::Buffer,
    codes: warpkeep_device::Buffer,
    statuses: warpkeep_device::Buffer,
    before: warpkeep_device::Buffer,
    count: usize,
    of: std::marker::PhantomData<V>,
}

impl<V: TestValue> OnDevice<V> {
    fn new<K: TestKey>(device: &Device, ops: &[MapOp<K, V>]) -> Result<Self, DeviceError> {
        let keys: Vec<K> = ops.iter().map(|op| op.key).collect();
        let values: Vec<V> = ops.iter().map(|op| op.value).collect();
        let codes: Vec<u8> = ops.iter().map(|op| op.kind as u8).collect();
        Ok(OnDevice {
            keys: device.upload(&keys)?,
            values: device.upload(&values)?,
            codes: device.upload(&codes)?,
            statuses: device.allocate(ops.len())?,
            before: device.allocate(size_of::<V>() * ops.len())?,
            count: ops.len(),
            of: std::marker::PhantomData,
        })
    }

    /// Both parts, with a kind for each operation unless all have this one.
    fn parts(&mut self, kind: Option<MapOpKind>) -> (DeviceOps<'_>, DeviceAnswers<'_>) {
        let kinds = kind.map_or(MapOpKinds::Each(&self.codes), MapOpKinds::All);
        let ops = DeviceOps { kinds, keys: &self.keys, values: Some(&self.values), count: self.count };
        (ops, DeviceAnswers { statuses: &mut self.statuses, before: Some(&mut self.before) })
    }

    fn answers(&self) -> Result<Vec<MapAnswer<V>>, DeviceError> {
        let statuses = self.statuses.to_vec::<u8>()?;
        let statuses: &[MapStatus] = bytemuck::checked::cast_slice(&statuses);
        let before = self.before.to_vec::<V>()?;
        Ok(statuses.iter().zip(before).map(|(&status, before)| MapAnswer { status, before }).collect())
    }
}

/// A map with room, all of whose batches are enqueued.
struct Enqueued<K: TestKey, V: TestValue> {
    device: Device,
    map: HashMap<K, V>,
}

impl<K: TestKey, V: TestValue> Container for Enqueued<K, V> {
    type Operation = MapOp<K, V>;
    type Answer = MapAnswer<V>;
    type Model = Model<K, V>;

    const NAME: &'static str = "hash map whose batches are enqueued";

    fn programs() -> Vec<Program> {
        Pairs::<K, V>::programs()
    }

    fn create(device: &Device, operations: usize) -> Result<Self, DeviceError> {
        let map = HashMap::new(device, &options()).map_err(device_error)?;
        map.reserve(2 * operations as u64).map_err(device_error)?;
        Ok(Self { device: device.clone(), map })
    }

    fn operation(dice: &mut Dice) -> MapOp<K, V> {
        Pairs::operation(dice)
    }

    fn run(&mut self, batch: &[MapOp<K, V>]) -> Result<Vec<MapAnswer<V>>, DeviceError> {
        if batch.is_empty() {
            return Ok(Vec::new());
        }
        let (mut there, stream) = (OnDevice::new(&self.device, batch)?, self.device.stream()?);
        let (ops, answers) = there.parts(None);
        // SAFETY: the buffers live, and are used for nothing else, until the event has been waited for.
        unsafe { self.map.enqueue_on(ops, answers, &stream).map_err(device_error)?.synchronize()? };
        there.answers()
    }

    fn check(model: &mut Model<K, V>, batch: &[MapOp<K, V>], answers: &[MapAnswer<V>]) -> Result<(), String> {
        check_answers(model, batch, answers)
    }

    fn compare(&self, model: &Model<K, V>) -> Result<(), String> {
        check_contents(&self.map, model).map_err(|error| error.to_string())
    }
}

fn agrees_with_the_standard_library<K: TestKey, V: TestValue>() {
    let config =
        Config { cases: 8, rng_seed: RngSeed::Fixed(5), failure_persistence: None, ..Config::default() };
    let batches = proptest::collection::vec(operations(300), 1..5);
    TestRunner::new(config)
        .run(&batches, |batches| {
            let (device, stream_of) = (device(), |device: &Device| device.stream().unwrap());
            let on_device = HashMap::<K, V>::new(&device, &options()).unwrap();
            let in_parts = HashMap::<K, V>::new(&device, &options().staged(37)).unwrap();
            let planned_there = HashMap::<K, V>::new(&device, &options()).unwrap();
            let on_cpu = HashMap::<K, V>::on_cpu(&options());
            let mut model = Model::new();
            for ops in &batches {
                let known = |op: &&MapOp| kinds::<V>().contains(&op.kind);
                let ops = ops.iter().filter(known);
                let ops: Vec<MapOp<K, V>> =
                    ops.map(|op| MapOp::new(op.kind, K::cut(op.key), V::of(op.value))).collect();
                let right: Vec<MapAnswer<V>> = ops.iter().map(|op| expected(&mut model, *op)).collect();
                prop_assert_eq!(&on_device.apply(&ops).unwrap(), &right);
                prop_assert_eq!(&in_parts.apply(&ops).unwrap(), &right);
                prop_assert_eq!(&on_cpu.apply(&ops).unwrap(), &right);
                let mut there = OnDevice::new(&device, &ops).unwrap();
                let (batch, answers) = there.parts(None);
                planned_there.apply_on(batch, answers, &stream_of(&device)).unwrap();
                prop_assert_eq!(there.answers().unwrap(), right);
                let keys: Vec<K> = ops.iter().map(|op| op.key).collect();
                let found: Vec<Option<V>> = keys.iter().map(|key| model.get(key).copied()).collect();
                prop_assert_eq!(&on_device.find(&keys).unwrap(), &found);
                let is_there: Vec<bool> = found.iter().map(Option::is_some).collect();
                prop_assert_eq!(on_device.contains(&keys).unwrap(), is_there);
            }
            for map in [&on_device, &in_parts, &planned_there, &on_cpu] {
                check_contents(map, &model).unwrap();
            }
            Ok(())
        })
        .unwrap();
}

fn grows_from_the_smallest_size<K: TestKey, V: TestValue>() {
    let device = device();
    let map = HashMap::<K, V>::new(&device, &options()).unwrap();
    let (mut model, mut dice) = (Model::new(), Dice::new(1));
    assert_eq!(map.stats().unwrap().buckets, 64);
    for _ in 0..10 {
        let ops: Vec<MapOp<K, V>> = (0..1000)
            .map(|_| MapOp::put(K::cut(dice.below(1 << 31) * 0x9E37_79B9), V::of(dice.below(1 << 20))))
            .collect();
        let answers = map.apply(&ops).unwrap();
        check_answers(&mut model, &ops, &answers).unwrap();
    }
    check_contents(&map, &model).unwrap();
    let stats = map.stats().unwrap();
    assert!(stats.slots >= 10_000 && stats.slots <= 1 << 15, "{stats:?}");
    // A batch that the device sorts, into an empty map whose size is known, and once more.
    let built = HashMap::<K, V>::new(&device, &options()).unwrap();
    let keys: Vec<K> = (0..20_000).map(|i| K::cut(i * 0x9E37_79B9)).collect();
    let values: Vec<V> = (0..20_000).map(V::of).collect();
    let inserted = built.insert(&keys, &values).unwrap();
    assert!(inserted.iter().all(|answer| answer.status == MapStatus::Inserted));
    assert!(built.stats().unwrap().load > 0.47, "{:?}", built.stats().unwrap());
    let again = built.insert(&keys, &values).unwrap();
    let found =
        |(answer, value): (&MapAnswer<V>, &V)| answer.status == MapStatus::Found && answer.before == *value;
    assert!(again.iter().zip(&values).all(found));
    // All of it in device memory.
    let (mut on_keys, mut on_values) = (
        device.allocate(size_of::<K>() * 20_000).unwrap(),
        device.allocate(size_of::<V>() * 20_000).unwrap(),
    );
    let stream = device.stream().unwrap();
    assert_eq!(built.retrieve_all_on(&mut on_keys, &mut on_values, &stream).unwrap(), 20_000);
    let pairs = on_keys.to_vec::<K>().unwrap().into_iter().zip(on_values.to_vec::<V>().unwrap());
    assert_eq!(pairs.collect::<Model<K, V>>(), keys.iter().copied().zip(values).collect());
    built.verify().unwrap();
}

fn is_full_at_95_percent<K: TestKey, V: TestValue>() {
    for seed in 0..2 {
        let device = device();
        let map = HashMap::<K, V>::new(&device, &options().seed(seed).most_bytes(40 << 10)).unwrap();
        let (mut stored, mut refused) = (0, 0);
        for batch in 0..100 {
            let keys: Vec<K> = (0..100).map(|i| K::cut(100 * batch + i)).collect();
            let values: Vec<V> = (0..100).map(|i| V::of(100 * batch + i)).collect();
            let answers = map.insert(&keys, &values).unwrap();
            let count = |status| answers.iter().filter(|answer| answer.status == status).count() as u64;
            (stored, refused) = (stored + count(MapStatus::Inserted), refused + count(MapStatus::Full));
            let slots = map.stats().unwrap().slots;
            assert!(refused == 0 || stored * 100 >= slots * 94, "seed {seed}: full at {stored} of {slots}");
            let found = map.find(&keys).unwrap();
            for ((found, answer), value) in found.iter().zip(&answers).zip(values) {
                assert_eq!(*found, (answer.status == MapStatus::Inserted).then_some(value));
            }
        }
        assert!(refused > 0 && map.len().unwrap() == stored && map.verify().unwrap() > 0);
        // Every key that was acknowledged is there, with its value.
        assert!(map.retrieve_all().unwrap().iter().all(|(key, value)| {
            (0..10_000).any(|number| K::cut(number) == *key && V::of(number) == *value)
        }));
    }
}

fn loses_nothing_without_memory<K: TestKey, V: TestValue>() {
    let device = device();
    let mut dice = Dice::new(4);
    let mut op = || {
        let key = K::cut(dice.below(1 << 20));
        if dice.below(4) == 0 { random_op(&mut dice, key) } else { MapOp::put(key, V::of(7)) }
    };
    let ops: Vec<MapOp<K, V>> = (0..10_000).map(|_| op()).collect();
    let (mut refused, mut full, mut done) = (0, 0, 0);
    for step in 0..16_u64 {
        let small = device.with_budget((36 * step) << 10);
        let map = match HashMap::<K, V>::new(&small, &options()) {
            Ok(map) => map,
            Err(error) => {
                assert!(error.device().is_some_and(DeviceError::is_out_of_memory), "{error}");
                refused += 1;
                continue;
            }
        };
        let mut model = Model::new();
        for part in ops.chunks(1000) {
            match map.apply(part) {
                Ok(answers) => {
                    for (op, answer) in part.iter().zip(&answers) {
                        if answer.status == MapStatus::Full {
                            assert!(!model.contains_key(&op.key) && op.kind.inserts());
                            full += 1;
                            continue;
                        }
                        assert_eq!(*answer, expected(&mut model, *op));
                    }
                    done += 1;
                }
                Err(error) => {
                    assert!(error.device().is_some_and(DeviceError::is_out_of_memory), "{error}");
                    refused += 1;
                }
            }
        }
        check_contents(&map, &model).unwrap();
    }
    assert!(refused > 0 && full > 0 && done > 0, "{refused} refused, {full} full, {done} done");
}

fn is_saved_with_its_widths<K: TestKey, V: TestValue>() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pairs.map");
    let device = device();
    let map = HashMap::<K, V>::new(&device, &options()).unwrap();
    let keys: Vec<K> = (0..5000).map(|i| K::cut(i * i)).collect();
    let values: Vec<V> = (0..5000).map(V::of).collect();
    map.insert(&keys, &values).unwrap();
    map.save(&path).unwrap();
    let model: Model<K, V> = keys.into_iter().zip(values).collect();
    let loaded = HashMap::<K, V>::load(&device, &path, &HashMapOptions::default()).unwrap();
    check_contents(&loaded, &model).unwrap();
    let on_cpu = HashMap::<K, V>::load_on_cpu(&path, &HashMapOptions::default()).unwrap();
    check_contents(&on_cpu, &model).unwrap();
    // And what the CPU saved.
    on_cpu.save(&path).unwrap();
    let again = HashMap::<K, V>::load(&device, &path, &options()).unwrap();
    check_contents(&again, &model).unwrap();
    // Another width is refused, and so is a changed byte.
    let error = if size_of::<K>() == 4 {
        HashMap::<u64, V>::load_on_cpu(&path, &options()).unwrap_err()
    } else {
        HashMap::<u32, V>::load_on_cpu(&path, &options()).unwrap_err()
    };
    assert!(matches!(error, ContainerError::WrongKind { .. }), "{error}");
    let words = format!("keys of {} and values of {} bytes, and", size_of::<K>(), size_of::<V>());
    assert!(error.to_string().contains(&words), "{error}");
    let mut bytes = std::fs::read(&path).unwrap();
    for at in [14, 15, 20, 40, 3000, bytes.len() - 1] {
        bytes[at] ^= 4;
        std::fs::write(&path, &bytes).unwrap();
        let error = HashMap::<K, V>::load_on_cpu(&path, &options()).unwrap_err();
        assert!(matches!(error, ContainerError::Damaged { .. }), "byte {at}: {error}");
        bytes[at] ^= 4;
    }
}

fn runs_enqueued_batches<K: TestKey, V: TestValue>() {
    let device = device();
    let (map, mut model) = (HashMap::<K, V>::new(&device, &options()).unwrap(), Model::new());
    let (mut dice, streams) = (Dice::new(3), [(); 2].map(|()| device.stream().unwrap()));
    map.reserve(3000).unwrap();
    let slots = map.stats().unwrap().slots;
    assert!(slots * 95 / 100 >= 3000, "{slots}");
    // Two batches are in flight at once; each sees the one before it as a whole.
    for round in 0..3 {
        let mut batch = |count: usize| -> Vec<MapOp<K, V>> {
            let mut op = || {
                let key = K::cut(dice.below(2500) * 77);
                random_op(&mut dice, key)
            };
            (0..count).map(|_| op()).collect()
        };
        let batches = [batch(1500), batch(700 * round)];
        let asked: Vec<MapOp<K, V>> = (0..2600).map(|number| MapOp::find(K::cut(number * 77))).collect();
        let mut there = batches.each_ref().map(|ops| OnDevice::new(&device, ops).unwrap());
        let mut lookup = OnDevice::new(&device, &asked).unwrap();
        // SAFETY: the buffers live until the map has been waited for, and are used for nothing else.
        unsafe {
            for (there, stream) in there.iter_mut().zip(&streams) {
                let (ops, answers) = there.parts(None);
                map.enqueue_on(ops, answers, stream).unwrap();
            }
            let (ops, answers) = lookup.parts(Some(MapOpKind::Find));
            map.enqueue_on(ops, answers, &streams[0]).unwrap().synchronize().unwrap();
        }
        for (ops, there) in batches.iter().zip(&there) {
            check_answers(&mut model, ops, &there.answers().unwrap()).unwrap();
        }
        check_answers(&mut model, &asked, &lookup.answers().unwrap()).unwrap();
        check_contents(&map, &model).unwrap();
    }
    assert_eq!(map.stats().unwrap().slots, slots);
    // Without room for them, new keys are refused, and nothing else happens.
    let many: Vec<MapOp<K, V>> =
        (0..2 * slots).map(|number| MapOp::insert(K::cut(number + 1_000_000), V::of(number))).collect();
    let mut there = OnDevice::new(&device, &many).unwrap();
    let (ops, answers) = there.parts(Some(MapOpKind::Insert));
    // SAFETY: as above.
    unsafe { map.enqueue_on(ops, answers, &streams[1]).unwrap() };
    assert!(map.len().unwrap() * 100 > slots * 94, "{} of {slots}", map.len().unwrap());
    let answers = there.answers().unwrap();
    for (op, answer) in many.iter().zip(&answers) {
        assert!(matches!(answer.status, MapStatus::Inserted | MapStatus::Full));
        if answer.status == MapStatus::Inserted {
            model.insert(op.key, op.value);
        }
    }
    assert_eq!(map.stats().unwrap().slots, slots, "it has not grown");
    check_contents(&map, &model).unwrap();
}

fn agrees_in_schedules<C: Container>(count: u64) {
    assert_eq!(wrong_schedule::<C>(count), None);
}

macro_rules! widths {
    ($($name:ident: $key:ty, $value:ty;)*) => {$(
        mod $name {
            use super::*;
            use crate::calls::Calls;
            use crate::crowded::Crowded;

            #[test]
            fn batches_agree_with_a_map_of_the_standard_library() {
                agrees_with_the_standard_library::<$key, $value>();
            }

            #[test]
            fn it_grows_and_is_built_at_once() {
                grows_from_the_smallest_size::<$key, $value>();
            }

            #[test]
            fn displacement_reaches_a_load_of_95_percent() {
                is_full_at_95_percent::<$key, $value>();
            }

            #[test]
            fn memory_that_is_short_loses_nothing() {
                loses_nothing_without_memory::<$key, $value>();
            }

            #[test]
            fn it_is_saved_with_its_widths() {
                is_saved_with_its_widths::<$key, $value>();
            }

            #[test]
            fn enqueued_batches_have_the_answers_of_others() {
                runs_enqueued_batches::<$key, $value>();
            }

            #[test]
            fn large_batches_agree_with_the_model() {
                fast::<Crowded<$key, $value>>();
            }

            #[test]
            fn schedules_agree_with_the_model() {
                agrees_in_schedules::<Pairs<$key, $value>>(16);
                agrees_in_schedules::<Crowded<$key, $value>>(16);
                agrees_in_schedules::<Calls<$key, $value>>(24);
            }
        }
    )*};
}

widths! {
    eight_to_four: u64, u32;
    eight_to_sixteen: u64, [u64; 2];
    four_to_four: u32, u32;
    four_to_eight: u32, u64;
    four_to_sixteen: u32, [u64; 2];
}

#[test]
fn eight_to_eight_runs_enqueued_batches() {
    runs_enqueued_batches::<u64, u64>();
}

#[test]
fn enqueued_batches_agree_with_the_model_in_schedules_and_on_lost_devices() {
    fast::<Enqueued<u64, u64>>();
    agrees_in_schedules::<Enqueued<u64, [u64; 2]>>(6);
    losses::<Enqueued<u32, u32>>();
}

#[test]
fn threads_enqueue_and_wait_beside_each_other() {
    let device = device();
    let map = HashMap::<u64, u64>::new(&device, &options()).unwrap();
    let keys: Vec<u64> = (0..100).collect();
    map.insert(&keys, &[0; 100]).unwrap();
    let adds: Vec<MapOp> = keys.iter().map(|key| MapOp::add(*key, 1)).collect();
    let asks: Vec<MapOp> = keys.iter().map(|key| MapOp::find(*key)).collect();
    std::thread::scope(|threads| {
        threads.spawn(|| {
            let stream = device.stream().unwrap();
            for _ in 0..10 {
                let mut there = OnDevice::new(&device, &adds).unwrap();
                let (ops, answers) = there.parts(None);
                // SAFETY: the buffers live until the event has been waited for.
                unsafe { map.enqueue_on(ops, answers, &stream).unwrap().synchronize().unwrap() };
            }
        });
        threads.spawn(|| {
            for round in 0..10 {
                // Grows the map, which waits for what was enqueued.
                let more: Vec<u64> = (1000 * round..1000 * round + 500).map(|key| key + 1000).collect();
                map.insert(&more, &more).unwrap();
                map.upsert(Upsert::Add, &keys, &[1; 100]).unwrap();
            }
        });
        for _ in 0..2 {
            threads.spawn(|| {
                let stream = device.stream().unwrap();
                for _ in 0..20 {
                    let mut there = OnDevice::new(&device, &asks).unwrap();
                    let (ops, answers) = there.parts(Some(MapOpKind::Find));
                    // SAFETY: as above.
                    unsafe { map.enqueue_on(ops, answers, &stream).unwrap().synchronize().unwrap() };
                    let found = there.answers().unwrap();
                    assert!(found.iter().all(|answer| *answer == found[0]), "{found:?}");
                }
            });
        }
    });
    assert_eq!(map.find(&keys).unwrap(), vec![Some(20); 100]);
    assert_eq!(map.len().unwrap(), 5100);
    map.verify().unwrap();
}

mod sets_of_32_bits {
    use super::*;
    use crate::set::{CrowdedKeys, Keys};

    #[test]
    fn large_batches_agree_with_the_model() {
        fast::<Keys<u32>>();
        fast::<CrowdedKeys<u32>>();
    }

    #[test]
    fn schedules_agree_with_the_model() {
        agrees_in_schedules::<Keys<u32>>(30);
        agrees_in_schedules::<CrowdedKeys<u32>>(30);
    }
}

#[test]
fn values_of_16_bytes_are_not_computed_with() {
    let device = device();
    let maps =
        [HashMap::<u64, u128>::new(&device, &options()).unwrap(), HashMap::<u64, u128>::on_cpu(&options())];
    for map in maps {
        map.insert(&[1], &[10]).unwrap();
        for how in [Upsert::Add, Upsert::Min, Upsert::Max] {
            let error = map.upsert(how, &[1], &[1]).unwrap_err();
            assert!(matches!(error, ContainerError::NoNumbers { bytes: 16 }), "{error}");
            assert!(error.to_string().contains("use Upsert::Replace"), "{error}");
        }
        assert!(map.apply(&[MapOp::put(1, 5), MapOp::add(1, 5)]).is_err());
        assert_eq!(map.find(&[1]).unwrap(), [Some(10)], "a refused batch changes nothing");
        map.upsert(Upsert::Replace, &[1], &[u128::MAX]).unwrap();
        assert_eq!(map.find(&[1]).unwrap(), [Some(u128::MAX)]);
    }
    // Kinds in device memory are not looked at by the host: they ask.
    let map = HashMap::<u64, u128>::new(&device, &options()).unwrap();
    map.insert(&[1], &[10]).unwrap();
    let stream = device.stream().unwrap();
    let (keys, values) = (device.upload(&[1_u64, 2]).unwrap(), device.upload(&[7_u64; 4]).unwrap());
    let codes = device.upload(&[MapOpKind::Add as u8, MapOpKind::Max as u8]).unwrap();
    let mut statuses = device.allocate(2).unwrap();
    let mut run = |kinds| {
        let ops = DeviceOps { kinds, keys: &keys, values: Some(&values), count: 2 };
        map.apply_on(ops, DeviceAnswers { statuses: &mut statuses, before: None }, &stream)
    };
    let error = run(MapOpKinds::All(MapOpKind::Add)).unwrap_err();
    assert!(matches!(error, ContainerError::NoNumbers { .. }), "{error}");
    run(MapOpKinds::Each(&codes)).unwrap();
    assert_eq!(statuses.to_vec::<u8>().unwrap(), [MapStatus::Found as u8, MapStatus::Absent as u8]);
    assert_eq!(map.retrieve_all().unwrap(), [(1, 10)]);
}

#[test]
fn room_is_reserved_or_refused() {
    let device = device();
    let map: HashMap = HashMap::new(&device, &options().most_bytes(1 << 20)).unwrap();
    map.insert(&[1, 2, 3], &[10, 20, 30]).unwrap();
    map.reserve(10_000).unwrap();
    let slots = map.stats().unwrap().slots;
    assert_eq!(slots, 16384);
    map.reserve(10).unwrap();
    assert_eq!((map.stats().unwrap().slots, map.find(&[2]).unwrap()), (slots, vec![Some(20)]));
    let error = map.reserve(1 << 40).unwrap_err();
    assert!(error.device().is_some_and(DeviceError::is_out_of_memory), "{error}");
    assert_eq!(map.len().unwrap(), 3);
    map.verify().unwrap();
    let on_cpu: HashMap = HashMap::on_cpu(&options());
    on_cpu.reserve(1000).unwrap();
    assert!(on_cpu.stats().unwrap().slots >= 1000);
    let error = on_cpu.reserve(u64::MAX).unwrap_err();
    assert!(matches!(error, ContainerError::TooLarge { .. }), "{error}");
}

#[test]
fn columns_are_checked_before_anything_is_enqueued() {
    let device = device();
    let map = HashMap::<u32, [u64; 2]>::new(&device, &options()).unwrap();
    let stream = device.stream().unwrap();
    let (keys, values) = (device.upload(&[1_u32, 2]).unwrap(), device.upload(&[[1_u64, 2]]).unwrap());
    let mut statuses = device.allocate(2).unwrap();
    let kinds = MapOpKinds::All(MapOpKind::Insert);
    let ops = DeviceOps { kinds, keys: &keys, values: Some(&values), count: 2 };
    let answers = DeviceAnswers { statuses: &mut statuses, before: None };
    // SAFETY: nothing is enqueued.
    let error = unsafe { map.enqueue_on(ops, answers, &stream).unwrap_err() };
    assert!(matches!(error.device(), Some(DeviceError::OutOfBounds { len: 32, size: 16, .. })), "{error}");
    let on_cpu = HashMap::<u32, [u64; 2]>::on_cpu(&options());
    let answers = DeviceAnswers { statuses: &mut statuses, before: None };
    // SAFETY: as above.
    let error = unsafe { on_cpu.enqueue_on(ops, answers, &stream).unwrap_err() };
    assert!(matches!(error, ContainerError::OnCpu { what: "enqueue_on" }), "{error}");
    assert!(map.is_empty().unwrap());
}
