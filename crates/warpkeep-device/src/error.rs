//! What can go wrong where kernels run.

use crate::choice::DeviceChoice;
use crate::sim::SimError;

/// What this crate's functions return.
pub type Result<T, E = DeviceError> = std::result::Result<T, E>;

/// Why something could not be done on a device. Every message ends with what to do next.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum DeviceError {
    /// The CPU was asked for as a device.
    #[error("cpu is not a device; ask for it where a table is opened")]
    CpuIsNoDevice,
    /// The name of a device could not be read.
    #[error("no device is called {given:?}; here are {available}")]
    UnknownChoice {
        /// What was given.
        given: String,
        /// What could have been given, for people.
        available: String,
    },
    /// CUDA cannot be used here.
    #[error("{choice} cannot be used: {reason}")]
    NoCuda {
        /// What was asked for.
        choice: DeviceChoice,
        /// Why not.
        reason: NoCuda,
    },
    /// The simulator could not be made.
    #[error("the simulator cannot be used: {cause}; use cpu, or a CUDA device")]
    NoSimulator {
        /// What the simulator said.
        cause: SimError,
    },
    /// An allocation would go beyond the budget of this handle.
    #[error(
        "{asked} bytes of device memory were asked for and {left} are left of the budget; \
         free buffers, or open the device with a larger budget"
    )]
    OutOfBudget {
        /// Bytes asked for.
        asked: u64,
        /// Bytes left.
        left: u64,
    },
    /// The device has no memory left.
    #[error(
        "{asked} bytes of device memory were asked for and {free} of {total} are free; \
         free buffers, set a smaller budget, or use a device with more memory"
    )]
    OutOfMemory {
        /// Bytes asked for.
        asked: u64,
        /// Bytes free, as the driver counts them. Free memory can be in pieces too small.
        free: u64,
        /// Bytes the device has.
        total: u64,
    },
    /// The host has no memory left that could be pinned or used as simulated device memory.
    #[error(
        "{asked} bytes of host memory could not be had: {cause}; ask for less, or raise the limit on locked memory"
    )]
    OutOfHostMemory {
        /// Bytes asked for.
        asked: u64,
        /// What the system said.
        cause: String,
    },
    /// A growing buffer has no addresses left to grow into.
    #[error(
        "{asked} bytes are more than the {reserved} that addresses were reserved for; reserve more at first"
    )]
    OutOfAddresses {
        /// Bytes asked for.
        asked: u64,
        /// Bytes reserved.
        reserved: u64,
    },
    /// A range does not lie inside its buffer.
    #[error(
        "{what}: {len} bytes from offset {offset} do not lie in a buffer of {size} bytes; give a range inside it"
    )]
    OutOfBounds {
        /// The call.
        what: &'static str,
        /// Where the range begins.
        offset: u64,
        /// How long it is.
        len: u64,
        /// How long the buffer is.
        size: u64,
    },
    /// A buffer does not hold a whole number of elements, or does not begin at a multiple of their alignment.
    #[error(
        "a buffer of {size} bytes cannot be viewed as elements of {element} bytes; allocate a multiple of that"
    )]
    NotWholeElements {
        /// Bytes of the buffer.
        size: u64,
        /// Bytes of one element.
        element: u64,
    },
    /// A stream, event, buffer or module was used with another device than its own.
    #[error("{what} belongs to {theirs} and was used on {ours}; use it on the device that made it")]
    OtherDevice {
        /// What was used.
        what: &'static str,
        /// Where it belongs.
        theirs: DeviceChoice,
        /// Where it was used.
        ours: DeviceChoice,
    },
    /// An event was asked for a time and was not recorded, or not yet.
    #[error("the event was never recorded; record it on a stream before asking when it was")]
    NotRecorded,
    /// A call of the driver failed, and the device is still good.
    #[error("{call} failed: {code}, {text}; {advice}")]
    Call {
        /// The call.
        call: &'static str,
        /// The driver's code.
        code: String,
        /// The driver's words.
        text: String,
        /// What to do next.
        advice: &'static str,
    },
    /// The device is lost to this process: every further call will fail. Host memory is good, device memory is not.
    #[error(
        "the device is lost: {cause}, seen in {call} after {kernel}; what was in device memory is gone, \
         so go on with cpu, or open the store again in a new process"
    )]
    Lost {
        /// The kernels that could have done it: those launched and not yet known to have ended well.
        kernel: String,
        /// The call in which it was seen. Kernels run behind the program, so that can be a later one.
        call: &'static str,
        /// What the driver or the simulator said.
        cause: String,
    },
    /// A program has no such kernel.
    #[error("{program} has no kernel {kernel}; it has {known}")]
    UnknownKernel {
        /// The program.
        program: &'static str,
        /// What was asked for.
        kernel: String,
        /// What is there, for people.
        known: String,
    },
    /// The kernel was built without its entry for the simulator.
    #[error(
        "{program}: {kernel} has no entry for the simulator; build it with a C++ compiler, or use a CUDA device"
    )]
    NotSimulated {
        /// The program.
        program: &'static str,
        /// The kernel.
        kernel: &'static str,
    },
    /// Parameters do not fit a launch.
    #[error(
        "{kernel}: parameters of {bytes} bytes; a launch takes at most {most}: put the rest in a buffer and pass its address"
    )]
    ParamsTooLarge {
        /// The kernel.
        kernel: String,
        /// Bytes given.
        bytes: usize,
        /// Bytes allowed.
        most: usize,
    },
    /// Parameters have another size than the kernel's.
    #[error(
        "{kernel}: parameters of {given} bytes were given and {expected} are expected; \
         make the Rust struct and the kernel's agree, field by field"
    )]
    WrongParams {
        /// The kernel.
        kernel: String,
        /// Bytes given.
        given: usize,
        /// Bytes the kernel takes.
        expected: usize,
    },
    /// Host and kernels have different values for a number that both must have the same.
    #[error(
        "{program}: {name} is {host} on the host and {} in the kernels; make the declaration of the kernel set and \
         WK_AGREE({name}, ...) in the kernels' source agree",
        kernels.map_or_else(|| "not stated".to_owned(), |value| value.to_string())
    )]
    Disagreement {
        /// The program.
        program: &'static str,
        /// The name of the number.
        name: &'static str,
        /// The host's value.
        host: u64,
        /// The kernels' value, if they state one.
        kernels: Option<u64>,
    },
    /// A launch of a shape that the device does not have.
    #[error("{kernel}: {what}; choose another grid")]
    BadGrid {
        /// The kernel.
        kernel: String,
        /// What is wrong with it.
        what: String,
    },
    /// Kernels cannot be compiled: the compiler library is missing.
    #[error(
        "NVRTC, which compiles kernels, was not found ({looked}); install the CUDA toolkit, run scripts/nvrtc, \
         or set WARPKEEP_NVRTC_DIR to the folder that has libnvrtc.so"
    )]
    NoNvrtc {
        /// Where it was looked for.
        looked: String,
    },
    /// Kernels did not compile.
    #[error("{program} did not compile for {arch}; correct the source, or report it with this log:\n{log}")]
    Compile {
        /// The program.
        program: &'static str,
        /// What it was compiled for.
        arch: String,
        /// The compiler's log.
        log: String,
    },
    /// The name of an architecture could not be read.
    #[error("{given:?} is no GPU architecture; write it as sm_90")]
    UnknownArch {
        /// What was given.
        given: String,
    },
    /// Host memory could not be made visible to the device.
    #[error("{len} bytes of host memory cannot be registered: {cause}; {advice}")]
    CannotRegister {
        /// Bytes to register.
        len: u64,
        /// What the driver said.
        cause: String,
        /// What to do next.
        advice: &'static str,
    },
}

