//! The simulator as a device: its memory is the host's, and everything is done at once.

use std::alloc::{self, Layout};
use std::collections::HashMap;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::address_space;
use crate::backend::{Backend, Function, RawEvent, RawModule, RawStream, Reach, Reserved};
use crate::choice::DeviceChoice;
use crate::compile::{KernelCache, Resources};
use crate::error::{DeviceError, Result};
use crate::health::Health;
use crate::info::{Abilities, DeviceInfo};
use crate::pointer::DevicePtr;
use crate::program::{Agreement, Program};
use crate::registered::{MemoryKind, RegisterOptions};
use crate::sim::{Contents, Grid, Memory, Mode, RunReport, SimError, Simulator};

/// What drivers align device memory to.
const ALIGNMENT: usize = 256;
/// What device memory holds before it is written: something that looks wrong.
const UNWRITTEN: u8 = 0xA5;
/// What addresses that were reserved are backed in multiples of: small, so that tests grow often.
const GRANULE: u64 = 64 << 10;
/// The same on every machine; few, so that a test has something for each.
const MULTIPROCESSORS: u32 = 4;
/// As many threads as a GPU's block has.
const THREADS_PER_BLOCK: u32 = 1024;
/// As much shared memory as the largest GPUs give a block.
const SHARED_BYTES_PER_BLOCK: u32 = 227 << 10;

/// What the simulator can do here.
pub(crate) fn info() -> DeviceInfo {
    let unavailable = Simulator::new(Mode::default()).err().map(|cause| {
        let no_simulator = DeviceError::NoSimulator { cause };
        no_simulator.to_string()
    });
    DeviceInfo {
        choice: DeviceChoice::Sim,
        name: "a simulator of a GPU, for tests".to_owned(),
        unavailable,
        abilities: Abilities {
            multiprocessors: MULTIPROCESSORS,
            threads_per_block: THREADS_PER_BLOCK,
            shared_bytes_per_block: SHARED_BYTES_PER_BLOCK,
            registers_host_memory: true,
            host_atomics: true,
            ..Abilities::default()
        },
    }
}

/// A simulator, opened as a device.
#[derive(Debug)]
pub(crate) struct Machine {
    simulator: Simulator,
    health: Health,
    /// Copies and launches one at a time: a GPU's copies may run beside its kernels, the host's must not.
    turn: Mutex<()>,
    handles: AtomicU64,
    started: Instant,
    /// When each event was recorded, if it was.
    events: Mutex<HashMap<u64, Option<Duration>>>,
    last_run: Mutex<Option<RunReport>>,
}

impl Machine {
    pub(crate) fn new(mode: Mode) -> Result<Self> {
        Ok(Self {
            simulator: Simulator::new(mode).map_err(|cause| DeviceError::NoSimulator { cause })?,
            health: Health::default(),
            turn: Mutex::new(()),
            handles: AtomicU64::new(1),
            started: Instant::now(),
            events: Mutex::new(HashMap::new()),
            last_run: Mutex::new(None),
        })
    }

