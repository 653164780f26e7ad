//! Kernel source, and how each machine enters it.

use std::ffi::c_void;

/// The most bytes a kernel takes as parameters.
pub const MAX_PARAMS_BYTES: usize = 4096;

/// How the simulator calls a kernel: the function that the seam header's `WK_KERNEL` makes under a C++ compiler. It is
/// given the address of the parameters.
pub type Entry = unsafe extern "C" fn(*const c_void);

/// A number that the simulator's build of the kernels states: the size of a parameter struct, or a constant.
pub type StatedNumber = unsafe extern "C" fn() -> u64;

/// A kernel as it was compiled for the simulator.
#[derive(Debug, Clone, Copy)]
pub struct SimulatedKernel {
    /// How it is called.
    pub entry: Entry,
    /// Bytes of the parameters that it takes.
    pub params_bytes: StatedNumber,
}

/// One kernel of a [`Program`]: its name in the source, the size of the one struct it takes, and its entry in the simulator.
/// Written by [`kernel_set!`](crate::kernel_set).
#[derive(Debug, Clone, Copy)]
pub struct KernelEntry {
    /// The kernel's name in the source.
    pub name: &'static str,
    /// Bytes of the parameters that the host passes.
    pub params_bytes: usize,
    /// How the simulator calls it; `None` if it was not built for the simulator.
    pub simulated: Option<SimulatedKernel>,
}

/// A number that host and kernels must have the same value for, such as the length of an array in a struct that both use.
/// The kernels state theirs with `WK_AGREE(name, value)`.
#[derive(Debug, Clone, Copy)]
pub struct Agreement {
    /// Its name in the kernels' source.
    pub name: &'static str,
    /// The host's value.
    pub host: u64,
    /// The simulator's build of the kernels has this value; `None` if there is no such build.
    pub simulated: Option<StatedNumber>,
}

/// The source of a set of kernels, for CUDA, together with the same kernels as the C++ compiler built them for the simulator.
///
/// Headers of this crate, such as `warpkeep/simt.h`, can be included without being listed.
///
/// ```
/// use warpkeep_device::Program;
///
/// let program = Program {
///     name: "nothing",
///     main: "nothing.cu",
///     sources: &[("nothing.cu", "#include \"warpkeep/simt.h\"\n")],
///     defines: vec![("WK_CHECKED".to_owned(), "1".to_owned())],
///     kernels: &[],
///     agreements: &[],
/// };
/// assert!(program.kernel("something").is_none());
/// ```
#[derive(Debug, Clone)]
pub struct Program {
    /// What it is called in messages.
    pub name: &'static str,
    /// The source that is compiled, by its name.
    pub main: &'static str,
    /// File names and texts, usually through `include_str!`. Of these, the compiler gets what `main` includes, directly or not.
    pub sources: &'static [(&'static str, &'static str)],
    /// Macros and their values, for CUDA alone: the simulator's build has its own, and they should agree.
    pub defines: Vec<(String, String)>,
    /// The kernels that can be launched.
    pub kernels: &'static [KernelEntry],
    /// What host and kernels must agree on.
    pub agreements: &'static [Agreement],
}

impl Program {
    /// The kernel of this name.
    pub fn kernel(&self, name: &str) -> Option<&'static KernelEntry> {
        self.kernels.iter().find(|kernel| kernel.name == name)
    }

    /// The same program, specialised: the source sees each constant as a macro, so the compiler can unroll loops and drop
    /// branches. The simulator does not see them: its kernels are compiled once, for all values. A specialised program is compiled and cached
    /// separately for each combination of values.
    ///
    /// ```
    /// # let program = warpkeep_device::Program { name: "", main: "", sources: &[], defines: vec![], kernels: &[], agreements: &[] };
    /// let program = program.with_constants([("KEY_LEN", 8)]);
    /// assert_eq!(program.defines, [("KEY_LEN".to_owned(), "8u".to_owned())]);
    /// ```
    #[must_use]
    pub fn with_constants<'c>(mut self, constants: impl IntoIterator<Item = (&'c str, u64)>) -> Self {
        let defines = constants.into_iter().map(|(name, value)| (name.to_owned(), format!("{value}u")));
        self.defines.extend(defines);
        self
    }

    /// The names of all kernels, for people.
    pub(crate) fn kernel_names(&self) -> String {
        if self.kernels.is_empty() {
            return "none".to_owned();
        }
        self.kernels.iter().map(|kernel| kernel.name).collect::<Vec<_>>().join(", ")
    }
}
