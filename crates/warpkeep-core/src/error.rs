//! Errors in a request, each with what to do about it.

use crate::{KeySpec, MemorySpace, MergeRule, Op, ValueSpec};

/// Why a request was refused before it touched any data. Each message ends with the next step.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CoreError {
    /// A byte that names no operation.
    #[error("{code} is no operation code; they are 1 (get) to 8 (merge), see Op")]
    UnknownOp {
        /// The byte.
        code: u8,
    },

    /// A byte that names no status.
    #[error(
        "{code:#04x} is no status code: the answers were overwritten, or come from a newer engine; rebuild both \
         from one version"
    )]
    UnknownStatus {
        /// The byte.
        code: u8,
    },

    /// A length that a spec cannot have.
    #[error("{what} of {len} bytes; choose {min} to {max}")]
    SpecLimit {
        /// Which spec.
        what: &'static str,
        /// The requested length.
        len: u32,
        /// The shortest.
        min: u32,
        /// The longest.
        max: u32,
    },

    /// Text that is no spec.
    #[error("\"{text}\" is no {what} spec; write {expected}")]
    SpecSyntax {
        /// `key` or `value`.
        what: &'static str,
        /// The given text.
        text: String,
        /// The accepted forms.
        expected: &'static str,
    },

    /// Stored bytes that are no spec.
    #[error(
        "stored {what} spec {bytes:02x?} is not known: it is damaged, or from a newer version; open it with a \
         newer Warpkeep, or restore a backup"
    )]
    SpecEncoding {
        /// `key` or `value`.
        what: &'static str,
        /// The bytes.
        bytes: [u8; 8],
    },

    /// A key of a length its table does not take.
    #[error("key of {len} bytes in a table of {spec} keys; change the key, or use a table that takes it")]
    KeyLength {
        /// The key's length in bytes.
        len: u64,
        /// The keys the table takes.
        spec: KeySpec,
    },

    /// A value of a length its table does not take.
    #[error(
        "value of {len} bytes in a table of {spec} values; change the value, or use a table that takes it"
    )]
    ValueLength {
        /// The value's length in bytes.
        len: u64,
        /// The values the table takes.
        spec: ValueSpec,
    },

    /// Fetch-add where no value can be a number.
    #[error("fetch-add works on 8-byte values, the table has {spec} values; use a table of fixed:8 values")]
    NotANumber {
        /// The values the table takes.
        spec: ValueSpec,
    },

    /// A merge rule for values it does not fit.
    #[error("the merge rule {rule} does not fit {spec} values; choose another rule or another value")]
    MergeRule {
        /// The rule.
        rule: MergeRule,
        /// The values the table takes.
        spec: ValueSpec,
    },

    /// Text that is no merge rule.
    #[error(
        "\"{text}\" is no merge rule; write none, replace, add-u64, max-u64, min-u64, add-f32, add-f64, or, append"
    )]
    MergeRuleText {
        /// The given text.
        text: String,
    },

    /// An operation that needs an argument in a batch without arguments.
    #[error("{op} needs an argument and the batch has no argument column; add one")]
    NoArguments {
        /// The operation.
        op: Op,
    },

    /// An invalid operation in a batch.
    #[error("operation {index} ({op}): {reason}")]
    Operation {
        /// Its index in the batch.
        index: usize,
        /// The operation.
        op: Op,
        /// The reason.
        reason: Box<CoreError>,
    },

    /// A column whose length does not match the number of operations.
    #[error("column {column} has {found} elements where {expected} are needed; pass columns of one batch")]
    ColumnLength {
        /// Which column.
        column: &'static str,
        /// Elements it has.
        found: u64,
        /// Elements it needs.
        expected: u64,
    },

    /// Offsets that run backwards or past the end of the bytes.
    #[error(
        "column {column}: cell {index} runs from {start} to {end} of {len} bytes; offsets must grow and stay within \
         the bytes"
    )]
    Offsets {
        /// Which column.
        column: &'static str,
        /// Which cell.
        index: usize,
        /// Where it starts.
        start: u64,
        /// Where it ends.
        end: u64,
        /// The number of bytes.
        len: u64,
    },

    /// Columns of one batch in different memories.
    #[error("column {column} is in {found} memory, the batch is in {expected} memory; copy it there first")]
    MixedSpaces {
        /// Which column.
        column: &'static str,
        /// Where it is.
        found: MemorySpace,
        /// Where it should be.
        expected: MemorySpace,
    },

    /// More operations than a batch holds.
    #[error("a batch of {len} operations; split it, a batch holds up to {max}")]
    BatchTooLong {
        /// The requested number.
        len: u64,
        /// How many it can hold.
        max: u64,
    },

    /// A batch made for a table of another kind.
    #[error(
        "the batch was made for {batch_keys} keys and {batch_values} values, the table has {table_keys} keys and \
         {table_values} values; make the batch with the table's specs"
    )]
    SpecMismatch {
        /// Keys of the batch.
        batch_keys: KeySpec,
        /// Values of the batch.
        batch_values: ValueSpec,
        /// Keys of the table.
        table_keys: KeySpec,
        /// Values of the table.
        table_values: ValueSpec,
    },
}

impl CoreError {
    /// Adds which operation of a batch the error is about.
    pub(crate) fn at(self, index: usize, op: Op) -> CoreError {
        CoreError::Operation { index, op, reason: Box::new(self) }
    }
}
