//! Damage: which bytes of an image become what.

use std::fmt;

use crate::patient::Patient;

/// Up to this many bytes in a row are damaged.
const LONGEST: usize = 64;
/// Bytes of header, state, roots, pending commits and the first descriptors.
const FRAME: usize = 20_480 + 512;

/// Some bytes of an image that have changed.
#[derive(Clone, Debug)]
pub(crate) struct Damage {
    pub(crate) at: usize,
    pub(crate) bytes: Vec<u8>,
    how: &'static str,
}

impl Damage {
    /// Damage number `number` to a store.
    pub(crate) fn of(number: u64, patient: &Patient) -> Damage {
        let mut random = fastrand::Rng::with_seed(0x00f1_1b5e ^ number);
        let good = patient.image_bytes();
        let at = place(&mut random, patient);
        let len = random.usize(1..=LONGEST).min(good.len() - at);
        let old = &good[at..at + len];
        let (how, bytes) = match random.u8(..8) {
            0..3 => ("a bit", vec![old[0] ^ 1 << random.u8(..8)]),
            3 => ("a byte", vec![old[0].wrapping_add(random.u8(1..))]),
            4 => ("any bytes", (0..len).map(|_| random.u8(..)).collect()),
            5 => ("some bits", old.iter().map(|byte| byte ^ random.u8(..) & random.u8(..)).collect()),
            6 => ("one byte again and again", vec![*random.choice(&[0, 0xff, 0x55]).expect("one"); len]),
            // As a write that went astray leaves it.
            _ => {
                let from = place(&mut random, patient).min(good.len() - len);
                ("bytes from elsewhere", good[from..from + len].to_vec())
            }
        };
        Damage { at, bytes, how }
    }
}

/// Mostly nonzero bytes: zero bytes are mostly not in use.
fn place(random: &mut fastrand::Rng, patient: &Patient) -> usize {
    let len = patient.image_bytes().len();
    match random.u8(..8) {
        0 => random.usize(..FRAME.min(len)),
        1 => random.usize(..len),
        _ => patient.used_bytes()[random.usize(..patient.used_bytes().len())],
    }
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({} of them) at {}: {:02x?}", self.how, self.bytes.len(), self.at, self.bytes)
    }
}
