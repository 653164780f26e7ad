//! Batches of gets alone, from host memory to host memory, by the CPU: with several threads if they are large.

use std::sync::OnceLock;

use warpkeep_core::{Answers, HostBatch, HostCells, Status};
use warpkeep_image::Persist;
use warpkeep_record::{Pool, Value};

use crate::index::Planned;

/// Gets that are worth more than one thread.
const WORTH_THREADS: usize = 1 << 15;
/// Keys that a thread takes at a time.
const SHARE: usize = 1 << 12;
/// Keys whose values are kept until they are answered, where answers are given one by one.
const KEPT: usize = 1 << 17;

/// Answers for a key that was looked up.
#[inline]
pub(super) fn answer<P: Persist>(
    answers: &mut (impl Answers + ?Sized),
    index: usize,
    found: Option<Value<'_, P>>,
) {
    match found {
        None => answers.answer(index, Status::NotFound, 0),
        Some(value) if value.is_damaged() => answers.answer(index, Status::Corrupt, value.version()),
        Some(value) => {
            answers.answer_value(index, Status::Ok, value.version(), value.bytes());
        }
    }
}

/// Looks the keys of a batch up.
pub(super) fn read<P: Persist, T: Planned<P>>(
    pool: &Pool,
    table: &T,
    batch: &HostBatch<'_>,
    answers: &mut dyn Answers,
) {
    let (keys, count) = (batch.keys(), batch.len());
    let some = |first: usize, count: usize| (first..first + count).map(move |index| keys.get(index));
    if count < WORTH_THREADS || pool.threads() == 1 {
        return table.get_many(some(0, count), |index, found| answer(answers, index, found));
    }
    let Some(rows) = answers.rows_mut() else { return one_by_one(pool, table, keys, count, answers) };
    let parts: Vec<_> = rows.chunks(SHARE).into_iter().enumerate().collect();
    pool.share(parts, |(part, mut rows)| {
        table.get_many(some(part * SHARE, rows.len()), |index, found| answer(&mut rows, index, found));
    });
}

/// The results of one thread: for each key its status, its version, and where its value ends.
#[derive(Default)]
struct Found {
    items: Vec<(Status, u64, usize)>,
    values: Vec<u8>,
}

/// The same, for answers that are given one by one: threads keep their results.
fn one_by_one<P: Persist, T: Planned<P>>(
    pool: &Pool,
    table: &T,
    keys: HostCells<'_>,
    count: usize,
    answers: &mut dyn Answers,
) {
    for first in (0..count).step_by(KEPT) {
        let some = KEPT.min(count - first);
        let found: Vec<OnceLock<Found>> = (0..some.div_ceil(SHARE)).map(|_| OnceLock::new()).collect();
        pool.run(found.len(), |part| {
            let begin = first + part * SHARE;
            let end = (begin + SHARE).min(first + some);
            let mut mine = Found::default();
            table.get_many((begin..end).map(|index| keys.get(index)), |_, found| {
                let (status, version) = match &found {
                    None => (Status::NotFound, 0),
                    Some(value) if value.is_damaged() => (Status::Corrupt, value.version()),
                    Some(value) => {
                        mine.values.extend_from_slice(value.bytes());
                        (Status::Ok, value.version())
                    }
                };
                mine.items.push((status, version, mine.values.len()));
            });
            let _ = found[part].set(mine);
        });
        for (part, found) in found.into_iter().filter_map(OnceLock::into_inner).enumerate() {
            let mut begin = 0;
            for (index, (status, version, end)) in (first + part * SHARE..).zip(found.items) {
                match status {
                    Status::Ok => {
                        answers.answer_value(index, status, version, &found.values[begin..end]);
                    }
                    _ => answers.answer(index, status, version),
                }
                begin = end;
            }
        }
    }
}
