//! The device fetches the values, and the host copies them from pinned memory.

use std::sync::atomic::Ordering;

use warpkeep_core::{AnswerRows, Status};
use warpkeep_image::Persist;
use warpkeep_record::Streaming;

use super::arrived::arrived;
use super::filling::Filling;
use super::{HostGets, SHARE};
use crate::gpu::engine::{DeviceEngine, Workplace};
use crate::gpu::stage::words;
use crate::{Table, TableError};

/// Keys of a launch, at least and at most: a part of a batch, so that others are looked up while these are answered; but enough that
/// reads in the order of their addresses are near each other.
const AT_ONCE: (usize, usize) = (1 << 16, 1 << 18);
/// Launches of a batch, if it is large enough.
const LAUNCHES: usize = 8;
/// Answers that one thread gives at a time: fewer than the keys it fills in, which take less time.
const ANSWERED: usize = 1 << 10;
/// Places that launches take in turn: two of them keep the device busy while the host answers one and fills another.
const PLACES: usize = 4;

/// What one thread does.
enum Part<'p> {
    Fill(Filling<'p>),
    Answer(&'p Workplace, usize, AnswerRows<'p>),
}

impl<P: Persist> DeviceEngine<P> {
    /// Looks keys up: the device fetches the values, and the threads of the host copy them to where they are wanted.
    pub fn fetch_rows(&self, table: &Table<P>, gets: HostGets<'_>) -> Result<(), TableError> {
        gets.check(table)?;
        let HostGets { keys, answers, pool, at_once } = gets;
        let device = self.device();
        let (count, wants_versions) = (answers.len(), answers.wants_versions());
        let streamed = table.value.max_len() * count >= self.streamed_from.load(Ordering::Relaxed);
        let at_once = match at_once {
            0 => count.div_ceil(LAUNCHES).next_multiple_of(SHARE).clamp(AT_ONCE.0, AT_ONCE.1),
            at_once => at_once,
        };
        let mut chunks: Vec<Option<AnswerRows<'_>>> = answers.chunks(at_once).into_iter().map(Some).collect();
        let mut places = Vec::new();
        while places.len() < chunks.len().min(PLACES) {
            places.push(self.take_place()?);
        }
        let staying = self.stay();
        // What kernels find stays while the epoch is pinned.
        let guard = &crossbeam_epoch::pin();
        // Mirrors that kernels look at.
        let mut mirrors = vec![None; places.len()];
        // Launches that are under way while the next is filled and one that is done is answered.
        let behind = places.len().saturating_sub(1).max(1);
        let mut work = || {
            for number in 0..chunks.len() + behind {
                let (taken, answered) = (number % places.len(), number.checked_sub(behind));
                let mut parts = Vec::new();
                if let Some(answered) = answered {
                    places[answered % places.len()].stream.synchronize()?;
                }
                let filled = chunks.get(number).and_then(Option::as_ref).map_or(0, AnswerRows::len);
                let answers = answered.and_then(|answered| chunks[answered].take());
                if places.len() == 1 {
                    // There is one launch, so nothing goes on beside anything.
                    match answers {
                        None => {
                            let column = &mut places[0].columns.keys;
                            let filling = Filling::keys(device, column, table, keys, (0, filled))?;
                            parts.extend(filling.into_iter().map(Part::Fill));
                        }
                        Some(answers) => parts.extend(answerings(&places[0], answers)),
                    }
                } else {
                    // The place that is filled was answered a turn ago, and the next one is answered now.
                    let next = (taken + 1) % places.len();
                    let [place, done] =
                        places.get_disjoint_mut([taken, next]).expect("there are two places at least");
                    let range = (number * at_once, filled);
                    parts.extend(
                        Filling::keys(device, &mut place.columns.keys, table, keys, range)?
                            .into_iter()
                            .map(Part::Fill),
                    );
                    parts.extend(answers.into_iter().flat_map(|answers| answerings(&*done, answers)));
                }
                pool.share(parts, |part| match part {
                    Part::Fill(filling) => filling.fill(),
                    Part::Answer(place, first, answers) => answer(table, place, first, answers, streamed),
                });
                if filled > 0 {
                    mirrors[taken] =
                        self.ask_filled(table, &mut places[taken], filled, wants_versions, guard)?;
                }
            }
            Ok(())
        };
        let done = work();
        self.leave_places(places, (staying, mirrors), done)
    }
}

/// Answers that have arrived at a place, in parts for threads.
fn answerings<'p>(place: &'p Workplace, answers: AnswerRows<'p>) -> impl Iterator<Item = Part<'p>> {
    let parts = answers.chunks(ANSWERED).into_iter().enumerate();
    parts.map(move |(part, answers)| Part::Answer(place, part * ANSWERED, answers))
}

/// Gives answers that have arrived, from `first` on; past the caches, if that is said.
fn answer<P: Persist>(
    table: &Table<P>,
    place: &Workplace,
    first: usize,
    answers: AnswerRows<'_>,
    streamed: bool,
) {
    let streaming = streamed.then(Streaming::begin);
    let copy = |from: &[u8], to: &mut [u8]| match &streaming {
        Some(streaming) => streaming.copy(from, to),
        None => to.copy_from_slice(from),
    };
    let (len, row) = (table.value.max_len(), 8 * words(table.value.max_len()));
    let end = first + answers.len();
    let values =
        &bytemuck::cast_slice::<u64, u8>(place.columns.answers.fetched(end * row / 8))[row * first..];
    arrived(place, first, answers, |answers, index, version| {
        answers.answer_by(index, Status::Ok, version, &values[row * index..][..len], copy);
    });
}
