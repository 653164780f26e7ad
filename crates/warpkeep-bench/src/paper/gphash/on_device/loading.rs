//! Figure 15: gets while the bucket cache is loaded, with gets that continue and with gets that wait.

use std::sync::RwLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use warpkeep_gphash::Layout;
use warpkeep_gphash::gpu::paper::{CachePolicy, CacheReport};

use super::Site;
use crate::chart::{Chart, Curve, Drawing, Scale};
use crate::device::{Expected, Rig, Strategy, Variant};
use crate::report::{Report, Unit};
use crate::{Amount, BenchError};

/// In per cent of the buckets.
const SHARES: [u32; 2] = [20, 100];
/// Points of a curve before loading begins and after it has ended.
const STEPS: u32 = 10;
const RATE: &str = "rate";

/// The times of events since the beginning.
struct Course {
    /// When each batch was done.
    batches: Vec<Duration>,
    batch: usize,
    loading: (Duration, Duration),
    report: CacheReport,
}

impl Course {
    /// Operations a second between two moments; `None` if there is no time between them.
    fn rate(&self, from: Duration, to: Duration) -> Option<f64> {
        let done = self.batches.iter().filter(|&&time| time >= from && time < to).count();
        let seconds = to.checked_sub(from)?.as_secs_f64();
        (seconds > 0.0).then(|| (done * self.batch) as f64 / seconds)
    }
}

pub(super) fn run(site: &Site<'_>, report: &mut Report) -> Result<(), BenchError> {
    let rig = site.rig(Layout::InPlace)?;
    let rounds = site.options.rounds * site.options.repeats;
    site.progress.begin("figure 15", Amount::Count(u64::from(rounds) * SHARES.len() as u64));
    for share in SHARES {
        let mut curves = Vec::new();
        for round in 0..rounds {
            for (name, beside) in [("gets go on", true), ("gets wait", false)] {
                let course = load(site, &rig, share, beside)?;
                tell(&course, share, name, round, report);
                if round == 0 {
                    curves.push(curve(&course, site.options.round_time, name));
                }
            }
            site.progress.advance(1);
        }
        let title = format!("figure 15: gets while {share} % of the buckets are loaded");
        let chart =
            Chart::new(title, "milliseconds from the load", "million a second", Drawing::Curves(curves));
        report.charts.push(chart.with_scales(Scale::Linear, Scale::Linear));
    }
    site.progress.finish();
    report.notes.push(
        "figure 15: the paper gives no numbers; it says that loading takes hundreds of milliseconds, that gets which wait for it come to a \
         standstill, and that those which go on are hardly slower (section 4.7)"
            .to_owned(),
    );
    Ok(())
}

/// Gets go on, and in their midst the cache is loaded.
fn load(site: &Site<'_>, rig: &Rig, share: u32, beside: bool) -> Result<Course, BenchError> {
    let variant = Variant { strategy: Strategy::BucketCache, share: 0.0 };
    let batch = site.batches()[0];
    // An empty cache, and only the batches below show which keys are hot.
    rig.prepare(variant, CachePolicy::Lfu, &site.pool, batch)?;
    let (gate, over) = (RwLock::new(()), AtomicBool::new(false));
    let pause = site.options.round_time;
    let begun = Instant::now();
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut times = Vec::new();
            let mut lock = 0;
            while !over.load(Ordering::Relaxed) {
                let _gate = (!beside).then(|| gate.read());
                let part = site.pool.batch(lock, batch);
                rig.get(variant, &site.pool, &part)?;
                times.push(begun.elapsed());
                // Not every one: it is the gets that are looked at.
                if lock.is_multiple_of(64) {
                    rig.check(&site.pool, &[part], Expected::Whole)?;
                }
                lock += 1;
            }
            Ok::<_, BenchError>(times)
        });
        std::thread::sleep(pause);
        let from = begun.elapsed();
        let gate = (!beside).then(|| gate.write());
        let loaded =
            rig.paper.load_cache(&rig.engine, &rig.table, f64::from(share) / 100.0, CachePolicy::Lfu);
        drop(gate);
        let loading = (from, begun.elapsed());
        std::thread::sleep(pause);
        over.store(true, Ordering::Relaxed);
        let batches = reader.join().expect("the reader does not panic")?;
        Ok(Course { batches, batch, loading, report: loaded? })
    })
}

fn tell(course: &Course, share: u32, name: &str, round: u32, report: &mut Report) {
    let case = format!("figure 15: loading {share} % of the buckets");
    let (from, to) = course.loading;
    let last = course.batches.last().copied().unwrap_or(to);
    for (phase, begins, ends) in
        [("before", Duration::ZERO, from), ("while loading", from, to), ("after", to, last)]
    {
        let rate = course.rate(begins, ends).unwrap_or(0.0);
        report.add(&case, &format!("{name}, {phase}"), round, RATE, Unit::PerSecond, rate);
    }
    report.add(
        &case,
        &format!("{name}, while loading"),
        round,
        "seconds",
        Unit::Seconds,
        (to - from).as_secs_f64(),
    );
    let cached = course.report.cached as f64;
    report.add(&case, &format!("{name}, while loading"), round, "buckets", Unit::Count, cached);
}

/// The rate over time, the beginning of the load at 0.
fn curve(course: &Course, pause: Duration, name: &str) -> Curve {
    let step = (pause / STEPS).max(Duration::from_micros(1));
    let (start, _) = course.loading;
    let end = course.batches.last().copied().unwrap_or_default();
    let mut points = Vec::new();
    let mut from = Duration::ZERO;
    // Less than a step at the end is not significant.
    while from + step <= end && points.len() < 1000 {
        let middle = (from + step / 2).as_secs_f64() - start.as_secs_f64();
        points.push((1e3 * middle, course.rate(from, from + step).unwrap_or(0.0) * 1e-6));
        from += step;
    }
    Curve { name: name.to_owned(), points }
}
