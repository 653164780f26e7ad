//! NVRTC, found at run time.

use std::env;
use std::ffi::{CString, c_char};
use std::path::{Path, PathBuf};
use std::ptr;
use std::sync::OnceLock;

use cudarc::nvrtc::sys;

use super::cache::{Entry, cache_home};
use super::sources::Source;
use crate::arch::Arch;
use crate::error::{CudaVersion, DeviceError, Result};

/// The compiler library, once it is known to be there.
#[derive(Debug, Clone, Copy)]
pub(super) struct Compiler(());

impl Compiler {
    /// Looks where the dynamic linker looks, then in the folders of [`folders`].
    pub(super) fn find() -> Result<Self> {
        static FOUND: OnceLock<std::result::Result<(), String>> = OnceLock::new();
        match FOUND.get_or_init(find_library) {
            Ok(()) => Ok(Self(())),
            Err(looked) => Err(DeviceError::NoNvrtc { looked: looked.clone() }),
        }
    }

    pub(super) fn version(self) -> Result<CudaVersion> {
        let (mut major, mut minor) = (0, 0);
        // SAFETY: the library is there (`find`), and both addresses are of live integers.
        let result = unsafe { sys::nvrtcVersion(&raw mut major, &raw mut minor) };
        check("nvrtcVersion", result)?;
        Ok(CudaVersion { major: major.unsigned_abs(), minor: minor.unsigned_abs() })
    }

    /// Compiles the first source, which includes the others.
    pub(super) fn compile(
        self,
        arch: Arch,
        program: &'static str,
        sources: &[Source],
        options: &[String],
    ) -> Result<Entry> {
        let refuse = |log: String| DeviceError::Compile { program, arch: arch.to_string(), log };
        let text = |what: &str| {
            CString::new(what).map_err(|_| refuse("a NUL byte in a source or an option".to_owned()))
        };

        let Some((&(main_name, main_text), headers)) = sources.split_first() else {
            return Err(refuse("it has no source".to_owned()));
        };
        let names = headers.iter().map(|(name, _)| text(name)).collect::<Result<Vec<_>>>()?;
        let texts = headers.iter().map(|(_, body)| text(body)).collect::<Result<Vec<_>>>()?;
        let options = options.iter().map(|option| text(option)).collect::<Result<Vec<_>>>()?;

        let unit = Unit::new(&text(main_name)?, &text(main_text)?, &names, &texts)?;
        let result = unit.compile(&options);
        let log = unit.log()?;
        if result == sys::nvrtcResult::NVRTC_ERROR_COMPILATION {
            return Err(refuse(log));
        }
        if let Err(error) = check("nvrtcCompileProgram", result) {
            return Err(refuse(format!("{error}\n{log}")));
        }
        Ok(Entry { cubin: unit.cubin()?, log })
    }
}

/// One compilation under way.
struct Unit(sys::nvrtcProgram);

impl Unit {
    fn new(
        name: &CString,
        text: &CString,
        header_names: &[CString],
        header_texts: &[CString],
    ) -> Result<Self> {
        let pointers =
            |strings: &[CString]| strings.iter().map(|s| s.as_ptr()).collect::<Vec<*const c_char>>();
        let (texts, names) = (pointers(header_texts), pointers(header_names));
        let mut program = ptr::null_mut();
        // SAFETY: the library is there; all pointers are of live NUL-terminated strings, and NVRTC copies them.
        let result = unsafe {
            sys::nvrtcCreateProgram(
                &raw mut program,
                text.as_ptr(),
                name.as_ptr(),
                names.len() as i32,
                texts.as_ptr(),
                names.as_ptr(),
            )
        };
        check("nvrtcCreateProgram", result)?;
        Ok(Self(program))
    }

    fn compile(&self, options: &[CString]) -> sys::nvrtcResult {
        let options: Vec<*const c_char> = options.iter().map(|option| option.as_ptr()).collect();
        // SAFETY: `self.0` is a live program; the options are NUL-terminated strings that outlive the call.
        unsafe { sys::nvrtcCompileProgram(self.0, options.len() as i32, options.as_ptr()) }
    }

