//! Buffers that are used again: a check takes microseconds, fresh pages would take longer.

use std::sync::{Arc, Mutex, PoisonError};

use crate::buffer::Buffer;

/// The buffers of one worker; clones are handles to the same ones.
#[derive(Clone, Default)]
pub(crate) struct Pool {
    buffers: Arc<Mutex<Vec<Arc<Buffer>>>>,
}

impl Pool {
    /// A buffer without other holders, `len` long, filled by `fill`.
    pub(crate) fn take(&self, capacity: u64, len: u64, fill: impl FnOnce(&mut [u8])) -> Arc<Buffer> {
        let mut buffers = self.buffers.lock().unwrap_or_else(PoisonError::into_inner);
        let free = buffers.iter_mut().position(|buffer| {
            // A holder that still has one, for example a thread left running, keeps it.
            buffer.capacity() >= capacity && Arc::get_mut(buffer).is_some()
        });
        let mut buffer = match free {
            Some(index) => buffers.swap_remove(index),
            None => Arc::new(Buffer::new(capacity)),
        };
        fill(Arc::get_mut(&mut buffer).expect("chosen because it is not held").reset(len));
        buffers.push(Arc::clone(&buffer));
        buffer
    }
}
