//! What a device holds of the items, for the server's reports.

use warpkeep::{DeviceStats, HostGetBatches, HostGetStrategy};

use crate::server::Shared;

impl Shared<'_> {
    /// What the serving device holds, and which strategies batches of gets used; empty if there is no device.
    pub(crate) fn device_facts(&self) -> Vec<(String, String)> {
        let table = self.keyspace.table();
        // A device failure is reported to its next user, not here.
        let Ok(Some(stats)) = table.device_stats() else { return Vec::new() };
        facts(&stats, &table.host_get_batches())
    }
}

fn facts(stats: &DeviceStats, batches_by_strategy: &[HostGetBatches]) -> Vec<(String, String)> {
    let share = |share: f64| format!("{share:.4}");
    let kept = [
        ("device", stats.device.clone()),
        ("device_bytes", stats.bytes().to_string()),
        ("device_index_bytes", stats.index_bytes.to_string()),
        ("device_values", stats.values.to_string()),
        ("device_value_bytes", stats.value_bytes.to_string()),
        ("device_value_hit_share", share(stats.value_hits)),
    ];
    let kept = kept.into_iter().map(|(name, value)| (name.to_owned(), value));
    let gone = HostGetStrategy::ALL.into_iter().map(|strategy| {
        let batches: u64 = batches_by_strategy
            .iter()
            .filter(|figures| figures.strategy == strategy)
            .map(|figures| figures.batches)
            .sum();
        (format!("device_get_batches_{strategy}"), batches.to_string())
    });
    kept.chain(gone).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_told_and_ways_are_summed() {
        let stats = DeviceStats {
            device: "sim".into(),
            index_bytes: 64,
            values: 3,
            value_hits: 0.25,
            ..DeviceStats::default()
        };
        let figures = |strategy, batches| HostGetBatches { strategy, batches };
        let batches_by_strategy = [figures(HostGetStrategy::Gather, 7), figures(HostGetStrategy::Cpu, 1)];
        let facts = facts(&stats, &batches_by_strategy);
        for (name, value) in [
            ("device", "sim"),
            ("device_bytes", "64"),
            ("device_index_bytes", "64"),
            ("device_values", "3"),
            ("device_value_hit_share", "0.2500"),
            ("device_get_batches_cpu", "1"),
            ("device_get_batches_gather", "7"),
            ("device_get_batches_split", "0"),
        ] {
            assert!(facts.contains(&(name.to_owned(), value.to_owned())), "{name}: {facts:?}");
        }
    }
}
