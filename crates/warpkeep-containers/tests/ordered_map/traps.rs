//! What other ordered maps got wrong.

use warpkeep_containers::{OrderedMap, OrderedMapOptions, OrderedStatus};
use warpkeep_device::{Device, Mode};

fn map() -> OrderedMap<u64, u64> {
    OrderedMap::new(&Device::simulated(Mode::fast()).unwrap(), &OrderedMapOptions::default()).unwrap()
}

#[test]
fn reverse_and_empty_ranges_have_no_pairs() {
    let map = map();
    assert_eq!(map.count(&[0], &[u64::MAX]).unwrap(), [0]);
    map.insert(&[0, 5, u64::MAX], &[1, 2, 3]).unwrap();
    let counts = map.count(&[0, 5, 6, 9, 1, u64::MAX], &[u64::MAX, 5, 5, 1, 4, 0]).unwrap();
    assert_eq!(counts, [3, 1, 0, 0, 0, 0]);
    assert_eq!(map.insert(&[0], &[9]).unwrap()[0].status, OrderedStatus::Found);
}
