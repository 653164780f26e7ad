//! Which source files a program consists of.

use super::SEAM;
use crate::program::Program;

/// A file's name and its text.
pub(super) type Source = (&'static str, &'static str);

/// The program's main source, then every file that it includes, directly or not, of those that the program and this crate have. Files that no
/// source includes are left out, so a change to one does not make the program be compiled again. `None` if there is no main source.
pub(super) fn sources(program: &Program) -> Option<Vec<Source>> {
    let find = |name: &str| program.sources.iter().chain(SEAM).find(|(its, _)| *its == name).copied();
    let mut found = vec![find(program.main)?];
    let mut next = 0;
    while next < found.len() {
        for name in includes(found[next].1) {
            if let Some(source) = find(name)
                && !found.contains(&source)
            {
                found.push(source);
            }
        }
        next += 1;
    }
    Some(found)
}

/// The names in the `#include` lines of a source.
fn includes(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter_map(|line| {
        let rest = line.trim_start().strip_prefix('#')?.trim_start().strip_prefix("include")?.trim_start();
        let end = if rest.starts_with('<') { '>' } else { '"' };
        rest.get(1..)?.split_once(end).map(|(name, _)| name)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(program: &Program) -> Vec<&str> {
        sources(program).into_iter().flatten().map(|(name, _)| name).collect()
    }

    #[test]
    fn what_is_included_is_found_and_nothing_else() {
        let program = Program {
            name: "p",
            main: "p.cu",
            sources: &[
                ("a.h", "#pragma once\n#include \"b.h\"\n"),
                ("b.h", "  #  include <a.h>\n#include \"missing.h\"\n"),
                ("other.h", ""),
                ("p.cu", "#include \"a.h\"\n#include \"warpkeep/simt.h\"\n// #include \"other.h\"\n"),
            ],
            defines: vec![],
            kernels: &[],
            agreements: &[],
        };
        // The seam header includes the simulator's side of it, which is not for a GPU and not in the table.
        assert_eq!(names(&program), ["p.cu", "a.h", "warpkeep/simt.h", "b.h"]);
        assert!(sources(&Program { main: "q.cu", ..program }).is_none());
    }
}