impl DeviceError {
    /// Whether the device is gone for this process, so that no other call on it can succeed.
    pub fn is_lost(&self) -> bool {
        matches!(self, Self::Lost { .. })
    }

    /// Whether memory was short: freeing some, or asking for less, may help.
    pub fn is_out_of_memory(&self) -> bool {
        matches!(self, Self::OutOfBudget { .. } | Self::OutOfMemory { .. } | Self::OutOfHostMemory { .. })
    }
}

/// Why CUDA cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NoCuda {
    /// This program was built without it.
    #[error("this program was built without the feature gpu; build it with that feature, or use cpu")]
    BuiltWithout,
    /// There is no driver.
    #[error("there is no CUDA driver (libcuda.so.1); install NVIDIA's driver, or use cpu or sim")]
    NoDriver,
    /// The driver is older than what is called here.
    #[error(
        "the driver is for CUDA {found} and {needed} is needed; update NVIDIA's driver, or use cpu or sim"
    )]
    DriverTooOld {
        /// The CUDA version the driver is for.
        found: CudaVersion,
        /// The oldest that will do.
        needed: CudaVersion,
    },
    /// There is a driver and no GPU.
    #[error(
        "there is a driver and it sees no GPU; look at nvidia-smi and CUDA_VISIBLE_DEVICES, or use cpu or sim"
    )]
    NoGpu,
    /// There are GPUs and not that one.
    #[error("{count} GPUs are here, numbered from 0; choose one of them")]
    NoSuchGpu {
        /// How many there are.
        count: u32,
    },
    /// The driver said no.
    #[error("{call} failed: {code}, {text}; look at nvidia-smi, or use cpu or sim")]
    Refused {
        /// The call.
        call: &'static str,
        /// The driver's code.
        code: String,
        /// The driver's words.
        text: String,
    },
}

/// A version of CUDA, as drivers and compilers state theirs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CudaVersion {
    /// Before the point.
    pub major: u32,
    /// After it.
    pub minor: u32,
}

impl std::fmt::Display for CudaVersion {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}
