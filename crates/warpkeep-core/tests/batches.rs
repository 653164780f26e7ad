//! Batches: contents survive a round trip, invalid operations are refused by index, and operations on a key act in
//! the order of the batch however an engine rearranges it.

use std::collections::HashMap;

use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use warpkeep_core::{
    Answers, Batch, BatchView, Cells, Column, ColumnMut, Columns, CoreError, HostBatch, KeySpec, Op,
    Operation, Ops, Output, OutputValues, Results, Seed, Span, Status, ValueSpec, hash_bytes,
};

/// One operation before it is in a batch.
#[derive(Clone, Debug)]
struct Wish {
    op: Op,
    key: Vec<u8>,
    value: Vec<u8>,
    argument: u64,
}

fn specs() -> impl Strategy<Value = (KeySpec, ValueSpec)> {
    let keys = prop_oneof![
        Just(KeySpec::U64),
        (1u32..40).prop_map(|len| KeySpec::fixed(len).expect("in range")),
        (1u32..40).prop_map(|max| KeySpec::variable(max).expect("in range")),
    ];
    let values = prop_oneof![
        Just(ValueSpec::U64),
        Just(ValueSpec::variable(20).expect("in range")),
        Just(ValueSpec::fixed(24).expect("in range")),
    ];
    (keys, values)
}

/// Batches over few keys, so that most keys come up many times; versions are small, so that some swaps succeed.
fn wishes(
    keys: KeySpec,
    values: ValueSpec,
    count: std::ops::Range<usize>,
) -> impl Strategy<Value = Vec<Wish>> {
    let key_len = keys.fixed_len();
    let value_len = match values.fixed_len() {
        Some(len) => len..len + 1,
        None => 0..values.max_len() + 1,
    };
    let ops: Vec<Op> = Op::ALL.into_iter().filter(|op| *op != Op::FetchAdd || values.takes_len(8)).collect();
    let wish = (prop::sample::select(ops), 0u8..6, prop::collection::vec(any::<u8>(), value_len), 0u64..4);
    let wish = wish.prop_map(move |(op, key, value, argument)| {
        let len = key_len.unwrap_or(usize::from(key) % (keys.max_len() + 1));
        Wish { op, key: vec![key; len], value, argument }
    });
    prop::collection::vec(wish, count)
}

fn batches() -> impl Strategy<Value = (KeySpec, ValueSpec, Vec<Wish>)> {
    specs().prop_flat_map(|(keys, values)| (Just(keys), Just(values), wishes(keys, values, 0..60)))
}

fn build(keys: KeySpec, values: ValueSpec, wishes: &[Wish]) -> Batch {
    let mut batch = Batch::new(keys, values);
    for wish in wishes {
        batch.push(wish.op, &wish.key, &wish.value, wish.argument).expect("made to fit");
    }
    batch
}

fn host<'a>(view: &BatchView<'a>) -> HostBatch<'a> {
    view.host().expect("made of host memory")
}

/// A reference table that implements only the meaning of the operations.
#[derive(Default)]
struct Table {
    items: HashMap<Vec<u8>, (u64, Vec<u8>)>,
    /// Versions go on where a deleted key left off.
    versions: HashMap<Vec<u8>, u64>,
}

impl Table {
    fn run(&mut self, operation: Operation<'_>, answers: &mut impl Answers) {
        let Operation { index, op, key, value, argument } = operation;
        let found = self.items.get(key).cloned();
        let next = self.versions.get(key).copied().unwrap_or(0) + 1;
        let present = found.is_some();
        let done = if present { Status::Ok } else { Status::Created };
        let version = found.as_ref().map_or(0, |(version, _)| *version);
        let stored = found.map_or_else(Vec::new, |(_, value)| value);
        let new = match op {
            Op::Get if present => {
                answers.answer_value(index, Status::Ok, version, &stored);
                return;
            }
            Op::Delete if present => {
                self.items.remove(key);
                answers.answer(index, Status::Ok, version);
                return;
            }
            Op::Get | Op::Delete | Op::Update | Op::CompareAndSwap if !present => {
                return answers.answer(index, Status::NotFound, 0);
            }
            Op::Insert if present => return answers.answer(index, Status::AlreadyExists, version),
            Op::CompareAndSwap if version != argument => {
                return answers.answer(index, Status::VersionMismatch, version);
            }
            Op::FetchAdd => {
                let before = if present { stored } else { vec![0; 8] };
                let Ok(number) = before[..].try_into().map(u64::from_le_bytes) else {
                    return answers.answer(index, Status::WrongType, version);
                };
                answers.answer_value(index, done, next, &before);
                number.wrapping_add(argument).to_le_bytes().to_vec()
            }
            Op::Merge if present => stored.iter().chain(value).copied().take(value.len()).collect(),
            _ => value.to_vec(),
        };
        if op != Op::FetchAdd {
            answers.answer(index, done, next);
        }
        self.versions.insert(key.to_vec(), next);
        self.items.insert(key.to_vec(), (next, new));
    }
}

