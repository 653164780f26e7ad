//! `lru_crawler metadump`: a line about each item.

use warpkeep::ScanPosition;

use crate::item::Head;
use crate::lifetime::now;
use crate::server::Shared;
use crate::text::number;

/// Bytes that are sent at once; then the client has to read them.
const AT_ONCE: usize = 256 << 10;

/// Lists items from a position on; returns whether there are more.
pub(crate) fn dump(shared: &Shared<'_>, position: &mut ScanPosition, out: &mut Vec<u8>) -> bool {
    let now = now();
    let table = shared.keyspace.table();
    while out.len() < AT_ONCE {
        let scanned = table.scan_some(position, |item| {
            let Some(head) = Head::from_bytes(item.value).filter(|head| !head.is_expired(now)) else {
                return;
            };
            out.extend_from_slice(b"key=");
            encode(out, item.key);
            out.extend_from_slice(b" exp=");
            match head.expires {
                0 => out.extend_from_slice(b"-1"),
                moment => number(out, moment / 1000),
            }
            let trace = match shared.traces.are_kept() {
                true => shared.traces.look(shared.keyspace.hash(item.key)),
                false => Default::default(),
            };
            out.extend_from_slice(b" la=");
            number(out, (now / 1000).saturating_sub(trace.idle));
            out.extend_from_slice(b" cas=");
            number(out, item.version);
            out.extend_from_slice(if trace.fetched { b" fetch=yes" } else { b" fetch=no" });
            out.extend_from_slice(b" cls=1 size=");
            number(out, item.key.len() + item.value.len());
            out.push(b'\n');
        });
        match scanned {
            Ok(true) => {}
            Ok(false) => {
                *position = ScanPosition::default();
                out.extend_from_slice(b"END\r\n");
                return false;
            }
            Err(error) => {
                tracing::error!(%error, "the items were not listed");
                *position = ScanPosition::default();
                out.extend_from_slice(b"SERVER_ERROR the store failed, see the server's log\r\n");
                return false;
            }
        }
    }
    true
}

/// Adds a key in characters that are safe in a line: others are percent-encoded, as in a URL.
fn encode(out: &mut Vec<u8>, key: &[u8]) {
    const HEX: &[u8; 16] = b"0123456789ABCDEF";
    for &byte in key {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => out.push(byte),
            _ => out.extend_from_slice(&[b'%', HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]),
        }
    }
}
