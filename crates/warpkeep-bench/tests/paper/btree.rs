//! The tables and figures about trees at a size that takes a moment.

use warpkeep_bench::Quiet;
use warpkeep_bench::paper::btree::{Options, Part, run};
use warpkeep_device::{DeviceChoice, devices};

use crate::common::{assert_series, refusal};

fn small() -> Options {
    Options { rounds: 1, seed: 5, ..Options::on(DeviceChoice::Sim) }
}

#[test]
fn every_part_has_our_map_the_papers_tree_and_what_was_published() {
    if devices()[1].unavailable.is_some() {
        return;
    }
    let report = run(&small(), &Quiet).expect("all answers are right");
    let rate = |case: &str, variant: &str, times: usize| assert_series(&report, case, variant, "rate", times);
    let both = ["ordered map", "the paper's B-tree"];
    let others = ["sorted array", "LSM"];
    for batch in [64, 128] {
        let case = format!("table 3.3: insertions until there are 512 pairs, batches of {batch}");
        both.into_iter().chain(others).for_each(|variant| rate(&case, variant, 1));
        both.into_iter().for_each(|variant| {
            rate(&format!("figure 3.3: 300 pairs, {batch} of them inserted"), variant, 1);
        });
    }
    both.into_iter().for_each(|variant| {
        rate("figure 4.4: half insertions, half ranges of 128, 300 pairs before", variant, 1);
    });
    let versions = ["versioned in place", "versioned out of place"];
    for case in [
        "figure 4.2: 300 pairs inserted into an empty tree",
        "figure 4.2: lookups of all of 300 keys",
        "table 4.1: 5 % insertions, the rest ranges of 8, 300 pairs before",
        "table 4.1: 90 % insertions, the rest ranges of 32, 300 pairs before",
        "figure 4.4: half insertions, half ranges of 128, 300 pairs before",
        "table 4.2: 90 % deletions, the rest lookups, 300 pairs",
    ] {
        both.into_iter().chain(versions).for_each(|variant| rate(case, variant, 1));
        for compared in versions.map(|version| (case, "ordered map", version)) {
            let is_compared = |name: &str| {
                let (case, ours, theirs) = compared;
                name.contains(case) && name.contains(ours) && name.contains(theirs)
            };
            assert!(report.ratios.iter().any(|ratio| is_compared(&ratio.name)), "{compared:?}");
        }
    }
    let latches = "section 3.5.1: 64 insertions into an empty tree";
    for variant in ["the paper's baseline, latch coupling", "latch coupling, published (Titan V)"] {
        rate(latches, variant, 1);
    }
    for (case, published) in [
        ("figure 3.2a: lookups of all of 300 keys", "LSM, published (Titan V), mean"),
        ("figure 3.2b: ranges of 8 from all of 300 keys on", "LSM, published (Titan V), mean"),
        ("section 3.5.5: successors of all of 300 keys", "B-tree, published (Titan V), mean"),
    ] {
        both.into_iter().chain(others).chain([published]).for_each(|variant| rate(case, variant, 1));
    }
    for (case, published) in [
        ("figure 3.3: 300 pairs, built at once", "B-tree, published (Titan V), mean"),
        ("figure 3.4: 10 % of 300 pairs deleted", "B-tree, published (Titan V)"),
        (
            "figure 3.5: 60 % insertions and deletions, the rest lookups, 300 pairs",
            "B-tree, published (Titan V), mean",
        ),
        ("figure 4.2: 300 pairs inserted into an empty tree", "versioned in place, published (V100), mean"),
        (
            "table 4.1: 50 % insertions, the rest ranges of 32, 300 pairs before",
            "B-tree, published (V100), 1 M pairs",
        ),
        (
            "table 4.2: 50 % deletions, the rest lookups, 300 pairs",
            "versioned out of place, published (V100)",
        ),
    ] {
        both.into_iter().chain([published]).for_each(|variant| rate(case, variant, 1));
    }
}

#[test]
fn older_copies_are_given_back_and_the_rest_is_what_the_tree_in_place_has() {
    if devices()[1].unavailable.is_some() {
        return;
    }
    let options = Options { parts: vec![Part::Memory], rounds: 2, ..small() };
    let report = run(&options, &Quiet).expect("all answers are right");
    let case = "figure 4.6: 296 insertions and ranges of 16 in batches of 37, 300 pairs before";
    let of = |variant: &str, metric: &str| -> f64 {
        let series = report.series(case, variant, metric);
        assert_eq!(series.len(), 2, "{variant}, {metric}");
        series[0]
    };
    let [outside, inside] = ["versioned out of place", "versioned in place"].map(|tree| of(tree, "memory"));
    let copied = of("versioned out of place", "copied aside");
    let given_back = of("versioned out of place", "given back");
    // Half of all operations insert, and each copies a leaf of 128 bytes.
    assert_eq!(copied, 128.0 * 152.0);
    assert!(given_back > 0.0 && given_back <= copied, "{given_back} of {copied}");
    assert!(inside > 0.0 && outside > inside && outside < inside + copied, "{outside} and {inside}");
    let share = of("versioned out of place", "of the memory in place");
    assert!((share - 100.0 * outside / inside).abs() < 1e-9);
    let published = "figure 4.6: 45 million insertions and ranges, 45 million pairs before";
    let theirs = report.series(published, "versioned out of place, published (V100)", "memory");
    assert_eq!(theirs, [981e6]);
    let chart = report.charts.iter().find(|chart| chart.title == case).expect("a chart");
    assert!(chart.to_svg().is_ok());
}

#[test]
fn one_part_is_measured_alone_and_bad_options_are_told() {
    let message = |change: &dyn Fn(&mut Options)| refusal(small(), change, run);
    assert!(message(&|options| options.device = DeviceChoice::Cpu).contains("--device cuda:0"));
    assert!(message(&|options| options.rounds = 0).contains("--rounds 3"));
    assert!(message(&|options| options.sizes = vec![16]).contains("--sizes 2^20"));
    assert!(message(&|options| options.batches = vec![0]).contains("--batch 2^16"));
    assert_eq!("figure 4.3".parse(), Ok(Part::Ranges));
    assert_eq!("figure 4.6".parse(), Ok(Part::Memory));
    assert!("figure 3.6".parse::<Part>().is_err());
    if devices()[1].unavailable.is_some() {
        return;
    }
    let report = run(&Options { parts: vec![Part::Deletions], ..small() }, &Quiet).expect("right answers");
    assert_series(&report, "figure 3.4: 50 % of 300 pairs deleted", "ordered map", "rate", 1);
    assert_series(&report, "figure 3.2a: lookups of all of 300 keys", "ordered map", "rate", 0);
}
