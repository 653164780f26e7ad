//! The server's reports: `INFO`, `CONFIG GET`, and saving.

use std::fmt::Write as _;
use std::sync::atomic::Ordering;

use crate::ServerError;
use crate::counters::read;
use crate::databases::DATABASES;
use crate::item::MAX_VALUE;
use crate::lifetime::now;
use crate::resp;
use crate::server::Shared;

impl Shared<'_> {
    /// The answer to `INFO`.
    pub(crate) fn info_text(&self) -> String {
        let counters = &self.counters;
        let usage = self.keyspace.store.usage();
        let device = match self.device_facts() {
            facts if facts.is_empty() => String::new(),
            facts => {
                facts
                    .iter()
                    .fold("# Device\r\n".to_owned(), |text, (name, value)| text + name + ":" + value + "\r\n")
                    + "\r\n"
            }
        };
        let mut keyspace = String::new();
        for (database, keys) in self.keyspace.counts().unwrap_or_default().iter().enumerate() {
            if *keys > 0 {
                let _ = write!(keyspace, "db{database}:keys={keys},expires=0,avg_ttl=0\r\n");
            }
        }
        format!(
            "# Server\r\nredis_version:7.0.0\r\nredis_mode:standalone\r\nwarpkeep_version:{}\r\nprocess_id:{}\r\n\
             uptime_in_seconds:{}\r\nmultiplexing_api:{}\r\n\r\n# Clients\r\nconnected_clients:{}\r\nmaxclients:{}\r\n\r\n\
             # Memory\r\nused_memory:{}\r\ntotal_memory:{}\r\n\r\n\
             # Persistence\r\nloading:0\r\nrdb_bgsave_in_progress:{}\r\nrdb_last_save_time:{}\r\nrefuses_writes:{}\r\n\r\n\
             # Stats\r\ntotal_connections_received:{}\r\ntotal_commands_processed:{}\r\nrejected_connections:{}\r\n\
             acl_access_denied_auth:{}\r\nhttp_clients:{}\r\nbinary_clients:{}\r\ntotal_net_input_bytes:{}\r\ntotal_net_output_bytes:{}\r\n\
             expired_keys:{}\r\nevicted_keys:{}\r\nkeyspace_hits:{}\r\nkeyspace_misses:{}\r\nbatches:{}\r\ndisk_full_refusals:{}\r\n\r\n{device}\
             # Replication\r\nrole:master\r\nconnected_slaves:0\r\n\r\n# Keyspace\r\n{keyspace}",
            env!("CARGO_PKG_VERSION"),
            std::process::id(),
            self.begun.elapsed().as_secs(),
            counters.io(),
            read(&counters.connections),
            self.live.get().max_connections,
            usage.used_bytes(),
            usage.total_bytes(),
            u8::from(self.saving.load(Ordering::Relaxed)),
            self.last_save(),
            u8::from(counters.trouble().is_some()),
            read(&counters.accepted),
            read(&counters.commands),
            read(&counters.rejected),
            read(&counters.wrong_passwords),
            read(&counters.http_clients),
            read(&counters.binary_clients),
            read(&counters.received),
            read(&counters.sent),
            read(&counters.expired),
            read(&self.keyspace.evicted),
            read(&counters.hits),
            read(&counters.misses),
            read(&counters.batches),
            read(&counters.disk_full),
        )
    }

    /// `CONFIG GET` of the available parameters; none can be set while the server runs.
    pub(crate) fn config(&self, what: &[u8], name: &[u8], resp3: bool, out: &mut Vec<u8>) {
        if what.eq_ignore_ascii_case(b"RESETSTAT") {
            return out.extend_from_slice(b"+OK\r\n");
        }
        if !what.eq_ignore_ascii_case(b"GET") {
            return resp::error(out, "settings are made when the server starts; only CONFIG GET is possible");
        }
        let live = self.live.get();
        let facts = [
            ("maxclients", live.max_connections.to_string()),
            ("io-threads", self.settings.threads.to_string()),
            ("timeout", live.idle.map_or(0, |idle| idle.as_secs()).to_string()),
            ("databases", DATABASES.to_string()),
            ("save", String::new()),
            ("appendonly", "yes".to_owned()),
            ("proto-max-bulk-len", MAX_VALUE.to_string()),
        ];
        let found: Vec<&(&str, String)> = facts
            .iter()
            .filter(|(fact, _)| name == b"*" || name.eq_ignore_ascii_case(fact.as_bytes()))
            .collect();
        let (sign, count) = if resp3 { ('%', found.len()) } else { ('*', 2 * found.len()) };
        out.extend_from_slice(format!("{sign}{count}\r\n").as_bytes());
        for (fact, value) in found {
            resp::bulk(out, fact.as_bytes());
            resp::bulk(out, value.as_bytes());
        }
    }

    /// Writes all items to a checkpoint.
    pub(crate) fn save(&self) -> Result<(), ServerError> {
        self.keyspace.store.checkpoint()?;
        self.last_save.store(now() / 1000, Ordering::Relaxed);
        Ok(())
    }

    /// Has a checkpoint taken behind the clients' backs.
    pub(crate) fn save_behind(&self) {
        self.saving.store(true, Ordering::Release);
    }

    /// When the last checkpoint was taken, in seconds since 1970.
    pub(crate) fn last_save(&self) -> u64 {
        // The store takes checkpoints of its own, too.
        let by_itself = self.keyspace.store.status().log.and_then(|log| log.last_checkpoint);
        self.last_save.load(Ordering::Relaxed).max(by_itself.unwrap_or(0))
    }
}
