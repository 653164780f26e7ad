//! Kernel source, and how each machine enters it.

use std::ffi::c_void;

/// The most bytes a kernel takes as parameters.
pub const MAX_PARAMS_BYTES: usize = 4096;

/// How the simulator calls a kernel: the function that the seam header's `WK_KERNEL` makes under a C++ compiler. It is
/// given the address of the parameters.
pub type Entry = unsafe extern "C" fn(*const c_void);

/// One kernel of a [`Program`]: its name in the source, the size of the one struct it takes, and its entry in the simulator.
/// Written by [`kernels!`](crate::kernels).
#[derive(Debug, Clone, Copy)]
pub struct KernelEntry {
    /// The kernel's name in the source.
    pub name: &'static str,
    /// Bytes of its parameters.
    pub params_bytes: usize,
    /// How the simulator calls it; `None` if it was not built for the simulator.
    pub simulated: Option<Entry>,
}

/// The source of a set of kernels, for CUDA, together with the same kernels as the C++ compiler built them for the simulator.
///
/// The first source is what is compiled; the others are what it includes, by the names given here. The seam header,
/// `warpkeep/simt.h`, is always there.
///
/// ```
/// use warpkeep_device::Program;
///
/// let program = Program {
///     name: "nothing",
///     sources: &[("nothing.cu", "#include \"warpkeep/simt.h\"\n")],
///     defines: vec![("WK_CHECKED".to_owned(), "1".to_owned())],
///     kernels: &[],
/// };
/// assert!(program.kernel("something").is_none());
/// ```
#[derive(Debug, Clone)]
pub struct Program {
    /// What it is called in messages.
    pub name: &'static str,
    /// File names and texts, usually through `include_str!`. The first is compiled.
    pub sources: &'static [(&'static str, &'static str)],
    /// Macros and their values, for CUDA alone: the simulator's build has its own, and they should agree.
    pub defines: Vec<(String, String)>,
    /// The kernels that can be launched.
    pub kernels: &'static [KernelEntry],
}

impl Program {
    /// The kernel of this name.
    pub fn kernel(&self, name: &str) -> Option<&'static KernelEntry> {
        self.kernels.iter().find(|kernel| kernel.name == name)
    }

    /// The names of all kernels, for people.
    pub(crate) fn kernel_names(&self) -> String {
        if self.kernels.is_empty() {
            return "none".to_owned();
        }
        self.kernels.iter().map(|kernel| kernel.name).collect::<Vec<_>>().join(", ")
    }
}

/// Declares the kernels of a [`Program`] and their parameters, so that CUDA and the simulator know the same ones.
///
/// ```ignore
/// // For WK_KERNEL(fill, FillParams) and WK_KERNEL(sum, SumParams):
/// warpkeep_device::kernels! {
///     pub static KERNELS = [
///         fill: FillParams,
///         sum: SumParams,
///     ];
/// }
/// ```
///
/// It refers to the symbols `wk_sim_fill` and `wk_sim_sum`, so the crate's build script must have compiled the kernels
/// for the simulator. Where there is no C++ compiler, write the table by hand with `simulated: None`.
#[macro_export]
macro_rules! kernels {
    ($(#[$attribute:meta])* $visibility:vis static $table:ident = [$($name:ident: $params:ty),* $(,)?];) => {
        $(#[$attribute])*
        $visibility static $table: &[$crate::KernelEntry] = {
            $crate::__kernel_entries! { $($name)* }
            &[$($crate::KernelEntry {
                name: ::core::stringify!($name),
                params_bytes: ::core::mem::size_of::<$params>(),
                simulated: ::core::option::Option::Some(entries::$name),
            }),*]
        };
    };
}

/// The declarations behind [`kernels!`](crate::kernels).
#[doc(hidden)]
#[macro_export]
macro_rules! __kernel_entries {
    ($($name:ident)*) => {
        mod entries {
            unsafe extern "C" {
                $(
                    #[link_name = ::core::concat!("wk_sim_", ::core::stringify!($name))]
                    pub(super) unsafe fn $name(params: *const ::core::ffi::c_void);
                )*
            }
        }
    };
}
