//! memcached's binary protocol, as far as saying that it is not spoken here.

use crate::batch::Batch;
use crate::misbehaviour::Incident;
use crate::session::{Parsed, Session};

/// The first byte of every request.
pub(crate) const REQUEST: u8 = 0x80;
const RESPONSE: u8 = 0x81;
const HEADER: usize = 24;
/// Not supported.
const STATUS: u16 = 0x83;
const WHY: &[u8] = b"The binary protocol is not spoken here; choose the text protocol";

/// Answers the first request with an error, and ends the connection.
pub(crate) fn refuse(session: &mut Session, input: &[u8], batch: &mut Batch) -> Parsed {
    let Some(request) = input.get(session.at..session.at + HEADER) else {
        return Parsed::NeedsMore(HEADER);
    };
    let mut answer = vec![0; HEADER];
    answer[0] = RESPONSE;
    // The command it answers, and the client's opaque tag.
    answer[1] = request[1];
    answer[12..16].copy_from_slice(&request[12..16]);
    answer[6..8].copy_from_slice(&STATUS.to_be_bytes());
    answer[8..12].copy_from_slice(&(WHY.len() as u32).to_be_bytes());
    answer.extend_from_slice(WHY);
    session.report(Incident::Binary);
    session.say_and_close(batch, session.at + HEADER, &answer)
}
