//! Operations that a device leaves to the CPU: on items in the overflow, and on new ones that find no place in the levels.

use std::collections::HashMap;

use warpkeep_core::{Op, Status};
use warpkeep_device::DevicePtr;
use warpkeep_image::{ImageError, Persist};

use super::host_values::HostValues;
use super::{StraightRows, Wrote};
use crate::gpu::engine::Turn;
use crate::{Table, TableError};

/// The operation has its answer already, which stands unless it cannot be done.
pub(super) const ANSWERED: u32 = 1 << 31;

/// The order of the batch.
pub(super) fn sort(left: &mut [u32]) {
    left.sort_unstable_by_key(|one| one & !ANSWERED);
}

impl<P: Persist> Turn<'_, P> {
    /// Does these operations, in the order of the batch, and writes their statuses.
    ///
    /// # Safety
    /// As [`Turn::write_straight`].
    pub(super) unsafe fn do_left(
        &mut self,
        table: &Table<P>,
        (rows, values): (&StraightRows, Option<HostValues<'_>>),
        first_version: u64,
        left: &[u32],
        wrote: &mut Wrote,
    ) -> Result<(), TableError> {
        let (key_len, value_len) = (table.key_row(), table.value.max_len());
        let (key_row, row) = (key_len.next_multiple_of(8), value_len.next_multiple_of(8));
        let mut refused = HashMap::new();
        for &one in left {
            let (index, answered) = (one & !ANSWERED, one & ANSWERED != 0);
            let mut key = vec![0_u8; key_row];
            let mut value = vec![0_u8; if rows.values.is_null() { 0 } else { row }];
            // SAFETY: the caller's promise.
            unsafe {
                self.fetch(&mut key, rows.keys.offset(key_row as u64 * u64::from(index)))?;
                key.truncate(key_len);
                if !rows.values.is_null() {
                    self.fetch(&mut value, rows.values.offset(row as u64 * u64::from(index)))?;
                    value.truncate(value_len);
                }
            }
            let value = values.map_or(&value[..], |values| values.of(index as usize));
            // The device acts on cells alone; of anything else there would be nothing left to do.
            let plain = table.key_cells().map_or(&key[..], |cells| cells.remains_in(&key));
            let done = self.do_one(table, rows.op, plain, value, first_version + u64::from(index));
            let status = match done {
                Ok(status) => status,
                Err(TableError::Full) => Status::TableFull,
                Err(TableError::Image(ImageError::OutOfSpace { .. })) => Status::OutOfSpace,
                Err(error) => return Err(error),
            };
            match (status, rows.op) {
                (Status::Created, _) => wrote.created += 1,
                (Status::Ok, Op::Delete) => wrote.removed += 1,
                (Status::Ok, _) => wrote.replaced += 1,
                (Status::TableFull | Status::OutOfSpace, _) => drop(refused.insert(key, status)),
                _ => {}
            }
            if !answered {
                // SAFETY: the same.
                unsafe { self.answer(rows, u64::from(index), status)? };
            }
        }
        if refused.is_empty() {
            return Ok(());
        }
        // Others on the same keys were answered as if there had been room.
        let mut keys = vec![0_u8; key_row * rows.count as usize];
        // SAFETY: the same.
        unsafe { self.fetch(&mut keys, rows.keys)? };
        for (index, key) in (0..).zip(keys.chunks_exact(key_row)) {
            if let Some(&status) = refused.get(&key[..key_len]) {
                // SAFETY: the same.
                unsafe { self.answer(rows, index, status)? };
            }
        }
        Ok(())
    }

    /// Does one operation with the CPU.
    fn do_one(
        &self,
        table: &Table<P>,
        op: Op,
        key: &[u8],
        value: &[u8],
        version: u64,
    ) -> Result<Status, TableError> {
        let lock = table.lock_key(key);
        loop {
            let mut stage = table.stage([lock]);
            let seat = stage.seat(key, lock);
            let there = seat.version().is_some();
            let status = match (op, there) {
                (Op::Insert, true) => return Ok(Status::AlreadyExists),
                (Op::Update | Op::Delete, false) => return Ok(Status::NotFound),
                (_, true) => Status::Ok,
                (_, false) => Status::Created,
            };
            let staged = match op {
                Op::Delete => {
                    stage.remove(&seat);
                    Ok(())
                }
                _ => stage.put(&seat, key, value, version),
            };
            match staged {
                Ok(()) => {
                    stage.publish();
                    return Ok(status);
                }
                Err(TableError::Full) => {
                    let seen = stage.seen();
                    drop(stage);
                    let _moving = self.engine.moving();
                    table.make_room(seen)?;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// # Safety
    /// There are as many bytes at `from`.
    unsafe fn fetch(&mut self, to: &mut [u8], from: DevicePtr) -> Result<(), TableError> {
        let (device, place) = (self.engine.device(), &mut *self.place);
        let at = place.columns.answers.room(device, to.len())?;
        // SAFETY: the caller's promise, and the column has the room.
        unsafe { device.copy_raw(at, from, to.len(), &place.stream)? };
        to.copy_from_slice(&place.columns.answers.take::<u8>(to.len(), &place.stream)?);
        Ok(())
    }

    /// # Safety
    /// As [`Turn::write_straight`].
    unsafe fn answer(&mut self, rows: &StraightRows, index: u64, status: Status) -> Result<(), TableError> {
        let (device, place) = (self.engine.device(), &mut *self.place);
        let at = place.columns.statuses.put(device, &[status as u8], &place.stream)?;
        // SAFETY: the caller's promise.
        unsafe { device.copy_raw(rows.statuses.offset(index), at, 1, &place.stream)? };
        Ok(place.stream.synchronize()?)
    }
}
