//! What a device keeps of the items, for those who ask the server.

use warpkeep::{DeviceStats, GetWay, WayFigures};

use crate::server::Shared;

impl Shared<'_> {
    /// What the device that serves keeps, and which way batches of gets have gone; nothing if there is none.
    pub(crate) fn device_facts(&self) -> Vec<(String, String)> {
        let table = self.keyspace.table();
        // A device that does not answer is the business of whoever uses it next.
        let Ok(Some(stats)) = table.device_stats() else { return Vec::new() };
        facts(&stats, &table.get_ways())
    }
}

fn facts(stats: &DeviceStats, ways: &[WayFigures]) -> Vec<(String, String)> {
    let share = |share: f64| format!("{share:.4}");
    let kept = [
        ("device", stats.device.clone()),
        ("device_bytes", stats.bytes().to_string()),
        ("device_mirror_bytes", stats.mirror_bytes.to_string()),
        ("device_buckets", stats.buckets.to_string()),
        ("device_bucket_bytes", stats.bucket_bytes.to_string()),
        ("device_bucket_hit_share", share(stats.bucket_hits)),
        ("device_values", stats.values.to_string()),
        ("device_value_bytes", stats.value_bytes.to_string()),
        ("device_value_hit_share", share(stats.value_hits)),
    ];
    let kept = kept.into_iter().map(|(name, value)| (name.to_owned(), value));
    let gone = GetWay::ALL.into_iter().map(|way| {
        let batches: u64 =
            ways.iter().filter(|figures| figures.way == way).map(|figures| figures.batches).sum();
        (format!("device_get_batches_{way}"), batches.to_string())
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
            mirror_bytes: 64,
            values: 3,
            value_hits: 0.25,
            ..DeviceStats::default()
        };
        let figures =
            |keys, way, batches| WayFigures { keys, way, nanos_per_key: 1.0, batches, chosen: false };
        let ways =
            [figures(512, GetWay::Fetch, 2), figures(1024, GetWay::Fetch, 5), figures(512, GetWay::Cpu, 1)];
        let facts = facts(&stats, &ways);
        for (name, value) in [
            ("device", "sim"),
            ("device_bytes", "64"),
            ("device_mirror_bytes", "64"),
            ("device_values", "3"),
            ("device_value_hit_share", "0.2500"),
            ("device_get_batches_cpu", "1"),
            ("device_get_batches_gather", "0"),
            ("device_get_batches_fetch", "7"),
        ] {
            assert!(facts.contains(&(name.to_owned(), value.to_owned())), "{name}: {facts:?}");
        }
    }
}
