//! Beats of a batch whose words the host stores: `kernels/parts.h`.

use std::time::Instant;

use warpkeep_device::{Device, Event, Grid, Stream};
use warpkeep_image::{Image, Persist};

use super::host_values::HostValues;
use super::list::ListForm;
use super::params::{BeatParams, ENTRIES, SENDS, StraightParams, VEILS};
use super::run::{Head, stores_of_beat};
use super::told::Told;
use super::words::Hands;
use crate::TableError;
use crate::gpu::engine::{DeviceEngine, THREADS, Workplace};
use crate::gpu::steps::Watch;

/// A batch whose words the host stores, and where it is worked.
pub(super) struct WithHost<'b, P: Persist> {
    pub(super) engine: &'b DeviceEngine<P>,
    pub(super) image: &'b Image<P>,
    pub(super) place: &'b Workplace,
    pub(super) params: &'b StraightParams,
    pub(super) parts: u64,
    /// What of it is decided; all, if there is none.
    pub(super) head: Option<Head>,
    /// Its values, if the host stores them.
    pub(super) values: Option<HostValues<'b>>,
    pub(super) tools: &'b Tools,
}

/// What such batches need beside a place.
pub(super) struct Tools {
    /// Where the mirror is kept up, while the place's stream sends: that takes few multiprocessors.
    stream: Stream,
    /// What is sent first is decided; all of it is; its entries are veiled; all of them are set.
    begun: Event,
    decided: Event,
    veiled: Event,
    settled: Event,
}

impl Tools {
    pub(super) fn new(device: &Device) -> Result<Tools, TableError> {
        let event = || device.event();
        let (stream, begun, decided) = (device.stream()?, event()?, event()?);
        Ok(Tools { stream, begun, decided, veiled: event()?, settled: event()? })
    }
}

impl<P: Persist> WithHost<'_, P> {
    /// Launches what is left to do, and stores the words of each part, and the tails that are the host's, when all entries are veiled and the
    /// rest of its records is in the image. When it returns all words are, and the last launch is under way, before what comes next in the
    /// place's stream. After an error, too, nothing is under way anywhere else.
    pub(super) fn launch_beats(
        &self,
        (hands, form): (Hands, ListForm),
        watch: &mut Watch<'_>,
        mut beat: impl FnMut(&BeatParams, u64, &Stream) -> Result<(), TableError>,
    ) -> Result<(), TableError> {
        let (device, own) = (self.engine.device(), &self.place.stream);
        let Tools { stream: beside, begun, decided, veiled, settled } = self.tools;
        let early = self.head.map_or(0, |head| head.parts);
        let list = self.place.columns.told_words.shared_words();
        let told = Told::new(self.image, list, (form, self.values), hands, self.parts as usize);
        let mut launch_some =
            |step, range: (u64, u64), parts, does, stream: &Stream, watch: &mut Watch<'_>| {
                let (beat_number, until) = range;
                let early = if parts == self.parts { early } else { 0 };
                let params =
                    BeatParams { straight: *self.params, beat: beat_number, parts, does, early, until };
                watch.device(step, device, stream, || {
                    beat(&params, stores_of_beat(self.params, parts), stream)
                })
            };
        let launched = told.beside(|| {
            begun.record(own)?;
            beside.wait_for(begun)?;
            if early > 0 {
                // It gets the few multiprocessors that it needs before others take all of them.
                launch_some("send the first parts", (0, early), self.parts, SENDS, own, watch)?;
                self.decide_rest(watch)?;
                decided.record(beside)?;
                own.wait_for(decided)?;
            }
            launch_some("veil", (0, 0), 1, VEILS, beside, watch)?;
            veiled.record(beside)?;
            launch_some("send", (early, self.parts), self.parts, SENDS, own, watch)?;
            veiled.synchronize()?;
            let mut stored = 0;
            for part in 0..self.parts as usize {
                told.wait_for(part, own)?;
                told.ready(part);
                while told.is_stored(stored) {
                    let number = (stored as u64 + 2, 0);
                    launch_some("entries", number, self.parts, ENTRIES, beside, watch)?;
                    stored += 1;
                }
            }
            let sent = Instant::now();
            if !told.finish() {
                // Somebody has panicked, and so will this thread as soon as it returns.
                return Ok(());
            }
            watch.note("host: words and tails that are left when all is sent", sent.elapsed());
            for part in stored as u64..self.parts {
                launch_some("entries", (part + 2, 0), self.parts, ENTRIES, beside, watch)?;
            }
            settled.record(beside)?;
            Ok(own.wait_for(settled)?)
        });
        if launched.is_err() {
            // The error is what there is to tell.
            let _ = beside.synchronize();
        }
        launched
    }

    /// Decides what is not the head's, beside what is sent.
    fn decide_rest(&self, watch: &mut Watch<'_>) -> Result<(), TableError> {
        let (device, beside) = (self.engine.device(), &self.tools.stream);
        let first = self.head.map_or(self.params.count, |head| head.operations);
        let params = StraightParams { first, ..*self.params };
        let grid = Grid::covering((params.end - first).max(1), THREADS);
        // SAFETY: the batch's columns are as the first launch had them, and stay until all streams are synchronised.
        watch.device("decide the rest", device, beside, || unsafe {
            Ok(self.engine.kernels.fused()?.decide.launch(grid, &params, beside)?)
        })
    }
}
