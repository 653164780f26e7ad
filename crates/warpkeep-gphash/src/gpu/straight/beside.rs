//! Beats of a batch whose words the host stores: `kernels/parts.h`.

use warpkeep_device::Stream;
use warpkeep_image::{Image, Persist};

use super::params::{BeatParams, Came, StraightParams};
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
    /// Launches beats in the stream of the lane, behind what decides them, and stores the words of each part when its records are in the
    /// image. When it returns all words are; and the last beats are under way.
    pub(super) fn launch_beats(
        &self,
        hands: Hands,
        watch: &mut Watch<'_>,
        mut beat: impl FnMut(&BeatParams, u64, &Stream) -> Result<(), TableError>,
    ) -> Result<(), TableError> {
        let (parts, lane, stores) = (self.parts, self.lane, stores_of_beat(self.params, self.parts));
        let told = Told::new(self.image, self.place.columns.told_words.shared_words(), hands, parts as usize);
        told.beside(|| {
            self.decide(0, watch)?;
            for number in 0..parts + 2 {
                // One ahead, so that its records can follow those of this one at once.
                self.decide(number + 1, watch)?;
                if let Some(part) = number.checked_sub(2) {
                    lane.beaten[part as usize].synchronize()?;
                    told.store_part(part as usize);
                }
                if number < parts {
                    lane.stream.wait_for(&lane.decided[number as usize])?;
                }
                let params = BeatParams { straight: *self.params, beat: number, parts };
                watch.device("beat", self.engine.device(), &lane.stream, || {
                    beat(&params, stores, &lane.stream)
                })?;
                lane.beaten[number as usize].record(&lane.stream)?;
            }
            Ok(())
        })
    }

    /// Puts what decides a part into the stream of the workplace, if there is such a part and it is not decided with all others.
    fn decide(&self, part: u64, watch: &mut Watch<'_>) -> Result<(), TableError> {
        let (device, stream) = (self.engine.device(), &self.place.stream);
        if part >= self.parts {
            return Ok(());
        }
        if !self.params.marks.is_null() {
            let bound = |part: u64| self.params.count * part / self.parts;
            let params = StraightParams { begin: bound(part), end: bound(part + 1), ..*self.params };
            let acts = self.params.came.offset(std::mem::offset_of!(Came, acts) as u64);
            let mark = self.params.marks.offset(8 * (part + 1));
            watch.device("decide", device, stream, || {
                // SAFETY: the parameters are those of the batch, which stays until its streams are synchronised; there is a mark more
                // than there are parts.
                unsafe {
                    self.place.launch(&self.engine.kernels.decide, params.end - params.begin, &params)?;
                    device.copy_raw(mark, acts, 8, stream)?;
                }
                Ok(())
            })?;
        }
        Ok(self.lane.decided[part as usize].record(stream)?)
    }
}