    fn turn(&self) -> Result<MutexGuard<'_, ()>> {
        self.health.check()?;
        Ok(self.turn.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn handle(&self) -> u64 {
        self.handles.fetch_add(1, Ordering::Relaxed)
    }

    /// Tells the simulator of memory that was allocated just now.
    fn announce(&self, at: NonNull<u8>, bytes: usize, kind: Memory, contents: Contents) -> Result<DevicePtr> {
        let address = address_of(at);
        match self.simulator.register(address, bytes as u64, kind, contents) {
            Ok(_) => Ok(DevicePtr::new(address)),
            Err(cause) => {
                free_host_memory(at, bytes);
                Err(DeviceError::OutOfHostMemory { asked: bytes as u64, cause: cause.to_string() })
            }
        }
    }

    fn retire(&self, at: NonNull<u8>, bytes: usize) {
        // No launch may be running while memory goes.
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = self.simulator.unregister(address_of(at));
        free_host_memory(at, bytes);
    }

    fn note_written(&self, at: DevicePtr, bytes: usize) {
        // Memory that callers reach by address and never registered is unknown to the simulator, and no concern of its.
        let _ = self.simulator.note_written(at.address(), bytes as u64);
    }

    fn failure(&self, kernel: &'static str, cause: SimError) -> DeviceError {
        match cause {
            // A kernel that fails takes a GPU with it, so it does the same here.
            SimError::Kernel(_) => self.health.lose("launch", cause.to_string()),
            SimError::OutOfMemory { .. } => {
                DeviceError::OutOfHostMemory { asked: 0, cause: cause.to_string() }
            }
            other => DeviceError::BadGrid { kernel: kernel.to_owned(), what: other.to_string() },
        }
    }

    fn events(&self) -> MutexGuard<'_, HashMap<u64, Option<Duration>>> {
        self.events.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn address_of(at: NonNull<u8>) -> u64 {
    at.addr().get() as u64
}

fn layout(bytes: usize) -> Option<Layout> {
    Layout::from_size_align(bytes, ALIGNMENT).ok()
}

fn host_memory(bytes: usize, byte: u8) -> Result<NonNull<u8>> {
    let short = || DeviceError::OutOfHostMemory {
        asked: bytes as u64,
        cause: "the system gave no memory to simulate a device's with".to_owned(),
    };
    let layout = layout(bytes).ok_or_else(short)?;
    // SAFETY: backends are asked for one byte at least.
    let at = NonNull::new(unsafe { alloc::alloc(layout) }).ok_or_else(short)?;
    // SAFETY: the memory was allocated just now with this length.
    unsafe { at.write_bytes(byte, bytes) };
    Ok(at)
}

fn free_host_memory(at: NonNull<u8>, bytes: usize) {
    if let Some(layout) = layout(bytes) {
        // SAFETY: made by `host_memory` with this length, and freed once.
        unsafe { alloc::dealloc(at.as_ptr(), layout) };
    }
}

impl Backend for Machine {
    fn health(&self) -> &Health {
        &self.health
    }

    fn memory(&self) -> Result<(u64, u64)> {
        // The host's memory is all there is, and others use it too: there is no number to give.
        Ok((u64::MAX, u64::MAX))
    }

    fn allocate(&self, bytes: u64) -> Result<DevicePtr> {
        let _turn = self.turn()?;
        let bytes = bytes as usize;
        let at = host_memory(bytes, UNWRITTEN)?;
        self.announce(at, bytes, Memory::Device, Contents::Unwritten)
    }

    fn free(&self, at: DevicePtr, bytes: u64) {
        if let Some(at) = NonNull::new(at.address() as *mut u8) {
            self.retire(at, bytes as usize);
        }
    }

    fn reserve(&self, bytes: u64) -> Result<Reserved> {
        self.health.check()?;
        let bytes = bytes.checked_next_multiple_of(GRANULE).unwrap_or(bytes);
        Ok(Reserved { at: address_space::reserve(bytes)?, bytes, granule: GRANULE })
    }

    fn back(&self, at: DevicePtr, bytes: u64) -> Result<()> {
        let _turn = self.turn()?;
        address_space::back(at, bytes, UNWRITTEN)?;
        let registered = self.simulator.register(at.address(), bytes, Memory::Device, Contents::Unwritten);
        registered
            .map(|_| ())
            .map_err(|cause| DeviceError::OutOfHostMemory { asked: bytes, cause: cause.to_string() })
    }

    fn release(&self, reserved: &Reserved, backed: u64) {
        // No launch may be running while memory goes.
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        for offset in (0..backed).step_by(GRANULE as usize) {
            // Every piece began at a multiple of the granule; where none did there is nothing to unregister.
            let _ = self.simulator.unregister(reserved.at.offset(offset).address());
        }
        address_space::release(reserved.at, reserved.bytes);
    }

    fn pin(&self, bytes: usize) -> Result<(NonNull<u8>, DevicePtr)> {
        let _turn = self.turn()?;
        let at = host_memory(bytes, 0)?;
        Ok((at, self.announce(at, bytes, Memory::Host, Contents::Written)?))
    }

    fn unpin(&self, at: NonNull<u8>, bytes: usize) {
        self.retire(at, bytes);
    }

    unsafe fn register(&self, at: NonNull<u8>, bytes: usize, options: &RegisterOptions) -> Result<Reach> {
        let _turn = self.turn()?;
        let kind = match options.kind {
            MemoryKind::Host => Memory::Host,
            MemoryKind::Image => Memory::Image,
        };
        let address = address_of(at);
        match self.simulator.register(address, bytes as u64, kind, Contents::Written) {
            Ok(region) => Ok(Reach { device_ptr: DevicePtr::new(address), region: Some(region) }),
            Err(cause) => Err(DeviceError::CannotRegister {
                len: bytes as u64,
                cause: cause.to_string(),
                advice: "drop the registration or the buffer that it overlaps first",
            }),
        }
    }

    fn unregister(&self, at: NonNull<u8>, _bytes: usize, _options: &RegisterOptions) {
        // It was registered, so it is known; and if not, then it is not there to be reached.
        let _ = self.simulator.unregister(address_of(at));
    }

    fn own_stream(&self) -> RawStream {
        RawStream(0)
    }

    fn new_stream(&self) -> Result<RawStream> {
        self.health.check()?;
        Ok(RawStream(self.handle()))
    }

    fn destroy_stream(&self, _stream: RawStream) {}

    fn synchronize(&self, stream: RawStream) -> Result<()> {
        self.health.check()?;
        self.health.ended_well(stream);
        Ok(())
    }

    fn is_done(&self, stream: RawStream) -> Result<bool> {
        self.synchronize(stream).map(|()| true)
    }

    fn new_event(&self) -> Result<RawEvent> {
        self.health.check()?;
        let event = self.handle();
        self.events().insert(event, None);
        Ok(RawEvent(event))
    }

    fn destroy_event(&self, event: RawEvent) {
        self.events().remove(&event.0);
    }

    fn record(&self, event: RawEvent, _stream: RawStream) -> Result<()> {
        self.health.check()?;
        self.events().insert(event.0, Some(self.started.elapsed()));
        Ok(())
    }

    fn wait_here(&self, _event: RawEvent) -> Result<()> {
        self.health.check()
    }

    fn is_over(&self, _event: RawEvent) -> Result<bool> {
        // What was recorded was done already.
        self.health.check().map(|()| true)
    }

    fn wait(&self, _stream: RawStream, _event: RawEvent) -> Result<()> {
        // What was recorded was done already.
        self.health.check()
    }

    fn elapsed(&self, from: RawEvent, to: RawEvent) -> Result<Duration> {
        self.health.check()?;
        let events = self.events();
        let at = |event: RawEvent| events.get(&event.0).copied().flatten().ok_or(DeviceError::NotRecorded);
        Ok(at(to)?.saturating_sub(at(from)?))
    }

    unsafe fn copy_in(&self, to: DevicePtr, from: *const u8, bytes: usize, _stream: RawStream) -> Result<()> {
        let _turn = self.turn()?;
        // SAFETY: a simulated device's addresses are the host's; both ranges are the caller's promise.
        unsafe { std::ptr::copy_nonoverlapping(from, to.address() as *mut u8, bytes) };
        self.note_written(to, bytes);
        Ok(())
    }

    unsafe fn copy_out(&self, to: *mut u8, from: DevicePtr, bytes: usize, _stream: RawStream) -> Result<()> {
        let _turn = self.turn()?;
        // SAFETY: as `copy_in`.
        unsafe { std::ptr::copy_nonoverlapping(from.address() as *const u8, to, bytes) };
        Ok(())
    }

    unsafe fn copy(&self, to: DevicePtr, from: DevicePtr, bytes: usize, _stream: RawStream) -> Result<()> {
        let _turn = self.turn()?;
        // SAFETY: as `copy_in`.
        unsafe { std::ptr::copy_nonoverlapping(from.address() as *const u8, to.address() as *mut u8, bytes) };
        self.note_written(to, bytes);
        Ok(())
    }

    unsafe fn fill(&self, at: DevicePtr, byte: u8, bytes: usize, _stream: RawStream) -> Result<()> {
        let _turn = self.turn()?;
        // SAFETY: as `copy_in`.
        unsafe { std::ptr::write_bytes(at.address() as *mut u8, byte, bytes) };
        self.note_written(at, bytes);
        Ok(())
    }

    fn load(&self, program: &Program, _cache: &KernelCache) -> Result<(RawModule, Vec<Function>)> {
        self.health.check()?;
        let functions = program.kernels.iter().map(|entry| {
            let (kernel, given) = (entry.name, entry.params_bytes);
            let simulated =
                entry.simulated.ok_or(DeviceError::NotSimulated { program: program.name, kernel })?;
            // SAFETY: it is a function of the kernels' build that returns a constant.
            let expected = unsafe { (simulated.params_bytes)() } as usize;
            if given != expected {
                return Err(DeviceError::WrongParams { kernel: kernel.to_owned(), given, expected });
            }
            Ok(Function { entry: *entry, raw: 0, resources: Resources::default() })
        });
        let functions = functions.collect::<Result<Vec<_>>>()?;
        for &Agreement { name, host, simulated } in program.agreements {
            // SAFETY: as above.
            let kernels = simulated.map(|stated| unsafe { stated() });
            if kernels != Some(host) {
                return Err(DeviceError::Disagreement { program: program.name, name, host, kernels });
            }
        }
        Ok((RawModule(0), functions))
    }

    fn unload(&self, _module: RawModule) {}

    fn resident_blocks(&self, _function: &Function, _threads: u32, _shared_bytes: u32) -> Result<u32> {
        self.health.check()?;
        Ok(crate::info::cores())
    }

    unsafe fn launch(&self, function: &Function, grid: Grid, params: &[u8], stream: RawStream) -> Result<()> {
        let _turn = self.turn()?;
        let name = function.entry.name;
        let simulated =
            function.entry.simulated.ok_or(DeviceError::NotSimulated { program: "program", kernel: name })?;
        self.health.launched(stream, name);
        // SAFETY: the parameters are the caller's promise.
        let run = unsafe { self.simulator.launch(name, simulated.entry, grid, params) };
        let report = run.map_err(|cause| self.failure(name, cause))?;
        if !report.crashed {
            self.health.ended_well(stream);
        }
        let crashed = report.crashed.then_some(report.now);
        *self.last_run.lock().unwrap_or_else(PoisonError::into_inner) = Some(report);
        match crashed {
            None => Ok(()),
            Some(step) => {
                Err(self.health.lose("launch", format!("the power went at step {step}, as was asked for")))
            }
        }
    }

    fn simulator(&self) -> Option<&Simulator> {
        Some(&self.simulator)
    }

    fn last_run(&self) -> Option<RunReport> {
        self.last_run.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
