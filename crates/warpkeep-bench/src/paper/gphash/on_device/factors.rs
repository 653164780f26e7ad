//! Figure 9: the gains of cooperating warps, keys in place and the bucket cache, one after the other; and our
//! additions.

use warpkeep_gphash::Layout;
use warpkeep_gphash::gpu::paper::CachePolicy;

use super::Site;
use super::mixes::{Load, Mix};
use crate::device::{Lessons, Rig, Strategy, Variant};
use crate::limits::median;
use crate::report::{Report, Unit};
use crate::{Amount, BenchError};

const RATE: &str = "rate";
const OF_BEFORE: &str = "of the rate of the step before";
const MIXES: [Mix; 5] = [Mix::C, Mix::B, Mix::A, Mix::Load, Mix::Updates];

/// A technique on top of those before.
struct Step {
    name: &'static str,
    layout: Layout,
    variant: Variant,
    /// The text's figure for it, in per cent of the step before: for all workloads, or for one.
    published: &'static [(Option<Mix>, f64, &'static str)],
}

const fn over_link(strategy: Strategy) -> Variant {
    Variant { strategy, share: 0.0 }
}

const STEPS: [Step; 8] = [
    Step {
        name: "1 a thread an operation",
        layout: Layout::Packed,
        variant: over_link(Strategy::Alone),
        published: &[],
    },
    Step {
        name: "2 + warps that work together",
        layout: Layout::Packed,
        variant: over_link(Strategy::Image),
        published: &[(None, 204.1, "at most")],
    },
    Step {
        name: "3 + keys in place",
        layout: Layout::InPlace,
        variant: over_link(Strategy::Image),
        published: &[(None, 113.7, "at most")],
    },
    Step {
        name: "4 + bucket cache of 20 %",
        layout: Layout::InPlace,
        variant: Variant { strategy: Strategy::BucketCache, share: 0.2 },
        published: &[(Some(Mix::C), 140.9, "at most")],
    },
    // Ours. Values are in records again, so that they can be fetched in order.
    Step {
        name: "5 + device index, in place of the cache",
        layout: Layout::Packed,
        variant: over_link(Strategy::Index),
        published: &[],
    },
    Step {
        name: "6 + values in address order",
        layout: Layout::Packed,
        variant: over_link(Strategy::Ordered),
        published: &[],
    },
    Step {
        name: "7 + fused writes",
        layout: Layout::Packed,
        variant: over_link(Strategy::Fused),
        published: &[],
    },
    Step {
        name: "8 + value cache of 20 %",
        layout: Layout::Packed,
        variant: Variant { strategy: Strategy::Values, share: 0.2 },
        published: &[],
    },
];

pub(super) fn run(site: &Site<'_>, report: &mut Report) -> Result<(), BenchError> {
    let lessons = site.lessons()?;
    let mut rigs = [site.rig(Layout::Packed)?, site.rig(Layout::InPlace)?];
    let rounds = site.options.rounds * site.options.repeats;
    site.progress.begin("figure 9", Amount::Count(u64::from(rounds)));
    for round in 0..rounds {
        for batch in site.batches() {
            for step in &STEPS {
                let rig = &mut rigs[usize::from(step.layout == Layout::InPlace)];
                measure(site, rig, step, &lessons, batch, round, report)?;
            }
        }
        site.progress.advance(1);
    }
    site.progress.finish();
    for mix in MIXES {
        for batch in site.batches() {
            compare(&case_name(mix, batch), mix, report);
        }
    }
    report.notes.push(
        "figure 9: the first step and the fourth have no kernel that writes, so what writes begins with the second, and the fifth is compared with the third there; rates are those of the kernels, and \
         from the seventh step on those of whole batches, which the host has no part in; steps 5 to 8 are not the paper's; the paper's default is batches of 4096, of which a V100 has more use than a GPU of today"
            .to_owned(),
    );
    Ok(())
}

fn case_name(mix: Mix, batch: usize) -> String {
    format!("figure 9: {}, batches of {batch}", mix.name())
}

fn measure(
    site: &Site<'_>,
    rig: &mut Rig,
    step: &Step,
    lessons: &Lessons,
    batch: usize,
    round: u32,
    report: &mut Report,
) -> Result<(), BenchError> {
    rig.prepare(step.variant, CachePolicy::Lfu, &site.pool, batch)?;
    if step.variant.strategy == Strategy::Values {
        rig.cache_values(step.variant.share, lessons)?;
    }
    let mut load = Load::new(site, rig, batch);
    let only_reads = matches!(step.variant.strategy, Strategy::Alone | Strategy::BucketCache);
    for mix in MIXES.into_iter().filter(|mix| !only_reads || *mix == Mix::C) {
        let done = load.round(mix, step.variant)?;
        report.add(&case_name(mix, batch), step.name, round, RATE, Unit::PerSecond, done.rate());
    }
    Ok(())
}

/// The gain of each step, ours and the published one.
fn compare(case: &str, mix: Mix, report: &mut Report) {
    let rates = |step: &Step, report: &Report| report.series(case, step.name, RATE);
    let measured: Vec<&Step> = STEPS.iter().filter(|step| !rates(step, report).is_empty()).collect();
    for pair in measured.windows(2) {
        let &[before, after] = pair else { continue };
        let (one, other) = (rates(before, report), rates(after, report));
        for (round, (one, other)) in one.iter().zip(&other).enumerate() {
            let share = 100.0 * other / one;
            report.add(case, after.name, round as u32, OF_BEFORE, Unit::Percent, share);
        }
        if median(&other) == 0.0 {
            continue;
        }
        let told = after.published.iter().filter(|(of, ..)| of.is_none_or(|of| of == mix));
        for (_, percent, how) in told {
            let variant = format!("{}, published {how} (section 4.4)", after.name);
            report.add(case, &variant, 0, OF_BEFORE, Unit::Percent, *percent);
        }
    }
}
