//! The multiversion trees in many schedules: other lanes and tiles run between any two accesses, stores are late and loads are stale.

use std::collections::BTreeMap;
use std::io::Write as _;

use warpkeep_containers::{OrderedOpKind, OrderedStatus};
use warpkeep_device::{Device, Mode, devices};

use super::dictionary::{Cut, Dictionary as _, Pairs};
use super::version_tree::{Form, Shape, VersionTree};
use crate::gpu::Clock;
use crate::gpu::ordered::{Answers, Batch, Items, Operation};
use crate::workload::Dice;

/// Blocks of one warp, of which few run at once, so that they work many groups of operations.
const SHAPE: Shape = Shape { capacity: 1500, blocks: 3, threads: 32 };
const FORMS: [Form; 2] = [Form::InPlace, Form::OutOfPlace];
const KEYS: u64 = 120;
const MANY: u64 = 400;
/// Pairs of a range, at most.
const LONGEST: u64 = 40;

/// A device whose schedule follows from the seed.
fn simulated(seed: u64) -> Option<(Device, Clock)> {
    if devices()[1].unavailable.is_some() {
        writeln!(std::io::stdout().lock(), "SKIPPED: no simulator on this machine").expect("standard output");
        return None;
    }
    let device = Device::simulated(Mode::seeded(seed)).expect("a simulator");
    let clock = Clock::new(&device).expect("a clock");
    Some((device, clock))
}

/// An operation of a batch: its kind, its key, the end of a range, and a value.
type Operands = (OrderedOpKind, u32, u32, u32);

fn insertion(items: &Items<u32, u32>, rank: u64) -> Operands {
    (OrderedOpKind::Insert, items.absent(rank), 0, items.absent_value(rank))
}

fn erasure(items: &Items<u32, u32>, rank: u64) -> Operands {
    (OrderedOpKind::Erase, items.key(rank), 0, 0)
}

fn range(items: &Items<u32, u32>, first: u64, last: u64) -> Operands {
    (OrderedOpKind::Range, items.key(first), items.key(last), 0)
}

/// A batch of operations, whose right answers are not known before.
fn batch_of(operations: &[Operands], stride: usize) -> Pairs {
    Batch {
        operation: Operation::Mixed,
        keys: operations.iter().map(|operands| operands.1).collect(),
        ends: operations.iter().map(|operands| operands.2).collect(),
        values: operations.iter().map(|operands| operands.3).collect(),
        kinds: operations.iter().map(|operands| operands.0 as u8).collect(),
        stride,
        right: Answers::default(),
    }
}

/// Changes of keys that no other operation changes, and as many ranges; ranks of the keys that are inserted and erased.
fn changes_and_ranges(items: &Items<u32, u32>, dice: &mut Dice, insert: &[u64], erase: &[u64]) -> Pairs {
    let mut operations = Vec::new();
    for turn in 0..insert.len().max(erase.len()) {
        operations.extend(insert.get(turn).map(|&rank| insertion(items, rank)));
        operations.extend(erase.get(turn).map(|&rank| erasure(items, rank)));
        let first = dice.below(KEYS);
        operations.push(range(items, first, (first + dice.below(LONGEST)).min(KEYS - 1)));
    }
    batch_of(&operations, 2 * LONGEST as usize)
}

/// Checks every range against the changes whose timestamp is not later than its snapshot; gives how many ranges saw some of the changes of their batch between
/// their bounds, but not all. `model` is the tree before the batch, and after it.
fn check_cuts(
    tree: &mut VersionTree<'_>,
    batch: &Pairs,
    model: &mut BTreeMap<u32, u32>,
    context: &str,
) -> usize {
    let (_, calls) = tree.answer(batch).unwrap_or_else(|error| panic!("{context}: {error}"));
    let answers = calls.taken(batch).unwrap_or_else(|error| panic!("{context}: {error}"));
    let kind = |at: usize| batch.kinds[at];
    let mut changes = BTreeMap::new();
    for at in 0..batch.len() {
        let value = if kind(at) == OrderedOpKind::Insert as u8 {
            assert_eq!(answers.statuses[at], OrderedStatus::Inserted as u8, "{context}, operation {at}");
            Some(batch.values[at])
        } else if kind(at) == OrderedOpKind::Erase as u8 {
            assert_eq!(answers.statuses[at], OrderedStatus::Erased as u8, "{context}, operation {at}");
            assert_eq!(Some(&answers.values[at]), model.get(&batch.keys[at]), "{context}, operation {at}");
            None
        } else {
            continue;
        };
        changes.insert(batch.keys[at], (answers.times[at], value));
    }
    let mut partial = 0;
    for at in (0..batch.len()).filter(|&at| kind(at) == OrderedOpKind::Range as u8) {
        let (bounds, snapshot) = (batch.keys[at]..=batch.ends[at], answers.times[at]);
        let mut right: BTreeMap<u32, u32> =
            model.range(bounds.clone()).map(|(&key, &value)| (key, value)).collect();
        let (mut seen, mut unseen) = (0, 0);
        for (&key, &(time, value)) in changes.range(bounds) {
            if time > snapshot {
                unseen += 1;
                continue;
            }
            seen += 1;
            match value {
                Some(value) => drop(right.insert(key, value)),
                None => drop(right.remove(&key)),
            }
        }
        let right: Vec<(u32, u32)> = right.into_iter().collect();
        assert_eq!(answers.ranges[at], right, "{context}, range {at} at {snapshot}, {changes:?}");
        partial += usize::from(seen > 0 && unseen > 0);
    }
    for (key, (_, value)) in changes {
        match value {
            Some(value) => drop(model.insert(key, value)),
            None => drop(model.remove(&key)),
        }
    }
    partial
}