proptest! {
    // The same cases in every run, and no files left behind.
    #![proptest_config(ProptestConfig {
        rng_seed: RngSeed::Fixed(0x5EED), failure_persistence: None, ..ProptestConfig::default()
    })]

    #[test]
    fn what_goes_in_comes_out((keys, values, wishes) in batches()) {
        let batch = build(keys, values, &wishes);
        let view = batch.view();
        prop_assert_eq!(view.len(), wishes.len());
        prop_assert_eq!(host(&view).iter().len(), wishes.len());
        for (index, (wish, operation)) in wishes.iter().zip(host(&view).iter()).enumerate() {
            prop_assert_eq!(operation, Operation {
                index,
                op: wish.op,
                key: &wish.key,
                value: if wish.op.takes_value() { &wish.value } else { &[] },
                argument: if wish.op.takes_argument() { wish.argument } else { 0 },
            });
        }
        // The builder's unchecked view passes the checks for foreign columns.
        prop_assert!(BatchView::new(keys, values, *view.columns()).is_ok());
        let uniform = wishes.windows(2).all(|pair| pair[0].op == pair[1].op) && !wishes.is_empty();
        prop_assert_eq!(view.uniform_op().is_some(), uniform);
    }

    #[test]
    fn a_cleared_batch_is_a_new_batch((keys, values, first) in batches(), seed: u64) {
        let mut reused = build(keys, values, &first);
        reused.clear();
        prop_assert!(reused.is_empty() && host(&reused.view()).iter().next().is_none());
        let second: Vec<Wish> =
            first.iter().filter(|w| hash_bytes(Seed(seed), &w.value).is_multiple_of(2)).cloned().collect();
        for wish in &second {
            reused.push(wish.op, &wish.key, &wish.value, wish.argument).expect("made to fit");
        }
        let fresh = build(keys, values, &second);
        prop_assert!(host(&reused.view()).iter().eq(host(&fresh.view()).iter()));
        prop_assert_eq!(reused.view().uniform_op(), fresh.view().uniform_op());
    }

    /// An engine may group a batch by key as it likes, so long as each key's operations stay in order: every answer is
    /// the same, and so is the table.
    #[test]
    fn answers_do_not_depend_on_the_plan((keys, values, wishes) in batches(), seed: u64) {
        let batch = build(keys, values, &wishes);
        let view = batch.view();
        let operations: Vec<Operation<'_>> = host(&view).iter().collect();

        let (mut table, mut results) = (Table::default(), Results::new(&view));
        for operation in &operations {
            table.run(*operation, &mut results);
        }
        let mut planned = operations.clone();
        planned.sort_by_key(|o| (hash_bytes(Seed(seed), o.key), o.index));
        let (mut other, mut others) = (Table::default(), Results::new(&view));
        for operation in &planned {
            other.run(*operation, &mut others);
        }
        prop_assert!(results.iter().eq(others.iter()));
        prop_assert_eq!(&table.items, &other.items);

        // Every operation is answered, and exactly the promised ones with a value.
        for (operation, outcome) in operations.iter().zip(results.iter()) {
            prop_assert!(!outcome.status.is_pending());
            prop_assert_eq!(outcome.value.is_some(), operation.op.answers_value() && outcome.status.is_ok());
        }

        // The caller's arrays hold the same answers, as far as there is room.
        let mut statuses = vec![Status::Corrupt; view.len()];
        let mut versions = vec![77; view.len()];
        let mut spans = vec![Span { start: 0, len: 1 << 40 }; view.len()];
        let mut bytes = vec![0; 64];
        let output = Output::new(
            &view,
            ColumnMut::Host(&mut statuses),
            Some(ColumnMut::Host(&mut versions)),
            OutputValues::Spans { spans: ColumnMut::Host(&mut spans), bytes: ColumnMut::Host(&mut bytes) },
        );
        let mut output = output.expect("the shape is right").into_host().expect("host memory");
        let mut third = Table::default();
        for operation in &planned {
            third.run(*operation, &mut output);
        }
        prop_assert_eq!(&versions[..], results.versions());
        for (index, status) in statuses.iter().enumerate() {
            let Span { start, len } = spans[index];
            let value = (spans[index] != Span::NONE).then(|| &bytes[start as usize..][..len as usize]);
            if *status == Status::OutputFull {
                prop_assert_eq!(value, None);
                prop_assert!(results.value(index).is_some());
            } else {
                prop_assert_eq!(*status, results.statuses()[index]);
                prop_assert_eq!(value, results.value(index));
            }
        }
    }

    /// Arbitrary columns: whatever their shape and contents, they are refused or can be read to the end.
    #[test]
    fn no_columns_break_a_view(
        (keys, values) in specs(),
        ops in prop::collection::vec(prop::sample::select(Op::ALL.to_vec()), 0..6),
        key_offsets in prop::collection::vec(prop_oneof![0u64..50, any::<u64>()], 0..6),
        value_offsets in prop::collection::vec(prop_oneof![0u64..50, any::<u64>()], 0..6),
        bytes in prop::collection::vec(any::<u8>(), 0..100),
        len in 0usize..30,
        arguments in prop::option::of(prop::collection::vec(any::<u64>(), 0..6)),
        sorted: bool,
    ) {
        let (mut key_offsets, mut value_offsets) = (key_offsets, value_offsets);
        if sorted {
            key_offsets.sort_unstable();
            value_offsets.sort_unstable();
        }
        let shapes = |offsets| [Cells::Empty, Cells::fixed(len, &bytes), Cells::variable(offsets, &bytes)];
        let mut ops_columns = vec![Ops::Each(Column::Host(&ops[..]))];
        ops_columns.extend(ops.first().map(|op| Ops::Uniform(*op)));
        let arguments = arguments.as_deref().map(Column::Host);
        for ops in ops_columns {
            for key_cells in shapes(&key_offsets) {
                for value_cells in shapes(&value_offsets) {
                    let columns = Columns { ops, keys: key_cells, values: value_cells, arguments };
                    let Ok(view) = BatchView::new(keys, values, columns) else { continue };
                    for operation in host(&view).iter() {
                        prop_assert!(keys.check(operation.key).is_ok());
                        prop_assert!(!operation.op.takes_value() || values.check(operation.value).is_ok());
                        prop_assert!(!operation.op.takes_argument() || arguments.is_some());
                    }
                }
            }
        }
    }
}

