//! The kernels of every kind of table, compiled for a GPU, which needs no GPU.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};

use warpkeep_core::{KeySpec, ValueSpec};
use warpkeep_crashlab::explores_fully;
use warpkeep_device::{Arch, DeviceError, KernelCache, compile_with, compiler_version};
use warpkeep_gphash::gpu::{paper, programs_for};
use warpkeep_gphash::{Geometry, Layout};
use warpkeep_suites::device::report;

const HOPPER: Arch = Arch::new(9, 0);

/// A kind of table.
#[derive(Clone, Copy, Debug)]
struct Case {
    geometry: Geometry,
    layout: Layout,
    key_len: u32,
    /// Whether keys have any length up to `key_len`, in padded cells.
    in_cells: bool,
    value_len: u32,
    /// Whether the resources of its kernels are reported.
    is_reported: bool,
}

/// All valid geometries.
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
    // Each geometry with both layouts; or, by default, every third with one of them, because each takes seconds to
    // compile. Lengths rotate, so that each occurs with several geometries.
    for (number, &geometry) in geometries.iter().enumerate() {
        for (half, layout) in [Layout::Packed, Layout::InPlace].into_iter().enumerate() {
            if !explores_fully() && (number % 3 != 0 || half != number % 2) {
                continue;
            }
            let number = cases.len();
            let lengths = (KEYS[number % KEYS.len()], VALUES[number % VALUES.len()]);
            cases.push(Case {
                geometry,
                layout,
                key_len: lengths.0,
                in_cells: false,
                value_len: lengths.1,
                is_reported: false,
            });
        }
    }
    // The default geometry with each layout. The usual kinds are reported.
    for layout in [Layout::Packed, Layout::InPlace] {
        for (key_len, value_len) in
            [(8, 8), (8, 16), (8, 128), (20, 8), (20, 128), (32, 16), (32, 128), (128, 8), (128, 128)]
        {
            let is_reported =
                matches!((layout, key_len, value_len), (_, 8, 8 | 128) | (Layout::Packed, 32, 128));
            // The longest keys take the most registers.
            if !is_reported && key_len < 128 && !explores_fully() {
                continue;
            }
            let (geometry, in_cells) = (Geometry::default(), false);
            cases.push(Case { geometry, layout, key_len, in_cells, value_len, is_reported });
        }
    }
    // Padded cells of one word, of four, and of the most.
    for (key_len, value_len) in [(7, 128), (24, 128), (63, 16)] {
        let (geometry, layout, is_reported) = (Geometry::default(), Layout::Packed, key_len == 24);
        cases.push(Case { geometry, layout, key_len, in_cells: true, value_len, is_reported });
    }
    cases
}

/// Compiles the kernels of a kind of table; returns the lines to report.
fn compile(case: &Case) -> Vec<String> {
    let key = match (case.key_len, case.in_cells) {
        (max, true) => KeySpec::variable(max).unwrap(),
        (8, false) => KeySpec::U64,
        (len, false) => KeySpec::fixed(len).unwrap(),
    };
    let value = ValueSpec::fixed(case.value_len).unwrap();
    let programs = programs_for(case.geometry, case.layout, key, value).expect("its lengths are fixed");
    // Kernels that have not changed since the last run need not be compiled again.
    let cache = KernelCache::at(concat!(env!("CARGO_TARGET_TMPDIR"), "/gphash-kernels"));
    let mut resources = BTreeMap::new();
    for program in &programs {
        let compiled =
            compile_with(&cache, HOPPER, program).unwrap_or_else(|error| panic!("{case:?}: {error}"));
        assert!(!compiled.log.contains("warning"), "{case:?}: {}", compiled.log);
        // A program has the kernels that it declares and no others.
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
        // With more than 72 registers an SM holds less than half of the warps that hide the latency of the link.
        // Kernels that have eight values in flight in each lane need fewer warps.
        const WIDE: [&str; 5] = [
            "gphash_values_fill",
            "gphash_values_redirect",
            "gphash_step",
            "gphash_write_whole",
            "gphash_send",
        ];
        // `fetch` has two such loops, and with 166 registers reads at 0.95 of the link's bandwidth. The batches of
        // `get_small` do not fill the SMs.
        const WIDEST: [&str; 2] = ["gphash_fetch", "gphash_get_small"];
        let most = if WIDEST.contains(&kernel) { 168 } else { 72 + 32 * u32::from(WIDE.contains(&kernel)) };
        // Kernels of random accesses to device memory need the most warps: with more than 40 registers an SM holds five
        // blocks of `locate` instead of six, and with more than 32 not all warps of the kernels that change entries.
        let most = match kernel {
            "gphash_locate" => 40,
            // All lines of a bucket are loaded at once.
            "gphash_decide" if case.geometry.slots() > 8 => 80,
            // One block of 512 threads on each of a few SMs can use all of their registers.
            "gphash_send" => 128,
            "gphash_mark_busy" | "gphash_set_entries" => 32 + 8 * u32::from(case.key_len > 8),
            _ => most,
        };
        assert!(uses.registers <= most, "{case:?}: {kernel}: {uses:?}");
        if case.is_reported {
            let Case { geometry, layout, key_len, in_cells, value_len, .. } = case;
            let in_cells = if *in_cells { " in cells" } else { "" };
            lines.push(format!(
                "{kernel:24} {HOPPER} {geometry} {layout:8} key {key_len}{in_cells} value {value_len}: {} registers, {} bytes spilled, \
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
fn every_kind_of_table_compiles_without_spills() {
    match compiler_version() {
        Ok(_) => {}
        Err(error @ DeviceError::NoNvrtc { .. }) => return report(&format!("SKIPPED: no NVRTC ({error})")),
        Err(other) => panic!("{other}"),
    }
    let cases = cases();
    assert!(cases.len() >= if explores_fully() { 40 } else { 12 }, "{}", cases.len());
    let next = AtomicUsize::new(0);
    // Two at a time: a small machine has two cores.
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
                    compile(case).iter().for_each(|line| report(line));
                }
            });
        }
    });
    report(&format!("compiled the kernels of {} kinds of tables for {HOPPER}", cases.len()));
}

#[test]
fn the_papers_kernels_compile_without_spills() {
    if compiler_version().is_err() {
        return report("SKIPPED: no NVRTC");
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
    report(&format!("compiled the paper's kernels for {HOPPER}"));
}

#[test]
fn tables_of_any_length_compile_without_spills() {
    if compiler_version().is_err() {
        return report("SKIPPED: no NVRTC");
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
        report(&format!("{kernel} {HOPPER} keys and values of any length: {} registers", uses.registers));
    }
}

#[test]
#[cfg(no_simulator)]
fn kernels_are_not_run() {
    report("SKIPPED: no simulator, so no kernel was run: install a C++17 compiler (g++ or clang++)");
}
