//! temp
use warpkeep_crashlab::*;
use warpkeep_image::{Backing, Persist};
use std::time::Instant;
fn main() {
    let size: u64 = std::env::args().nth(1).unwrap().parse::<u64>().unwrap() * 1024;
    let scan: bool = std::env::args().nth(2).unwrap() == "scan";
    let depth: usize = std::env::args().nth(3).unwrap().parse().unwrap();
    let trace = Trace::new();
    let memory = LabMemory::new(&trace, size, size);
    let r = memory.recorder();
    let mut rng = fastrand::Rng::with_seed(1);
    for op in 0..400u64 {
        let slot = rng.u64(1..size / 64) * 64;
        unsafe { r.write(memory.base().add(slot as usize), &[(op % 250) as u8 + 1; 48]); }
        let slot2 = rng.u64(1..size / 64) * 64;
        unsafe { r.write(memory.base().add(slot2 as usize), &vec![(op % 250) as u8 + 1; 136.min((size - slot2) as usize)]); }
        r.flush("a", memory.word(slot).as_ptr().cast(), 48);
        r.flush("a", memory.word(slot2).as_ptr().cast(), 64);
        r.fence("a");
        r.store(memory.word((op % 8) * 8), op + 1);
        r.flush("b", memory.word(0).as_ptr().cast(), 48);
        r.fence("b");
        trace.ack(op);
    }
    let t = Instant::now();
    let f = Explorer::new([Crash::Process, Crash::PowerPersistent(MemoryModel::X86Lines), Crash::PowerPersistent(MemoryModel::Words)]).per_boundary(64).depth(depth).explore(&trace, |re| {
        if let Some(m) = re.memory() {
            if scan { let s: u64 = (0..m.len()).step_by(64).map(|o| m.load(o)).fold(0, |a, b| a ^ b); std::hint::black_box(s); }
            let r = m.recorder();
            r.store(m.word(128), 5); r.flush("x", m.word(128).as_ptr().cast(), 8); r.fence("x");
            r.store(m.word(192), 6); r.flush("x", m.word(192).as_ptr().cast(), 8); r.fence("x");
        }
        Ok(())
    });
    println!("{f} in {:?}", t.elapsed());
}
