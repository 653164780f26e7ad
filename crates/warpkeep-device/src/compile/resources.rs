//! What a compiled kernel uses of a multiprocessor.

use std::collections::BTreeMap;

/// What one kernel uses, as the assembler reported it. Registers and shared memory bound how many threads can
/// run at once; spills and stack are memory traffic that the source does not show.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Resources {
    /// Registers a thread.
    pub registers: u32,
    /// Bytes of stack in local memory a thread.
    pub stack_bytes: u32,
    /// Bytes written to local memory because registers ran out.
    pub spill_store_bytes: u32,
    /// Bytes read back.
    pub spill_load_bytes: u32,
    /// Bytes of static shared memory a block.
    pub shared_bytes: u32,
    /// Barriers a block.
    pub barriers: u32,
}

impl Resources {
    /// Whether values had to go to local memory and back.
    pub fn spills(&self) -> bool {
        self.spill_store_bytes > 0 || self.spill_load_bytes > 0
    }
}

/// Reads the assembler's report (`ptxas -v`) out of a compiler log: every entry function, by name.
pub(super) fn parse(log: &str) -> BTreeMap<String, Resources> {
    let mut kernels: BTreeMap<String, Resources> = BTreeMap::new();
    // The report of an entry can be interrupted by the properties of a function that it calls, so both are tracked.
    let mut entry: Option<String> = None;
    let mut properties_of: Option<String> = None;
    for line in log.lines() {
        if let Some(name) = quoted_after(line, "Compiling entry function '") {
            kernels.entry(name.to_owned()).or_default();
            entry = Some(name.to_owned());
        } else if let Some((_, name)) = line.split_once("Function properties for ") {
            properties_of = Some(name.trim().to_owned());
        } else if line.contains("bytes stack frame") {
            if let Some(kernel) = properties_of.take().and_then(|name| kernels.get_mut(&name)) {
                kernel.stack_bytes = number_before(line, " bytes stack frame");
                kernel.spill_store_bytes = number_before(line, " bytes spill stores");
                kernel.spill_load_bytes = number_before(line, " bytes spill loads");
            }
        } else if line.contains("Used ")
            && line.contains(" registers")
            && let Some(kernel) = entry.take().and_then(|name| kernels.get_mut(&name))
        {
            kernel.registers = number_before(line, " registers");
            kernel.barriers = number_before(line, " barriers");
            kernel.shared_bytes = number_before(line, " bytes smem");
        }
    }
    kernels
}

fn quoted_after<'a>(line: &'a str, words: &str) -> Option<&'a str> {
    let (_, rest) = line.split_once(words)?;
    rest.split('\'').next()
}

/// The number that stands before `words`; 0 if they are not in the line, for the assembler leaves out what is zero.
fn number_before(line: &str, words: &str) -> u32 {
    let Some((before, _)) = line.split_once(words) else { return 0 };
    let digits = before.rsplit(|c: char| !c.is_ascii_digit()).next().unwrap_or_default();
    digits.parse().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str = "\
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'big' for 'sm_90'
ptxas info    : Function properties for _Z1fj
    8 bytes stack frame, 9 bytes spill stores, 9 bytes spill loads
ptxas info    : Function properties for big
ptxas         .     1440 bytes stack frame, 1364 bytes spill stores, 1236 bytes spill loads
ptxas info    : Used 32 registers, used 0 barriers, 1440 bytes cumulative stack size
ptxas info    : Compile time = 333.496 ms
ptxas info    : Compiling entry function 'k' for 'sm_90'
ptxas info    : Function properties for k
ptxas         .     0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 8 registers, used 1 barriers, 256 bytes smem, 384 bytes cmem[0]
";

    #[test]
    fn the_report_of_each_entry_is_read() {
        let kernels = parse(LOG);
        assert_eq!(kernels.len(), 2);
        let big = kernels["big"];
        assert_eq!((big.registers, big.stack_bytes), (32, 1440));
        assert_eq!((big.spill_store_bytes, big.spill_load_bytes), (1364, 1236));
        assert!(big.spills());
        let small = Resources { registers: 8, barriers: 1, shared_bytes: 256, ..Resources::default() };
        assert_eq!(kernels["k"], small);
    }

    #[test]
    fn a_log_of_something_else_gives_nothing() {
        assert!(parse("").is_empty());
        assert!(parse("a.cu(3): warning: Used x registers\n bytes stack frame").is_empty());
    }
}
