//! Kernels declared once: their sources, their typed launches, and what is checked of them.

use std::fmt;
use std::marker::PhantomData;

use bytemuck::NoUninit;

use crate::compile::{KernelCache, Resources};
use crate::device::Device;
use crate::error::{DeviceError, Result};
use crate::module::{Kernel, Module};
use crate::program::Program;
use crate::sim::Grid;
use crate::stream::Stream;

/// A set of kernels that are compiled and loaded together. [`kernel_set!`](crate::kernel_set) declares one.
pub trait KernelSet: Sized {
    /// The program that has these kernels and no others. Specialise it by [`Program::with_constants`], then load it with
    /// [`of`](Self::of).
    fn program() -> Program;

    /// The kernels of a module that [`program`](Self::program) was loaded as.
    fn of(module: &Module) -> Result<Self>;

    /// Loads the set, unspecialised, with the user's cache of compiled kernels.
    fn load(device: &Device) -> Result<Self> {
        Self::load_with(device, &KernelCache::from_environment())
    }

    /// As [`load`](Self::load), with a cache of the caller's choice.
    fn load_with(device: &Device, cache: &KernelCache) -> Result<Self> {
        Self::of(&device.load_with(&Self::program(), cache)?)
    }
}

/// A [`Kernel`] whose parameters are a `P`: launching it with another struct does not compile.
pub struct TypedKernel<P> {
    kernel: Kernel,
    params: PhantomData<fn(&P)>,
}

impl<P: NoUninit> TypedKernel<P> {
    /// Puts the kernel into a stream, with parameters that the device copies now. On the simulator it runs before this returns.
    ///
    /// # Safety
    /// What the parameters point to must be valid for what the kernel does with it until the stream has been synchronised, and the
    /// program must not use it meanwhile, except for words that both sides access atomically.
    pub unsafe fn launch(&self, grid: Grid, params: &P, stream: &Stream) -> Result<()> {
        // SAFETY: loading checked that the kernel takes a struct of this size; the rest is this function's contract.
        unsafe { self.kernel.launch(grid, params, stream) }
    }

    /// Its name in the source.
    pub fn name(&self) -> &'static str {
        self.kernel.name()
    }

    /// What it uses of a multiprocessor; all zero on the simulator.
    pub fn resources(&self) -> Resources {
        self.kernel.resources()
    }

    /// How many blocks of this shape the device runs at once.
    pub fn resident_blocks(&self, threads: u32, shared_bytes: u32) -> Result<u32> {
        self.kernel.resident_blocks(threads, shared_bytes)
    }
}

impl<P> Clone for TypedKernel<P> {
    fn clone(&self) -> Self {
        Self { kernel: self.kernel.clone(), params: PhantomData }
    }
}

impl<P> fmt::Debug for TypedKernel<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TypedKernel({})", self.kernel.name())
    }
}

impl Module {
    /// The kernel of this name, for launches with a `P`.
    pub fn typed<P: NoUninit>(&self, name: &str) -> Result<TypedKernel<P>> {
        let kernel = self.kernel(name)?;
        let (given, expected) = (size_of::<P>(), kernel.params_bytes());
        if given != expected {
            return Err(DeviceError::WrongParams { kernel: name.to_owned(), given, expected });
        }
        Ok(TypedKernel { kernel, params: PhantomData })
    }
}

