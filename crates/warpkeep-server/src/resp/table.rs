//! The table of commands: for `COMMAND`, and for the checks before one is queued.

/// The properties of a command.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spec {
    /// In small letters.
    pub(crate) name: &'static str,
    /// Arguments with the name; negative: at least as many.
    pub(crate) arity: i8,
    pub(super) flags: &'static str,
    /// The first key, the last, and the step between keys; all 0 without keys. Negative counts from the end.
    pub(super) keys: (i8, i8, i8),
    pub(super) categories: &'static str,
}

impl Spec {
    /// Whether a command may have this many arguments, its name among them.
    pub(crate) fn takes(&self, arguments: usize) -> bool {
        let least = usize::from(self.arity.unsigned_abs());
        if self.arity < 0 { arguments >= least } else { arguments == least }
    }

    /// Whether it may be queued by `MULTI`.
    pub(crate) fn can_be_queued(&self) -> bool {
        !self.flags.contains("no_multi")
    }

    /// The places of the keys in a command of `len` arguments.
    pub(super) fn key_places(&self, len: usize) -> impl Iterator<Item = usize> + use<> {
        let (first, last, step) = self.keys;
        let last =
            if last < 0 { len.saturating_sub(usize::from(last.unsigned_abs())) } else { last as usize };
        let places = if first == 0 { 1..1 } else { first as usize..(last + 1).min(len) };
        places.step_by(step.max(1) as usize)
    }
}

/// The command of a name, in capitals or not.
pub(crate) fn find(name: &[u8]) -> Option<&'static Spec> {
    COMMANDS.iter().find(|spec| spec.name.as_bytes().eq_ignore_ascii_case(name))
}

const READ: &str = "readonly fast";
const SLOW_READ: &str = "readonly";
const WRITE: &str = "write denyoom fast";
const SLOW_WRITE: &str = "write denyoom";
const CHANGE: &str = "write fast";
const CONNECTION: &str = "noscript loading stale fast no_auth allow_busy";
const TRANSACTION: &str = "noscript loading stale fast allow_busy";
const ANY_TIME: &str = "loading stale fast";

const GETS: &str = "@read @string @fast";
const SLOW_GETS: &str = "@read @string @slow";
const SETS: &str = "@write @string @fast";
const SLOW_SETS: &str = "@write @string @slow";
const KEY_READ: &str = "@keyspace @read @fast";
const KEY_WRITE: &str = "@keyspace @write @fast";
const KEY_SLOW_WRITE: &str = "@keyspace @write @slow";
const CONNECT: &str = "@fast @connection";
const TRANSACT: &str = "@fast @transaction";

const ONE: (i8, i8, i8) = (1, 1, 1);
const TWO: (i8, i8, i8) = (1, 2, 1);
const ALL: (i8, i8, i8) = (1, -1, 1);
const PAIRS: (i8, i8, i8) = (1, -1, 2);
const NO_KEY: (i8, i8, i8) = (0, 0, 0);

const fn spec(
    name: &'static str,
    arity: i8,
    flags: &'static str,
    keys: (i8, i8, i8),
    categories: &'static str,
) -> Spec {
    Spec { name, arity, flags, keys, categories }
}

