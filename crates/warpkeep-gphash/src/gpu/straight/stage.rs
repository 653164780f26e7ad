//! A batch that is decided, and not yet written.

use std::mem::offset_of;
use std::sync::MutexGuard;
use std::sync::atomic::{AtomicU64, Ordering};

use crossbeam_epoch::Guard;
use warpkeep_core::Op;
use warpkeep_device::{DeviceError, Stream};
use warpkeep_image::Persist;

use super::beside::WithHost;
use super::host_values::HostValues;
use super::left::{ANSWERED, sort};
use super::list::ListForm;
use super::params::{BeatParams, Came, StraightParams};
use super::run::{Head, beats, cleared_for, launch_beats, launch_deciding};
use super::words::Hands;
use super::{LevelCopies, StraightRows, Supply, Wrote};
use crate::gpu::engine::Turn;
use crate::gpu::mirror::Reflection;
use crate::gpu::staying::Staying;
use crate::gpu::steps::Watch;
use crate::{Table, TableError};

/// A batch that is decided: slots are claimed, and blocks handed out, in device memory only. Dropped, it leaves nothing behind.
pub struct StraightStage<'s, 'e, P: Persist> {
    pub(super) table: &'s Table<P>,
    pub(super) turn: &'s mut Turn<'e, P>,
    pub(super) rows: StraightRows,
    /// Its values, if the host stores them.
    pub(super) values: Option<HostValues<'s>>,
    pub(super) params: StraightParams,
    pub(super) parts: u64,
    /// What of it is decided before the rest, if not all at once.
    pub(super) head: Option<Head>,
    /// Who stores its words, if it is the host, and how it is told of them.
    pub(super) hands: Option<(Hands, ListForm)>,
    pub(super) mirror: Reflection,
    /// Until it is published.
    pub(super) held: Option<Held<'e, P>>,
}

/// What is kept from others meanwhile.
pub(super) struct Held<'e, P: Persist> {
    pub(super) watch: Watch<'e>,
    pub(super) supply: MutexGuard<'e, Supply<P>>,
    pub(super) copies: MutexGuard<'e, LevelCopies>,
    pub(super) staying: Staying<'e>,
    pub(super) guard: Guard,
}

/// What a batch comes to.
#[derive(Clone, Debug, Default)]
pub struct Decided {
    /// For each operation, whether it changes its key: 1, or 0. Of those on one key at most one does.
    pub acting: Vec<u8>,
    /// For each operation, the code of what it is answered, unless it is left to the CPU.
    pub statuses: Vec<u8>,
    /// Operations that are left to the CPU, in their order: on items in the overflow, new ones that find no place in the levels, and those
    /// on keys of which the device does not know what they have. None of them is acting.
    pub left: Vec<u32>,
}

impl<P: Persist> StraightStage<'_, '_, P> {
    /// # Safety
    /// As for [`launch_deciding`].
    pub(super) unsafe fn launch_deciding(&mut self) -> Result<(), TableError> {
        let takes_blocks = self.takes_blocks();
        let Some(held) = &mut self.held else { return Ok(()) };
        let (turn, cached) = (&*self.turn, self.mirror.rows().filter(|_| takes_blocks));
        // SAFETY: as this function's contract says.
        unsafe { launch_deciding(turn.engine, &turn.place, &self.params, self.head, cached, &mut held.watch) }
    }

    fn takes_blocks(&self) -> bool {
        self.rows.op != Op::Delete
    }

    /// Waits until it is decided, and tells what it comes to. After an error it can only be dropped.
    pub fn learn(&mut self) -> Result<Decided, TableError> {
        let (device, place) = (self.turn.engine.device(), &mut *self.turn.place);
        let count = self.rows.count as usize;
        if self.params.acting.is_null() {
            return Ok(Decided::default());
        }
        // SAFETY: the stream is synchronised before anybody looks; the caller's column is as long as that, which he has promised.
        unsafe {
            place.columns.enrolled.fetch::<Came>(device, 1, &place.stream)?;
            place.columns.acting.fetch::<u8>(device, count, &place.stream)?;
            let statuses = place.columns.statuses.room(device, count)?;
            device.copy_raw(statuses, self.rows.statuses, count, &place.stream)?;
            place.columns.statuses.fetch::<u8>(device, count, &place.stream)?;
        }
        place.stream.synchronize()?;
        if let Some(held) = &mut self.held {
            held.watch.host("host: deciding");
        }
        let came = place.columns.enrolled.fetched::<Came>(1)[0];
        let acting = place.columns.acting.fetched::<u8>(count).to_vec();
        let statuses = place.columns.statuses.fetched::<u8>(count).to_vec();
        let left = match came.asked {
            0 => Vec::new(),
            asked => self.take_left(asked)?.into_iter().map(|one| one & !ANSWERED).collect(),
        };
        Ok(Decided { acting, statuses, left })
    }

    /// Operations that are left to the CPU, so many, in the order of the batch.
    pub(super) fn take_left(&self, count: u64) -> Result<Vec<u32>, TableError> {
        let place = &self.turn.place;
        let mut left = place.columns.asks.take(count as usize, &place.stream)?;
        sort(&mut left);
        Ok(left)
    }

