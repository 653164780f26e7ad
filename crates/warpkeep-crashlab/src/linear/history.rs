//! The operations on one key, and their answers.

use std::fmt;

use warpkeep_core::{Op, Status};

use super::register::{Register, State};
use super::search::{Search, Verdict};
use super::shrink::shrink;
use super::violation::{Checked, NotLinearizable, Reason};

/// An operation on a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// The operation.
    pub op: Op,
    /// Its value, if it takes one.
    pub value: Vec<u8>,
    /// Its argument, if it takes one.
    pub argument: u64,
}

impl Call {
    /// An operation without value and argument.
    pub fn new(op: Op) -> Call {
        Call { op, value: Vec::new(), argument: 0 }
    }

    /// With this value.
    #[must_use]
    pub fn value(mut self, value: &[u8]) -> Call {
        self.value = value.to_vec();
        self
    }

    /// With this argument.
    #[must_use]
    pub fn argument(mut self, argument: u64) -> Call {
        self.argument = argument;
        self
    }
}

/// The answer to a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Its status.
    pub status: Status,
    /// The version the key has now, or had when it was deleted, 0 if the key is absent; `None` if the answer has no
    /// version.
    pub version: Option<u64>,
    /// The value, if the operation answers with one.
    pub value: Option<Vec<u8>>,
}

impl Answer {
    /// An answer with the status alone.
    pub fn new(status: Status) -> Answer {
        Answer { status, version: None, value: None }
    }

    /// Adds the version.
    #[must_use]
    pub fn version(mut self, version: u64) -> Answer {
        self.version = Some(version);
        self
    }

    /// Adds the value.
    #[must_use]
    pub fn value(mut self, value: &[u8]) -> Answer {
        self.value = Some(value.to_vec());
        self
    }
}

/// One operation on the key: its call, its answer, and the times of both.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operation {
    /// The calling thread.
    pub thread: u32,
    /// The thread's batch. Operations of one batch take effect in the order of the history.
    pub batch: u64,
    /// When it was called.
    pub called: u64,
    /// The call.
    pub call: Call,
    /// The time of the answer, and the answer; `None` if there was none, so that the operation may have happened or
    /// not.
    pub answer: Option<(u64, Answer)>,
}

impl Operation {
    /// Whether it certainly changed nothing, so that only its answer can be wrong.
    pub(crate) fn only_looked(&self) -> bool {
        let done = self.answer.as_ref().is_none_or(|(_, answer)| answer.status.may_have_written());
        self.call.op == Op::Get || !done
    }
}

/// The beginning of a value, for messages.
struct Shown<'a>(&'a [u8]);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let number: Option<[u8; 8]> = self.0.try_into().ok();
        if let Some(number) = number.map(u64::from_le_bytes).filter(|&number| number < 1 << 32) {
            return write!(f, "{number}");
        }
        self.0.iter().take(8).try_for_each(|byte| write!(f, "{byte:02x}"))?;
        if self.0.len() > 8 { write!(f, ".. ({} bytes)", self.0.len()) } else { Ok(()) }
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (op, argument) = (self.call.op, self.call.argument);
        match &self.answer {
            Some((answered, _)) => write!(f, "[{:>6}, {answered:>6}]", self.called)?,
            None => write!(f, "[{:>6},  never]", self.called)?,
        }
        write!(f, " thread {}: {op}", self.thread)?;
        if op.takes_argument() {
            write!(f, " {argument}")?;
        }
        if op.takes_value() {
            write!(f, " {}", Shown(&self.call.value))?;
        }
        let Some((_, answer)) = &self.answer else { return Ok(()) };
        write!(f, ": {}", answer.status)?;
        if let Some(version) = answer.version.filter(|&version| version > 0) {
            write!(f, ", version {version}")?;
        }
        answer.value.as_ref().map_or(Ok(()), |value| write!(f, ", value {}", Shown(value)))
    }
}

/// All that was done to one key, which was not there before.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct History {
    operations: Vec<Operation>,
}

impl History {
    /// A history of these operations, in any order but for those of one batch.
    pub fn new(operations: impl IntoIterator<Item = Operation>) -> History {
        let mut history = History::default();
        operations.into_iter().for_each(|operation| history.push(operation));
        history
    }

    /// Adds an operation.
    pub fn push(&mut self, mut operation: Operation) {
        // An answer without information counts as none.
        operation.answer = operation
            .answer
            .filter(|(_, answer)| !matches!(answer.status, Status::Pending | Status::Indeterminate));
        self.operations.push(operation);
    }

    /// Its operations.
    pub fn operations(&self) -> &[Operation] {
        &self.operations
    }

    /// Looks for an order that explains every answer.
    pub fn check(&self, register: &Register) -> Result<Checked, NotLinearizable> {
        let verdict = Search::new(register, State::absent(), &self.operations).run();
        match verdict {
            Verdict::Explained { places } => {
                Ok(Checked { keys: 1, operations: self.operations.len(), places })
            }
            Verdict::Undecided { places } => Err(NotLinearizable {
                key: None,
                of: self.operations.len(),
                reason: Reason::Undecided { places },
            }),
            Verdict::Unexplained { .. } => Err(NotLinearizable {
                key: None,
                of: self.operations.len(),
                reason: shrink(register, &self.operations),
            }),
        }
    }
}
