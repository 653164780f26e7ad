//! Patterns of keys, as `SCAN MATCH` and `KEYS` take them: `*`, `?`, `[a-z]`, `[^a]` and `\` before a letter.

/// Whether a key is of a pattern.
pub(crate) fn matches(pattern: &[u8], key: &[u8]) -> bool {
    // The position of the last star, and how much of the key it has matched: it matches more when the rest does not
    // match.
    let (mut at, mut place) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while place < key.len() {
        match one(pattern, at, key[place]) {
            Some(Step::Star(next)) => {
                star = Some((next, place));
                at = next;
            }
            Some(Step::Takes(next)) => {
                at = next;
                place += 1;
            }
            None => match &mut star {
                None => return false,
                Some((after, taken)) => {
                    *taken += 1;
                    (at, place) = (*after, *taken);
                }
            },
        }
    }
    pattern[at.min(pattern.len())..].iter().all(|&byte| byte == b'*')
}

enum Step {
    /// A star; the rest begins there.
    Star(usize),
    /// The byte is taken; the rest begins there.
    Takes(usize),
}

/// Matches the pattern against one byte.
fn one(pattern: &[u8], at: usize, byte: u8) -> Option<Step> {
    match *pattern.get(at)? {
        b'*' => Some(Step::Star(at + 1)),
        b'?' => Some(Step::Takes(at + 1)),
        b'\\' if at + 1 < pattern.len() => (pattern[at + 1] == byte).then_some(Step::Takes(at + 2)),
        b'[' => {
            let (taken, next) = set(pattern, at + 1, byte);
            taken.then_some(Step::Takes(next))
        }
        other => (other == byte).then_some(Step::Takes(at + 1)),
    }
}

/// Whether a set of bytes has one, and where it ends.
fn set(pattern: &[u8], mut at: usize, byte: u8) -> (bool, usize) {
    let not = pattern.get(at) == Some(&b'^');
    at += usize::from(not);
    let mut has = false;
    while let Some(&first) = pattern.get(at) {
        match first {
            b']' => return (has != not, at + 1),
            b'\\' if at + 1 < pattern.len() => {
                has |= pattern[at + 1] == byte;
                at += 2;
            }
            _ if pattern.get(at + 1) == Some(&b'-') && at + 2 < pattern.len() => {
                let (low, high) = (first.min(pattern[at + 2]), first.max(pattern[at + 2]));
                has |= (low..=high).contains(&byte);
                at += 3;
            }
            _ => {
                has |= first == byte;
                at += 1;
            }
        }
    }
    (has != not, at)
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn patterns_match_as_in_a_shell() {
        let yes = [
            ("*", ""),
            ("*", "anything"),
            ("h?llo", "hello"),
            ("h*llo", "heeeello"),
            ("h[ae]llo", "hallo"),
            ("h[^e]llo", "hbllo"),
            ("h[a-b]llo", "hbllo"),
            ("a\\*b", "a*b"),
            ("*a*b*", "xxaxxbxx"),
            ("**", "x"),
            ("user:*:name", "user:17:name"),
        ];
        let no = [
            ("", "x"),
            ("h?llo", "hllo"),
            ("h[^e]llo", "hello"),
            ("a\\*b", "axb"),
            ("*a", "ab"),
            ("abc", "ab"),
            ("[a", "b"),
            ("*a*a*a*a*a*a*a*a*a*ab", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"),
        ];
        for (pattern, key) in yes {
            assert!(matches(pattern.as_bytes(), key.as_bytes()), "{pattern} {key}");
        }
        for (pattern, key) in no {
            assert!(!matches(pattern.as_bytes(), key.as_bytes()), "{pattern} {key}");
        }
    }
}
