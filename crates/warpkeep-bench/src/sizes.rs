//! Sizes of batches, as people write them.

use std::str::FromStr;

/// Sizes of batches: `1000`, `2^10`, every power of two in `2^10..2^24`, or every fourth in `2^0..2^24:4`.
///
/// ```
/// use warpkeep_bench::BatchSizes;
///
/// assert_eq!("1000".parse(), Ok(BatchSizes(vec![1000])));
/// assert_eq!("2^3..2^5".parse(), Ok(BatchSizes(vec![8, 16, 32])));
/// assert_eq!("2^0..2^9:4".parse(), Ok(BatchSizes(vec![1, 16, 256])));
/// assert!("2^3..9".parse::<BatchSizes>().is_err());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatchSizes(pub Vec<usize>);

impl BatchSizes {
    /// All sizes of a list, in its order, each once.
    pub fn all(list: &[BatchSizes]) -> Vec<usize> {
        let mut sizes = Vec::new();
        for &size in list.iter().flat_map(|some| &some.0) {
            if !sizes.contains(&size) {
                sizes.push(size);
            }
        }
        sizes
    }
}

/// A single number, written as a size of a batch: `1000` or `2^20`.
///
/// ```
/// use warpkeep_bench::one_number;
///
/// assert_eq!(one_number("2^20"), Ok(1 << 20));
/// assert!(one_number("2^16..2^20").is_err_and(|problem| problem.contains("give one number")));
/// ```
///
/// # Errors
/// A message, also if there are several numbers.
pub fn one_number(text: &str) -> Result<usize, String> {
    match text.parse::<BatchSizes>().map(|sizes| sizes.0).as_deref() {
        Ok(&[number]) if !text.contains("..") => Ok(number),
        _ => Err(format!("`{text}` is not a single number; give one number, such as 1000 or 2^20")),
    }
}

/// A size in short notation: `2^10`.
pub(crate) fn batch_name(size: usize) -> String {
    match size.is_power_of_two() && size >= 32 {
        true => format!("2^{}", size.trailing_zeros()),
        false => size.to_string(),
    }
}

impl FromStr for BatchSizes {
    type Err = String;

    fn from_str(text: &str) -> Result<BatchSizes, String> {
        let wrong = || {
            format!(
                "`{text}` is no size of batches; write a number, a power such as 2^10, or powers from one to another such as 2^10..2^24, \
                 with a step such as 2^0..2^24:4"
            )
        };
        let exponent = |text: &str| match text.strip_prefix("2^").and_then(|digits| digits.parse().ok()) {
            Some(exponent @ 0..=40_u32) => Ok(exponent),
            _ => Err(wrong()),
        };
        let Some((from, to)) = text.split_once("..") else {
            return match text.parse() {
                Ok(size) => Ok(BatchSizes(vec![size])),
                Err(_) => Ok(BatchSizes(vec![1 << exponent(text)?])),
            };
        };
        let (to, step) = match to.split_once(':') {
            None => (to, 1),
            Some((to, step)) => (to, step.parse().ok().filter(|&step| step > 0).ok_or_else(wrong)?),
        };
        let (from, to) = (exponent(from)?, exponent(to)?);
        if from > to {
            return Err(wrong());
        }
        Ok(BatchSizes((from..=to).step_by(step).map(|exponent| 1 << exponent).collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_or_refused() {
        let read = |text: &str| text.parse::<BatchSizes>().map(|sizes| sizes.0);
        assert_eq!(read("2^24"), Ok(vec![1 << 24]));
        assert_eq!(read("2^0..2^24").map(|sizes| sizes.len()), Ok(25));
        assert_eq!(read("2^4..2^4"), Ok(vec![16]));
        for text in ["", "2^", "2^41", "2^5..2^4", "2^0..2^4:0", "8..16", "-1", "3^2"] {
            assert!(read(text).is_err(), "{text}");
        }
        let list = [BatchSizes(vec![4, 8]), BatchSizes(vec![8, 2])];
        assert_eq!(BatchSizes::all(&list), [4, 8, 2]);
    }
}