fn reason(error: CoreError, at: usize) -> CoreError {
    match error {
        CoreError::Operation { index, reason, .. } if index == at => *reason,
        other => panic!("expected an error about operation {at}, not: {other}"),
    }
}

#[test]
fn a_refused_operation_is_named_and_leaves_the_batch_alone() {
    let (keys, values) = (KeySpec::variable(4).expect("in range"), ValueSpec::fixed(24).expect("in range"));
    let mut batch = Batch::new(keys, values);
    batch.put("a", &[1; 24]).expect("fits").get("b").expect("fits");
    let refused = reason(batch.get("abcde").expect_err("key too long"), 2);
    assert_eq!(refused, CoreError::KeyLength { len: 5, spec: keys });
    let refused = reason(batch.put("c", "short").expect_err("value too short"), 2);
    assert_eq!(refused, CoreError::ValueLength { len: 5, spec: values });
    let refused = reason(batch.fetch_add("c", 1).expect_err("values are no numbers"), 2);
    assert_eq!(refused, CoreError::NotANumber { spec: values });
    assert_eq!(batch.len(), 2);
    assert_eq!(host(&batch.view()).operation(1).key, b"b");
}

#[test]
fn columns_are_refused_at_the_offending_operation() {
    let (keys, values) = (KeySpec::variable(4).expect("in range"), ValueSpec::variable(3).expect("in range"));
    let bytes = [0; 20];
    let view = |ops, key_offsets, value_offsets, arguments| {
        let keys_column = Cells::variable(key_offsets, &bytes);
        let values_column = Cells::variable(value_offsets, &bytes);
        let columns = Columns { ops, keys: keys_column, values: values_column, arguments };
        BatchView::new(keys, values, columns).map(|_| ()).expect_err("something is wrong with each")
    };
    let put = Ops::Uniform(Op::Put);
    let refused = reason(view(put, &[0, 4, 8, 13], &[0, 0, 0, 0], None), 2);
    assert_eq!(refused, CoreError::KeyLength { len: 5, spec: keys });
    let refused = reason(view(put, &[0, 4, 8, 12], &[0, 0, 4, 4], None), 1);
    assert_eq!(refused, CoreError::ValueLength { len: 4, spec: values });
    let refused = view(put, &[0, 4, 3, 4], &[0, 0, 0, 0], None);
    assert_eq!(refused, CoreError::Offsets { column: "keys", index: 1, start: 4, end: 3, len: 20 });
    let refused = view(put, &[0, 1, 2, 3], &[18, 19, 20, 21], None);
    assert_eq!(refused, CoreError::Offsets { column: "values", index: 2, start: 20, end: 21, len: 20 });
    let refused = view(put, &[0, 1, 2, 3], &[0, 0, 0], None);
    assert_eq!(refused, CoreError::ColumnLength { column: "values", found: 2, expected: 3 });
    let each = [Op::Get, Op::Delete, Op::CompareAndSwap];
    let refused = reason(view(Ops::Each(Column::Host(&each)), &[0, 1, 2, 3], &[0, 0, 0, 0], None), 2);
    assert_eq!(refused, CoreError::NoArguments { op: Op::CompareAndSwap });
    let refused = view(Ops::Each(Column::Host(&each[1..])), &[0, 1, 2, 3], &[0, 0, 0, 0], None);
    assert_eq!(refused, CoreError::ColumnLength { column: "operations", found: 2, expected: 3 });
    let refused = view(put, &[0, 1, 2, 3], &[0, 0, 0, 0], Some(Column::Host(&[1, 2])));
    assert_eq!(refused, CoreError::ColumnLength { column: "arguments", found: 2, expected: 3 });
    let refused = view(put, &[], &[0], None);
    assert_eq!(refused, CoreError::ColumnLength { column: "keys", found: 0, expected: 1 });
}

