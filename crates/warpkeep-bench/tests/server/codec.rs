//! Answers are parsed the same however the stream is cut, and no input can do harm.

use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use warpkeep_bench::server::{Answer, Items, Malformed, Protocol, Requests};

/// An answer that owns its bytes.
#[derive(Clone, Debug, PartialEq)]
enum Said {
    Value(Vec<u8>, Vec<u8>),
    Miss,
    End,
    Stored,
    Many(usize),
    Refused(Vec<u8>),
}

impl From<Answer<'_>> for Said {
    fn from(answer: Answer<'_>) -> Said {
        match answer {
            Answer::Value { key, data } => Said::Value(key.to_vec(), data.to_vec()),
            Answer::Miss => Said::Miss,
            Answer::End => Said::End,
            Answer::Stored => Said::Stored,
            Answer::Many(count) => Said::Many(count),
            Answer::Refused(words) => Said::Refused(words.to_vec()),
        }
    }
}

impl Said {
    /// As a server would write it; `None` if the protocol has no such answer.
    fn write(&self, protocol: Protocol, out: &mut Vec<u8>) -> Option<()> {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let head = match (protocol, self) {
            (Protocol::Memcached, Said::Value(key, data)) => {
                format!("VALUE {} 7 {}\r\n", text(key), data.len())
            }
            (Protocol::Memcached, Said::End) => "END\r\n".into(),
            (Protocol::Memcached, Said::Stored) => "STORED\r\n".into(),
            (Protocol::Meta, Said::Value(key, data)) => {
                format!("VA {} f7 k{} t-1\r\n", data.len(), text(key))
            }
            (Protocol::Meta, Said::Miss) => "EN\r\n".into(),
            (Protocol::Meta, Said::End) => "MN\r\n".into(),
            (Protocol::Meta, Said::Stored) => "HD\r\n".into(),
            (Protocol::Resp, Said::Value(_, data)) => format!("${}\r\n", data.len()),
            (Protocol::Resp, Said::Miss) => "$-1\r\n".into(),
            (Protocol::Resp, Said::Stored) => "+OK\r\n".into(),
            (Protocol::Resp, Said::Many(count)) => format!("*{count}\r\n"),
            (Protocol::Resp, Said::Refused(words)) => format!("-{}\r\n", text(words)),
            (_, Said::Refused(words)) => format!("SERVER_ERROR {}\r\n", text(words)),
            _ => return None,
        };
        out.extend_from_slice(head.as_bytes());
        if let Said::Value(_, data) = self {
            out.extend_from_slice(data);
            out.extend_from_slice(b"\r\n");
        }
        Some(())
    }

    /// The parsed form.
    fn once_read(self, protocol: Protocol) -> Said {
        match (protocol, self) {
            (Protocol::Resp, Said::Value(_, data)) => Said::Value(Vec::new(), data),
            (Protocol::Memcached | Protocol::Meta, Said::Refused(words)) => {
                Said::Refused([b"SERVER_ERROR ", &words[..]].concat())
            }
            (_, said) => said,
        }
    }
}

fn said() -> impl Strategy<Value = Said> {
    prop_oneof![
        ("[!-~]{1,40}", prop::collection::vec(any::<u8>(), 0..200))
            .prop_map(|(key, data)| Said::Value(key.into_bytes(), data)),
        Just(Said::Miss),
        Just(Said::End),
        Just(Said::Stored),
        (0_usize..100_000).prop_map(Said::Many),
        "[ -~]{0,40}".prop_map(|words| Said::Refused(words.into_bytes())),
    ]
}

fn protocol() -> impl Strategy<Value = Protocol> {
    prop::sample::select(Protocol::ALL.to_vec())
}