/// Declares a set of kernels: a struct with a [`TypedKernel`] for each, which implements [`KernelSet`].
///
/// ```ignore
/// // kernels/slab.cu has, or includes, WK_KERNEL(slab_insert, InsertParams), WK_KERNEL(slab_find, FindParams)
/// // and WK_AGREE(slab_slots, kSlots).
/// warpkeep_device::kernel_set! {
///     /// Kernels of a slab hash table.
///     pub struct SlabKernels in "slab.cu", prefix "slab_" {
///         insert: InsertParams,
///         find: FindParams,
///     }
///     agree {
///         slots = SLOTS,
///     }
/// }
///
/// let kernels = SlabKernels::load(&device)?;
/// unsafe { kernels.insert.launch(grid, &InsertParams { .. }, &stream)? };
/// ```
///
/// The crate's build script is `warpkeep_device_build::Kernels::in_folder("kernels").compile();`. To add a kernel, write it in the
/// source and add its line here. To add a header, include it where it is needed.
///
/// Loading a set compares what host and kernels have: the size of each parameter struct, and each value under `agree`. A difference is
/// [`DeviceError::WrongParams`] or [`DeviceError::Disagreement`]. Where the build found no C++ compiler, the same declaration makes a set
/// that only GPUs can load.
#[macro_export]
macro_rules! kernel_set {
    (
        $(#[$attribute:meta])*
        $visibility:vis struct $set:ident in $main:literal {
            $($(#[$about:meta])* $kernel:ident: $params:ty),* $(,)?
        }
        $(agree { $($agreed:ident = $value:expr),* $(,)? })?
    ) => {
        $crate::kernel_set! {
            $(#[$attribute])*
            $visibility struct $set in $main, prefix "" { $($(#[$about])* $kernel: $params),* }
            agree { $($($agreed = $value),*)? }
        }
    };
    (
        $(#[$attribute:meta])*
        $visibility:vis struct $set:ident in $main:literal, prefix $prefix:literal {
            $($(#[$about:meta])* $kernel:ident: $params:ty),* $(,)?
        }
    ) => {
        $crate::kernel_set! {
            $(#[$attribute])*
            $visibility struct $set in $main, prefix $prefix { $($(#[$about])* $kernel: $params),* }
            agree {}
        }
    };
    (
        $(#[$attribute:meta])*
        $visibility:vis struct $set:ident in $main:literal, prefix $prefix:literal {
            $($(#[$about:meta])* $kernel:ident: $params:ty),* $(,)?
        }
        agree { $($agreed:ident = $value:expr),* $(,)? }
    ) => {
        $(#[$attribute])*
        #[derive(Debug, Clone)]
        $visibility struct $set {
            $(
                #[doc = ::core::concat!("The kernel `", $prefix, ::core::stringify!($kernel), "`.")]
                $(#[$about])*
                $visibility $kernel: $crate::TypedKernel<$params>,
            )*
        }

        impl $crate::KernelSet for $set {
            fn program() -> $crate::Program {
                #[cfg(not(no_simulator))]
                mod entries {
                    unsafe extern "C" {
                        $(
                            #[link_name = ::core::concat!("wk_sim_", $prefix, ::core::stringify!($kernel))]
                            pub(super) fn $kernel(params: *const ::core::ffi::c_void);
                        )*
                    }
                }
                #[cfg(not(no_simulator))]
                mod sizes {
                    unsafe extern "C" {
                        $(
                            #[link_name = ::core::concat!("wk_params_", $prefix, ::core::stringify!($kernel))]
                            pub(super) fn $kernel() -> u64;
                        )*
                    }
                }
                #[cfg(not(no_simulator))]
                mod agreed {
                    unsafe extern "C" {
                        $(
                            #[link_name = ::core::concat!("wk_agree_", $prefix, ::core::stringify!($agreed))]
                            pub(super) fn $agreed() -> u64;
                        )*
                    }
                }
                static KERNELS: &[$crate::KernelEntry] = &[$($crate::KernelEntry {
                    name: ::core::concat!($prefix, ::core::stringify!($kernel)),
                    params_bytes: ::core::mem::size_of::<$params>(),
                    #[cfg(not(no_simulator))]
                    simulated: ::core::option::Option::Some($crate::SimulatedKernel {
                        entry: entries::$kernel,
                        params_bytes: sizes::$kernel,
                    }),
                    #[cfg(no_simulator)]
                    simulated: ::core::option::Option::None,
                }),*];
                static AGREEMENTS: &[$crate::Agreement] = &[$($crate::Agreement {
                    name: ::core::concat!($prefix, ::core::stringify!($agreed)),
                    host: $value as u64,
                    #[cfg(not(no_simulator))]
                    simulated: ::core::option::Option::Some(agreed::$agreed),
                    #[cfg(no_simulator)]
                    simulated: ::core::option::Option::None,
                }),*];
                $crate::Program {
                    name: ::core::concat!(::core::env!("CARGO_PKG_NAME"), "/", $main),
                    main: $main,
                    sources: ::core::include!(::core::concat!(
                        ::core::env!("OUT_DIR"),
                        "/warpkeep_kernel_sources.rs"
                    )),
                    defines: ::std::vec::Vec::new(),
                    kernels: KERNELS,
                    agreements: AGREEMENTS,
                }
            }

            fn of(module: &$crate::Module) -> $crate::Result<Self> {
                ::core::result::Result::Ok(Self {
                    $($kernel: module.typed(::core::concat!($prefix, ::core::stringify!($kernel)))?,)*
                })
            }
        }
    };
}
