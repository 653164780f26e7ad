//! The shared types of Warpkeep: operations and their answers, batches, key and value specs, seeded hashing, log
//! sequence numbers, durability levels. There is no I/O and no memory management here; the crates above share these
//! types only.
//!
//! ```
//! use warpkeep_core::{Answers, Batch, KeySpec, Op, Results, Seed, Status, ValueSpec, hash_bytes};
//!
//! // What a client does: say what the table takes, and fill a batch.
//! let mut batch = Batch::new(KeySpec::variable(250)?, ValueSpec::U64);
//! batch.put("visits", 41)?.fetch_add("visits", 1)?.get("visits")?;
//!
//! // What an engine does: find each key's place, act in the order of the batch, and answer.
//! let view = batch.view();
//! let mut results = Results::new(&view);
//! let mut stored = 0;
//! for operation in view.host().expect("the batch is in host memory").iter() {
//!     let _place = hash_bytes(Seed(1), operation.key);
//!     match operation.op {
//!         Op::Put => {
//!             stored = u64::from_le_bytes(operation.value.try_into().expect("checked when the batch was made"));
//!             results.answer(operation.index, Status::Created, 1);
//!         }
//!         Op::FetchAdd => {
//!             results.answer_value(operation.index, Status::Ok, 2, &stored.to_le_bytes());
//!             stored += operation.argument;
//!         }
//!         _ => {
//!             results.answer_value(operation.index, Status::Ok, 2, &stored.to_le_bytes());
//!         }
//!     }
//! }
//!
//! // What the client gets: a status for every operation, and the values.
//! assert_eq!(results.first_error(), None);
//! assert_eq!(results.number(1), Some(41));
//! assert_eq!(results.number(2), Some(42));
//! # Ok::<(), warpkeep_core::CoreError>(())
//! ```

#![deny(unsafe_code)]

#[cfg(target_endian = "big")]
compile_error!(
    "Warpkeep's formats are little-endian and are used in place; big-endian machines are not supported"
);

mod answer_rows;
mod batch;
mod cells;
mod change;
mod column;
mod durability;
mod error;
mod hash;
mod key_cell;
mod lsn;
mod merge;
mod op;
mod output;
mod results;
mod spec;
mod status;
mod view;

pub use answer_rows::AnswerRows;
pub use batch::Batch;
pub use cells::{Cells, HostCells, ToCell};
pub use change::{Change, ChangeKind};
pub use column::{Column, ColumnMut, DeviceSlice, DeviceSliceMut, MemorySpace};
pub use durability::Durability;
pub use error::CoreError;
pub use hash::{Seed, hash_bytes, hash_u64, mix64, reduce, second_hash, unmix64};
pub use key_cell::{KeyCell, KeyCells};
pub use lsn::Lsn;
pub use merge::MergeRule;
pub use op::Op;
pub use output::{HostOutput, Output, OutputValues};
pub use results::{Answers, Outcome, Results, Span};
pub use spec::{KeySpec, ValueSpec};
pub use status::{Status, StatusClass};
pub use view::{BatchView, Columns, HostBatch, MAX_BATCH, Operation, Ops};
