//! The image of a store, registered with a device.
//!
//! Registration pins the pages and takes long. An image grows by chunks, so the thread that makes it grow registers
//! the new chunk before the heap uses it, and batches do not wait. Kernels need one base address: all parts must be
//! contiguous for the device as well.

use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use warpkeep_device::{Device, DevicePtr, RegisterOptions, Registered};
use warpkeep_image::{Heap, Image, Persist};

use crate::TableError;

/// An image, registered with a device: one for all tables of a store.
pub struct DeviceImage<P: Persist> {
    device: Device,
    // Declared before the image, so that it is dropped first: registered memory must be mapped.
    registered: Mutex<Vec<Registered>>,
    /// The address of the image for kernels while all of it that is in use is registered; 0 if
    /// [`register`](DeviceImage::register) has to be called.
    base: AtomicU64,
    image: Arc<Image<P>>,
}

impl<P: Persist> DeviceImage<P> {
    /// Registers all of an image.
    pub fn new(device: &Device, image: &Arc<Image<P>>) -> Result<DeviceImage<P>, TableError> {
        let registered = Mutex::new(Vec::new());
        let base = AtomicU64::new(0);
        let image = DeviceImage { device: device.clone(), registered, base, image: Arc::clone(image) };
        image.cover()?;
        Ok(image)
    }

    /// Registers what the image grows by from now on, in the thread that makes it grow and before the heap uses it.
    pub(crate) fn follow(self: &Arc<Self>, heap: &Heap<P>) -> Result<(), TableError> {
        if self.base.load(Ordering::Acquire) != 0 {
            return Ok(());
        }
        // Set before the growth hook, which resets it after an error.
        self.base.store(self.register()?.address(), Ordering::Release);
        let image = Arc::downgrade(self);
        heap.on_growth(move || {
            let Some(image) = image.upgrade() else { return false };
            if image.register().is_err() {
                // The next launch tries again and reports the error.
                image.base.store(0, Ordering::Release);
            }
            true
        });
        // The image may have grown before the hook was set.
        if let Err(error) = self.register() {
            self.base.store(0, Ordering::Release);
            return Err(error);
        }
        Ok(())
    }

    /// The device.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Makes sure that all of the image that is in use is registered; returns its address for kernels.
    pub(crate) fn cover(&self) -> Result<DevicePtr, TableError> {
        match self.base.load(Ordering::Acquire) {
            0 => self.register(),
            base => Ok(DevicePtr::new(base)),
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
            // SAFETY: the image is mapped and writable while `self.image` lives, which outlives the registration. The
            // program accesses it by atomic words and never through references.
            let part = unsafe { self.device.register(at, more, RegisterOptions::IMAGE)? };
            let expected = registered.first().map(|first| first.ptr().offset(covered as u64));
            if expected.is_some_and(|expected| expected != part.ptr()) {
                return Err(TableError::Scattered);
            }
            registered.push(part);
        }
        Ok(registered.first().map_or(DevicePtr::NULL, Registered::ptr))
    }

    /// The regions of the simulator's store log that the parts of the image are, with the offset of each.
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