/// All of them.
pub(crate) const COMMANDS: [Spec; 68] = [
    spec("append", 3, WRITE, ONE, SETS),
    spec("auth", -2, CONNECTION, NO_KEY, CONNECT),
    spec("bgsave", -1, "admin noscript no_async_loading", NO_KEY, "@admin @slow @dangerous"),
    spec("client", -2, "", NO_KEY, "@slow"),
    spec("command", -1, "loading stale", NO_KEY, "@slow @connection"),
    spec("config", -2, "", NO_KEY, "@slow"),
    spec("copy", -3, SLOW_WRITE, TWO, KEY_SLOW_WRITE),
    spec("dbsize", 1, READ, NO_KEY, KEY_READ),
    spec("decr", 2, WRITE, ONE, SETS),
    spec("decrby", 3, WRITE, ONE, SETS),
    spec("del", -2, "write", ALL, KEY_SLOW_WRITE),
    spec("discard", 1, TRANSACTION, NO_KEY, TRANSACT),
    spec("echo", 2, ANY_TIME, NO_KEY, CONNECT),
    spec("exec", 1, "noscript loading stale skip_slowlog", NO_KEY, "@slow @transaction"),
    spec("exists", -2, READ, ALL, KEY_READ),
    spec("expire", -3, CHANGE, ONE, KEY_WRITE),
    spec("expireat", -3, CHANGE, ONE, KEY_WRITE),
    spec("expiretime", 2, READ, ONE, KEY_READ),
    spec("flushall", -1, "write", NO_KEY, "@keyspace @write @slow @dangerous"),
    spec("flushdb", -1, "write", NO_KEY, "@keyspace @write @slow @dangerous"),
    spec("get", 2, READ, ONE, GETS),
    spec("getbit", 3, READ, ONE, "@read @bitmap @fast"),
    spec("getdel", 2, CHANGE, ONE, SETS),
    spec("getex", -2, CHANGE, ONE, SETS),
    spec("getrange", 4, SLOW_READ, ONE, SLOW_GETS),
    spec("getset", 3, WRITE, ONE, SETS),
    spec("hello", -1, CONNECTION, NO_KEY, CONNECT),
    spec("incr", 2, WRITE, ONE, SETS),
    spec("incrby", 3, WRITE, ONE, SETS),
    spec("incrbyfloat", 3, WRITE, ONE, SETS),
    spec("info", -1, "loading stale", NO_KEY, "@slow @dangerous"),
    spec("keys", 2, SLOW_READ, NO_KEY, "@keyspace @read @slow @dangerous"),
    spec("lastsave", 1, ANY_TIME, NO_KEY, "@admin @fast @dangerous"),
    spec("mget", -2, READ, ALL, GETS),
    spec("move", 3, CHANGE, ONE, KEY_WRITE),
    spec("mset", -3, SLOW_WRITE, PAIRS, SLOW_SETS),
    spec("msetnx", -3, SLOW_WRITE, PAIRS, SLOW_SETS),
    spec("multi", 1, TRANSACTION, NO_KEY, TRANSACT),
    spec("persist", 2, CHANGE, ONE, KEY_WRITE),
    spec("pexpire", -3, CHANGE, ONE, KEY_WRITE),
    spec("pexpireat", -3, CHANGE, ONE, KEY_WRITE),
    spec("pexpiretime", 2, READ, ONE, KEY_READ),
    spec("ping", -1, "fast", NO_KEY, CONNECT),
    spec("psetex", 4, SLOW_WRITE, ONE, SLOW_SETS),
    spec("pttl", 2, READ, ONE, KEY_READ),
    spec("quit", -1, CONNECTION, NO_KEY, CONNECT),
    spec("randomkey", 1, SLOW_READ, NO_KEY, "@keyspace @read @slow"),
    spec("rename", 3, "write", TWO, KEY_SLOW_WRITE),
    spec("renamenx", 3, CHANGE, TWO, KEY_WRITE),
    spec("reset", 1, CONNECTION, NO_KEY, CONNECT),
    spec("save", 1, "admin noscript no_async_loading no_multi", NO_KEY, "@admin @slow @dangerous"),
    spec("scan", -2, SLOW_READ, NO_KEY, "@keyspace @read @slow"),
    spec("select", 2, ANY_TIME, NO_KEY, CONNECT),
    spec("set", -3, SLOW_WRITE, ONE, SLOW_SETS),
    spec("setbit", 4, SLOW_WRITE, ONE, "@write @bitmap @slow"),
    spec("setex", 4, SLOW_WRITE, ONE, SLOW_SETS),
    spec("setnx", 3, WRITE, ONE, SETS),
    spec("setrange", 4, SLOW_WRITE, ONE, SLOW_SETS),
    spec(
        "shutdown",
        -1,
        "admin noscript loading stale no_multi allow_busy",
        NO_KEY,
        "@admin @slow @dangerous",
    ),
    spec("strlen", 2, READ, ONE, GETS),
    spec("substr", 4, SLOW_READ, ONE, SLOW_GETS),
    spec("time", 1, ANY_TIME, NO_KEY, "@fast"),
    spec("touch", -2, READ, ALL, KEY_READ),
    spec("ttl", 2, READ, ONE, KEY_READ),
    spec("type", 2, READ, ONE, KEY_READ),
    spec("unlink", -2, CHANGE, ALL, KEY_WRITE),
    spec("unwatch", 1, TRANSACTION, NO_KEY, TRANSACT),
    spec("watch", -2, TRANSACTION, ALL, TRANSACT),
];
