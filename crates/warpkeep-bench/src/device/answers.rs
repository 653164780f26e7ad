//! Where answers go in device memory, and whether they are right.
#![allow(unsafe_code, reason = "a kernel is launched")]

use std::ops::Range;

use warpkeep_core::Status;
use warpkeep_device::{Buffer, Device, DevicePtr, Grid, KernelSet as _, Stream};

use super::pool::Pool;
use crate::BenchError;
use crate::kernels::{AnswerKernels, AnswersParams, SUMS};
use crate::workload::Workload;

const THREADS: u32 = 256;
/// Answers that are looked at here, byte by byte.
const SAMPLE: usize = 64;

/// The expected answers to a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expected {
    /// Values of one generation, whichever, whole.
    Whole,
    /// Values of this generation.
    Generation(u64),
    /// That the keys are there, whatever they have.
    There,
    /// That the keys are not there.
    Absent,
}

/// Room for the answers to a batch of gets.
pub(crate) struct Answers {
    statuses: Buffer,
    values: Buffer,
    wrong: Buffer,
    kernels: AnswerKernels,
    workload: Workload,
    room: usize,
}

impl Answers {
    pub(crate) fn new(device: &Device, workload: &Workload, room: usize) -> Result<Answers, BenchError> {
        Ok(Answers {
            statuses: device.allocate_zeroed(room)?,
            values: device.allocate_zeroed(room * workload.value_bytes.next_multiple_of(8))?,
            wrong: device.allocate_zeroed(8 * SUMS)?,
            kernels: AnswerKernels::load(device)?,
            workload: *workload,
            room,
        })
    }

    /// Rows that there is room for.
    pub(crate) fn room(&self) -> usize {
        self.room
    }

    pub(crate) fn has_room_for(&self, count: usize) -> Result<(), BenchError> {
        if count <= self.room {
            return Ok(());
        }
        Err(BenchError::Invalid(format!(
            "a batch of {count} is larger than the {} there is room for",
            self.room
        )))
    }

    pub(crate) fn statuses_at(&self) -> DevicePtr {
        self.statuses.ptr()
    }

    pub(crate) fn values_at(&self) -> DevicePtr {
        self.values.ptr()
    }

    /// Checks all answers, on the device.
    pub(crate) fn check(
        &self,
        pool: &Pool,
        part: &Range<usize>,
        expected: Expected,
        stream: &Stream,
    ) -> Result<(), BenchError> {
        let (status, with_value, generation) = match expected {
            Expected::There => (Status::Ok, 0, 0),
            Expected::Absent => (Status::NotFound, 0, 0),
            Expected::Generation(generation) => (Status::Ok, 1, generation),
            Expected::Whole => (Status::Ok, 2, 0),
        };
        let params = AnswersParams {
            count: part.len() as u64,
            numbers: pool.numbers_at(part),
            statuses: self.statuses.ptr(),
            values: self.values.ptr(),
            value_len: self.workload.value_bytes as u64,
            generation,
            seed: self.workload.seed,
            status: u32::from(status as u8),
            with_value,
            wrong: self.wrong.ptr(),
        };
        self.has_room_for(part.len())?;
        self.wrong.fill_on(0, 8 * SUMS, 0, stream)?;
        let grid = Grid::covering(part.len() as u64, THREADS);
        // SAFETY: numbers and answers are as many as the part has, and stay until the stream is synchronised.
        unsafe { self.kernels.answers.launch(grid, &params, stream)? };
        let mut wrong = [0_u64; SUMS];
        self.wrong.read_on(0, &mut wrong, stream)?;
        match wrong.iter().sum::<u64>() {
            0 => Ok(()),
            wrong => {
                Err(BenchError::Wrong(format!("{wrong} of {} answers are wrong ({expected:?})", part.len())))
            }
        }
    }

    /// Checks some answers here: the device might be wrong about its own.
    pub(crate) fn check_sample(&self, pool: &Pool, part: &Range<usize>) -> Result<(), BenchError> {
        let row = self.workload.value_bytes.next_multiple_of(8);
        let mut value = vec![0_u8; row];
        for index in (0..part.len()).step_by((part.len() / SAMPLE).max(1)) {
            self.values.read(index * row, &mut value)?;
            let number = pool.numbers[part.start + index];
            if !self.workload.is_whole(number, &value[..self.workload.value_bytes]) {
                return Err(BenchError::Wrong(format!("the value of item {number} is {value:02x?}")));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The kernel's rule is that of [`Workload`], for values of any length, and every flipped byte shows.
    #[test]
    fn the_device_tells_right_values_from_wrong_ones() {
        let Ok(device) = Device::open(warpkeep_device::DeviceChoice::Sim) else {
            use std::io::Write as _;
            writeln!(std::io::stdout().lock(), "SKIPPED: no simulator").expect("standard output");
            return;
        };
        let stream = device.stream().expect("a stream");
        for value_bytes in [8, 9, 12, 15, 16, 17, 20, 23, 24, 25, 31, 32, 100, 128] {
            let workload = Workload { items: 100, key_bytes: 8, value_bytes, seed: 9 };
            let numbers: Vec<u64> = (3..43).collect();
            let pool = Pool::of(&device, workload, numbers.clone()).expect("a pool");
            let answers = Answers::new(&device, &workload, 40).expect("room");
            let row = value_bytes.next_multiple_of(8);
            let mut rows = vec![0_u8; 40 * row];
            for (&number, row) in numbers.iter().zip(rows.chunks_exact_mut(row)) {
                workload.write_value(number, 77, &mut row[..value_bytes]);
            }
            answers.values.write(0, &rows).expect("a write");
            answers.statuses.fill(Status::Ok as u8).expect("a fill");
            let check = |expected| answers.check(&pool, &(0..40), expected, &stream);
            check(Expected::Whole).unwrap_or_else(|error| panic!("{value_bytes}: {error}"));
            check(Expected::Generation(77)).unwrap_or_else(|error| panic!("{value_bytes}: {error}"));
            answers.check_sample(&pool, &(0..40)).expect("right values");
            let has_room = value_bytes != 8 && value_bytes != 16;
            assert_eq!(check(Expected::Generation(78)).is_err(), has_room, "{value_bytes}");
            assert!(check(Expected::Absent).is_err());
            for at in 0..value_bytes {
                rows[5 * row + at] ^= 1;
                answers.values.write(0, &rows).expect("a write");
                assert!(check(Expected::Generation(77)).is_err(), "byte {at} of {value_bytes}");
                rows[5 * row + at] ^= 1;
            }
            answers.values.write(0, &rows).expect("a write");
            answers.statuses.fill(Status::NotFound as u8).expect("a fill");
            assert!(check(Expected::Whole).is_err());
            check(Expected::Absent).expect("they are not there");
        }
    }
}
