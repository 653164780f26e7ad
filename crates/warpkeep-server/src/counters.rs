//! The server's counters.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use crate::batch::Batch;
use crate::command::Verb;
use crate::outcome::{Outcome, Refusal};
use crate::sockets::Backend;

/// A changing command and its result, as memcached counts them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Set,
    NotSet,
    DeleteHit,
    DeleteMiss,
    IncrHit,
    IncrMiss,
    DecrHit,
    DecrMiss,
    CasHit,
    CasMiss,
    CasBad,
    TouchHit,
    TouchMiss,
    Other,
}

impl Kind {
    const COUNT: usize = Kind::Other as usize + 1;

    fn of(verb: Verb, outcome: &Outcome) -> Kind {
        let missed = matches!(outcome, Outcome::Miss | Outcome::Integer(0));
        match verb {
            Verb::McCas => match outcome {
                Outcome::Miss => Kind::CasMiss,
                Outcome::Exists => Kind::CasBad,
                _ => Kind::CasHit,
            },
            Verb::McDelete | Verb::MetaDelete | Verb::Delete | Verb::GetDelete => {
                if missed {
                    Kind::DeleteMiss
                } else {
                    Kind::DeleteHit
                }
            }
            Verb::McIncr => {
                if missed {
                    Kind::IncrMiss
                } else {
                    Kind::IncrHit
                }
            }
            Verb::McDecr => {
                if missed {
                    Kind::DecrMiss
                } else {
                    Kind::DecrHit
                }
            }
            Verb::MetaArithmetic => {
                if missed {
                    Kind::IncrMiss
                } else {
                    Kind::IncrHit
                }
            }
            Verb::Increment => Kind::IncrHit,
            Verb::McTouch | Verb::McGat | Verb::Expire | Verb::Persist | Verb::GetExpire => {
                if missed {
                    Kind::TouchMiss
                } else {
                    Kind::TouchHit
                }
            }
            Verb::MetaGetAndChange | Verb::Look | Verb::Take | Verb::IncrementFloat => Kind::Other,
            _ => match outcome {
                Outcome::NotStored | Outcome::Exists | Outcome::Miss | Outcome::Wrong(_) => Kind::NotSet,
                _ => Kind::Set,
            },
        }
    }
}

/// Counters since the server started.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) batches: AtomicU64,
    pub(crate) commands: AtomicU64,
    pub(crate) hits: AtomicU64,
    pub(crate) misses: AtomicU64,
    pub(crate) writes: AtomicU64,
    pub(crate) refused: AtomicU64,
    pub(crate) disk_full: AtomicU64,
    pub(crate) accepted: AtomicU64,
    pub(crate) rejected: AtomicU64,
    pub(crate) expired: AtomicU64,
    pub(crate) tls_failures: AtomicU64,
    pub(crate) slow: AtomicU64,
    pub(crate) http_clients: AtomicU64,
    pub(crate) binary_clients: AtomicU64,
    pub(crate) wrong_passwords: AtomicU64,
    pub(crate) right_passwords: AtomicU64,
    pub(crate) flushes: AtomicU64,
    /// Bytes from clients, and to them.
    pub(crate) received: AtomicU64,
    pub(crate) sent: AtomicU64,
    /// Changing commands, by kind.
    kinds: [AtomicU64; Kind::COUNT],
    /// Open connections.
    pub(crate) connections: AtomicU64,
    /// Items, as of a moment ago; likewise the two below.
    pub(crate) items: AtomicU64,
    pub(crate) used_bytes: AtomicU64,
    pub(crate) evicted: AtomicU64,
    /// Why writes are refused, if they are, as of a moment ago.
    trouble: Mutex<Option<String>>,
    /// How clients are waited for.
    io: &'static str,
}

impl Counters {
    /// All counters at zero.
    pub(crate) fn new(backend: Backend) -> Counters {
        Counters { io: backend.name(), ..Counters::default() }
    }

