//! Linearizability: whether the answers of concurrent calls on a key could also have come from some sequential
//! order.
//!
//! Each key is a register of its own, so a history is checked key by key. An operation takes effect at one moment between
//! its call and its answer; one that was never answered, because there was a crash, takes effect at some moment after its
//! call, or not at all. The checker looks for an order of all answered operations, and some of the others, that agrees
//! with real time and in which every answer is right.
//!
//! The search is Wing and Gong's: try each operation that may come next, and backtrack if it leads nowhere. As Lowe
//! proposed, a configuration that was reached before (the same operations done, the same state) is not searched
//! again.
//!
//! ```
//! use warpkeep_core::{Op, Status};
//! use warpkeep_crashlab::linear::{Answer, Call, Clock, Histories, Journal, Register};
//!
//! let clock = Clock::default();
//! let (mut one, mut other) = (Journal::new(&clock, 0), Journal::new(&clock, 1));
//! let put = one.call(b"key", Call::new(Op::Put).value(b"new"));
//! one.answered(put, Answer::new(Status::Created).version(1));
//! let get = other.call(b"key", Call::new(Op::Get));
//! other.answered(get, Answer::new(Status::NotFound));
//!
//! let violation = Histories::of([one, other]).check(&Register::default()).unwrap_err();
//! assert!(violation.to_string().contains("get: not found"), "it came after the put: {violation}");
//! ```

mod history;
mod journal;
mod register;
mod search;
mod shrink;
mod violation;

pub use history::{Answer, Call, History, Operation};
pub use journal::{Called, Clock, Histories, Journal};
pub use register::Register;
pub use violation::{Checked, NotLinearizable};
