//! The kernels of every kind of table, compiled for a GPU on a machine without one.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::sync::atomic::{AtomicUsize, Ordering};

use warpkeep_core::{KeySpec, ValueSpec};
use warpkeep_crashlab::explores_fully;
use warpkeep_device::{Arch, DeviceError, KernelCache, compile_with, compiler_version};
use warpkeep_gphash::gpu::{paper, programs_for};
use warpkeep_gphash::{Geometry, Layout};

const HOPPER: Arch = Arch::new(9, 0);
fn tell(line: &str) {
    writeln!(std::io::stdout().lock(), "{line}").expect("standard output");
}

/// Tables for which kernels are compiled: what they are, in words that a message can use.
#[derive(Clone, Copy, Debug)]
struct Case {
    geometry: Geometry,
    layout: Layout,
    key_len: u32,
    /// Whether keys have any length up to that, and lie in cells.
    in_cells: bool,
    value_len: u32,
    /// Whether what its kernels use is told.
    told: bool,
}

/// All geometries there are.
fn geometries() -> Vec<Geometry> {
    let powers = [1_u8, 2, 4, 8, 16, 32];
    let all = powers.into_iter().flat_map(move |levels| powers.map(move |hashes| (levels, hashes)));
    all.flat_map(|(levels, hashes)| powers.map(|slots| Geometry::new(levels, hashes, slots)))
        .filter_map(Result::ok)
        .collect()
}

fn cases() -> Vec<Case> {
    const KEYS: [u32; 4] = [8, 20, 32, 128];
    const VALUES: [u32; 3] = [8, 16, 128];
    let geometries = geometries();
    assert!(geometries.len() > 12, "{geometries:?}");
    let mut cases = Vec::new();
    // Each geometry with both layouts; or, as usual, every third with one or the other, because to compile takes seconds each. Lengths go
    // round, so that each comes with several geometries.
    for (number, &geometry) in geometries.iter().enumerate() {
        for (half, layout) in [Layout::Packed, Layout::InPlace].into_iter().enumerate() {
            if !explores_fully() && (number % 3 != 0 || half != number % 2) {
                continue;
            }
            let turn = cases.len();
            let lengths = (KEYS[turn % KEYS.len()], VALUES[turn % VALUES.len()]);
            cases.push(Case {
                geometry,
                layout,
                key_len: lengths.0,
                in_cells: false,
                value_len: lengths.1,
                told: false,
            });
        }
    }
    // The default geometry with each layout: the kinds that people use are told.
    for layout in [Layout::Packed, Layout::InPlace] {
        for (key_len, value_len) in
            [(8, 8), (8, 16), (8, 128), (20, 8), (20, 128), (32, 16), (32, 128), (128, 8), (128, 128)]
        {
            let told = matches!((layout, key_len, value_len), (_, 8, 8 | 128) | (Layout::Packed, 32, 128));
            // The longest keys take most registers.
            if !told && key_len < 128 && !explores_fully() {
                continue;
            }
            let (geometry, in_cells) = (Geometry::default(), false);
            cases.push(Case { geometry, layout, key_len, in_cells, value_len, told });
        }
    }
    // Cells of one word, of four, and the largest.
    for (key_len, value_len) in [(7, 128), (24, 128), (63, 16)] {
        let (geometry, layout, told) = (Geometry::default(), Layout::Packed, key_len == 24);
        cases.push(Case { geometry, layout, key_len, in_cells: true, value_len, told });
    }
    cases
}

