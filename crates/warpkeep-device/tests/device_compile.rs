//! Kernels compiled for a GPU on a machine without one.

#[allow(dead_code, reason = "shared with the tests that run the kernels")]
mod device_body;

use std::fs;
use std::io::Write as _;
use std::sync::Once;

use device_body::runtime::RuntimeKernels;
use warpkeep_device::{
    Agreement, Arch, DeviceError, KernelCache, KernelEntry, KernelSet as _, Program, compile_with,
    compiler_version,
};

const HOPPER: Arch = Arch::new(9, 0);

/// Whether there is a compiler; if not, says so where CI sees it.
fn compiler_is_here() -> bool {
    match compiler_version() {
        Ok(_) => true,
        Err(error @ DeviceError::NoNvrtc { .. }) => {
            assert!(error.to_string().contains("scripts/nvrtc"), "{error}");
            static SAID: Once = Once::new();
            SAID.call_once(|| {
                writeln!(std::io::stdout().lock(), "SKIPPED: no NVRTC: run scripts/nvrtc").unwrap();
            });
            false
        }
        Err(other) => panic!("{other}"),
    }
}

/// A kernel through the seam, with a define that decides how much shared memory it uses.
fn doubling(width: &str) -> Program {
    Program {
        name: "doubling",
        main: "doubling.cu",
        sources: &[
            ("doubling.cu", "#include \"doubling.h\"\n"),
            (
                "doubling.h",
                r#"
                #include "warpkeep/simt.h"
                struct Params { wk::u64* values; wk::u64 count; };
                WK_KERNEL(doubling, Params) {
                    WK_SHARED(wk::u64, staged, WIDTH);
                    wk::u64 i = wk::global_index();
                    if (i < p.count) staged.store(i % WIDTH, wk::load(p.values + i));
                    wk::sync_block();
                    if (i < p.count) wk::store(p.values + i, 2 * staged.load((i + 1) % WIDTH));
                }
                "#,
            ),
        ],
        defines: vec![("WIDTH".to_owned(), width.to_owned())],
        kernels: &[KernelEntry { name: "doubling", params_bytes: 16, simulated: None }],
        agreements: &[],
    }
}

#[test]
fn the_whole_seam_compiles() {
    if !compiler_is_here() {
        return;
    }
    let every = Program {
        name: "every",
        main: "every.h",
        sources: &[("every.h", include_str!("kernels/every.h"))],
        defines: vec![("WK_CHECKED".to_owned(), "1".to_owned())],
        kernels: &[],
        agreements: &[],
    };
    let compiled =
        compile_with(&KernelCache::none(), HOPPER, &every).unwrap_or_else(|error| panic!("{error}"));
    assert!(!compiled.log.contains("warning"), "{}", compiled.log);
    assert_eq!(compiled.resources.len(), include_str!("kernels/every.h").matches("\nWK_KERNEL(").count());
    for (kernel, uses) in &compiled.resources {
        writeln!(std::io::stdout().lock(), "{kernel} for {HOPPER}: {uses:?}").unwrap();
        assert!(!uses.spills(), "{kernel}: {uses:?}");
        assert!((8..=255).contains(&uses.registers), "{kernel}: {uses:?}");
    }
}

#[test]
fn the_headers_of_the_runtime_compile() {
    if !compiler_is_here() {
        return;
    }
    let program = RuntimeKernels::program();
    let compiled =
        compile_with(&KernelCache::none(), HOPPER, &program).unwrap_or_else(|error| panic!("{error}"));
    assert!(!compiled.log.contains("warning"), "{}", compiled.log);
    assert_eq!(compiled.resources.len(), program.kernels.len());
    assert!(compiled.resources.values().all(|uses| !uses.spills()), "{:?}", compiled.resources);
}

#[test]
fn what_a_kernel_uses_is_told() {
    if !compiler_is_here() {
        return;
    }
    let compiled = compile_with(&KernelCache::none(), HOPPER, &doubling("64")).unwrap();
    let uses = compiled.resources["doubling"];
    assert_eq!(uses.shared_bytes, 64 * 8);
    assert_eq!(uses.barriers, 1);
    assert!(uses.registers > 0);
    assert_eq!(&compiled.cubin[..4], b"\x7fELF");
}

