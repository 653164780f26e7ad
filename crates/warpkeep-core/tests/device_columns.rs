//! Columns in device memory: the host checks the shape and follows no address. No device is needed for that, since
//! nothing here launches anything.

use warpkeep_core::{
    Batch, BatchView, Cells, Column, ColumnMut, Columns, CoreError, DeviceSlice, DeviceSliceMut, KeySpec,
    MemorySpace, Op, Ops, Output, OutputValues, Status, ValueSpec,
};

fn column<T>(len: usize, device: u32) -> Column<'static, T> {
    // SAFETY: no kernel is launched in these tests, and the host never follows a device address.
    Column::Device(unsafe { DeviceSlice::from_raw(0x7000_0000, len, device) })
}

fn column_mut<T>(len: usize, device: u32) -> ColumnMut<'static, T> {
    // SAFETY: no kernel is launched in these tests, and the host never follows a device address.
    ColumnMut::Device(unsafe { DeviceSliceMut::from_raw(0x9000_0000, len, device) })
}

fn rows() -> ValueSpec {
    ValueSpec::fixed(128).expect("in range")
}

#[test]
fn a_batch_in_device_memory_has_a_shape_and_no_contents() {
    let columns = Columns {
        ops: Ops::Each(column(10, 1)),
        keys: Cells::Fixed { len: 8, bytes: column(80, 1) },
        values: Cells::Variable { offsets: column(11, 1), bytes: column(4096, 1) },
        arguments: None,
    };
    let view = BatchView::new(KeySpec::U64, rows(), columns).expect("the shape is right");
    assert_eq!((view.len(), view.space()), (10, MemorySpace::Device(1)));
    assert!(view.host().is_none());
}

#[test]
fn lengths_are_checked_without_reading() {
    let new =
        |columns| BatchView::new(KeySpec::U64, rows(), columns).map(|_| ()).expect_err("something is wrong");
    let keys = |bytes| Cells::Fixed { len: 8, bytes: column(bytes, 0) };
    let refused = new(Columns::keys_only(Op::Get, keys(81)));
    assert_eq!(refused, CoreError::ColumnLength { column: "keys", found: 81, expected: 80 });
    let values = Cells::Fixed { len: 64, bytes: column(64 * 10, 0) };
    let refused = new(Columns::with_values(Op::Put, keys(80), values));
    assert_eq!(refused, CoreError::ValueLength { len: 64, spec: rows() });
    let refused = new(Columns::keys_only(Op::Put, keys(80)));
    assert_eq!(refused, CoreError::ValueLength { len: 0, spec: rows() });
    let refused = new(Columns::keys_only(Op::FetchAdd, keys(80)));
    assert_eq!(refused, CoreError::NotANumber { spec: rows() });
    let refused = new(Columns::keys_only(Op::Get, keys(8 * ((1 << 30) + 1))));
    assert!(matches!(refused, CoreError::BatchTooLong { .. }), "{refused}");
}

#[test]
fn columns_in_different_memories_are_refused() {
    let values = [0; 1280];
    let keys = Cells::Fixed { len: 8, bytes: column(80, 0) };
    let mixed = Columns::with_values(Op::Put, keys, Cells::fixed(128, &values));
    let refused = BatchView::new(KeySpec::U64, rows(), mixed).map(|_| ()).expect_err("two memories");
    let (found, expected) = (MemorySpace::Host, MemorySpace::Device(0));
    assert_eq!(refused, CoreError::MixedSpaces { column: "values", found, expected });
    assert!(refused.to_string().contains("is in host memory, the batch is in device 0 memory"), "{refused}");

    let other = Columns { arguments: Some(column(10, 1)), ..Columns::keys_only(Op::Get, keys) };
    let refused = BatchView::new(KeySpec::U64, rows(), other).map(|_| ()).expect_err("two devices");
    assert!(matches!(refused, CoreError::MixedSpaces { column: "arguments", .. }), "{refused}");
}

#[test]
fn answers_go_to_device_memory_from_a_batch_on_the_host() {
    let mut batch = Batch::new(KeySpec::U64, rows());
    batch.get(1).expect("fits").get(2).expect("fits");
    let output = |statuses, rows: usize| {
        let values = OutputValues::Rows { len: 128, bytes: column_mut(128 * rows, 0) };
        Output::new(&batch.view(), statuses, None, values)
    };
    let right = output(column_mut(2, 0), 2).expect("the shape is right");
    assert_eq!(right.space(), MemorySpace::Device(0));
    assert!(right.into_host().is_none());

    let refused = output(column_mut(2, 0), 1).map(|_| ()).expect_err("one row is missing");
    assert_eq!(refused, CoreError::ColumnLength { column: "values", found: 128, expected: 256 });
    let refused = output(column_mut(3, 0), 2).map(|_| ()).expect_err("one status too many");
    assert_eq!(refused, CoreError::ColumnLength { column: "statuses", found: 3, expected: 2 });
    let mut statuses = [Status::Pending; 2];
    let refused = output(ColumnMut::Host(&mut statuses), 2).map(|_| ()).expect_err("two memories");
    assert!(matches!(refused, CoreError::MixedSpaces { column: "values", .. }), "{refused}");
}
