//! The cost of a device's calls: copies both ways, and empty kernels.
#![allow(unsafe_code, reason = "kernels are launched, and copies run behind the program")]

use std::time::Instant;

use warpkeep_device::{Buffer, Device, Grid, KernelSet as _, PinnedBuffer, Stream, TypedKernel};

use crate::BenchError;
use crate::kernels::{LimitKernels, NothingParams};

/// Memory on both sides, and a kernel.
pub(super) struct Calls {
    here: PinnedBuffer,
    there: Buffer,
    nothing: TypedKernel<NothingParams>,
    stream: Stream,
}

impl Calls {
    /// Copies have `bytes` bytes.
    pub(super) fn new(device: &Device, bytes: usize) -> Result<Calls, BenchError> {
        let mut here = device.pin(bytes)?;
        here.as_mut_slice().fill(0x5a);
        let calls = Calls {
            here,
            there: device.allocate_zeroed(bytes)?,
            nothing: LimitKernels::load(device)?.nothing,
            stream: device.stream()?,
        };
        calls.launches(1)?;
        Ok(calls)
    }

    /// Bytes a second from the host to the device.
    pub(super) fn copy_in(&self) -> Result<f64, BenchError> {
        let begun = Instant::now();
        self.there.write_on(0, self.here.as_slice(), &self.stream)?;
        Ok(self.here.len() as f64 / begun.elapsed().as_secs_f64())
    }

    /// Bytes a second from the device to the host.
    pub(super) fn copy_out(&mut self) -> Result<f64, BenchError> {
        let begun = Instant::now();
        self.there.read_on(0, self.here.as_mut_slice(), &self.stream)?;
        let seconds = begun.elapsed().as_secs_f64();
        if self.here.as_slice().iter().any(|&byte| byte != 0x5a) {
            return Err(BenchError::Wrong("what was copied to the device did not come back".to_owned()));
        }
        Ok(self.here.len() as f64 / seconds)
    }

    /// Microseconds of an empty kernel: launched and waited for, and one of many in a row.
    pub(super) fn launches(&self, count: u32) -> Result<(f64, f64), BenchError> {
        let grid = Grid { blocks: 1, threads: 32, shared_bytes: 0 };
        let unused: NothingParams = 0;
        // SAFETY: the kernel does nothing.
        let launch = || unsafe { self.nothing.launch(grid, &unused, &self.stream) };
        let begun = Instant::now();
        for _ in 0..count {
            launch()?;
            self.stream.synchronize()?;
        }
        let alone = begun.elapsed();
        let begun = Instant::now();
        for _ in 0..count {
            launch()?;
        }
        self.stream.synchronize()?;
        let each = |took: std::time::Duration| took.as_secs_f64() * 1e6 / f64::from(count.max(1));
        Ok((each(alone), each(begun.elapsed())))
    }
}
