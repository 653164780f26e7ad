//! Whether a map in device memory is sound.

use warpkeep_device::{DevicePtr, Grid};

use super::kernels::{THREADS, Verify, WRONG_WORDS};
use super::key::{OrderedKey, OrderedWord};
use super::tree::Tree;
use super::{Kind, OrderedMap};
use crate::ContainerError;

impl<K: OrderedKey<V>, V: OrderedWord> OrderedMap<K, V> {
    /// Looks at every leaf: keys are in order and where the directory leads to, numbers of keys are exact, and each leaf is used once, kept
    /// for snapshots or free.
    pub fn verify(&self) -> Result<(), ContainerError> {
        match &self.0 {
            Kind::Device(tree) => tree.verify(),
            Kind::Cpu(_) => Ok(()),
        }
    }
}

impl Tree {
    fn verify(&self) -> Result<(), ContainerError> {
        let writer = self.write();
        let (version, stream) = (self.current(), self.device.stream()?);
        let (leaves, handles) = (version.layout.leaf_count, writer.pool.state.fresh);
        let wrong = self.device.allocate_zeroed(8 * WRONG_WORDS)?;
        let used = self.device.allocate_zeroed(4 * handles.div_ceil(32).max(1) as usize)?;
        let newest = Verify {
            map: self.reference(&version),
            version: version.number,
            used: used.ptr(),
            handles,
            list: DevicePtr::NULL,
            listed: 0,
            wrong: wrong.ptr(),
        };
        let mut in_use = leaves;
        // SAFETY: nothing changes leaves, directory and lists while the writer is locked; the stream is synchronised by the read below.
        unsafe {
            self.kernels.verify.launch(Grid::covering(leaves, THREADS), &newest, &stream)?;
            for (list, listed) in writer.pool.unused().into_iter().filter(|(_, listed)| *listed > 0) {
                let params = Verify { list, listed, ..newest };
                self.kernels.verify.launch(Grid::covering(listed, THREADS), &params, &stream)?;
                in_use += listed;
            }
        }
        let mut counted = [0_u64; WRONG_WORDS];
        wrong.read_on(0, &mut counted, &stream)?;
        let [unordered, misplaced, miscounted, mislevelled, twice, used] = counted;
        let (begin, end) = version.keys_before(0, leaves)?;
        let keys = u64::from(end - begin);
        let mistakes = [
            (unordered, "keys are not larger than the one before, or stand where no pair is"),
            (misplaced, "keys are not between the separators of their leaf"),
            (miscounted, "leaves have a wrong number of pairs, or a wrong version"),
            (mislevelled, "keys cannot be found through the directory"),
            (twice, "leaves are used twice, or were never made"),
            (
                used.abs_diff(in_use),
                "is the difference between leaves that are used and those that are counted",
            ),
            (in_use.abs_diff(handles), "leaves are neither used, nor kept for snapshots, nor free"),
            (keys.abs_diff(version.length), "is the difference between the length and the keys in leaves"),
        ];
        match mistakes.iter().find(|(count, _)| *count > 0) {
            Some((count, what)) => Err(ContainerError::Inconsistent { what: format!("{count} {what}") }),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
#[cfg(not(no_simulator))]
mod tests {
    use warpkeep_device::{Device, Mode};

    use crate::{OrderedMap, OrderedMapOptions};

    #[test]
    fn a_key_where_no_pair_is_counts_as_a_mistake() {
        let device = Device::simulated(Mode::fast()).unwrap();
        let map = OrderedMap::<u64, u64>::new(&device, &OrderedMapOptions::default()).unwrap();
        map.insert(&[1, 2, 3], &[4, 5, 6]).unwrap();
        map.verify().unwrap();
        let (snapshot, stream) = (map.snapshot(), device.stream().unwrap());
        let (leaf, wrong) = (snapshot.reference().unwrap().leaves, device.upload(&[9_u64]).unwrap());
        // Behind the header of 16 bytes and three keys.
        // SAFETY: the map has one leaf, the first of the pool, and nothing else uses it.
        unsafe { device.copy_raw(leaf.offset(16 + 3 * 8), wrong.ptr(), 8, &stream).unwrap() };
        stream.synchronize().unwrap();
        assert!(map.verify().unwrap_err().to_string().contains("stand where no pair is"));
    }
}
