//! The pipeline: a batch is published in chunks, so that the link always has work.
//!
//! Records are sent sequentially and words to random slots. If all records were sent before the first word, the link
//! would wait at the end for the words. So a batch has chunks, and a *step* is one launch. When the device publishes,
//! step `i` writes the records of chunk `i`, stores the words of chunk `i - 1` and sets the index entries of chunk `i -
//! 2`; the end of a launch and a fence of each block order one step after the other. A batch of one chunk is one launch
//! of a kernel of its own. `kernels/write/pipeline.h` is the device's side.
//!
//! When the [host publishes](super::host_publish), the kinds of work of a step are separate launches. A large batch
//! then decides a *prefix* of its operations first, and sends their chunks while it decides the rest: otherwise the
//! link would be idle meanwhile.

use warpkeep_device::{Grid, Stream, TimedBatch};
use warpkeep_image::Persist;

use crate::TableError;
use crate::gpu::engine::{DeviceEngine, THREADS};
use crate::gpu::kernels::FusedKernels;
use crate::gpu::write::params::{
    FusedParams, MARK_BUSY, SEND, SEND_THREADS, SET_ENTRIES, StepParams, WHOLE_STEP,
};

/// Lanes of a warp.
const WARP: u64 = 32;

/// Blocks of a launch that only sends: this few keep the link busy, and leave most SMs to other kernels.
const SEND_BLOCKS: u32 = 16;

/// A function that launches the kernel of a step, given its parameters and an estimate of its stores.
pub(super) fn step_launcher(
    kernels: &FusedKernels,
) -> impl FnMut(&StepParams, u64, &Stream) -> Result<(), TableError> {
    let FusedKernels { write_whole, step, send, mark_busy, set_entries, .. } = kernels;
    move |params: &StepParams, stores: u64, stream: &Stream| {
        let (blocks, threads) = match (params.chunks, params.work) {
            (1, WHOLE_STEP) => (params.batch.count.div_ceil(WARP) as u32, THREADS),
            (_, SEND) => (SEND_BLOCKS, SEND_THREADS),
            (_, WHOLE_STEP) => {
                let resident = step.resident_blocks(THREADS, 0)?.max(1);
                (Grid::covering(stores, THREADS).blocks.min(resident), THREADS)
            }
            (chunks, _) => {
                let effects = max_chunk_effects(params.batch.count, chunks, params.prefix_chunks);
                (Grid::covering(effects, THREADS).blocks, THREADS)
            }
        };
        let grid = Grid { blocks, threads, shared_bytes: 0 };
        // SAFETY: the parameters are those of a decided batch, whose columns live until its streams are synchronised.
        unsafe {
            match (params.chunks, params.work) {
                (1, WHOLE_STEP) => write_whole.launch(grid, &params.batch, stream)?,
                (_, SEND) => send.launch(grid, params, stream)?,
                // All effects of the batch in one launch.
                (1, MARK_BUSY) => mark_busy.launch(grid, &params.batch, stream)?,
                (_, SET_ENTRIES) => set_entries.launch(grid, params, stream)?,
                _ => step.launch(grid, params, stream)?,
            }
        }
        Ok(())
    }
}

/// Launches all steps of a batch that the device publishes.
pub(super) fn launch_steps<P: Persist>(
    engine: &DeviceEngine<P>,
    stream: &Stream,
    params: &FusedParams,
    chunks: u64,
    timed: &mut TimedBatch<'_>,
    mut launch_step: impl FnMut(&StepParams, u64, &Stream) -> Result<(), TableError>,
) -> Result<(), TableError> {
    let stores = stores_per_step(params, chunks);
    let (name, steps) = if chunks == 1 { ("write", 1) } else { ("step", chunks + 2) };
    for step in 0..steps {
        let params =
            StepParams { batch: *params, step, chunks, work: WHOLE_STEP, prefix_chunks: 0, send_end: 0 };
        timed.device(name, engine.device(), stream, || launch_step(&params, stores, stream))?;
    }
    Ok(())
}

