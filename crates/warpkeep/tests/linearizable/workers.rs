//! The threads: those that collide on a few keys, and one that adds others, so that the table grows.

use std::ops::Range;

use fastrand::Rng;
use warpkeep::{Durability, KeySpec, Op, Store, Table};
use warpkeep_crashlab::linear::{Call, Clock, Journal};

use crate::broken::Mistake;
use crate::target::Target;

const COLLIDERS: u32 = 3;
const HOT_KEYS: u64 = 4;

/// One turn of all threads.
pub(crate) struct Workers {
    pub(crate) seed: u64,
    pub(crate) first_thread: u32,
    /// Calls that each thread makes.
    pub(crate) steps: usize,
    /// Numbers of the keys that are added only to make the table larger.
    pub(crate) others: Range<u64>,
}

impl Workers {
    /// Lets them work, and returns their journals.
    pub(crate) fn work<'c>(
        &self,
        clock: &'c Clock,
        store: &Store,
        mistake: Option<Mistake>,
    ) -> Vec<Journal<'c>> {
        std::thread::scope(|scope| {
            let colliders: Vec<_> = (0..COLLIDERS)
                .map(|number| {
                    scope.spawn(move || {
                        let table = store.table("t").expect("it was created");
                        let mut journal = Journal::new(clock, self.first_thread + number);
                        let mut random = Rng::with_seed(self.seed << 8 | u64::from(number));
                        // One of them is faulty: it need not know the work of the others.
                        let target = Target::new(&table, mistake.filter(|_| number == 0));
                        collide(&mut journal, &target, &mut random, self.steps);
                        journal
                    })
                })
                .collect();
            scope.spawn(|| {
                let table = store.table("t").expect("it was created");
                fill(&table, self.others.clone());
            });
            colliders.into_iter().map(|thread| thread.join().expect("it came to its end")).collect()
        })
    }
}

fn key(table: &Table, number: u64) -> Vec<u8> {
    match table.batch().key_spec() {
        KeySpec::U64 => number.to_le_bytes().to_vec(),
        KeySpec::Fixed { .. } => format!("{number:012}").into_bytes(),
        _ => format!("key {number:0width$}", width = number as usize % 20).into_bytes(),
    }
}

/// A value that identifies its write, of a length that the table takes.
fn value(table: &Table, random: &mut Rng) -> Vec<u8> {
    let spec = table.batch().value_spec();
    // Sometimes one that can be added to.
    let len = spec.fixed_len().unwrap_or_else(|| if random.bool() { 8 } else { random.usize(..60) });
    let tag = random.u64(..1 << 40).to_le_bytes();
    tag.into_iter().cycle().take(len).collect()
}

fn fill(table: &Table, numbers: Range<u64>) {
    let mut random = Rng::with_seed(numbers.start);
    for number in numbers {
        let (key, value) = (key(table, number), value(table, &mut random));
        table.put(&key[..], &value[..], Durability::Process).expect("there is room");
    }
}

/// Calls one after the other, single gets and batches of a few, on few keys.
fn collide(journal: &mut Journal<'_>, target: &Target<'_>, random: &mut Rng, steps: usize) {
    let table = target.table;
    let adds = table.batch().value_spec().takes_len(8);
    // The versions last seen, for swaps that may succeed.
    let mut versions = [0; HOT_KEYS as usize];
    for _ in 0..steps {
        if random.u8(..4) == 0 {
            let key = key(table, random.u64(..HOT_KEYS));
            let called = journal.call(&key, Call::new(Op::Get));
            let answer = target.get(&key);
            journal.answered(called, answer);
            continue;
        }
        let only_gets = random.u8(..6) == 0;
        let numbers: Vec<u64> = (0..random.usize(1..4)).map(|_| random.u64(..HOT_KEYS)).collect();
        let calls = numbers.iter().map(|&number| {
            let op = if only_gets { Op::Get } else { Op::ALL[random.usize(..Op::ALL.len())] };
            let call = match op {
                Op::FetchAdd if !adds => Call::new(Op::Get),
                Op::FetchAdd => Call::new(op).argument(random.u64(1..100)),
                Op::CompareAndSwap => {
                    Call::new(op).value(&value(table, random)).argument(versions[number as usize])
                }
                op if op.takes_value() => Call::new(op).value(&value(table, random)),
                op => Call::new(op),
            };
            (key(table, number), call)
        });
        let calls: Vec<(Vec<u8>, Call)> = calls.collect();
        let durability = if random.u8(..8) == 0 { Durability::Power } else { Durability::Process };
        let called = journal.call_batch(calls.iter().cloned());
        let answers = target.run(&calls, durability);
        for (&number, answer) in numbers.iter().zip(&answers) {
            versions[number as usize] = answer.version.unwrap_or(0);
        }
        journal.answered_batch(called, answers);
    }
}

/// One get of each key that threads collide on.
pub(crate) fn look_at_all(journal: &mut Journal<'_>, target: &Target<'_>) {
    for number in 0..HOT_KEYS {
        let key = key(target.table, number);
        let called = journal.call(&key, Call::new(Op::Get));
        let answer = target.get(&key);
        journal.answered(called, answer);
    }
}