/// Compiles one; gives lines to tell.
fn compiled(case: &Case) -> Vec<String> {
    let key = match (case.key_len, case.in_cells) {
        (max, true) => KeySpec::variable(max).unwrap(),
        (8, false) => KeySpec::U64,
        (len, false) => KeySpec::fixed(len).unwrap(),
    };
    let value = ValueSpec::fixed(case.value_len).unwrap();
    let programs = programs_for(case.geometry, case.layout, key, value).expect("its lengths are fixed");
    // What has not changed since the last time need not be compiled again.
    let cache = KernelCache::at(concat!(env!("CARGO_TARGET_TMPDIR"), "/gphash-kernels"));
    let mut resources = BTreeMap::new();
    for program in &programs {
        let compiled =
            compile_with(&cache, HOPPER, program).unwrap_or_else(|error| panic!("{case:?}: {error}"));
        assert!(!compiled.log.contains("warning"), "{case:?}: {}", compiled.log);
        // A program has its kernels and no others.
        assert_eq!(
            compiled.resources.len(),
            program.kernels.len(),
            "{}: {:?}",
            program.name,
            compiled.resources
        );
        resources.extend(compiled.resources);
    }
    let mut lines = Vec::new();
    for (kernel, uses) in &resources {
        let kernel = kernel.as_str();
        assert!(!uses.spills() && uses.stack_bytes == 0, "{case:?}: {kernel}: {uses:?}");
        // More, and a multiprocessor has room for less than half of the warps that hide how far the image is. Those that have eight values
        // on their way in each lane need fewer warps.
        const WIDE: [&str; 5] =
            ["gphash_values_fill", "gphash_values_follow", "gphash_beat", "gphash_finish", "gphash_send"];
        // The first of these has two loops of them, and with 166 registers reads at 0.95 of what the link gives. Small batches leave registers
        // enough.
        const WIDEST: [&str; 2] = ["gphash_fetch", "gphash_few"];
        let most = if WIDEST.contains(&kernel) { 168 } else { 72 + 32 * u32::from(WIDE.contains(&kernel)) };
        // Of kernels that do nothing but look and store here and there in device memory, as many warps as there can be: with more than 40 registers
        // keys are located by five blocks of a multiprocessor and not six, and with more than 32 entries are not set by all that there could be.
        let most = match kernel {
            "gphash_locate" => 40,
            // Of buckets of several lines all are on their way.
            "gphash_decide" if case.geometry.slots() > 8 => 80,
            // One block of 512 threads on each of a few multiprocessors: it has all their registers.
            "gphash_send" => 128,
            "gphash_veil" | "gphash_settle" => 32 + 8 * u32::from(case.key_len > 8),
            _ => most,
        };
        assert!(uses.registers <= most, "{case:?}: {kernel}: {uses:?}");
        if case.told {
            let Case { geometry, layout, key_len, in_cells, value_len, .. } = case;
            let in_cells = if *in_cells { " in cells" } else { "" };
            lines.push(format!(
                "{kernel:15} {HOPPER} {geometry} {layout:8} key {key_len}{in_cells} value {value_len}: {} registers, {} bytes spilled, \
                 {} bytes local",
                uses.registers,
                uses.spill_store_bytes + uses.spill_load_bytes,
                uses.stack_bytes
            ));
        }
    }
    lines
}

#[test]
fn all_kinds_of_tables_compile_and_nothing_spills() {
    match compiler_version() {
        Ok(_) => {}
        Err(error @ DeviceError::NoNvrtc { .. }) => return tell(&format!("SKIPPED: no NVRTC ({error})")),
        Err(other) => panic!("{other}"),
    }
    let cases = cases();
    assert!(cases.len() >= if explores_fully() { 40 } else { 12 }, "{}", cases.len());
    let next = AtomicUsize::new(0);
    // Two at a time: what a small machine has cores for.
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
                    compiled(case).iter().for_each(|line| tell(line));
                }
            });
        }
    });
    tell(&format!("compiled the kernels of {} kinds of tables for {HOPPER}", cases.len()));
}

#[test]
fn the_papers_kernels_compile_and_nothing_spills() {
    if compiler_version().is_err() {
        return tell("SKIPPED: no NVRTC");
    }
    let cache = KernelCache::at(concat!(env!("CARGO_TARGET_TMPDIR"), "/gphash-kernels"));
    for (layout, key, value_len) in [
        (Layout::Packed, KeySpec::U64, 128),
        (Layout::InPlace, KeySpec::U64, 8),
        (Layout::InPlace, KeySpec::fixed(32).unwrap(), 128),
    ] {
        let value = ValueSpec::fixed(value_len).unwrap();
        let program = paper::program_for(Geometry::default(), layout, key, value).expect("fixed lengths");
        let compiled = compile_with(&cache, HOPPER, &program).unwrap();
        assert!(!compiled.log.contains("warning"), "{}", compiled.log);
        for kernel in ["gphash_paper_get", "gphash_paper_get_alone", "gphash_paper_fill", "gphash_paper_age"]
        {
            let uses = &compiled.resources[kernel];
            assert!(!uses.spills() && uses.stack_bytes == 0 && uses.registers <= 72, "{kernel}: {uses:?}");
        }
    }
    tell(&format!("compiled the paper's kernels for {HOPPER}"));
}

#[test]
fn tables_of_any_length_compile_and_nothing_spills() {
    if compiler_version().is_err() {
        return tell("SKIPPED: no NVRTC");
    }
    let (key, value) = (KeySpec::variable(250).unwrap(), ValueSpec::variable(1 << 20).unwrap());
    let programs = programs_for(Geometry::default(), Layout::Packed, key, value).expect("it is packed");
    let cache = KernelCache::at(concat!(env!("CARGO_TARGET_TMPDIR"), "/gphash-kernels"));
    let mut resources = BTreeMap::new();
    for program in &programs {
        let compiled = compile_with(&cache, HOPPER, program).unwrap();
        assert!(!compiled.log.contains("warning"), "{}", compiled.log);
        resources.extend(compiled.resources);
    }
    for kernel in ["gphash_measure", "gphash_copy"] {
        let uses = &resources[kernel];
        assert!(!uses.spills() && uses.stack_bytes == 0 && uses.registers <= 72, "{kernel}: {uses:?}");
        tell(&format!("{kernel} {HOPPER} keys and values of any length: {} registers", uses.registers));
    }
}

#[test]
#[cfg(no_simulator)]
fn kernels_are_not_run() {
    tell("SKIPPED: no simulator, so no kernel was run: install a C++17 compiler (g++ or clang++)");
}
