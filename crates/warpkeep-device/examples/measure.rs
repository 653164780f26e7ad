//! What the calls of a device cost, as CSV: `measure [sim|cuda:N] [MiB]`.

use std::error::Error;
use std::time::{Duration, Instant};

use warpkeep_device::{
    Buffer, Device, DeviceChoice, Grid, KernelCache, KernelEntry, Program, RegisterOptions, compile_with,
};

const ROUNDS: u32 = 10;
const LAUNCHES: u32 = 10_000;

const KERNELS: &[KernelEntry] = &[KernelEntry { name: "nothing", params_bytes: 8, simulated: None }];

fn program() -> Program {
    Program {
        name: "measure",
        main: "measure.cu",
        sources: &[(
            "measure.cu",
            "#include \"warpkeep/simt.h\"\nstruct Params { wk::u64 unused; };\nWK_KERNEL(nothing, Params) {}\n",
        )],
        defines: vec![],
        kernels: KERNELS,
        agreements: &[],
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let choice: DeviceChoice = arguments.next().as_deref().unwrap_or("cuda:0").parse()?;
    let bytes = arguments.next().as_deref().unwrap_or("1024").parse::<usize>()? << 20;
    let device = Device::open(choice)?;
    eprintln!("{}", device.info());

    println!("what,bytes,value,unit");
    memory(&device, bytes)?;
    copies(&device, bytes)?;
    if device.simulator().is_none() {
        code(&device)?;
        launches(&device)?;
    }
    Ok(())
}

fn row(what: &str, bytes: usize, value: f64, unit: &str) {
    println!("{what},{bytes},{value:.3},{unit}");
}

/// The shortest of some rounds: the others were disturbed.
fn best(mut round: impl FnMut() -> warpkeep_device::Result<()>) -> warpkeep_device::Result<Duration> {
    let mut shortest = Duration::MAX;
    for _ in 0..ROUNDS {
        let began = Instant::now();
        round()?;
        shortest = shortest.min(began.elapsed());
    }
    Ok(shortest)
}

fn memory(device: &Device, bytes: usize) -> warpkeep_device::Result<()> {
    let took = best(|| device.allocate(bytes).map(drop))?;
    row("allocate and free", bytes, took.as_secs_f64() * 1e6, "us");
    let began = Instant::now();
    let pinned = device.pin(bytes)?;
    row("pin", bytes, began.elapsed().as_secs_f64() * 1e3, "ms");
    drop(pinned);
    let mut pages = vec![1u8; bytes + 4096];
    let offset = pages.as_ptr().align_offset(4096);
    let at = std::ptr::NonNull::from(&mut pages[offset]);
    let took = best(|| {
        // SAFETY: the vector outlives the registration, and no other code reads it at it meanwhile.
        unsafe { device.register(at, bytes, RegisterOptions::HOST) }.map(drop)
    })?;
    row("register and unregister", bytes, took.as_secs_f64() * 1e3, "ms");
    Ok(())
}

fn copies(device: &Device, bytes: usize) -> warpkeep_device::Result<()> {
    let rate = |what: &str, took: Duration| row(what, bytes, bytes as f64 / took.as_secs_f64() / 1e9, "GB/s");
    let stream = device.stream()?;
    let (buffer, other): (Buffer, Buffer) = (device.allocate_zeroed(bytes)?, device.allocate_zeroed(bytes)?);
    let mut pinned = device.pin(bytes)?;
    let mut plain = vec![1u8; bytes];
    rate("write from pinned memory", best(|| buffer.write_on(0, pinned.as_slice(), &stream))?);
    rate("read into pinned memory", best(|| buffer.read_on(0, pinned.as_mut_slice(), &stream))?);
    rate("write from plain memory", best(|| buffer.write_on(0, &plain, &stream))?);
    rate("read into plain memory", best(|| buffer.read_on(0, &mut plain, &stream))?);
    rate("copy on the device", best(|| buffer.copy_from(0, &other, 0, bytes))?);
    rate("fill", best(|| buffer.fill(1))?);
    let word = best(|| buffer.write(0, &[1u64]))?;
    row("write and wait", 8, word.as_secs_f64() * 1e6, "us");
    let mut back = [0u64];
    let word = best(|| buffer.read(0, &mut back))?;
    row("read and wait", 8, word.as_secs_f64() * 1e6, "us");
    Ok(())
}

fn code(device: &Device) -> Result<(), Box<dyn Error>> {
    let arch = device.info().abilities.arch.ok_or("no architecture")?;
    let took = best(|| compile_with(&KernelCache::none(), arch, &program()).map(drop))?;
    row("compile the seam and nothing else", 0, took.as_secs_f64() * 1e3, "ms");
    let folder = std::env::temp_dir().join(format!("warpkeep-measure-{}", std::process::id()));
    let cache = KernelCache::at(&folder);
    device.load_with(&program(), &cache)?;
    let took = best(|| device.load_with(&program(), &cache).map(drop))?;
    row("load from the cache", 0, took.as_secs_f64() * 1e3, "ms");
    std::fs::remove_dir_all(folder)?;
    Ok(())
}

fn launches(device: &Device) -> warpkeep_device::Result<()> {
    let stream = device.stream()?;
    let nothing = device.load(&program())?.kernel("nothing")?;
    let grid = Grid { blocks: 1, threads: 32, shared_bytes: 0 };
    // SAFETY: the kernel does nothing.
    let launch = || unsafe { nothing.launch(grid, &0u64, &stream) };
    launch()?;
    stream.synchronize()?;
    let took = best(|| {
        launch()?;
        stream.synchronize()
    })?;
    row("launch and wait", 0, took.as_secs_f64() * 1e6, "us");
    let took = best(|| {
        for _ in 0..LAUNCHES {
            launch()?;
        }
        stream.synchronize()
    })?;
    row("launch after launch", 0, took.as_secs_f64() * 1e6 / f64::from(LAUNCHES), "us");
    let began = Instant::now();
    for _ in 0..LAUNCHES {
        launch()?;
    }
    row("the host's part of it", 0, began.elapsed().as_secs_f64() * 1e6 / f64::from(LAUNCHES), "us");
    stream.synchronize()
}
