//! Damage to closed images, at random, thousands of times: whatever is then done with the store, by the CPU or by a
//! device, gives an error or a right answer. No panic in any thread, and no call that never returns.

#[path = "../common/files.rs"]
#[allow(dead_code, reason = "shared with tests that use more of it")]
mod files;

mod case;
mod damage;
mod kind;
mod patient;
mod watch;

use std::sync::LazyLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use case::{Outcome, Worker};
use damage::Damage;
use kind::Kind;
use patient::Patient;
use warpkeep::{Device, DeviceChoice};
use watch::Watch;

/// Damages in an ordinary run, over all kinds of tables.
const DAMAGES: usize = 10_000;
/// The same where the simulator of a device works the tables, which is slow.
const ON_DEVICE: usize = 200;
/// As many times more where everything is explored.
const FULL: usize = 10;

static WATCH: LazyLock<Watch> = LazyLock::new(Watch::start);

/// Counts of outcomes.
#[derive(Default)]
struct Tally {
    refused: AtomicUsize,
    harmless: AtomicUsize,
    unnoticed: AtomicUsize,
}

/// Damages stores with tables of these kinds `damages` times in all, and has each used by a worker.
fn damage_all(worker: &Worker, kinds: &[Kind], damages: usize) -> Tally {
    let damages = if warpkeep_crashlab::explores_fully() { FULL * damages } else { damages };
    let threads = std::thread::available_parallelism().map_or(2, usize::from).clamp(2, 16);
    let (tally, next) = (Tally::default(), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                let mut patients: Vec<Option<Patient>> = kinds.iter().map(|_| None).collect();
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= damages {
                        return;
                    }
                    let which = number % kinds.len();
                    let kind = kinds[which];
                    let patient = patients[which].get_or_insert_with(|| Patient::new(kind));
                    let damage = Damage::of(number as u64, patient);
                    let what = format!("{kind:?} with {worker}, damage {number}: {damage}");
                    let _watched = WATCH.begin(&what);
                    let count = match patient.suffer(&damage, number / kinds.len() % 3 == 2, worker, &what) {
                        Outcome::Refused => &tally.refused,
                        Outcome::Harmless => &tally.harmless,
                        Outcome::Unnoticed => &tally.unnoticed,
                    };
                    count.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
    });
    WATCH.assert_no_panic();
    tally
}

fn report(name: &str, tally: Tally) {
    let Tally { refused, harmless, unnoticed } = tally;
    let [refused, harmless, unnoticed] = [refused, harmless, unnoticed].map(AtomicUsize::into_inner);
    say(&format!(
        "{name}: {} damages, {refused} refused, {harmless} harmless, {unnoticed} to bytes without a checksum, 0 wrong",
        refused + harmless + unnoticed
    ));
}

#[test]
fn random_damage_gives_an_error_or_a_right_answer() {
    report("flips", damage_all(&Worker::Cpu, &Kind::ALL, DAMAGES));
}

#[test]
fn a_device_reads_nothing_that_damage_leads_it_to() {
    let device = match Device::open(DeviceChoice::Sim) {
        Ok(device) => device,
        Err(error) => return say(&format!("SKIPPED: flips on a device: {error}")),
    };
    let worker = Worker::Device(device);
    report("flips on a device", damage_all(&worker, &Kind::FOR_DEVICES, ON_DEVICE));
}

/// Prints a line past the test harness, which would hide it.
fn say(line: &str) {
    use std::io::Write as _;
    // A closed standard output is no reason to fail.
    let _ = writeln!(std::io::stdout().lock(), "{line}");
}