    /// How clients are waited for.
    pub(crate) fn io(&self) -> &'static str {
        self.io
    }

    /// Why writes are refused, if they are.
    pub(crate) fn trouble(&self) -> Option<String> {
        self.trouble.lock().clone()
    }

    /// Notes why writes are refused, or that they are not; whether that is news.
    pub(crate) fn set_trouble(&self, trouble: Option<String>) -> bool {
        let mut noted = self.trouble.lock();
        let is_news = noted.is_some() != trouble.is_some();
        *noted = trouble;
        is_news
    }

    /// Commands of a kind so far.
    pub(crate) fn of(&self, kind: Kind) -> u64 {
        read(&self.kinds[kind as usize])
    }

    /// Counts a batch that is done, and the bytes that were received and sent.
    pub(crate) fn count(&self, batch: &Batch, (received, sent): (u64, u64)) {
        let mut kinds = [0; Kind::COUNT];
        let (mut hits, mut misses, mut writes, mut refused, mut disk_full) = (0, 0, 0, 0, 0);
        for (command, outcome) in batch.commands.iter().zip(&batch.outcomes) {
            match outcome {
                Outcome::Refused(why) => {
                    refused += 1;
                    disk_full += u64::from(*why == Refusal::DiskFull);
                }
                Outcome::Cut | Outcome::Reply => {}
                _ if command.verb.writes() => {
                    writes += 1;
                    kinds[Kind::of(command.verb, outcome) as usize] += 1;
                }
                Outcome::Hit(_) | Outcome::MetaHit { .. } => hits += 1,
                Outcome::Miss if matches!(command.verb, Verb::Get | Verb::McGet | Verb::MetaGet) => {
                    misses += 1;
                }
                _ => {}
            }
        }
        let add = |counter: &AtomicU64, more: u64| {
            if more > 0 {
                counter.fetch_add(more, Ordering::Relaxed);
            }
        };
        add(&self.batches, 1);
        add(&self.commands, batch.commands.len() as u64);
        add(&self.hits, hits);
        add(&self.misses, misses);
        add(&self.writes, writes);
        add(&self.refused, refused);
        add(&self.disk_full, disk_full);
        add(&self.received, received);
        add(&self.sent, sent);
        self.kinds.iter().zip(kinds).for_each(|(counter, more)| add(counter, more));
    }
}

/// The value of a counter.
pub(crate) fn read(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

impl Counters {
    /// All of them, as Prometheus reads them.
    pub(crate) fn prometheus(&self) -> String {
        let all = [
            ("connections", "gauge", "Connections there are.", &self.connections),
            ("items", "gauge", "Items there are.", &self.items),
            ("used_bytes", "gauge", "Bytes of the image that are in use.", &self.used_bytes),
            ("batches_total", "counter", "Batches done.", &self.batches),
            ("commands_total", "counter", "Commands done, one for each key.", &self.commands),
            ("get_hits_total", "counter", "Reads that found an item.", &self.hits),
            ("get_misses_total", "counter", "Reads that found none.", &self.misses),
            ("writes_total", "counter", "Commands that may change an item.", &self.writes),
            (
                "refused_total",
                "counter",
                "Commands that found no room, or a store that failed.",
                &self.refused,
            ),
            (
                "disk_full_total",
                "counter",
                "Commands that were refused because the disk is full.",
                &self.disk_full,
            ),
            ("accepted_connections_total", "counter", "Connections taken.", &self.accepted),
            ("rejected_connections_total", "counter", "Connections beyond the limit.", &self.rejected),
            (
                "tls_failures_total",
                "counter",
                "Connections that did not come to speak TLS.",
                &self.tls_failures,
            ),
            ("wrong_passwords_total", "counter", "Wrong passwords that clients gave.", &self.wrong_passwords),
            (
                "http_clients_total",
                "counter",
                "Connections closed because they spoke HTTP.",
                &self.http_clients,
            ),
            (
                "binary_clients_total",
                "counter",
                "Connections closed because they spoke memcached's binary protocol.",
                &self.binary_clients,
            ),
            ("received_bytes_total", "counter", "Bytes that clients sent.", &self.received),
            ("sent_bytes_total", "counter", "Bytes that clients were sent.", &self.sent),
            ("slow_batches_total", "counter", "Batches that took longer than --slow-log.", &self.slow),
            ("expired_total", "counter", "Items removed because they had expired.", &self.expired),
            ("evicted_total", "counter", "Items thrown away to make room.", &self.evicted),
        ];
        let mut text = String::new();
        for (name, kind, help, counter) in all {
            let value = read(counter);
            let _ = writeln!(text, "# HELP warpkeep_server_{name} {help}");
            let _ = writeln!(text, "# TYPE warpkeep_server_{name} {kind}\nwarpkeep_server_{name} {value}");
        }
        let refuses = u8::from(self.trouble().is_some());
        let _ = writeln!(text, "# HELP warpkeep_server_refuses_writes 1 while writes are refused.");
        let _ = writeln!(
            text,
            "# TYPE warpkeep_server_refuses_writes gauge\nwarpkeep_server_refuses_writes {refuses}"
        );
        let _ = writeln!(text, "# HELP warpkeep_server_io How clients are waited for.");
        let _ = writeln!(
            text,
            "# TYPE warpkeep_server_io gauge\nwarpkeep_server_io{{backend=\"{}\"}} 1",
            self.io()
        );
        text
    }
}
