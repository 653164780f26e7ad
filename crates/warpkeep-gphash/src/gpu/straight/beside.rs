//! Beats of a batch whose words the host stores: `kernels/parts.h`.

use std::time::Instant;

use warpkeep_device::{Event, Stream};
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
    /// One for each part.
    pub(super) sent: &'b [Event],
}

impl<P: Persist> WithHost<'_, P> {
    /// Launches what is left to do, and stores the words of each part, and the tails that are the host's, when the rest of its records is in
    /// the image. When it returns all words are; and the last launch is under way.
    pub(super) fn launch_beats(
        &self,
        (hands, form): (Hands, ListForm),
        watch: &mut Watch<'_>,
        mut beat: impl FnMut(&BeatParams, u64, &Stream) -> Result<(), TableError>,
    ) -> Result<(), TableError> {
        let (device, stream) = (self.engine.device(), &self.place.stream);
        let list = self.place.columns.told_words.shared_words();
        let told = Told::new(self.image, list, form, hands, self.parts as usize);
        let mut launch = |step, number, parts, does, watch: &mut Watch<'_>| {
            let params = BeatParams { straight: *self.params, beat: number, parts, does };
            watch.device(step, device, stream, || beat(&params, stores_of_beat(self.params, parts), stream))
        };
        told.beside(|| {
            launch("veil", 0, 1, VEILS, watch)?;
            for part in 0..self.parts {
                launch("send", part, self.parts, SENDS, watch)?;
                self.sent[part as usize].record(stream)?;
            }
            for part in 0..self.parts as usize {
                self.sent[part].synchronize()?;
                told.ready(part);
            }
            let sent = Instant::now();
            told.finish();
            watch.note("host: words and tails that are left when all is sent", sent.elapsed());
            launch("entries", 2, 1, ENTRIES, watch)
        })
    }
}
