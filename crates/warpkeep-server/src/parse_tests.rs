//! However the bytes of commands arrive, and whatever they are, parsers find the same commands or report the error.

use std::io::Write as _;
use std::path::Path;

use warpkeep::{Store, StoreOptions};

use crate::Access;
use crate::fuzzing::Fuzzed;

const MEMCACHED: &[u8] = b"get a\r\ngets a bb  ccc \r\nset a 1 0 5\r\nhe\r\no\r\nadd b 0 -1 0 noreply\r\n\r\nincr a 5\r\n\
    cas a 1 2 3 44\r\nabc\r\nset x 0 0 3\r\nabcde\r\ngat 10 a b\r\ntouch a 5\r\ndelete a noreply\r\nmg a v t q Oabc\r\n\
    ms a 2 T5 c\r\nhi\r\nma n D5 MD v\r\nmd a I T3\r\nme a\r\nmn\r\nfoo bar\r\n\r\nversion\nflush_all 5\r\nstats\r\nmg b k\r\n";

const RESP: &[u8] = b"*2\r\n$3\r\nGET\r\n$1\r\na\r\n*5\r\n$3\r\nset\r\n$1\r\na\r\n$4\r\n\r\n\r\n\r\n$2\r\nEX\r\n$2\r\n10\r\n\
    *4\r\n$4\r\nMGET\r\n$1\r\na\r\n$0\r\n\r\n$2\r\nbb\r\n*5\r\n$4\r\nMSET\r\n$1\r\na\r\n$1\r\nb\r\n$1\r\nc\r\n$1\r\nd\r\n\
    *0\r\n*1\r\n$4\r\nPING\r\n*3\r\n$3\r\nDEL\r\n$1\r\na\r\n$1\r\nb\r\n*1\r\n$6\r\nDBSIZE\r\n*2\r\n$5\r\nHELLO\r\n$1\r\n3\r\n\
    *2\r\n$3\r\nFOO\r\n$3\r\nbar\r\n*4\r\n$6\r\nEXPIRE\r\n$1\r\na\r\n$2\r\n10\r\n$2\r\nNX\r\n*1\r\n$4\r\nQUIT\r\n";

/// Where bytes are put to.
fn store(home: &tempfile::TempDir) -> Store {
    Store::open_with(home.path(), StoreOptions { without_log: true, ..StoreOptions::default() }).unwrap()
}

/// Parses bytes that arrive in pieces with the given ends.
fn parse(fuzzed: &mut Fuzzed<'_>, bytes: &[u8], ends: &[usize]) -> String {
    fuzzed.parse(bytes, ends, &Access::default())
}

#[test]
fn commands_may_be_split_anywhere() {
    let home = tempfile::tempdir().unwrap();
    let store = store(&home);
    let mut fuzzed = Fuzzed::new(&store).unwrap();
    for bytes in [MEMCACHED, RESP] {
        let whole = parse(&mut fuzzed, bytes, &[bytes.len()]);
        assert!(fuzzed.commands() >= 15);
        for split in 0..bytes.len() {
            assert_eq!(parse(&mut fuzzed, bytes, &[split, bytes.len()]), whole, "split at {split}");
        }
        let one_by_one: Vec<usize> = (1..=bytes.len()).collect();
        assert_eq!(parse(&mut fuzzed, bytes, &one_by_one), whole);
    }
}

#[test]
fn a_value_that_is_too_large_is_passed_over() {
    let home = tempfile::tempdir().unwrap();
    let store = store(&home);
    let mut fuzzed = Fuzzed::new(&store).unwrap();
    let mut bytes = b"*4\r\n$3\r\nSET\r\n$1\r\na\r\n$1500000\r\n".to_vec();
    bytes.resize(bytes.len() + 1_500_000, b'x');
    bytes.extend_from_slice(b"\r\n$2\r\nNX\r\n*1\r\n$4\r\nPING\r\n");
    let whole = parse(&mut fuzzed, &bytes, &[bytes.len()]);
    assert!(whole.contains("-ERR string exceeds") && whole.contains("PONG"));
    for split in [5, 30, 31, 40, 1_000_000, bytes.len() - 25, bytes.len() - 3] {
        assert_eq!(parse(&mut fuzzed, &bytes, &[split, bytes.len()]), whole, "split at {split}");
    }
}

/// The seeds of the fuzzers and their findings: see fuzz/README.md.
fn corpus() -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/commands");
    let files = std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut paths: Vec<_> = files.map(|file| file.unwrap().path()).collect();
    // Always in the same order.
    paths.sort();
    let mut corpus: Vec<Vec<u8>> = paths.iter().map(|path| std::fs::read(path).unwrap()).collect();
    corpus.extend([MEMCACHED.to_vec(), RESP.to_vec()]);
    corpus
}

#[test]
fn nothing_in_the_corpus_or_like_it_does_harm() {
    const MUTATIONS: usize = 20_000;
    let home = tempfile::tempdir().unwrap();
    let store = store(&home);
    let mut fuzzed = Fuzzed::new(&store).unwrap();
    let corpus = corpus();
    assert!(corpus.len() > 50, "the corpus is not all there");
    corpus.iter().for_each(|bytes| fuzzed.take(bytes));
    let mut random = fastrand::Rng::with_seed(11);
    for _ in 0..MUTATIONS {
        let mut bytes = corpus[random.usize(..corpus.len())].clone();
        for _ in 0..random.usize(1..6) {
            mutate(&mut bytes, &corpus, &mut random);
        }
        fuzzed.take(&bytes);
    }
    let lines = corpus.len();
    writeln!(std::io::stdout().lock(), "fuzzed: {lines} of the corpus and {MUTATIONS} like them").unwrap();
}

/// Changes bytes a little, or puts others behind or among them.
fn mutate(bytes: &mut Vec<u8>, corpus: &[Vec<u8>], random: &mut fastrand::Rng) {
    let at = random.usize(..=bytes.len());
    match random.usize(..7) {
        0 if at < bytes.len() => bytes[at] = random.u8(..),
        1 => bytes.insert(at, *random.choice(b"\r\n $*0123456789-").unwrap()),
        2 if at < bytes.len() => drop(bytes.remove(at)),
        3 => bytes.truncate(at),
        4 => {
            let other = &corpus[random.usize(..corpus.len())];
            let from = random.usize(..=other.len());
            bytes.splice(at..at, other[from..].iter().copied());
        }
        5 => {
            let number = ["0", "-1", "4294967295", "18446744073709551615", "1048564", "536870913"];
            bytes.splice(at..at, number[random.usize(..number.len())].bytes());
        }
        _ => {
            let part = bytes[at..(at + random.usize(..40)).min(bytes.len())].to_vec();
            bytes.splice(at..at, part);
        }
    }
    bytes.truncate(8 << 10);
}
