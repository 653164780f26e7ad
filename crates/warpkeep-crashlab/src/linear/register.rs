//! A key as a register: the effect and answer of each operation.

use std::sync::Arc;

use warpkeep_core::{MergeRule, Op, Status};

use super::history::{Answer, Call};

/// The properties that the keys of a table share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Register {
    /// The effect of a merge.
    pub merge: MergeRule,
    /// The longest value.
    pub longest: usize,
}

impl Default for Register {
    /// No rule for merges, values of any length.
    fn default() -> Register {
        Register { merge: MergeRule::None, longest: usize::MAX }
    }
}

/// The known state of the item.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Item {
    /// Unknown: there may be an item or not.
    Unknown,
    Absent,
    /// The item exists. Unknown fields were never reported: an operation without an answer has drawn its version.
    Present {
        version: Option<u64>,
        value: Option<Arc<[u8]>>,
    },
}

/// The known state of a key after some of its operations.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct State {
    item: Item,
    /// The largest version known to have been drawn. Versions of a key grow in the order of its changes.
    drawn: u64,
}

impl State {
    pub(crate) fn absent() -> State {
        State { item: Item::Absent, drawn: 0 }
    }

    pub(crate) fn unknown() -> State {
        State { item: Item::Unknown, drawn: 0 }
    }

    /// If the key may not be there: that it is not.
    fn gone(&self) -> Option<State> {
        match self.item {
            Item::Present { .. } => None,
            Item::Unknown | Item::Absent => Some(State { item: Item::Absent, drawn: self.drawn }),
        }
    }

    /// If the key may be there like this: that it is.
    fn there(&self, version: Option<u64>, value: Option<&[u8]>) -> Option<State> {
        let (known_version, known_value) = match &self.item {
            Item::Absent => return None,
            Item::Unknown => (&None, &None),
            Item::Present { version, value } => (version, value),
        };
        let version = match (known_version, version) {
            (Some(known), Some(told)) if *known != told => return None,
            // Not reported before, so it was drawn after those that were.
            (None, Some(told)) if told <= self.drawn => return None,
            (known, told) => known.or(told),
        };
        let value = match (known_value, value) {
            (Some(known), Some(told)) if **known != *told => return None,
            (Some(known), _) => Some(Arc::clone(known)),
            (None, told) => told.map(Arc::from),
        };
        let drawn = version.map_or(self.drawn, |version| version.max(self.drawn));
        Some(State { item: Item::Present { version, value }, drawn })
    }

    /// Whether anything is unknown.
    pub(crate) fn is_vague(&self) -> bool {
        match &self.item {
            Item::Unknown => true,
            Item::Absent => false,
            Item::Present { version, value } => version.is_none() || value.is_none(),
        }
    }

    fn version(&self) -> Option<u64> {
        match self.item {
            Item::Present { version, .. } => version,
            Item::Unknown | Item::Absent => None,
        }
    }

    fn value(&self) -> Option<&Arc<[u8]>> {
        match &self.item {
            Item::Present { value, .. } => value.as_ref(),
            Item::Unknown | Item::Absent => None,
        }
    }

    /// After a write that drew this version, if it can have.
    fn written(&self, version: Option<u64>, value: Option<Arc<[u8]>>) -> Option<State> {
        if version.is_some_and(|version| version <= self.drawn) {
            return None;
        }
        Some(State { item: Item::Present { version, value }, drawn: version.unwrap_or(self.drawn) })
    }

