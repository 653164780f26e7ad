//! Shared by the tests: running the binary, and stores to run it on.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use warpkeep::{Durability, KeySpec, Store, TableOptions, ValueSpec};
use warpkeep_image::Placement;

/// Items in the table `rows`, and bytes in a value of it.
pub(crate) const ROWS: u64 = 600;
pub(crate) const ROW_BYTES: u32 = 100;

/// The binary, without input.
pub(crate) fn warpkeep() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_warpkeep"));
    command.stdin(Stdio::null());
    command
}

/// The result of a run.
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Ran {
    pub(crate) fn of(command: &mut Command) -> Ran {
        Ran::from(command.output().expect("the binary runs"))
    }

    fn from(Output { status, stdout, stderr }: Output) -> Ran {
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
        Ran { code: status.code().expect("it ended by itself"), out: text(stdout), err: text(stderr) }
    }

    /// Fails the test unless the exit code is this one.
    pub(crate) fn expect(self, code: i32) -> Ran {
        assert_eq!(self.code, code, "\n--- out\n{}\n--- err\n{}", self.out, self.err);
        self
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error} in {}", self.out))
    }
}

/// Runs a command with this input.
pub(crate) fn with_input(command: &mut Command, input: &[u8]) -> Ran {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary runs");
    let mut pipe = child.stdin.take().expect("a pipe");
    // It may end before it has read all; its exit code shows that.
    let _ = pipe.write_all(input);
    drop(pipe);
    Ran::from(child.wait_with_output().expect("it ends"))
}

/// A store in a temporary directory.
pub(crate) struct Shop {
    pub(crate) directory: tempfile::TempDir,
}

pub(crate) fn value(key: u64) -> Vec<u8> {
    (0..u64::from(ROW_BYTES)).map(|at| (key * 31 + at * 7) as u8).collect()
}

impl Shop {
    /// A place for a store.
    pub(crate) fn empty() -> Shop {
        // On tmpfs tests do not wait for a disk; a container's may be too small for many stores at a time.
        let memory = Path::new("/dev/shm");
        let roomy = Placement::of(&memory.join("image")).is_ok_and(|place| place.free_bytes > 4 << 30);
        let directory = if roomy { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
        Shop { directory: directory.expect("a directory") }
    }

    /// A store that was closed: a table, a checkpoint, and some writes after it.
    pub(crate) fn new() -> Shop {
        let shop = Shop::empty();
        let store = shop.open();
        let values = ValueSpec::fixed(ROW_BYTES).expect("a length");
        let rows = store.create_table("rows", TableOptions::new(KeySpec::U64, values)).expect("a table");
        let mut batch = rows.batch();
        for key in 0..ROWS {
            batch.put(key, &value(key)).expect("a row");
        }
        assert_eq!(rows.run(&batch, Durability::Process).expect("room").first_error(), None);
        store.checkpoint().expect("a checkpoint");
        for key in 0..10 {
            rows.put(key, &value(key + ROWS), Durability::Power).expect("room");
        }
        drop(rows);
        store.close().expect("closed");
        shop
    }

    /// A file beside the store.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Writes a file beside the store.
    pub(crate) fn file(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        std::fs::write(&path, content).expect("written");
        path
    }

    pub(crate) fn store(&self) -> PathBuf {
        self.path("store")
    }

    pub(crate) fn image(&self) -> PathBuf {
        self.store().join("image")
    }

    pub(crate) fn log(&self) -> PathBuf {
        self.store().join("log")
    }

    pub(crate) fn open(&self) -> Store {
        Store::open(self.store()).expect("a store")
    }

    /// `warpkeep COMMAND STORE`
    pub(crate) fn run(&self, command: &str) -> Command {
        let mut run = warpkeep();
        run.arg(command).arg(self.store());
        run
    }

    /// The same with more arguments; it must end with this code.
    pub(crate) fn ran(&self, command: &str, arguments: &[&str], code: i32) -> Ran {
        Ran::of(self.run(command).args(arguments)).expect(code)
    }

    /// Checks that the store holds the items of [`Shop::new`].
    pub(crate) fn check(&self) {
        let store = self.open();
        let rows = store.table("rows").expect("the table");
        assert_eq!(rows.len(), ROWS);
        for key in 0..ROWS {
            let expected = if key < 10 { value(key + ROWS) } else { value(key) };
            assert_eq!(rows.get(key).expect("a key"), Some(expected), "row {key}");
        }
        drop(rows);
        store.close().expect("closed");
    }

    /// Every file of the store.
    pub(crate) fn content(&self) -> Vec<(PathBuf, Vec<u8>)> {
        let mut files: Vec<_> =
            std::fs::read_dir(self.log()).expect("a directory").map(|e| e.expect("one").path()).collect();
        files.sort();
        files.push(self.image());
        files.into_iter().map(|path| (path.clone(), std::fs::read(&path).expect("a file"))).collect()
    }

    /// The one file in the log directory with this prefix and these bytes.
    pub(crate) fn log_file(&self, prefix: &str, holding: &[u8]) -> PathBuf {
        let entries =
            std::fs::read_dir(self.log()).expect("a directory").map(|entry| entry.expect("an entry"));
        let named = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(prefix));
        let mut found = named.map(|entry| entry.path()).filter(|path| place_of(path, holding).is_some());
        found.next().expect("such a file")
    }
}

fn place_of(path: &Path, bytes: &[u8]) -> Option<usize> {
    let content = std::fs::read(path).expect("a file");
    content.windows(bytes.len()).position(|window| window == bytes)
}

/// Flips a bit of the first place in a file that holds these bytes.
pub(crate) fn damage(path: &Path, bytes: &[u8]) {
    let at = place_of(path, bytes).expect("the bytes are there");
    flip(path, at + bytes.len() / 2);
}

/// Flips a bit of a byte.
pub(crate) fn flip(path: &Path, at: usize) {
    use std::os::unix::fs::FileExt;
    let file = std::fs::OpenOptions::new().read(true).write(true).open(path).expect("a file");
    let mut byte = [0];
    file.read_exact_at(&mut byte, at as u64).expect("a byte");
    file.write_all_at(&[byte[0] ^ 0x20], at as u64).expect("written");
}
