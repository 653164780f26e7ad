//! Numbers that compiled kernels state: the sizes of their parameters, and constants that the host must agree on.
//!
//! They are 8-byte constants of the code, so they can be read from the file and need no GPU.

use std::collections::BTreeMap;

/// Where the assembler puts constants that the source gives values for.
const CONSTANTS: &str = ".nv.constant3";
const SYMBOL_TABLE: u32 = 2;

/// Names and values of all 8-byte constants of a cubin. A file that is not a whole ELF file of 64 bits has none.
pub(super) fn numbers(cubin: &[u8]) -> BTreeMap<&str, u64> {
    read(cubin).unwrap_or_default()
}

fn read(cubin: &[u8]) -> Option<BTreeMap<&str, u64>> {
    let file = Elf(cubin);
    if !cubin.starts_with(b"\x7fELF\x02\x01") {
        return None;
    }
    let (first, count, names) = (file.u64(40)?, file.u16(60)?, file.u16(62)?);
    let section = |index: u16| {
        let at = usize::try_from(first).ok()?.checked_add(64 * usize::from(index))?;
        Some(Section {
            name: file.u32(at)?,
            kind: file.u32(at + 4)?,
            offset: usize::try_from(file.u64(at + 24)?).ok()?,
            bytes: usize::try_from(file.u64(at + 32)?).ok()?,
            link: u16::try_from(file.u32(at + 40)?).ok()?,
        })
    };
    let names = section(names)?;
    let sections = (0..count).map(section).collect::<Option<Vec<_>>>()?;
    let symbols = sections.iter().find(|section| section.kind == SYMBOL_TABLE)?;
    let symbol_names = section(symbols.link)?;
    let mut numbers = BTreeMap::new();
    for at in (symbols.offset..symbols.offset.checked_add(symbols.bytes)?).step_by(24) {
        let (value, bytes) = (file.u64(at + 8)?, file.u64(at + 16)?);
        let Some(section) = sections.get(usize::from(file.u16(at + 6)?)) else { continue };
        if bytes == 8 && file.text(names.offset.checked_add(section.name as usize)?)? == CONSTANTS {
            let name = file.text(symbol_names.offset.checked_add(file.u32(at)? as usize)?)?;
            let offset = section.offset.checked_add(usize::try_from(value).ok()?)?;
            numbers.insert(name, file.u64(offset)?);
        }
    }
    Some(numbers)
}

struct Section {
    name: u32,
    kind: u32,
    offset: usize,
    bytes: usize,
    link: u16,
}

/// The bytes of a file, which may end anywhere.
struct Elf<'f>(&'f [u8]);

impl<'f> Elf<'f> {
    fn bytes<const N: usize>(&self, at: usize) -> Option<[u8; N]> {
        self.0.get(at..at.checked_add(N)?)?.try_into().ok()
    }

    fn u16(&self, at: usize) -> Option<u16> {
        self.bytes(at).map(u16::from_le_bytes)
    }

    fn u32(&self, at: usize) -> Option<u32> {
        self.bytes(at).map(u32::from_le_bytes)
    }

    fn u64(&self, at: usize) -> Option<u64> {
        self.bytes(at).map(u64::from_le_bytes)
    }

    /// The text from there to the next NUL byte.
    fn text(&self, at: usize) -> Option<&'f str> {
        let rest = self.0.get(at..)?;
        let end = rest.iter().position(|byte| *byte == 0)?;
        std::str::from_utf8(&rest[..end]).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_whole_file_has_no_numbers() {
        for bytes in [&b""[..], b"\x7fELF", b"\x7fELF\x02\x01 and then nothing", &[0xff; 200]] {
            assert!(numbers(bytes).is_empty());
        }
        let mut header = b"\x7fELF\x02\x01".to_vec();
        header.resize(64, 0xff);
        assert!(numbers(&header).is_empty());
    }
}
