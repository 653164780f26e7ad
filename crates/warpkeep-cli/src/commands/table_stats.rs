//! How full a table is, for people to read.

use std::fmt::Write as _;

use warpkeep::stats::{Distances, GpHashStats, TurboHashStats};
use warpkeep::{DeviceStats, HostGetBatches, TableStats};

use warpkeep_bench::size::Size;

use crate::bar::bar;
use crate::output::count;

const WIDTH: usize = 30;

/// The text of `warpkeep stat` about a table.
pub(crate) fn text(table: &str, stats: &TableStats) -> String {
    let mut text = format!(
        "table {table}: {} items, load factor {:.1}%",
        count(stats.items()),
        100.0 * stats.load_factor()
    );
    match stats {
        TableStats::GpHash(stats) => levels(stats, &mut text),
        TableStats::TurboHash(stats) => shards(stats, &mut text),
    }
    text
}

/// Its text about the device's copy of the table.
pub(crate) fn device(stats: &DeviceStats) -> String {
    let mut text = format!(
        "  {:<9}{} of its memory: {} for where records lie",
        stats.device,
        Size(stats.bytes()),
        Size(stats.index_bytes)
    );
    if stats.value_bytes > 0 {
        let _ = write!(text, ", {} for {} values", Size(stats.value_bytes), count(stats.values));
        let _ = write!(text, " ({:.1}% of gets)", 100.0 * stats.value_hits);
    }
    text.push('\n');
    text
}

/// Its text about the strategies of batches of gets there.
pub(crate) fn ways(ways: &[HostGetBatches]) -> String {
    ways.iter().fold(String::new(), |mut text, figures| {
        let HostGetBatches { strategy, batches } = *figures;
        let _ = writeln!(text, "  {strategy:<9}{} batches of gets", count(batches));
        text
    })
}

fn levels(stats: &GpHashStats, text: &mut String) {
    text.push_str(if stats.growing { ", growing\n" } else { "\n" });
    let levels = stats.levels.iter().enumerate().map(|(at, level)| (format!("level {at}"), level));
    let overflow = stats.overflow.iter().map(|level| ("overflow".to_owned(), level));
    for (name, level) in levels.chain(overflow) {
        let share = level.used as f64 / level.slots.max(1) as f64;
        let _ = writeln!(
            text,
            "  {name:<9}{} {:>5.1}%  {} of {} slots in {} buckets",
            bar(share, WIDTH),
            100.0 * share,
            count(level.used),
            count(level.slots),
            count(level.buckets)
        );
    }
}

fn shards(stats: &TurboHashStats, text: &mut String) {
    let _ = writeln!(
        text,
        "\n  turbohash: {} shards of {} buckets, {} slots in all; values {}; runs on the CPU",
        count(stats.shards),
        range(stats.smallest_shard, stats.largest_shard),
        count(stats.slots),
        if stats.in_place { "in the slots" } else { "in records" }
    );
    let _ = writeln!(
        text,
        "  deleted  {} {:>5.1}%  {} slots that searches go past; {} shards were rid of theirs",
        bar(stats.deleted_share, WIDTH),
        100.0 * stats.deleted_share,
        count(stats.deleted),
        count(stats.collected)
    );
    distances("found", "for keys that are there", &stats.hits, text);
    distances("missed", "for keys that are not there", &stats.misses, text);
}

fn range(smallest: u64, largest: u64) -> String {
    match smallest == largest {
        true => count(largest),
        false => format!("{} to {}", count(smallest), count(largest)),
    }
}

/// How many buckets searches look at.
fn distances(name: &str, which: &str, found: &Distances, text: &mut String) {
    let searches: u64 = found.counts.iter().sum();
    if searches == 0 {
        return;
    }
    let _ = writeln!(text, "  {name:<9}{:.2} buckets a search {which}", found.mean);
    let last = found.counts.iter().rposition(|&count| count > 0).unwrap_or(0);
    for (buckets, &times) in (1..).zip(&found.counts[..=last]) {
        let share = times as f64 / searches as f64;
        let _ = writeln!(text, "    {buckets:>2}     {} {:>5.1}%", bar(share, WIDTH), 100.0 * share);
    }
}
