//! A program that depends on `warpkeep` and on no other crate of the workspace: every name here comes from it.

use std::path::{Path, PathBuf};

use warpkeep::rows::{BatchView, Cells, Columns, HostOutput};
use warpkeep::{
    Answers, CoreError, CreateOptions, Durability, Error, HeapOptions, ImageError, Key, KeySpec, LogError,
    LogOptions, Op, OpenOptions, Results, Status, Store, StoreOptions, ToCell, Value, ValueSpec,
};

/// A key of the program's own.
#[derive(Debug, PartialEq)]
struct Country([u8; 2]);

impl Key for Country {
    fn spec() -> Result<KeySpec, CoreError> {
        KeySpec::fixed(2)
    }

    fn to_cell(&self) -> impl AsRef<[u8]> {
        self.0
    }

    fn from_cell(bytes: &[u8]) -> Option<Country> {
        bytes.try_into().ok().map(Country)
    }
}

/// A value of the program's own.
#[derive(Debug, PartialEq)]
struct Flag(bool);

impl Value for Flag {
    fn spec() -> Result<ValueSpec, CoreError> {
        ValueSpec::fixed(1)
    }

    fn to_cell(&self) -> impl AsRef<[u8]> {
        [u8::from(self.0)]
    }

    fn from_cell(len: usize, fill: impl FnOnce(&mut [u8])) -> Option<Flag> {
        let mut byte = [0];
        (len == 1).then(|| fill(&mut byte))?;
        Some(Flag(byte[0] != 0))
    }
}

/// Every option of a store, by name.
fn options(image: PathBuf) -> StoreOptions {
    StoreOptions {
        image: Some(image),
        create: CreateOptions { chunk_size: 1 << 20, ..CreateOptions::default() },
        open: OpenOptions::default(),
        heap: HeapOptions { max_bytes: 64 << 20, ..HeapOptions::default() },
        log: LogOptions::default(),
        ..StoreOptions::default()
    }
}

/// Which part an error is of.
fn part(error: &Error) -> &'static str {
    match error {
        Error::Image(ImageError::OutOfSpace { .. }) => "space",
        Error::Image(_) => "image",
        Error::Log(LogError::Held { .. }) => "held",
        Error::Log(_) => "log",
        Error::Core(CoreError::Operation { .. }) => "operation",
        _ => "other",
    }
}

/// A put by anything that is a key, and an answer to anything that takes answers.
fn put(store: &Store, key: impl ToCell, answers: &mut dyn Answers) -> Result<(), Error> {
    let table = store.table("codes")?;
    let key = key.to_cell();
    let columns = Columns::with_values(Op::Put, Cells::fixed(2, key.as_ref()), Cells::fixed(1, &[1]));
    let batch = BatchView::new(table.key_spec(), table.value_spec(), columns)?;
    table.run_into(&batch, Durability::Process, answers)
}

#[test]
fn a_program_names_only_this_crate() -> Result<(), Error> {
    let home = tempfile::tempdir().expect("a directory");
    let open = || Store::open_with(home.path(), options(home.path().join("elsewhere")));
    for run in 0..2 {
        let store = open()?;
        let codes = store.typed_or_create::<Country, Flag>("codes", 100)?;
        assert_eq!(codes.len(), run);
        let columns = Columns::keys_only(Op::Get, Cells::fixed(2, b"de"));
        let gets = BatchView::new(codes.table().key_spec(), codes.table().value_spec(), columns)?;
        let mut results = Results::new(&gets);
        put(&store, b"de", &mut results)?;
        assert_eq!(results.statuses(), [if run == 0 { Status::Created } else { Status::Ok }]);
        assert_eq!(codes.get(&Country(*b"de"))?, Some(Flag(true)));
        let again = open().expect_err("it is open");
        assert!(["image", "held", "log"].contains(&part(&again)), "{again}");
        drop(codes);
        store.close()?;
    }
    // Only its name is wanted.
    let none: Option<HostOutput<'_>> = None;
    assert!(none.is_none());
    Ok(())
}

/// The recipes are compiled with the crate's own dependencies available; a reader has only the crate.
#[test]
fn recipes_name_only_this_crate() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/cookbook.md");
    let text = std::fs::read_to_string(docs).expect("the cookbook");
    assert!(text.contains("use warpkeep::") && !text.contains("use warpkeep_"), "another crate is named");
}
