//! Memory of the host that kernels reach, by where the host has it.

use std::collections::BTreeMap;
use std::ptr::NonNull;
use std::sync::{PoisonError, RwLock};

use crate::pointer::DevicePtr;

/// All of it, of one device.
#[derive(Debug, Default)]
pub(crate) struct Reached(RwLock<BTreeMap<usize, Range>>);

#[derive(Debug, Clone, Copy)]
struct Range {
    bytes: usize,
    device_ptr: DevicePtr,
}

impl Reached {
    /// From now on kernels have this many bytes there.
    pub(crate) fn add(&self, at: NonNull<u8>, bytes: usize, device_ptr: DevicePtr) {
        if bytes > 0 {
            let mut ranges = self.0.write().unwrap_or_else(PoisonError::into_inner);
            ranges.insert(at.as_ptr() as usize, Range { bytes, device_ptr });
        }
    }

    /// They do no longer.
    pub(crate) fn remove(&self, at: NonNull<u8>) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).remove(&(at.as_ptr() as usize));
    }

    /// Where they have these bytes, if they have all of them, and there are any.
    pub(crate) fn find(&self, bytes: &[u8]) -> Option<DevicePtr> {
        let at = bytes.as_ptr() as usize;
        let ranges = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let (begin, range) = ranges.range(..=at).next_back()?;
        let offset = at - begin;
        let is_within = !bytes.is_empty() && offset + bytes.len() <= range.bytes;
        is_within.then(|| range.device_ptr.offset(offset as u64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// If a range stayed here, kernels would write to it, whatever owns that memory by then.
    #[test]
    #[cfg(not(no_simulator))]
    fn what_is_given_back_is_reached_no_more() {
        let device = crate::Device::simulated(crate::Mode::fast()).unwrap();
        let ranges = || device.core.reached.0.read().unwrap().len();
        let mut memory = vec![0_u8; 4096];
        let at = NonNull::new(memory.as_mut_ptr()).unwrap();
        {
            let (pinned, nothing) = (device.pin(64).unwrap(), device.pin(0).unwrap());
            // SAFETY: the memory outlives the registration, and no kernel runs.
            let registered = unsafe { device.register(at, 4096, crate::RegisterOptions::HOST).unwrap() };
            assert_eq!((ranges(), device.reach(nothing.as_slice())), (2, None));
            assert_eq!(device.reach(pinned.as_slice()), Some(pinned.ptr()));
            assert_eq!(device.reach(&memory[8..16]), Some(registered.ptr().offset(8)));
        }
        assert_eq!((ranges(), device.reach(&memory)), (0, None));
    }

    #[test]
    fn bytes_are_found_in_one_range_or_not_at_all() {
        let memory = [0_u8; 100];
        let at = |offset: usize| NonNull::from(&memory[offset]);
        let reached = Reached::default();
        assert_eq!(reached.find(&memory), None);
        // Two that touch each other lie anywhere on the device.
        reached.add(at(10), 20, DevicePtr::NULL.offset(1000));
        reached.add(at(30), 20, DevicePtr::NULL.offset(5000));
        reached.add(at(60), 0, DevicePtr::NULL.offset(9000));
        let found = |range: std::ops::Range<usize>| reached.find(&memory[range]).map(DevicePtr::address);
        assert_eq!(found(10..30), Some(1000));
        assert_eq!(found(29..30), Some(1019));
        assert_eq!(found(30..50), Some(5000));
        assert_eq!(found(35..36), Some(5005));
        for outside in [0..5, 9..12, 25..35, 40..51, 50..60, 60..61, 20..20] {
            assert_eq!(found(outside.clone()), None, "{outside:?}");
        }
        reached.remove(at(10));
        assert_eq!((found(10..30), found(30..31)), (None, Some(5000)));
    }
}
