//! Neighbours at the borders of keys, tolerances and groups: the device and the CPU answer alike.

use warpkeep_containers::{Near, OrderedKey, OrderedMap, OrderedMapOptions, OrderedWord};
use warpkeep_device::{Device, Mode};

/// Keys at the ends and beside powers of two.
fn border_keys<K: OrderedWord>() -> Vec<K> {
    let bits = 8 * size_of::<K>() as u32;
    let mut keys = vec![K::default(), K::LARGEST];
    for bit in [0, 1, 2, 31, 32, 33, 63, 64, 65, 127].into_iter().filter(|bit| *bit < bits) {
        let power = 1_u128 << bit;
        keys.extend([power - 1, power, power + 1].map(K::from_u128));
        keys.extend([K::LARGEST.to_u128() - power].map(K::from_u128));
    }
    keys.sort_unstable();
    keys.dedup();
    keys
}

fn compare<K: OrderedKey<V>, V: OrderedWord>() {
    let device = Device::simulated(Mode::fast()).unwrap();
    let options = OrderedMapOptions::default();
    let asked = border_keys::<K>();
    let tolerances = [0, 1, u128::from(u32::MAX), u128::from(u64::MAX), K::LARGEST.to_u128() - 1, u128::MAX]
        .map(|tolerance| K::from_u128(tolerance.min(K::LARGEST.to_u128())));
    // All keys, every second one, the ends alone, and none.
    let ends = [K::default(), K::LARGEST];
    let second: Vec<K> = asked.iter().copied().step_by(2).collect();
    for stored in [&asked[..], &second, &ends, &[]] {
        let values: Vec<V> = (0..stored.len() as u128).map(V::from_u128).collect();
        let maps = [OrderedMap::new(&device, &options).unwrap(), OrderedMap::on_cpu(&options)];
        for map in &maps {
            map.insert(stored, &values).unwrap();
        }
        let [on_device, on_cpu] = maps;
        for tolerance in tolerances {
            for bits in [0, 1, 31, 32, 63, 64, 65, 127, 128, u32::MAX] {
                for near in [Near::strict(), Near::or_equal()] {
                    let near = near.within(tolerance).in_group(bits);
                    assert_eq!(
                        on_device.successor(&asked, near).unwrap(),
                        on_cpu.successor(&asked, near).unwrap(),
                        "{near:?}"
                    );
                    assert_eq!(
                        on_device.predecessor(&asked, near).unwrap(),
                        on_cpu.predecessor(&asked, near).unwrap(),
                        "{near:?}"
                    );
                }
            }
        }
    }
}

#[test]
fn neighbours_at_the_borders_are_those_of_the_cpu() {
    compare::<u32, u32>();
    compare::<u64, u64>();
    compare::<u128, u64>();
}
