//! Beats of a batch whose words the host stores: `kernels/parts.h`.

use std::time::Instant;

use warpkeep_device::{Device, Event, Stream};
use warpkeep_image::{Image, Persist};

use super::list::ListForm;
use super::params::{BeatParams, ENTRIES, SENDS, StraightParams, VEILS};
use super::run::stores_of_beat;
use super::told::Told;
use super::words::Hands;
use crate::TableError;
use crate::gpu::engine::{DeviceEngine, Workplace};
use crate::gpu::steps::Watch;

/// A batch whose words the host stores, and where it is worked.
pub(super) struct WithHost<'b, P: Persist> {
    pub(super) engine: &'b DeviceEngine<P>,
    pub(super) image: &'b Image<P>,
    pub(super) place: &'b Workplace,
    pub(super) params: &'b StraightParams,
    pub(super) parts: u64,
    pub(super) tools: &'b Tools,
}

/// What such batches need beside a place.
pub(super) struct Tools {
    /// Where the mirror is kept up, while the place's stream sends: that takes few multiprocessors.
    stream: Stream,
    /// It is decided; its entries are veiled; all of them are set.
    decided: Event,
    veiled: Event,
    settled: Event,
}

impl Tools {
    pub(super) fn new(device: &Device) -> Result<Tools, TableError> {
        let (stream, decided) = (device.stream()?, device.event()?);
        Ok(Tools { stream, decided, veiled: device.event()?, settled: device.event()? })
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
        let Tools { stream: beside, decided, veiled, settled } = self.tools;
        let list = self.place.columns.told_words.shared_words();
        let told = Told::new(self.image, list, form, hands, self.parts as usize);
        let mut launch = |step, number, parts, does, stream: &Stream, watch: &mut Watch<'_>| {
            let params = BeatParams { straight: *self.params, beat: number, parts, does };
            watch.device(step, device, stream, || beat(&params, stores_of_beat(self.params, parts), stream))
        };
        let launched = told.beside(|| {
            decided.record(own)?;
            beside.wait_for(decided)?;
            launch("veil", 0, 1, VEILS, beside, watch)?;
            veiled.record(beside)?;
            launch("send", 0, self.parts, SENDS, own, watch)?;
            veiled.synchronize()?;
            let mut stored = 0;
            for part in 0..self.parts as usize {
                told.wait_for(part, own)?;
                told.ready(part);
                while told.is_stored(stored) {
                    launch("entries", stored as u64 + 2, self.parts, ENTRIES, beside, watch)?;
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
                launch("entries", part + 2, self.parts, ENTRIES, beside, watch)?;
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
}