/// An estimate of the stores of a step.
pub(super) fn stores_per_step(params: &FusedParams, chunks: u64) -> u64 {
    let record_stores = u64::from(params.block_len) / if params.wide == 1 { 16 } else { 8 };
    (params.count / chunks + 1) * if params.blocks.is_null() { 1 } else { record_stores }
}

/// The maximum number of effects of a chunk of a batch that the host publishes: see `effects_before` in
/// `kernels/write/pipeline.h`.
fn max_chunk_effects(count: u64, chunks: u64, prefix_chunks: u64) -> u64 {
    let in_rest = 4 * count / (4 * (chunks - prefix_chunks) - 3) + 4;
    // The prefix has at most as many effects as operations.
    let in_prefix = Prefix::of(count, chunks, prefix_chunks)
        .operations
        .checked_div(prefix_chunks)
        .map_or(0, |effects| effects + 4);
    count.min(in_rest.max(in_prefix))
}

/// The operations of a batch that are decided first and sent while the rest is decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Prefix {
    pub(super) operations: u64,
    /// The chunks that have its effects.
    pub(super) chunks: u64,
}

impl Prefix {
    /// A quarter of the chunks of a batch of at least `min_count` operations: to send them takes longer than to decide
    /// the rest. `None` for smaller batches, and for those of fewer than four chunks.
    pub(super) fn of_chunks(count: u64, chunks: u64, min_count: u64) -> Option<Prefix> {
        let prefix_chunks = chunks / 4;
        (prefix_chunks > 0 && count >= min_count).then(|| Prefix::of(count, chunks, prefix_chunks))
    }

    fn of(count: u64, chunks: u64, prefix_chunks: u64) -> Prefix {
        Prefix { operations: (count * prefix_chunks).div_ceil(chunks), chunks: prefix_chunks }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `effects_before` in `kernels/write/pipeline.h`.
    fn effects_before(chunks: u64, prefix_chunks: u64, prefix_effects: u64, effects: u64, chunk: u64) -> u64 {
        let prefix_effects = if prefix_chunks > 0 { prefix_effects & !3 } else { 0 };
        if chunk >= chunks {
            effects
        } else if chunk < prefix_chunks {
            (prefix_effects * chunk / prefix_chunks) & !3
        } else {
            let rest =
                4 * (effects - prefix_effects) * (chunk - prefix_chunks) / (4 * (chunks - prefix_chunks) - 3);
            prefix_effects + (rest & !3)
        }
    }

    #[test]
    fn chunks_contain_each_effect_once_and_at_most_as_many_as_a_launch_has_threads() {
        for (count, chunks) in [(4, 4), (5, 4), (9, 7), (300, 8), (1 << 20, 32), ((1 << 22) + 3, 64)] {
            let prefix = Prefix::of_chunks(count, chunks, 4).unwrap();
            assert!(prefix.chunks < chunks && prefix.operations < count, "{prefix:?}");
            let rest = count - prefix.operations;
            // All operations of the prefix have effects, or hardly any; and all of the others, or none.
            for prefix_effects in [0, 1, prefix.operations / 3, prefix.operations] {
                for effects in [prefix_effects, prefix_effects + rest / 5, prefix_effects + rest] {
                    let begins: Vec<u64> = (0..=chunks)
                        .map(|chunk| effects_before(chunks, prefix.chunks, prefix_effects, effects, chunk))
                        .collect();
                    assert_eq!((begins[0], begins[chunks as usize]), (0, effects));
                    assert!(
                        begins[prefix.chunks as usize] <= prefix_effects,
                        "an effect is sent before it is decided"
                    );
                    let max = max_chunk_effects(count, chunks, prefix.chunks);
                    for pair in begins.windows(2) {
                        assert!(
                            pair[0] <= pair[1] && pair[1] - pair[0] <= max,
                            "{count} {chunks} {begins:?}"
                        );
                        assert!(pair[0].is_multiple_of(4));
                    }
                }
            }
        }
        assert_eq!([Prefix::of_chunks(1000, 3, 0), Prefix::of_chunks(1000, 4, 1001)], [None; 2]);
        assert_eq!(max_chunk_effects(1 << 20, 32, 0), (4 << 20) / 125 + 4);
    }
}
