//! A small store with a history, to be damaged.

use std::time::Duration;

use warpkeep::Durability;
use warpkeep_log::LogOptions;

use crate::common::{Home, Model, Store, content, value_of};

/// A store that was used and left, and its contents after every step.
pub(crate) struct Written {
    pub(crate) home: Home,
    /// The last is its current contents.
    pub(crate) states: Vec<Model>,
}

impl Written {
    /// In memory, with a log that has a checkpoint and several segments.
    pub(crate) fn new(close: bool) -> Written {
        let mut home = Home::in_memory();
        home.log_options = LogOptions {
            segment_bytes: 16 << 10,
            fill_ahead_bytes: 4096,
            // Exactly the frames of the history: no background thread writes.
            background: false,
            flush_interval: Duration::from_secs(60),
            ..LogOptions::default()
        };
        let (store, _) = home.open().expect("a new store");
        let mut states = vec![Model::new()];
        (0..40).for_each(|step| act(&store, step, &mut states));
        store.checkpoint().expect("a checkpoint");
        (40..64).for_each(|step| act(&store, step, &mut states));
        match close {
            true => store.close().expect("closed"),
            false => {
                store.flush().expect("flushed");
                drop(store);
            }
        }
        Written { home, states }
    }

    pub(crate) fn last(&self) -> &Model {
        self.states.last().expect("the first is empty")
    }
}

/// One step of the history: a batch on a cell or two.
fn act(store: &Store, step: u64, states: &mut Vec<Model>) {
    let durability = if step.is_multiple_of(2) { Durability::Power } else { Durability::Process };
    let (cell, other) = (step * 7 % 48, (step * 5 + 1) % 48);
    let value = value_of(step, (step * 37 % 900) as usize);
    match step % 5 {
        4 => store.delete(cell, durability),
        _ => store.edit(&[(cell, Some(&value)), (other, Some(&value))], durability),
    }
    .expect("there is room");
    states.push(content(store));
}