    fn log(&self) -> Result<String> {
        let mut size = 0;
        // SAFETY: `self.0` is a live program and `size` a live integer.
        check("nvrtcGetProgramLogSize", unsafe { sys::nvrtcGetProgramLogSize(self.0, &raw mut size) })?;
        let mut bytes = vec![0u8; size];
        // SAFETY: `bytes` has as many bytes as NVRTC said the log has, with its NUL.
        check("nvrtcGetProgramLog", unsafe { sys::nvrtcGetProgramLog(self.0, bytes.as_mut_ptr().cast()) })?;
        while bytes.last() == Some(&0) {
            bytes.pop();
        }
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    fn cubin(&self) -> Result<Vec<u8>> {
        let mut size = 0;
        // SAFETY: `self.0` is a live program and `size` a live integer.
        check("nvrtcGetCUBINSize", unsafe { sys::nvrtcGetCUBINSize(self.0, &raw mut size) })?;
        let mut bytes = vec![0u8; size];
        // SAFETY: `bytes` has as many bytes as NVRTC said the code has.
        check("nvrtcGetCUBIN", unsafe { sys::nvrtcGetCUBIN(self.0, bytes.as_mut_ptr().cast()) })?;
        Ok(bytes)
    }
}

impl Drop for Unit {
    fn drop(&mut self) {
        // SAFETY: `self.0` is a live program that no other code has. What it returns does not matter any more.
        unsafe { sys::nvrtcDestroyProgram(&raw mut self.0) };
    }
}

fn check(call: &'static str, result: sys::nvrtcResult) -> Result<()> {
    if result == sys::nvrtcResult::NVRTC_SUCCESS {
        return Ok(());
    }
    Err(DeviceError::Call {
        call,
        code: format!("{result:?}"),
        text: "the compiler library refused".to_owned(),
        advice: "install an NVRTC that is whole and knows this GPU (scripts/nvrtc)",
    })
}

fn find_library() -> std::result::Result<(), String> {
    if present() {
        return Ok(());
    }
    let folders = folders();
    for folder in &folders {
        if preload(folder) && present() {
            return Ok(());
        }
    }
    let folders: Vec<String> = folders.iter().map(|folder| folder.display().to_string()).collect();
    Err(format!("looked where the dynamic linker looks, and in {}", folders.join(", ")))
}

fn present() -> bool {
    // SAFETY: loading NVRTC runs its initialisers, which ask nothing of this program.
    unsafe { sys::is_culib_present() }
}

/// Where NVRTC may lie although the dynamic linker does not look there.
fn folders() -> Vec<PathBuf> {
    let toolkit = |name: &str| env::var_os(name).map(|root| PathBuf::from(root).join("lib64"));
    let own = env::var_os("WARPKEEP_NVRTC_DIR").map(PathBuf::from);
    let installed_by_script = cache_home().map(|home| home.join("nvrtc"));
    let usual = Some(PathBuf::from("/usr/local/cuda/lib64"));
    [own, installed_by_script, toolkit("CUDA_HOME"), toolkit("CUDA_PATH"), usual]
        .into_iter()
        .flatten()
        .collect()
}

/// Loads the libraries of a folder. Once a library is loaded, the dynamic linker finds it by its name alone, which
/// is how both the bindings and NVRTC itself ask: NVRTC for its built-in functions, which must therefore come first.
fn preload(folder: &Path) -> bool {
    let Ok(entries) = folder.read_dir() else { return false };
    let mut names: Vec<String> = entries
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter(|name| !name.contains(".alt."))
        .collect();
    names.sort();
    let load_all = |prefix: &str| {
        let mut any = false;
        for name in names.iter().filter(|name| name.starts_with(prefix)) {
            use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_NOW};
            // SAFETY: loading NVRTC runs its initialisers, which ask nothing of this program. It stays loaded for
            // good: its handle is forgotten.
            if let Ok(library) = unsafe { Library::open(Some(folder.join(name)), RTLD_NOW | RTLD_GLOBAL) } {
                std::mem::forget(library);
                any = true;
            }
        }
        any
    };
    load_all("libnvrtc-builtins.so");
    load_all("libnvrtc.so")
}
