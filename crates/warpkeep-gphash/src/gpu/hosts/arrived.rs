//! What kernels have said of keys, on the host's side of a place.

use warpkeep_core::{AnswerRows, Answers, Status};

use super::Gathered;
use crate::gpu::engine::Workplace;

/// Answers keys of a place from `first` on. Those that were found are answered by `found`, which gets their index among these answers, and the version if anybody wants
/// it.
pub(super) fn arrived(
    place: &Workplace,
    first: usize,
    mut answers: AnswerRows<'_>,
    mut found: impl FnMut(&mut AnswerRows<'_>, usize, u64),
) -> Gathered {
    let end = first + answers.len();
    let statuses = &place.columns.statuses.fetched::<u8>(end)[first..];
    let versions: &[u64] = match answers.wants_versions() {
        true => &place.columns.versions.fetched::<u64>(end)[first..],
        false => &[],
    };
    let mut came = Gathered::default();
    for (index, &status) in statuses.iter().enumerate() {
        match status == Status::Ok as u8 {
            true => {
                found(&mut answers, index, versions.get(index).copied().unwrap_or(0));
                came.found += 1;
            }
            false => {
                answers.answer(index, Status::NotFound, 0);
                came.absent += 1;
            }
        }
    }
    came
}