#[test]
fn a_batch_for_another_table_is_refused() {
    let batch = Batch::new(KeySpec::U64, ValueSpec::U64);
    assert_eq!(batch.view().check_table(KeySpec::U64, ValueSpec::U64), Ok(()));
    let refused = batch.view().check_table(KeySpec::fixed(8).expect("in range"), ValueSpec::U64);
    let text = refused.expect_err("another kind of key").to_string();
    assert!(text.contains("u64 keys") && text.contains("fixed:8 keys"), "{text}");
}

#[test]
fn rows_come_back_in_one_piece() {
    let rows: Vec<f32> = (0..12).map(|i| i as f32).collect();
    let spec = ValueSpec::fixed(16).expect("in range");
    let columns = Columns::keys_only(Op::Get, Cells::u64s(&[5, 6, 7]));
    let view = BatchView::new(KeySpec::U64, spec, columns).expect("right");
    let mut results = Results::new(&view);
    let row = |i: usize| rows[i * 4..][..4].iter().flat_map(|f| f.to_le_bytes()).collect::<Vec<u8>>();
    assert_eq!(results.answer_value(2, Status::Ok, 1, &row(2)), Status::Ok);
    assert_eq!(results.answer_value(0, Status::Ok, 1, &row(0)), Status::Ok);
    results.answer(1, Status::NotFound, 0);
    assert_eq!(results.rows(), Some(&[row(0), vec![0; 16], row(2)].concat()[..]));
    assert_eq!((results.value(1), results.value(2), results.value(3)), (None, Some(&row(2)[..]), None));
    // A stored row of another length can only be damage; it must not shift its neighbours.
    assert_eq!(results.answer_value(1, Status::Ok, 1, &[1; 15]), Status::Corrupt);
    assert_eq!(results.first_error(), Some((1, Status::Corrupt)));
    assert_eq!(results.rows(), Some(&[row(0), vec![0; 16], row(2)].concat()[..]));
    results.prepare(&view);
    assert_eq!(results.statuses(), [Status::Pending; 3]);
    // No earlier answer shows through where no key is found.
    (0..3).for_each(|index| results.answer(index, Status::NotFound, 0));
    assert_eq!(results.rows(), Some(&[0; 48][..]));
    results.answer_value(2, Status::Ok, 1, &row(2));
    results.prepare(&view);
    assert_eq!(results.answer_value(2, Status::Ok, 1, &[1; 15]), Status::Corrupt);
    assert_eq!(results.rows().expect("rows")[32..], [0; 16]);
}
