//! `stats`, with memcached's names: fields without a meaning here are 0.

use std::fmt::{Display, Write as _};

use crate::counters::{Kind, read};
use crate::item::MAX_VALUE;
use crate::lifetime::now;
use crate::server::Shared;

/// Lines of an answer.
#[derive(Default)]
struct Facts(String);

impl Facts {
    fn add(&mut self, name: &str, value: impl Display) -> &mut Facts {
        // Writing to a string cannot fail.
        let _ = write!(self.0, "STAT {name} {value}\r\n");
        self
    }

    fn zeros(&mut self, names: &[&str]) -> &mut Facts {
        names.iter().for_each(|name| {
            self.add(name, 0);
        });
        self
    }
}

impl Shared<'_> {
    /// The answer to `stats`.
    pub(crate) fn stats_text(&self, which: &[u8], out: &mut Vec<u8>) {
        let mut facts = Facts::default();
        match which {
            b"" => self.stats(&mut facts),
            b"settings" => self.stats_settings(&mut facts),
            b"items" => self.stats_items(&mut facts),
            b"slabs" => self.stats_slabs(&mut facts),
            b"sizes" => {
                facts.add("sizes_status", "disabled");
            }
            b"conns" => {}
            b"reset" => return out.extend_from_slice(b"RESET\r\n"),
            _ => return out.extend_from_slice(b"ERROR\r\n"),
        }
        out.extend_from_slice(facts.0.as_bytes());
        out.extend_from_slice(b"END\r\n");
    }

    /// Bytes that items may take: the setting, or the image's current size.
    fn limit(&self) -> u64 {
        match self.settings.max_memory {
            0 => self.keyspace.store.usage().total_bytes(),
            limit => limit,
        }
    }

    fn stats(&self, facts: &mut Facts) {
        let counters = &self.counters;
        let usage = self.keyspace.store.usage();
        let (hits, misses) = (read(&counters.hits), read(&counters.misses));
        let [user, system] = processor_seconds();
        let of = |kind| counters.of(kind);
        facts
            .add("pid", std::process::id())
            .add("uptime", self.begun.elapsed().as_secs())
            .add("time", now() / 1000)
            .add("version", env!("CARGO_PKG_VERSION"))
            .add("libevent", "none")
            .add("pointer_size", usize::BITS)
            .add("rusage_user", format!("{user:.6}"))
            .add("rusage_system", format!("{system:.6}"))
            .add("max_connections", self.live.get().max_connections)
            .add("curr_connections", read(&counters.connections))
            .add("total_connections", read(&counters.accepted))
            .add("rejected_connections", read(&counters.rejected))
            .add("connection_structures", read(&counters.connections))
            .zeros(&["response_obj_oom", "response_obj_count", "response_obj_bytes"])
            .zeros(&[
                "read_buf_count",
                "read_buf_bytes",
                "read_buf_bytes_free",
                "read_buf_oom",
                "reserved_fds",
            ])
            .add("cmd_get", hits + misses)
            .add(
                "cmd_set",
                of(Kind::Set) + of(Kind::NotSet) + of(Kind::CasHit) + of(Kind::CasBad) + of(Kind::CasMiss),
            )
            .add("cmd_flush", read(&counters.flushes))
            .add("cmd_touch", of(Kind::TouchHit) + of(Kind::TouchMiss))
            .zeros(&["cmd_meta"])
            .add("get_hits", hits)
            .add("get_misses", misses)
            .zeros(&["get_expired", "get_flushed"])
            .add("delete_misses", of(Kind::DeleteMiss))
            .add("delete_hits", of(Kind::DeleteHit))
            .add("incr_misses", of(Kind::IncrMiss))
            .add("incr_hits", of(Kind::IncrHit))
            .add("decr_misses", of(Kind::DecrMiss))
            .add("decr_hits", of(Kind::DecrHit))
            .add("cas_misses", of(Kind::CasMiss))
            .add("cas_hits", of(Kind::CasHit))
            .add("cas_badval", of(Kind::CasBad))
            .add("touch_hits", of(Kind::TouchHit))
            .add("touch_misses", of(Kind::TouchMiss))
            .zeros(&["store_too_large"])
            .add("store_no_memory", read(&counters.refused))
            .add("auth_cmds", read(&counters.right_passwords) + read(&counters.wrong_passwords))
            .add("auth_errors", read(&counters.wrong_passwords))
            .add("bytes_read", read(&counters.received))
            .add("bytes_written", read(&counters.sent))
            .add("limit_maxbytes", self.limit())
            .add("accepting_conns", 1)
            .zeros(&["listen_disabled_num", "time_in_listen_disabled_us"])
            .add("threads", self.settings.threads)
            .zeros(&["conn_yields", "hash_power_level", "hash_bytes", "hash_is_expanding"])
            .zeros(&["slab_reassign_rescues", "slab_reassign_chunk_rescues", "slab_reassign_evictions_nomem"])
            .zeros(&[
                "slab_reassign_inline_reclaim",
                "slab_reassign_busy_items",
                "slab_reassign_busy_deletes",
            ])
            .zeros(&["slab_reassign_running", "slabs_moved", "lru_crawler_running", "lru_crawler_starts"])
            .zeros(&["lru_maintainer_juggles", "malloc_fails", "log_worker_dropped", "log_worker_written"])
            .zeros(&["log_watcher_skipped", "log_watcher_sent", "log_watchers", "unexpected_napi_ids"])
            .zeros(&["round_robin_fallback"])
            .add("bytes", usage.used_bytes())
            .add("curr_items", self.keyspace.table().len())
            .add("total_items", of(Kind::Set) + of(Kind::CasHit))
            .zeros(&["slab_global_page_pool", "expired_unfetched", "evicted_unfetched", "evicted_active"])
            .add("evictions", read(&self.keyspace.evicted))
            .add("reclaimed", read(&counters.expired))
            .zeros(&["crawler_reclaimed", "crawler_items_checked", "lrutail_reflocked", "moves_to_cold"])
            .zeros(&["moves_to_warm", "moves_within_lru", "direct_reclaims", "lru_bumps_dropped"])
            .add("expired", read(&counters.expired))
            .add("io", counters.io())
            .add("batches", read(&counters.batches))
            .add("commands", read(&counters.commands))
            .add("http_clients", read(&counters.http_clients))
            .add("binary_clients", read(&counters.binary_clients))
            .add("disk_full_refusals", read(&counters.disk_full))
            .add("refuses_writes", u8::from(counters.trouble().is_some()));
        for (name, value) in self.device_facts() {
            facts.add(&name, value);
        }
    }

    fn stats_settings(&self, facts: &mut Facts) {
        let live = self.live.get();
        let yes = |is: bool| if is { "yes" } else { "no" };
        let first = self.settings.listen.first().or(self.settings.listen_tls.first());
        facts
            .add("maxbytes", self.limit())
            .add("maxconns", live.max_connections)
            .add("tcpport", first.map_or(0, std::net::SocketAddr::port))
            .add("udpport", 0)
            .add("inter", first.map_or_else(String::new, |address| address.ip().to_string()))
            .add("verbosity", 0)
            .add("oldest", 0)
            .add("evictions", if self.settings.evict { "on" } else { "off" })
            .add("growth_factor", "1.25")
            .add("chunk_size", 32)
            .add("num_threads", self.settings.threads)
            .add("cas_enabled", "yes")
            .add("binding_protocol", "ascii")
            .add("auth_enabled_sasl", "no")
            .add("auth_enabled_ascii", yes(live.access.password.is_some()))
            .add("item_size_max", MAX_VALUE)
            .add("lru_crawler", "no")
            .add("flush_enabled", "yes")
            .add("dump_enabled", "yes")
            .add("idle_timeout", live.idle.map_or(0, |idle| idle.as_secs()))
            .add("ssl_enabled", yes(live.tls.is_some()));
    }

    /// All items are of one class here.
    fn stats_items(&self, facts: &mut Facts) {
        let items = self.keyspace.table().len();
        if items == 0 {
            return;
        }
        let fact = |name: &str| format!("items:1:{name}");
        facts
            .add(&fact("number"), items)
            .add(&fact("age"), 0)
            .add(&fact("mem_requested"), self.keyspace.store.usage().used_bytes())
            .add(&fact("evicted"), read(&self.keyspace.evicted))
            .add(&fact("evicted_nonzero"), 0)
            .add(&fact("evicted_time"), 0)
            .add(&fact("outofmemory"), read(&self.counters.refused))
            .add(&fact("tailrepairs"), 0)
            .add(&fact("reclaimed"), read(&self.counters.expired))
            .add(&fact("expired_unfetched"), 0)
            .add(&fact("evicted_unfetched"), 0)
            .add(&fact("evicted_active"), 0)
            .add(&fact("crawler_reclaimed"), 0)
            .add(&fact("crawler_items_checked"), 0)
            .add(&fact("lrutail_reflocked"), 0);
    }

    fn stats_slabs(&self, facts: &mut Facts) {
        let counters = &self.counters;
        let (items, usage) = (self.keyspace.table().len(), self.keyspace.store.usage());
        let used = usage.used_bytes();
        if let Some(average) = used.checked_div(items) {
            let fact = |name: &str| format!("1:{name}");
            facts
                .add(&fact("chunk_size"), average)
                .add(&fact("chunks_per_page"), 1)
                .add(&fact("total_pages"), items)
                .add(&fact("total_chunks"), items)
                .add(&fact("used_chunks"), items)
                .zeros(&["1:free_chunks", "1:free_chunks_end"])
                .add(&fact("get_hits"), read(&counters.hits))
                .add(&fact("cmd_set"), counters.of(Kind::Set))
                .add(&fact("delete_hits"), counters.of(Kind::DeleteHit))
                .add(&fact("incr_hits"), counters.of(Kind::IncrHit))
                .add(&fact("decr_hits"), counters.of(Kind::DecrHit))
                .add(&fact("cas_hits"), counters.of(Kind::CasHit))
                .add(&fact("cas_badval"), counters.of(Kind::CasBad))
                .add(&fact("touch_hits"), counters.of(Kind::TouchHit));
        }
        facts.add("active_slabs", u8::from(items > 0)).add("total_malloced", usage.total_bytes());
    }
}

/// Seconds that this process has used of the processors, for itself and in the system.
fn processor_seconds() -> [f64; 2] {
    const TICKS: f64 = 100.0;
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The name of the program may have spaces; the fields after it have none.
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    [11, 12].map(|place| fields.get(place).and_then(|ticks| ticks.parse::<f64>().ok()).unwrap_or(0.0) / TICKS)
}