    /// Writes it: when this returns, all that acts is in the image. `beside` is done while the device writes, or, where
    /// the host stores words, when that is done and the device sets entries. Once it has begun an error means
    /// that some of it may be there, and some not; then the device is not to be used again.
    pub fn publish(&mut self, beside: impl FnOnce()) -> Result<Wrote, TableError> {
        let launch = beats(self.turn.engine.kernels.fused()?);
        self.finish(launch, beside)
    }

    pub(super) fn finish(
        &mut self,
        beat: impl FnMut(&BeatParams, u64, &Stream) -> Result<(), TableError>,
        beside: impl FnOnce(),
    ) -> Result<Wrote, TableError> {
        let Some(mut held) = self.held.take() else { return Ok(Wrote::default()) };
        let takes_blocks = self.takes_blocks();
        if takes_blocks {
            let (engine, own) = (self.turn.engine, &self.turn.place.stream);
            held.supply.prepare(engine.device(), &engine.kernels, self.rows.count, own);
            // All of them until it is known which: whatever happens, also a panic, nobody is to have one a second time.
            held.supply.used(self.rows.count);
        }
        let came = self.write(&mut held.watch, beat, beside);
        let Held { mut watch, mut supply, mut copies, staying, guard } = held;
        let came = came?;
        copies.confirm(self.table);
        drop(copies);
        supply.left_over(if takes_blocks { self.rows.count - came.acts } else { 0 });
        supply.retire(came.retired, &guard);
        drop(guard);
        supply.recall(self.rows.count);
        if let Some(rows) = self.mirror.rows().filter(|_| takes_blocks) {
            rows.took(came.rows);
        }
        if takes_blocks {
            supply.look_ahead(self.rows.count);
        }
        drop((supply, staying));
        self.mirror.count(came.created);
        self.table.items.fetch_add(came.created as i64 - came.removed as i64, Ordering::Relaxed);
        watch.host("host: accounts");
        watch.finish()?;
        Ok(Wrote {
            created: came.created,
            replaced: came.acts - came.created - came.removed,
            removed: came.removed,
            by_cpu: came.asked,
        })
    }

    fn write(
        &mut self,
        watch: &mut Watch<'_>,
        beat: impl FnMut(&BeatParams, u64, &Stream) -> Result<(), TableError>,
        beside: impl FnOnce(),
    ) -> Result<Came, TableError> {
        let (engine, place) = (self.turn.engine, &mut *self.turn.place);
        let (params, parts, head, values) = (&self.params, self.parts, self.head, self.values);
        let image = self.table.image();
        if values.is_some() {
            engine.straight.words.with_values.fetch_add(1, Ordering::Relaxed);
        }
        // Before the launch that sets it.
        place.columns.enrolled.shared_words()[IS_TOLD].store(0, Ordering::Relaxed);
        let launched = match self.hands.take() {
            Some(hands) => engine.straight.words.take_tools(engine.device()).and_then(|tools| {
                let with_host = WithHost { engine, image, place, params, parts, head, values, tools: &tools };
                let launched = with_host.launch_beats(hands, watch, beat);
                engine.straight.words.keep_tools(tools);
                launched
            }),
            None => launch_beats(engine, &place.stream, params, parts, watch, beat),
        };
        let (columns, stream) = (&mut place.columns, &place.stream);
        let cleared = cleared_for(params.enrolments);
        let is_told = !params.told.is_null();
        let under_way = launched.and_then(|()| match is_told {
            // While it is finished; nobody needs any of it after that.
            true => {
                columns.enrolled.clear_ahead(cleared, stream);
                Ok(())
            }
            // SAFETY: the stream is synchronised before anybody looks.
            false => unsafe { columns.enrolled.fetch::<Came>(engine.device(), 1, stream) },
        });
        watch.host("host: launches, and words that are its own");
        beside();
        watch.host("host: beside it");
        // Also after an error: nothing may be under way when others have the columns.
        let waited = match under_way.is_ok() && is_told {
            true => wait_until_told(columns.enrolled.shared_words(), stream),
            false => stream.synchronize(),
        };
        under_way?;
        waited?;
        watch.host("host: waiting");
        if !is_told {
            columns.enrolled.clear_ahead(cleared, stream);
        }
        Ok(columns.enrolled.fetched::<Came>(1)[0])
    }
}

/// Where the device says that it has told what a batch came to.
const IS_TOLD: usize = offset_of!(Came, is_told) / 8;
/// Looks there before it is asked whether anything is left to do, and others are let run.
const LOOKS: u32 = 1 << 12;

/// Waits until the device has told what a batch came to, by what is in a stream.
fn wait_until_told(words: &[AtomicU64], stream: &Stream) -> Result<(), DeviceError> {
    loop {
        for _ in 0..LOOKS {
            if words[IS_TOLD].load(Ordering::Acquire) != 0 {
                return Ok(());
            }
            std::hint::spin_loop();
        }
        // If there is nothing left to do, it was told. And this is where one learns that it never will be.
        if stream.is_done()? {
            return Ok(());
        }
        std::thread::yield_now();
    }
}

impl<P: Persist> Drop for StraightStage<'_, '_, P> {
    fn drop(&mut self) {
        if self.held.is_some() {
            // Nothing may be under way when others have the columns. An error is told by whoever uses the device next.
            let _ = self.turn.place.stream.synchronize();
        }
    }
}