#[test]
fn ranges_see_exactly_the_changes_before_their_snapshot_in_every_schedule() {
    let (mut partial, mut runs) = (0, 0);
    for seed in 0..12 {
        for form in FORMS {
            let Some((device, clock)) = simulated(seed) else { return };
            let context = format!("seed {seed}, {form:?}");
            let (items, mut dice) = (Items::<u32, u32>::new(seed, KEYS), Dice::new(seed, 0));
            let mut tree = VersionTree::with_shape(&device, &clock, form, SHAPE).expect("a tree");
            tree.build(&Batch::build(&items, 0..KEYS)).expect("a tree");
            let mut model: BTreeMap<u32, u32> =
                (0..KEYS).map(|rank| (items.key(rank), items.value(rank))).collect();
            let ranks: Vec<u64> = (0..KEYS).map(|number| items.shuffled(number)).collect();
            // Leaves get more pairs than they have room for, then lose some.
            for (insert, erase) in [(0..60, 0..0), (60..120, 0..40), (0..0, 40..120)] {
                let batch = changes_and_ranges(&items, &mut dice, &ranks[insert], &ranks[erase]);
                partial += check_cuts(&mut tree, &batch, &mut model, &context);
            }
            // What is there in the end: all that was inserted.
            let mut found = Batch::find(&items, &ranks, Operation::Find);
            found.keys = ranks.iter().map(|&rank| items.absent(rank)).collect();
            found.right.values = ranks.iter().map(|&rank| items.absent_value(rank)).collect();
            tree.run(&found).unwrap_or_else(|error| panic!("{context}: {error}"));
            runs += 1;
        }
    }
    assert!(partial > 0, "no range saw some of the changes beside it");
    writeln!(std::io::stdout().lock(), "multiversion trees: {runs} runs, {partial} ranges amid changes")
        .expect("standard output");
}

/// A block reads all keys over and over while others change them group after group: it needs copies that were retired many groups ago.
#[test]
fn copies_stay_while_a_long_range_needs_them() {
    for seed in 0..3 {
        let Some((device, clock)) = simulated(seed) else { return };
        let items = Items::<u32, u32>::new(seed, MANY);
        let shape = Shape { capacity: 3000, blocks: 3, threads: 32 };
        let mut tree = VersionTree::with_shape(&device, &clock, Form::OutOfPlace, shape).expect("a tree");
        tree.build(&Batch::build(&items, 0..MANY)).expect("a tree");
        let mut model: BTreeMap<u32, u32> =
            (0..MANY).map(|rank| (items.key(rank), items.value(rank))).collect();
        let mut operations: Vec<Operands> = (0..32).map(|_| range(&items, 0, MANY - 1)).collect();
        for number in 0..MANY {
            operations.push(insertion(&items, items.shuffled(number)));
            operations.push(erasure(&items, items.shuffled((number + 7) % MANY)));
        }
        let batch = batch_of(&operations, 2 * MANY as usize);
        let context = format!("seed {seed}");
        assert!(check_cuts(&mut tree, &batch, &mut model, &context) > 0, "{context}");
        let retired = tree.epochs().retired().expect("counts");
        assert_eq!(retired.all, 2 * MANY, "one copy a change");
    }
}

#[test]
fn a_range_without_an_insertion_before_its_snapshot_is_wrong() {
    let Some((device, clock)) = simulated(1) else { return };
    let items = Items::<u32, u32>::new(1, KEYS);
    let mut tree = VersionTree::with_shape(&device, &clock, Form::OutOfPlace, SHAPE).expect("a tree");
    tree.build(&Batch::build(&items, 0..KEYS)).expect("a tree");
    let ranks: Vec<u64> = (0..40).map(|number| items.shuffled(number)).collect();
    let (batch, _) = Batch::mixed(&items, &ranks);
    let (_, calls) = tree.answer(&batch).expect("answers");
    let mut cut = Cut::new();
    calls.check_cuts("a tree", &batch, &mut cut).expect("the answers are right");
    // The second operation is a range: a key between its bounds that was inserted long ago is not in its answer.
    cut.insert(batch.keys[1] + 1, (0, 5));
    let error = calls.check_cuts("a tree", &batch, &mut cut).expect_err("a pair is missing").to_string();
    assert!(error.contains("operation 1"), "{error}");
}