/// Parses all answers of a stream that comes in parts.
fn read(protocol: Protocol, parts: &[&[u8]]) -> Result<(Vec<Said>, Vec<u8>), Malformed> {
    let (mut pending, mut found) = (Vec::new(), Vec::new());
    for part in parts {
        pending.extend_from_slice(part);
        while let Some((answer, used)) = protocol.next(&pending)? {
            assert!(used > 0 && used <= pending.len());
            found.push(answer.into());
            pending.drain(..used);
        }
    }
    Ok((found, pending))
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 400, rng_seed: RngSeed::Fixed(11), failure_persistence: None, ..ProptestConfig::default()
    })]

    #[test]
    fn any_split_reads_the_same(
        protocol in protocol(),
        all in prop::collection::vec(said(), 0..12),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..30),
    ) {
        let (mut stream, mut wanted) = (Vec::new(), Vec::new());
        for said in all {
            if said.write(protocol, &mut stream).is_some() {
                wanted.push(said.once_read(protocol));
            }
        }
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(stream.len() + 1)).collect();
        cuts.extend([0, stream.len()]);
        cuts.sort_unstable();
        let parts: Vec<&[u8]> = cuts.windows(2).map(|pair| &stream[pair[0]..pair[1]]).collect();
        let (found, left) = read(protocol, &parts).expect("well formed");
        prop_assert_eq!(found, wanted);
        prop_assert!(left.is_empty());
    }

    #[test]
    fn one_byte_at_a_time_is_no_different(protocol in protocol(), all in prop::collection::vec(said(), 1..4)) {
        let mut stream = Vec::new();
        all.iter().for_each(|said| { said.write(protocol, &mut stream); });
        let bytes: Vec<&[u8]> = stream.chunks(1).collect();
        prop_assert_eq!(read(protocol, &bytes), read(protocol, &[&stream]));
    }

    #[test]
    fn any_bytes_are_an_answer_or_an_error(protocol in protocol(), bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        // The parsed beginning does not change when more arrives.
        let first = |bytes: &[u8]| protocol.next(bytes).map(|found| found.map(|(answer, used)| (Said::from(answer), used)));
        for len in 0..bytes.len() {
            match first(&bytes[..len]) {
                Ok(None) => {}
                decided => prop_assert_eq!(decided, first(&bytes)),
            }
        }
    }

    #[test]
    fn damaged_streams_are_noticed_or_read(
        protocol in protocol(),
        all in prop::collection::vec(said(), 1..6),
        at in any::<prop::sample::Index>(),
        mask in 1_u8..,
    ) {
        let mut stream = Vec::new();
        all.iter().for_each(|said| { said.write(protocol, &mut stream); });
        if !stream.is_empty() {
            let at = at.index(stream.len());
            stream[at] ^= mask;
            let _ = read(protocol, &[&stream]);
        }
    }
}

#[test]
fn what_is_no_answer_is_refused_with_a_reason() {
    let cases: [(Protocol, &[u8]); 17] = [
        (Protocol::Memcached, b"HELLO\r\n"),
        (Protocol::Memcached, b"END\n"),
        (Protocol::Memcached, b"VALUE k 0\r\n"),
        (Protocol::Memcached, b"VALUE k 0 x\r\n"),
        (Protocol::Memcached, b"VALUE  0 1\r\n"),
        (Protocol::Memcached, b"VALUE k 0 99999999999\r\n"),
        (Protocol::Memcached, b"VALUE k 0 3\r\nabcd\r\n"),
        (Protocol::Meta, b"VA \r\n"),
        (Protocol::Meta, b"VA 1\r\nab\r\n"),
        (Protocol::Meta, b"STORED\r\n"),
        (Protocol::Resp, b"\r\n"),
        (Protocol::Resp, b"+PONG\r\n"),
        (Protocol::Resp, b":1\r\n"),
        (Protocol::Resp, b"$-2\r\n"),
        (Protocol::Resp, b"*-1\r\n"),
        (Protocol::Resp, b"$3\r\nabcde"),
        (Protocol::Resp, &[b'$'; 4096]),
    ];
    for (protocol, bytes) in cases {
        assert!(protocol.next(bytes).is_err(), "{protocol}: {}", bytes.escape_ascii());
    }
}

#[test]
fn requests_are_what_the_protocols_say() {
    let items = Items::new(8, 8, 1);
    let mut value = [0; 8];
    items.write_value(3, 9, &mut value);
    let value = |before: &str| [before.as_bytes(), &value, b"\r\n"].concat();
    let cases = [
        (
            Protocol::Memcached,
            "get 00000003\r\n",
            "get 00000001 00000002\r\n",
            value("set 00000003 0 0 8\r\n"),
        ),
        (
            Protocol::Meta,
            "mg 00000003 v\r\n",
            "mg 00000001 v k q\r\nmg 00000002 v k q\r\nmn\r\n",
            value("ms 00000003 8\r\n"),
        ),
        (
            Protocol::Resp,
            "*2\r\n$3\r\nGET\r\n$8\r\n00000003\r\n",
            "*3\r\n$4\r\nMGET\r\n$8\r\n00000001\r\n$8\r\n00000002\r\n",
            value("*3\r\n$3\r\nSET\r\n$8\r\n00000003\r\n$8\r\n"),
        ),
    ];
    for (protocol, get, many, set) in cases {
        let requests = Requests::new(protocol, &items, 2);
        let written = |write: &dyn Fn(&mut Vec<u8>)| {
            let mut out = Vec::new();
            write(&mut out);
            out
        };
        assert_eq!(written(&|out| requests.get(3, out)), get.as_bytes(), "{protocol}");
        assert_eq!(written(&|out| requests.get_many(&[1, 2], out)), many.as_bytes(), "{protocol}");
        assert_eq!(written(&|out| requests.set(3, 9, out)), set, "{protocol}");
    }
}
