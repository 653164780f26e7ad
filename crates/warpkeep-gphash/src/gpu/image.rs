//! An image that a device reaches.

use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use warpkeep_device::{Device, DevicePtr, RegisterOptions, Registered};
use warpkeep_image::{Heap, Image, Persist};

use crate::TableError;

/// An image, registered with a device: one for all tables of a store.
pub struct DeviceImage<P: Persist> {
    device: Device,
    // Before the image: what is registered must be mapped.
    registered: Mutex<Vec<Registered>>,
    /// Where kernels have its beginning, while whatever is in use of it is registered; 0 if that has to be looked into.
    covered: AtomicU64,
    image: Arc<Image<P>>,
}

impl<P: Persist> DeviceImage<P> {
    /// Registers all of an image.
    pub fn new(device: &Device, image: &Arc<Image<P>>) -> Result<DeviceImage<P>, TableError> {
        let registered = Mutex::new(Vec::new());
        let covered = AtomicU64::new(0);
        let image = DeviceImage { device: device.clone(), registered, covered, image: Arc::clone(image) };
        image.cover()?;
        Ok(image)
    }

    /// Has what the image grows by registered before the heap uses it, by whoever makes it grow; so that nobody else has to wait for that,
    /// which takes long.
    pub(crate) fn follow(self: &Arc<Self>, heap: &Heap<P>) -> Result<(), TableError> {
        if self.covered.load(Ordering::Acquire) != 0 {
            return Ok(());
        }
        // Before anybody can find that it does not cover any more.
        self.covered.store(self.register()?.address(), Ordering::Release);
        let image = Arc::downgrade(self);
        heap.on_growth(move || {
            let Some(image) = image.upgrade() else { return false };
            if image.register().is_err() {
                // Whoever launches the next kernel tries again, and is told.
                image.covered.store(0, Ordering::Release);
            }
            true
        });
        // What it has grown by in between.
        if let Err(error) = self.register() {
            self.covered.store(0, Ordering::Release);
            return Err(error);
        }
        Ok(())
    }

    /// The device.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Has all of the image registered that can be in use; gives where kernels have its beginning.
    pub(crate) fn cover(&self) -> Result<DevicePtr, TableError> {
        match self.covered.load(Ordering::Acquire) {
            0 => self.register(),
            at => Ok(DevicePtr::new(at)),
        }
    }

    fn register(&self) -> Result<DevicePtr, TableError> {
        let mut registered = self.registered.lock().unwrap_or_else(PoisonError::into_inner);
        let covered: usize = registered.iter().map(Registered::len).sum();
        let len = self.image.len() as usize;
        if len > covered {
            let more = len - covered;
            let at = self.image.pointer(covered as u64, more as u64).cast_mut();
            let at = NonNull::new(at).expect("an image is mapped somewhere");
            // SAFETY: the image is mapped, and writable, for as long as `self.image` lives, which is longer than the
            // registration. The program reads and writes it by words, atomically, and never through references.
            let part = unsafe { self.device.register(at, more, RegisterOptions::IMAGE)? };
            let expected = registered.first().map(|first| first.ptr().offset(covered as u64));
            if expected.is_some_and(|expected| expected != part.ptr()) {
                return Err(TableError::Scattered);
            }
            registered.push(part);
        }
        Ok(registered.first().map_or(DevicePtr::NULL, Registered::ptr))
    }

    /// What the simulator's store log calls the parts of it, with where each begins.
    pub fn regions(&self) -> Vec<(warpkeep_device::sim::RegionId, u64)> {
        let registered = self.registered.lock().unwrap_or_else(PoisonError::into_inner);
        let mut offset = 0;
        let mut regions = Vec::new();
        for part in registered.iter() {
            regions.extend(part.region().map(|region| (region, offset)));
            offset += part.len() as u64;
        }
        regions
    }
}
