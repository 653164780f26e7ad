//! The tables: their kinds, keys and values.

use fastrand::Rng;
use warpkeep::{MergeRule, TableOptions};

use crate::form::Form;

/// The longest value where lengths vary.
pub(crate) const LONGEST: usize = 900;
/// Keys of a table are numbered up to here.
pub(crate) const KEYS: u64 = 300;

/// The kind of a table.
#[derive(Debug)]
pub(crate) struct Kind {
    pub(crate) name: &'static str,
    key: &'static str,
    value: &'static str,
    pub(crate) merge: MergeRule,
    form: Form,
}

/// Which tables a thread has, by number.
pub(crate) const TABLES: [Kind; 10] = [
    Kind { name: "counters", key: "u64", value: "fixed:8", merge: MergeRule::AddU64, form: Form::InPlace },
    Kind { name: "words", key: "var:40", value: "var:900", merge: MergeRule::Append, form: Form::Packed },
    Kind { name: "names", key: "var:24", value: "fixed:24", merge: MergeRule::Or, form: Form::Packed },
    Kind { name: "rows", key: "u64", value: "fixed:128", merge: MergeRule::Or, form: Form::Packed },
    Kind { name: "peaks", key: "fixed:16", value: "fixed:24", merge: MergeRule::MaxU64, form: Form::InPlace },
    Kind {
        name: "turbo counters",
        key: "u64",
        value: "fixed:8",
        merge: MergeRule::AddU64,
        form: Form::TurboHash,
    },
    Kind {
        name: "turbo words",
        key: "var:40",
        value: "var:900",
        merge: MergeRule::Append,
        form: Form::TurboHash,
    },
    Kind {
        name: "turbo names",
        key: "var:24",
        value: "fixed:24",
        merge: MergeRule::Or,
        form: Form::TurboHash,
    },
    Kind { name: "turbo rows", key: "u64", value: "fixed:128", merge: MergeRule::Or, form: Form::TurboHash },
    Kind {
        name: "turbo peaks",
        key: "fixed:16",
        value: "fixed:24",
        merge: MergeRule::MaxU64,
        form: Form::TurboHash,
    },
];

/// Threads that write, each with tables of its own.
pub(crate) const WRITERS: usize = 2;

/// The tables of a thread.
pub(crate) fn tables_of(writer: usize) -> std::ops::Range<usize> {
    let each = TABLES.len() / WRITERS;
    writer * each..(writer + 1) * each
}

impl Kind {
    /// The options of a table that has almost no room and grows.
    pub(crate) fn options(&self) -> TableOptions {
        let key = self.key.parse().expect("a key spec");
        let options = TableOptions::new(key, self.value.parse().expect("a value spec"));
        self.form.small(options.merge(self.merge))
    }

    pub(crate) fn key(&self, number: u64) -> Vec<u8> {
        match self.key {
            "u64" => number.to_le_bytes().to_vec(),
            "fixed:16" => format!("{number:016}").into_bytes(),
            "var:24" => format!("{number:0width$}", width = 3 + number as usize % 22).into_bytes(),
            _ => format!("{number:0width$}", width = 3 + number as usize % 30).into_bytes(),
        }
    }

    /// A value, which may have eight bytes if it need not have another length.
    pub(crate) fn value(&self, random: &mut Rng) -> Vec<u8> {
        let tag = random.u64(..);
        let len = match self.value {
            "fixed:8" => 8,
            "fixed:24" => 24,
            "fixed:128" => 128,
            _ if random.bool() => 8,
            _ => random.usize(..200),
        };
        tag.to_le_bytes().into_iter().cycle().take(len).collect()
    }

    /// Whether numbers can be added to its values.
    pub(crate) fn adds(&self) -> bool {
        matches!(self.value, "fixed:8" | "var:900")
    }
}
