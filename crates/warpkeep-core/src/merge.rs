//! How a merge combines the stored value with the given one.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::{CoreError, ValueSpec};

/// The effect of [`Op::Merge`](crate::Op::Merge) in a table; fixed when the table is created.
///
/// Rules on numbers take values as rows of them, little-endian, and combine element by element. The codes are stored
/// with the table and shared with kernels, and never change.
///
/// ```
/// use warpkeep_core::MergeRule;
/// let rule: MergeRule = "add-u64".parse()?;
/// let mut row = [1u64, 2].map(u64::to_le_bytes).concat();
/// assert!(rule.merge(&mut row, &[10u64, 20].map(u64::to_le_bytes).concat()));
/// assert_eq!(row, [11u64, 22].map(u64::to_le_bytes).concat());
/// assert!(!rule.merge(&mut row, &[1; 8]), "rows of different lengths do not go together");
/// # Ok::<(), warpkeep_core::CoreError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[repr(u8)]
pub enum MergeRule {
    /// The table has no rule: a merge is answered with [`Status::WrongType`](crate::Status::WrongType).
    #[default]
    None = 0,
    /// The given value takes the place of the stored one.
    Replace = 1,
    /// Sums of 64-bit integers, wrapping.
    #[serde(rename = "add-u64")]
    AddU64 = 2,
    /// The larger of 64-bit integers.
    #[serde(rename = "max-u64")]
    MaxU64 = 3,
    /// The smaller of 64-bit integers.
    #[serde(rename = "min-u64")]
    MinU64 = 4,
    /// Sums of 32-bit floating-point numbers: gradients into embedding rows.
    #[serde(rename = "add-f32")]
    AddF32 = 5,
    /// Sums of 64-bit floating-point numbers.
    #[serde(rename = "add-f64")]
    AddF64 = 6,
    /// Every bit that is set in either.
    Or = 7,
    /// The stored value, then the given one; for values of variable length.
    Append = 8,
}

impl MergeRule {
    /// Every rule, in the order of the codes.
    pub const ALL: [MergeRule; 9] = [
        MergeRule::None,
        MergeRule::Replace,
        MergeRule::AddU64,
        MergeRule::MaxU64,
        MergeRule::MinU64,
        MergeRule::AddF32,
        MergeRule::AddF64,
        MergeRule::Or,
        MergeRule::Append,
    ];

    /// The code stored with a table.
    pub const fn code(self) -> u8 {
        self as u8
    }

    /// The rule of a stored code; `None` if this version does not know the code.
    pub fn from_code(code: u8) -> Option<MergeRule> {
        MergeRule::ALL.get(usize::from(code)).copied()
    }

    /// Its name as people write it.
    pub const fn name(self) -> &'static str {
        match self {
            MergeRule::None => "none",
            MergeRule::Replace => "replace",
            MergeRule::AddU64 => "add-u64",
            MergeRule::MaxU64 => "max-u64",
            MergeRule::MinU64 => "min-u64",
            MergeRule::AddF32 => "add-f32",
            MergeRule::AddF64 => "add-f64",
            MergeRule::Or => "or",
            MergeRule::Append => "append",
        }
    }

    /// Bytes in the numbers it works on.
    const fn element(self) -> usize {
        match self {
            MergeRule::AddU64 | MergeRule::MaxU64 | MergeRule::MinU64 | MergeRule::AddF64 => 8,
            MergeRule::AddF32 => 4,
            MergeRule::None | MergeRule::Replace | MergeRule::Or | MergeRule::Append => 1,
        }
    }

    /// Whether values of a table can be merged by this rule.
    pub fn check(self, values: ValueSpec) -> Result<(), CoreError> {
        let fits = match (self, values.fixed_len()) {
            (MergeRule::Append, fixed) => fixed.is_none(),
            (rule, Some(len)) => len.is_multiple_of(rule.element()),
            (_, None) => true,
        };
        if fits { Ok(()) } else { Err(CoreError::MergeRule { rule: self, spec: values }) }
    }

    /// Combines both values; `false`, with nothing changed, if they are incompatible.
    #[must_use]
    pub fn merge(self, stored: &mut Vec<u8>, given: &[u8]) -> bool {
        match self {
            MergeRule::None => return false,
            MergeRule::Replace => {
                stored.clear();
                stored.extend_from_slice(given);
                return true;
            }
            MergeRule::Append => {
                stored.extend_from_slice(given);
                return true;
            }
            _ => {}
        }
        if stored.len() != given.len() || !given.len().is_multiple_of(self.element()) {
            return false;
        }
        match self {
            MergeRule::AddU64 => each(stored, given, |a, b| {
                u64::from_le_bytes(a).wrapping_add(u64::from_le_bytes(b)).to_le_bytes()
            }),
            MergeRule::MaxU64 => {
                each(stored, given, |a, b| u64::from_le_bytes(a).max(u64::from_le_bytes(b)).to_le_bytes());
            }
            MergeRule::MinU64 => {
                each(stored, given, |a, b| u64::from_le_bytes(a).min(u64::from_le_bytes(b)).to_le_bytes());
            }
            MergeRule::AddF32 => {
                each(stored, given, |a, b| (f32::from_le_bytes(a) + f32::from_le_bytes(b)).to_le_bytes());
            }
            MergeRule::AddF64 => {
                each(stored, given, |a, b| (f64::from_le_bytes(a) + f64::from_le_bytes(b)).to_le_bytes());
            }
            MergeRule::Or => each(stored, given, |[a], [b]| [a | b]),
            MergeRule::None | MergeRule::Replace | MergeRule::Append => {}
        }
        true
    }
}

