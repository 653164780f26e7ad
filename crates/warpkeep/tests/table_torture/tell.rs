//! The victim's reports: the operation it is about to start, and the one it has finished.

use warpkeep_crashlab::torture::acknowledge;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Tell {
    Opening,
    Opened,
    /// A thread begins an operation.
    Begins(usize, u64),
    /// It is done.
    Done(usize, u64),
}

impl Tell {
    fn tag(self) -> u64 {
        match self {
            Tell::Opening => 1 << 56,
            Tell::Opened => 2 << 56,
            Tell::Begins(writer, number) => 3 << 56 | (writer as u64) << 48 | number,
            Tell::Done(writer, number) => 4 << 56 | (writer as u64) << 48 | number,
        }
    }

    pub(crate) fn from_tag(tag: u64) -> Tell {
        let (writer, number) = ((tag >> 48 & 0xff) as usize, tag & ((1 << 48) - 1));
        match tag >> 56 {
            1 => Tell::Opening,
            2 => Tell::Opened,
            3 => Tell::Begins(writer, number),
            4 => Tell::Done(writer, number),
            other => panic!("no victim tells {other}"),
        }
    }

    pub(crate) fn say(self) {
        acknowledge(self.tag()).expect("the parent listens");
    }
}
