//! However the bytes of commands arrive, and whatever they are, parsers find the same or say what is wrong.

use warpkeep::{KeySpec, Store, TableOptions, ValueSpec};

use crate::Access;
use crate::batch::Batch;
use crate::session::{Parsed, Session};

const MEMCACHED: &[u8] = b"get a\r\ngets a bb  ccc \r\nset a 1 0 5\r\nhe\r\no\r\nadd b 0 -1 0 noreply\r\n\r\nincr a 5\r\n\
    cas a 1 2 3 44\r\nabc\r\nset x 0 0 3\r\nabcde\r\ngat 10 a b\r\ntouch a 5\r\ndelete a noreply\r\nmg a v t q Oabc\r\n\
    ms a 2 T5 c\r\nhi\r\nma n D5 MD v\r\nmd a I T3\r\nme a\r\nmn\r\nfoo bar\r\n\r\nversion\nflush_all 5\r\nstats\r\nmg b k\r\n";

const RESP: &[u8] = b"*2\r\n$3\r\nGET\r\n$1\r\na\r\n*5\r\n$3\r\nset\r\n$1\r\na\r\n$4\r\n\r\n\r\n\r\n$2\r\nEX\r\n$2\r\n10\r\n\
    *4\r\n$4\r\nMGET\r\n$1\r\na\r\n$0\r\n\r\n$2\r\nbb\r\n*5\r\n$4\r\nMSET\r\n$1\r\na\r\n$1\r\nb\r\n$1\r\nc\r\n$1\r\nd\r\n\
    *0\r\n*1\r\n$4\r\nPING\r\n*3\r\n$3\r\nDEL\r\n$1\r\na\r\n$1\r\nb\r\n*1\r\n$6\r\nDBSIZE\r\n*2\r\n$5\r\nHELLO\r\n$1\r\n3\r\n\
    *2\r\n$3\r\nFOO\r\n$3\r\nbar\r\n*4\r\n$6\r\nEXPIRE\r\n$1\r\na\r\n$2\r\n10\r\n$2\r\nNX\r\n*1\r\n$4\r\nQUIT\r\n";

/// A batch to parse into.
fn batch() -> Batch {
    let home = tempfile::tempdir().unwrap();
    let store = Store::open(home.path()).unwrap();
    let spec = (KeySpec::variable(65535).unwrap(), ValueSpec::variable(ValueSpec::MAX).unwrap());
    let table = store.create_table("t", TableOptions::new(spec.0, spec.1)).unwrap();
    Batch::new(&table)
}

/// What comes of bytes that arrive in pieces which end at the given places.
fn parse(batch: &mut Batch, bytes: &[u8], ends: &[usize]) -> String {
    batch.clear();
    let access = Access::default();
    let mut session = Session::new(1, &access);
    let mut needed = 1;
    for &end in ends {
        let input = &bytes[..end];
        while input.len() - session.at >= needed || session.skip > 0 && input.len() > session.at {
            match session.parse(input, 0, &access, batch) {
                Parsed::Some => needed = 1,
                // As if those before it were done.
                Parsed::Waits => session.in_batch = false,
                Parsed::NeedsMore(more) => {
                    let there = input.len() - session.at;
                    assert!(more > there || session.closing, "{more} bytes are needed and {there} are there");
                    needed = more;
                    break;
                }
            }
        }
    }
    format!("{:?} {:?} {}", batch.commands, String::from_utf8_lossy(&batch.texts), session.at)
}

#[test]
fn commands_may_be_split_anywhere() {
    let mut batch = batch();
    for bytes in [MEMCACHED, RESP] {
        let whole = parse(&mut batch, bytes, &[bytes.len()]);
        assert!(batch.len() >= 15);
        for split in 0..bytes.len() {
            assert_eq!(parse(&mut batch, bytes, &[split, bytes.len()]), whole, "split at {split}");
        }
        let one_by_one: Vec<usize> = (1..=bytes.len()).collect();
        assert_eq!(parse(&mut batch, bytes, &one_by_one), whole);
    }
}

#[test]
fn a_value_that_is_too_large_is_passed_over() {
    let mut batch = batch();
    let mut bytes = b"*4\r\n$3\r\nSET\r\n$1\r\na\r\n$1500000\r\n".to_vec();
    bytes.resize(bytes.len() + 1_500_000, b'x');
    bytes.extend_from_slice(b"\r\n$2\r\nNX\r\n*1\r\n$4\r\nPING\r\n");
    let whole = parse(&mut batch, &bytes, &[bytes.len()]);
    assert!(whole.contains("-ERR string exceeds") && whole.contains("PONG"));
    for split in [5, 30, 31, 40, 1_000_000, bytes.len() - 25, bytes.len() - 3] {
        assert_eq!(parse(&mut batch, &bytes, &[split, bytes.len()]), whole, "split at {split}");
    }
}

#[test]
fn nothing_makes_a_parser_panic() {
    let mut batch = batch();
    let mut random = fastrand::Rng::with_seed(11);
    let mut tried = 0;
    while tried < 20_000 {
        for good in [MEMCACHED, RESP] {
            let mut bytes = good.to_vec();
            for _ in 0..random.usize(1..6) {
                let Some(at) = (!bytes.is_empty()).then(|| random.usize(..bytes.len())) else { break };
                match random.usize(..4) {
                    0 => bytes[at] = random.u8(..),
                    1 => bytes.insert(at, *random.choice(b"\r\n $*0123456789-").unwrap()),
                    2 => drop(bytes.remove(at)),
                    _ => bytes.truncate(at + 1),
                }
            }
            let split = random.usize(..=bytes.len());
            let whole = parse(&mut batch, &bytes, &[bytes.len()]);
            // What is no protocol is noticed as soon as it can be, so that only what was good before may differ.
            let in_parts = parse(&mut batch, &bytes, &[split, bytes.len()]);
            if !whole.contains("Protocol error") {
                assert_eq!(in_parts, whole, "{:?} split at {split}", String::from_utf8_lossy(&bytes));
            }
            tried += 1;
        }
    }
}
