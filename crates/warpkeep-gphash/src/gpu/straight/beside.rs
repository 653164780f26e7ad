//! Beats of a batch whose words the host stores: `kernels/parts.h`.

use warpkeep_device::Stream;
use warpkeep_image::{Image, Persist};

use super::params::{BeatParams, Came, ENTRIES, SENDS, StraightParams, VEILS};
use super::run::stores_of_beat;
use super::words::{Hands, Lane, Told};
use crate::TableError;
use crate::gpu::engine::{DeviceEngine, Workplace};
use crate::gpu::steps::Watch;

/// A batch whose words the host stores, and where it is worked.
pub(super) struct WithHost<'b, P: Persist> {
    pub(super) engine: &'b DeviceEngine<P>,
    pub(super) image: &'b Image<P>,
    pub(super) place: &'b Workplace,
    pub(super) lane: &'b Lane,
    pub(super) params: &'b StraightParams,
    pub(super) parts: u64,
}

impl<P: Persist> WithHost<'_, P> {
    /// Launches beats: what decides parts in the stream of the workplace, what crosses the link in one of the lane, what is kept up with it
    /// in the other. Stores the words of each part when its records are in the image. When it returns all words are; and the last
    /// launches are under way.
    pub(super) fn launch_beats(
        &self,
        hands: Hands,
        watch: &mut Watch<'_>,
        mut beat: impl FnMut(&BeatParams, u64, &Stream) -> Result<(), TableError>,
    ) -> Result<(), TableError> {
        let (parts, lane, stores) = (self.parts, self.lane, stores_of_beat(self.params, self.parts));
        let told = Told::new(self.image, self.place.columns.told_words.shared_words(), hands, parts as usize);
        let mut launch = |step, beat_number, does, stream: &Stream, watch: &mut Watch<'_>| {
            let params = BeatParams { straight: *self.params, beat: beat_number, parts, does };
            watch.device(step, self.engine.device(), stream, || beat(&params, stores, stream))
        };
        told.beside(|| {
            for number in 0..=parts {
                // One ahead, so that its records can follow those of the one before at once.
                if number < parts {
                    self.decide(number, watch)?;
                    lane.decided[number as usize].record(&self.place.stream)?;
                    lane.keeping.wait_for(&lane.decided[number as usize])?;
                    launch("veil", number, VEILS, &lane.keeping, watch)?;
                    lane.veiled[number as usize].record(&lane.keeping)?;
                }
                if let Some(part) = number.checked_sub(1) {
                    lane.sending.wait_for(&lane.veiled[part as usize])?;
                    launch("send", part, SENDS, &lane.sending, watch)?;
                    lane.sent[part as usize].record(&lane.sending)?;
                }
                // While that goes, the words of the part before it.
                if let Some(part) = number.checked_sub(2) {
                    self.publish(part, &told, watch, &mut launch)?;
                }
            }
            self.publish(parts - 1, &told, watch, &mut launch)
        })
    }

    /// Stores the words of a part, and then sets its entries.
    fn publish(
        &self,
        part: u64,
        told: &Told<'_, P>,
        watch: &mut Watch<'_>,
        launch: &mut impl FnMut(&'static str, u64, u64, &Stream, &mut Watch<'_>) -> Result<(), TableError>,
    ) -> Result<(), TableError> {
        self.lane.sent[part as usize].synchronize()?;
        told.store_part(part as usize);
        launch("entries", part + 2, ENTRIES, &self.lane.keeping, watch)
    }

    /// Puts what decides a part into the stream of the workplace, unless it is decided with all others.
    fn decide(&self, part: u64, watch: &mut Watch<'_>) -> Result<(), TableError> {
        let (device, stream) = (self.engine.device(), &self.place.stream);
        if self.params.marks.is_null() {
            return Ok(());
        }
        let bound = |part: u64| self.params.count * part / self.parts;
        let params = StraightParams { begin: bound(part), end: bound(part + 1), ..*self.params };
        let acts = self.params.came.offset(std::mem::offset_of!(Came, acts) as u64);
        let mark = self.params.marks.offset(8 * (part + 1));
        watch.device("decide", device, stream, || {
            // SAFETY: the parameters are those of the batch, which stays until its streams are synchronised; there is a mark more than
            // there are parts.
            unsafe {
                self.place.launch(&self.engine.kernels.decide, params.end - params.begin, &params)?;
                device.copy_raw(mark, acts, 8, stream)?;
            }
            Ok(())
        })
    }
}
