//! Figure 6: rates by operation and threads, beside our GPHash table and the limits of memory.

use super::Options;
use super::items::Size;
use crate::report::Report;
use crate::workload::{Task, Work, Workload};
use crate::{BenchError, Progress, compare};

const TASKS: [Task; 5] = [Task::Insert, Task::Hit, Task::Miss, Task::Update, Task::Delete];

pub(super) fn run(options: &Options, progress: &dyn Progress, report: &mut Report) -> Result<(), BenchError> {
    for size in Size::ALL {
        let (key_bytes, value_bytes) = (size.cell(), size.cell());
        let compared = compare::run(
            &compare::Options {
                dir: options.dir.clone(),
                image_dir: options.image_dir.clone(),
                workload: Workload { items: options.items, key_bytes, value_bytes, seed: options.seed },
                works: TASKS.map(Work::Task).to_vec(),
                threads: options.threads.clone(),
                // The paper's tables have no log.
                promise: compare::Promise::NoLog,
                rounds: options.rounds,
                round_time: options.round_time,
                only: vec![compare::TURBOHASH.to_owned(), "memory".to_owned()],
                command: options.command.clone(),
                ..compare::Options::default()
            },
            progress,
        )?;
        report.take_in(compared, &format!("figure 6, {}: ", size.name()));
    }
    report.notes.push(
        "figure 6: the paper gives no rates in its text; it says that TurboHash's positive reads are up to 3 times, and its inserts of \
         30-byte items about 4 times, those of the others (section 4.2)"
            .to_owned(),
    );
    Ok(())
}