#[test]
fn the_cache_gives_the_same_code_and_a_damaged_entry_is_made_again() {
    if !compiler_is_here() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let cache = KernelCache::at(folder.path());
    let first = compile_with(&cache, HOPPER, &doubling("64")).unwrap();
    assert!(!first.cached);
    let second = compile_with(&cache, HOPPER, &doubling("64")).unwrap();
    assert!(second.cached);
    assert_eq!((&first.cubin, &first.log), (&second.cubin, &second.log));
    assert_eq!(first.resources, second.resources);

    let other = compile_with(&cache, HOPPER, &doubling("128")).unwrap();
    assert!(!other.cached, "another define is other code");
    assert_ne!(first.cubin, other.cubin);
    assert!(!compile_with(&cache, Arch::new(8, 0), &doubling("64")).is_ok_and(|compiled| compiled.cached));

    for entry in fs::read_dir(folder.path()).unwrap() {
        let path = entry.unwrap().path();
        let mut bytes = fs::read(&path).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 0x10;
        fs::write(&path, bytes).unwrap();
    }
    let again = compile_with(&cache, HOPPER, &doubling("64")).unwrap();
    assert!(!again.cached, "a damaged entry must not be used");
    assert_eq!(first.resources, again.resources);
    assert!(compile_with(&cache, HOPPER, &doubling("64")).unwrap().cached, "and is replaced");
}

#[test]
fn a_mistake_in_a_kernel_is_told_with_the_compilers_log() {
    if !compiler_is_here() {
        return;
    }
    let mut wrong = doubling("64");
    wrong.main = "wrong.cu";
    wrong.sources = &[("wrong.cu", "#include \"warpkeep/simt.h\"\nint oops = no_such_name;\n")];
    let error = compile_with(&KernelCache::none(), HOPPER, &wrong).unwrap_err();
    assert!(matches!(error, DeviceError::Compile { program: "doubling", .. }), "{error}");
    assert!(
        error.to_string().contains("wrong.cu(2)") && error.to_string().contains("no_such_name"),
        "{error}"
    );

    let mut missing = doubling("64");
    missing.kernels = &[KernelEntry { name: "tripling", params_bytes: 16, simulated: None }];
    let error = compile_with(&KernelCache::none(), HOPPER, &missing).unwrap_err();
    assert!(error.to_string().contains("tripling") && error.to_string().contains("doubling"), "{error}");

    let mut empty = doubling("64");
    empty.sources = &[];
    assert!(matches!(compile_with(&KernelCache::none(), HOPPER, &empty), Err(DeviceError::Compile { .. })));
    let future = Arch::new(99, 0);
    let error = compile_with(&KernelCache::none(), future, &doubling("64")).unwrap_err();
    assert!(error.to_string().contains("sm_990"), "{error}");
}

#[test]
fn what_host_and_kernels_must_agree_on_is_read_from_the_code() {
    if !compiler_is_here() {
        return;
    }
    let agree = |host, name| {
        let mut program = doubling("64");
        program.sources = &[(
            "doubling.cu",
            "#include \"warpkeep/simt.h\"\nstruct Params { wk::u64 a[2]; };\nWK_KERNEL(doubling, Params) {}\n\
             WK_AGREE(width, WIDTH)\nWK_AGREE(large, 0xfedcba9876543210ull)\n",
        )];
        program.agreements = vec![Agreement { name, host, simulated: None }].leak();
        compile_with(&KernelCache::none(), HOPPER, &program)
    };
    agree(64, "width").unwrap();
    agree(0xfedc_ba98_7654_3210, "large").unwrap();
    let error = agree(65, "width").unwrap_err();
    assert!(matches!(error, DeviceError::Disagreement { host: 65, kernels: Some(64), .. }), "{error}");
    let error = agree(64, "height").unwrap_err();
    assert!(matches!(error, DeviceError::Disagreement { kernels: None, .. }), "{error}");

    let mut longer = doubling("64");
    longer.kernels = &[KernelEntry { name: "doubling", params_bytes: 24, simulated: None }];
    let error = compile_with(&KernelCache::none(), HOPPER, &longer).unwrap_err();
    assert!(matches!(error, DeviceError::WrongParams { given: 24, expected: 16, .. }), "{error}");
}

#[test]
fn architectures_are_read_as_they_are_written() {
    assert_eq!("sm_90".parse::<Arch>().unwrap(), HOPPER);
    assert_eq!("sm_120".parse::<Arch>().unwrap().to_string(), "sm_120");
    for wrong in ["", "90", "sm_", "sm_9", "sm_9000", "sm_9x", "sm_+90", "compute_90"] {
        assert!(matches!(wrong.parse::<Arch>(), Err(DeviceError::UnknownArch { .. })), "{wrong}");
    }
}