    /// The state after an operation that was answered like this; `None` if it cannot have been.
    pub(crate) fn answered(&self, register: &Register, call: &Call, answer: &Answer) -> Option<State> {
        let Answer { status, version, value } = answer;
        let given = || Some(Arc::from(&call.value[..]));
        // The answer of an operation that finds no key has version 0.
        let gone = || self.gone().filter(|_| version.is_none_or(|version| version == 0));
        let there = || self.there(*version, None);
        let put = |before: State| before.written(*version, given());
        if value.is_some() != (call.op.answers_value() && status.is_ok()) {
            return None;
        }
        match (call.op, *status) {
            (_, Status::TableFull | Status::OutOfSpace) => Some(self.clone()),
            (Op::Get, Status::Ok) => self.there(*version, value.as_deref()),
            (Op::Get | Op::Update | Op::Delete | Op::CompareAndSwap, Status::NotFound) => gone(),
            (Op::Put | Op::Update, Status::Ok) => self.there(None, None).and_then(put),
            (Op::Put | Op::Insert | Op::Merge, Status::Created)
                if call.op != Op::Merge || register.merge != MergeRule::None =>
            {
                self.gone().and_then(put)
            }
            (Op::Insert, Status::AlreadyExists) => there(),
            (Op::Delete, Status::Ok) => there().map(|before| State { item: Item::Absent, ..before }),
            (Op::CompareAndSwap, Status::Ok) => self.there(Some(call.argument), None).and_then(put),
            (Op::CompareAndSwap, Status::VersionMismatch) => {
                there().filter(|state| state.version() != Some(call.argument))
            }
            (Op::FetchAdd, Status::Ok) => {
                let sum = sum(value.as_deref()?, call.argument)?;
                self.there(None, value.as_deref())?.written(*version, Some(sum))
            }
            (Op::FetchAdd, Status::Created) => {
                let sum = sum(value.as_deref().filter(|before| **before == [0; 8])?, call.argument)?;
                self.gone()?.written(*version, Some(sum))
            }
            (Op::FetchAdd, Status::WrongType) => {
                there().filter(|state| state.value().is_none_or(|value| value.len() != 8))
            }
            (Op::Merge, Status::WrongType) if register.merge == MergeRule::None => match version {
                Some(0) => self.gone(),
                None => Some(self.clone()),
                Some(_) => there(),
            },
            (Op::Merge, refused @ (Status::WrongType | Status::TooLarge)) => there().filter(|state| {
                state.value().is_none_or(|value| merged(register, value, &call.value) == Err(refused))
            }),
            (Op::Merge, Status::Ok) => {
                let before = self.there(None, None)?;
                let after = before.value().map(|value| merged(register, value, &call.value)).transpose();
                before.written(*version, after.ok()?)
            }
            _ => None,
        }
    }

    /// The state after an operation that was never answered, if it took effect. Where it may have had this effect
    /// or none, it had this one: the case of no effect is covered by leaving it out.
    pub(crate) fn unanswered(&self, register: &Register, call: &Call) -> Option<State> {
        let given = || Some(Arc::from(&call.value[..]));
        let present = || self.there(None, None);
        match call.op {
            Op::Get => None,
            Op::Put => self.written(None, given()),
            Op::Insert => self.gone()?.written(None, given()),
            Op::Update => present()?.written(None, given()),
            Op::Delete => present().map(|before| State { item: Item::Absent, ..before }),
            Op::CompareAndSwap => self.there(Some(call.argument), None)?.written(None, given()),
            Op::FetchAdd => match &self.item {
                Item::Absent => self.written(None, Some(Arc::from(call.argument.to_le_bytes()))),
                Item::Unknown => self.written(None, None),
                Item::Present { value: None, .. } => self.written(None, None),
                Item::Present { value: Some(value), .. } => {
                    self.written(None, Some(sum(value, call.argument)?))
                }
            },
            Op::Merge if register.merge == MergeRule::None => None,
            Op::Merge => match &self.item {
                Item::Absent => self.written(None, given()),
                Item::Unknown => self.written(None, None),
                Item::Present { value: None, .. } => self.written(None, None),
                Item::Present { value: Some(value), .. } => {
                    self.written(None, Some(merged(register, value, &call.value).ok()?))
                }
            },
        }
    }
}

fn sum(before: &[u8], delta: u64) -> Option<Arc<[u8]>> {
    let before = u64::from_le_bytes(before.try_into().ok()?);
    Some(Arc::from(before.wrapping_add(delta).to_le_bytes()))
}

fn merged(register: &Register, stored: &[u8], given: &[u8]) -> Result<Arc<[u8]>, Status> {
    let mut merged = stored.to_vec();
    match register.merge.merge(&mut merged, given) {
        false => Err(Status::WrongType),
        true if merged.len() > register.longest => Err(Status::TooLarge),
        true => Ok(Arc::from(merged)),
    }
}