#[test]
fn leaves_split_while_keys_are_looked_up_and_erased() {
    for seed in 0..6 {
        for form in FORMS {
            let Some((device, clock)) = simulated(seed) else { return };
            let items = Items::<u32, u32>::new(seed, 160);
            let ranks: Vec<u64> = (0..160).map(|number| items.shuffled(number)).collect();
            let mut tree = VersionTree::with_shape(&device, &clock, form, SHAPE).expect("a tree");
            let batches = [
                Batch::build(&items, ranks.iter().copied()),
                Batch::find(&items, &ranks, Operation::Find),
                Batch::mixed(&items, &ranks[..60]).0,
                Batch::mixed(&items, &ranks[60..100]).0,
                // Keys above the others: every leaf splits.
                Batch::points(&items, &ranks[..40], &ranks[100..], &ranks[40..]),
                Batch::erase_pairs(&items, &ranks[40..]),
            ];
            for (number, batch) in batches.iter().enumerate() {
                let context = format!("seed {seed}, {form:?}, batch {number}");
                tree.run(batch).unwrap_or_else(|error| panic!("{context}: {error}"));
            }
        }
    }
}

#[test]
fn copies_are_used_again() {
    for seed in 0..4 {
        let Some((device, clock)) = simulated(seed) else { return };
        let items = Items::<u32, u32>::new(seed, KEYS);
        // Fewer nodes than all changes copy.
        let shape = Shape { capacity: 300, ..SHAPE };
        let mut tree = VersionTree::with_shape(&device, &clock, Form::OutOfPlace, shape).expect("a tree");
        tree.build(&Batch::build(&items, 0..KEYS)).expect("a tree");
        let ranks: Vec<u64> = (0..KEYS).map(|number| items.shuffled(number)).collect();
        for number in 0..6 {
            let batch = match number % 2 {
                0 => Batch::insert(&items, &ranks),
                _ => Batch::erase(&items, &ranks),
            };
            tree.run(&batch).unwrap_or_else(|error| panic!("seed {seed}, batch {number}: {error}"));
        }
        let retired = tree.epochs().retired().expect("counts");
        assert_eq!(retired.all, 6 * KEYS, "one copy a change");
        assert!(retired.free <= retired.all && retired.free > retired.all / 2, "{retired:?}");
        assert!(tree.nodes().expect("a tree") <= 300);
        let by_epoch = tree.epochs().by_epoch().expect("a trace");
        assert!(by_epoch.is_sorted_by(|a, b| a.all <= b.all && a.free <= b.free) && by_epoch.len() > 6);
    }
}

#[test]
fn a_tree_without_memory_says_so_and_keeps_what_it_has() {
    for seed in 0..4 {
        for form in FORMS {
            let Some((device, clock)) = simulated(seed) else { return };
            let items = Items::<u32, u32>::new(seed, KEYS);
            let shape = Shape { capacity: 24, ..SHAPE };
            let mut tree = VersionTree::with_shape(&device, &clock, form, shape).expect("a tree");
            tree.build(&Batch::build(&items, 0..KEYS)).expect("a tree");
            let ranks: Vec<u64> = (0..KEYS).collect();
            let batch = Batch::insert(&items, &ranks);
            let (_, calls) = tree.answer(&batch).expect("an end");
            let statuses = calls.taken(&batch).expect("answers").statuses;
            let with = |wanted: OrderedStatus| -> Vec<u64> {
                ranks.iter().copied().filter(|&rank| statuses[rank as usize] == wanted as u8).collect()
            };
            let (inserted, full) = (with(OrderedStatus::Inserted), with(OrderedStatus::Full));
            assert_eq!(inserted.len() + full.len(), ranks.len(), "seed {seed}, {form:?}");
            assert!(!inserted.is_empty() && !full.is_empty(), "seed {seed}, {form:?}");
            assert!(tree.nodes().expect("a tree") <= 24);
            let find = Batch::find(&items, &ranks, Operation::Find);
            tree.run(&find).unwrap_or_else(|error| panic!("seed {seed}, {form:?}: {error}"));
            let mut find = Batch::find(&items, &inserted, Operation::Find);
            find.keys = inserted.iter().map(|&rank| items.absent(rank)).collect();
            find.right.values = inserted.iter().map(|&rank| items.absent_value(rank)).collect();
            tree.run(&find).unwrap_or_else(|error| panic!("seed {seed}, {form:?}: {error}"));
        }
    }
}
