//! The two domains of persistence have the same effect on the bytes: exactly the stores.

use std::sync::atomic::{AtomicU64, Ordering};

use warpkeep_image::{Coherent, Persist};

/// A line-aligned piece of memory.
#[repr(align(64))]
struct Lines([AtomicU64; 64]);

fn lines() -> Lines {
    Lines(std::array::from_fn(|_| AtomicU64::new(0)))
}

fn stores_and_flushes(domain: &impl Persist) {
    let image = lines();
    let start = image.0.as_ptr().cast::<u8>();
    for (i, word) in image.0.iter().enumerate() {
        domain.store(word, i as u64);
        domain.flush("word", word.as_ptr().cast(), 8);
    }
    domain.fence("words");
    assert_eq!(domain.cas(&image.0[5], 5, 50), Ok(5));
    assert_eq!(domain.cas(&image.0[5], 5, 51), Err(50));
    // Ranges that begin and end anywhere, also empty ones, also reaching the last byte.
    for (at, len) in [(0, 512), (1, 1), (63, 2), (7, 505), (100, 0), (511, 1)] {
        domain.flush("range", start.wrapping_add(at), len);
    }
    domain.fence("ranges");
    for (i, word) in image.0.iter().enumerate() {
        assert_eq!(word.load(Ordering::Relaxed), if i == 5 { 50 } else { i as u64 });
    }

    let mut bytes = vec![0_u8; 300];
    // SAFETY: inside the vector, which no other code uses.
    unsafe { domain.write(bytes.as_mut_ptr().add(3), &[9; 200]) };
    domain.flush("bytes", bytes.as_ptr(), bytes.len());
    domain.fence("bytes");
    assert_eq!(bytes.iter().filter(|&&byte| byte == 9).count(), 200);
    assert_eq!((bytes[2], bytes[3], bytes[202], bytes[203]), (0, 9, 9, 0));
}

#[test]
fn coherent() {
    stores_and_flushes(&Coherent);
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::{lines, stores_and_flushes};
    use warpkeep_image::WriteBack;

    #[test]
    fn write_back() {
        let Some(domain) = WriteBack::detect() else {
            eprintln!("SKIPPED: this processor writes no 64-byte lines back");
            return;
        };
        eprintln!("this processor has {}", domain.instruction());
        assert!(["CLWB", "CLFLUSHOPT", "CLFLUSH"].contains(&domain.instruction()));
        stores_and_flushes(&domain);
    }

    #[test]
    fn every_line_touched_is_counted() {
        let image = lines();
        let start = image.0.as_ptr().cast::<u8>();
        for (at, len, expected) in [
            (0, 0, 0),
            (9, 0, 0),
            (0, 1, 1),
            (63, 1, 1),
            (0, 64, 1),
            (63, 2, 2),
            (1, 64, 2),
            (0, 512, 8),
            (32, 448, 8),
        ] {
            assert_eq!(WriteBack::lines(start.wrapping_add(at), len), expected, "{len} bytes at {at}");
        }
    }
}