/// Combines rows of elements of `N` bytes.
fn each<const N: usize>(stored: &mut [u8], given: &[u8], combine: impl Fn([u8; N], [u8; N]) -> [u8; N]) {
    for (stored, given) in stored.as_chunks_mut::<N>().0.iter_mut().zip(given.as_chunks::<N>().0) {
        *stored = combine(*stored, *given);
    }
}

impl fmt::Display for MergeRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for MergeRule {
    type Err = CoreError;

    fn from_str(text: &str) -> Result<MergeRule, CoreError> {
        let rule = MergeRule::ALL.into_iter().find(|rule| rule.name() == text);
        rule.ok_or_else(|| CoreError::MergeRuleText { text: text.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_and_names_round_trip() {
        for (code, rule) in MergeRule::ALL.into_iter().enumerate() {
            assert_eq!(usize::from(rule.code()), code);
            assert_eq!(MergeRule::from_code(rule.code()), Some(rule));
            assert_eq!(rule.name().parse(), Ok(rule));
            assert_eq!(serde_json::to_string(&rule).unwrap(), format!("\"{rule}\""));
        }
        assert_eq!(MergeRule::from_code(9), None);
        assert!("sum".parse::<MergeRule>().unwrap_err().to_string().contains("add-u64"));
    }

    #[test]
    fn what_each_rule_does() {
        let words = |numbers: [u64; 2]| numbers.map(u64::to_le_bytes).concat();
        let merged = |rule: MergeRule, stored: &[u8], given: &[u8]| {
            let mut row = stored.to_vec();
            rule.merge(&mut row, given).then_some(row)
        };
        let (a, b) = (words([u64::MAX, 5]), words([2, 9]));
        assert_eq!(merged(MergeRule::None, &a, &b), None);
        assert_eq!(merged(MergeRule::Replace, &a, b"x"), Some(b"x".to_vec()));
        assert_eq!(merged(MergeRule::AddU64, &a, &b), Some(words([1, 14])));
        assert_eq!(merged(MergeRule::MaxU64, &a, &b), Some(words([u64::MAX, 9])));
        assert_eq!(merged(MergeRule::MinU64, &a, &b), Some(words([2, 5])));
        assert_eq!(merged(MergeRule::Or, &[1, 2], &[4, 2]), Some(vec![5, 2]));
        assert_eq!(merged(MergeRule::Append, b"ab", b"c"), Some(b"abc".to_vec()));
        let floats = [1.5f32, -2.0].map(f32::to_le_bytes).concat();
        assert_eq!(
            merged(MergeRule::AddF32, &floats, &floats),
            Some([3.0f32, -4.0].map(f32::to_le_bytes).concat())
        );
        let doubles = 0.25f64.to_le_bytes();
        assert_eq!(merged(MergeRule::AddF64, &doubles, &doubles), Some(0.5f64.to_le_bytes().to_vec()));
        assert_eq!(merged(MergeRule::AddU64, &a, &b[..8]), None);
        assert_eq!(merged(MergeRule::AddU64, b"odd", b"odd"), None);
    }

    #[test]
    fn rules_and_values_that_do_not_go_together() {
        let fixed = |len| ValueSpec::fixed(len).unwrap();
        let variable: ValueSpec = "var".parse().unwrap();
        assert!(MergeRule::AddU64.check(fixed(12)).is_err());
        assert!(MergeRule::AddF32.check(fixed(12)).is_ok());
        assert!(MergeRule::Append.check(fixed(12)).is_err());
        assert!(MergeRule::Append.check(variable).is_ok() && MergeRule::AddU64.check(variable).is_ok());
    }
}
