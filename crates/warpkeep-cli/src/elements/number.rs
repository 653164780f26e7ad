//! One element as a number, and numbers of one type as those of another.

use super::Dtype;
use super::half::{from_half, to_half};

/// An element, wide enough for every type.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Number {
    Integer(i128),
    Float(f64),
    Complex(f64, f64),
}

/// The number of these many little-endian bytes.
fn unsigned(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte))
}

/// A float of this many bytes.
fn float(bytes: &[u8]) -> f64 {
    match bytes.len() {
        2 => from_half(unsigned(bytes) as u16),
        4 => f64::from(f32::from_bits(unsigned(bytes) as u32)),
        _ => f64::from_bits(unsigned(bytes)),
    }
}

impl Number {
    /// The element that these bytes are; `None` if its type is none to count with.
    pub(super) fn read(dtype: &Dtype, bytes: &[u8]) -> Option<Number> {
        if !dtype.is_number() {
            return None;
        }
        Some(match dtype.kind() {
            'f' => Number::Float(float(bytes)),
            'c' => {
                let (real, imaginary) = bytes.split_at(bytes.len() / 2);
                Number::Complex(float(real), float(imaginary))
            }
            'i' => {
                let unused = 64 - 8 * bytes.len() as u32;
                Number::Integer(i128::from((unsigned(bytes) << unused).cast_signed() >> unused))
            }
            _ => Number::Integer(i128::from(unsigned(bytes))),
        })
    }

    /// The bytes of an element of this type. Floats may be rounded; any other change is refused.
    pub(super) fn write(self, dtype: &Dtype) -> Result<Vec<u8>, String> {
        let bytes = dtype.bytes() as usize;
        let misfit = || format!("{self} is no {dtype}; choose a type that has it");
        match dtype.kind() {
            'f' => write_float(self.real().ok_or_else(misfit)?, bytes).ok_or_else(misfit),
            'c' => {
                let (real, imaginary) = match self {
                    Number::Complex(real, imaginary) => (real, imaginary),
                    other => (other.real().ok_or_else(misfit)?, 0.0),
                };
                let half = |number| write_float(number, bytes / 2).ok_or_else(misfit);
                Ok([half(real)?, half(imaginary)?].concat())
            }
            kind => {
                let integer = self.integer().ok_or_else(misfit)?;
                let bits = 8 * bytes as u32;
                let range = match kind {
                    'b' => 0..2,
                    'i' => -(1_i128 << (bits - 1))..1 << (bits - 1),
                    _ => 0..1 << bits,
                };
                match range.contains(&integer) {
                    true => Ok(integer.to_le_bytes()[..bytes].to_vec()),
                    false => Err(misfit()),
                }
            }
        }
    }

    fn real(self) -> Option<f64> {
        match self {
            Number::Integer(integer) => Some(integer as f64),
            Number::Float(float) => Some(float),
            Number::Complex(real, imaginary) => (imaginary == 0.0).then_some(real),
        }
    }

    fn integer(self) -> Option<i128> {
        match self {
            Number::Integer(integer) => Some(integer),
            other => {
                let real = other.real()?;
                // Beyond this no type of integers has it.
                (real.trunc() == real && real.abs() < 2_f64.powi(65)).then_some(real as i128)
            }
        }
    }
}

/// `None` if a number that has an end would become infinite.
pub(super) fn write_float(number: f64, bytes: usize) -> Option<Vec<u8>> {
    let (written, endless) = match bytes {
        2 => {
            let bits = to_half(number);
            (bits.to_le_bytes().to_vec(), bits & 0x7fff == 0x7c00)
        }
        4 => ((number as f32).to_le_bytes().to_vec(), (number as f32).is_infinite()),
        _ => (number.to_le_bytes().to_vec(), number.is_infinite()),
    };
    (!endless || number.is_infinite()).then_some(written)
}

impl std::fmt::Display for Number {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Number::Integer(integer) => write!(f, "{integer}"),
            Number::Float(float) => write!(f, "{float:?}"),
            Number::Complex(real, imaginary) => write!(f, "{real:?}{imaginary:+?}j"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn convert(number: Number, to: &str) -> Result<Number, String> {
        let dtype: Dtype = to.parse().expect("a type");
        number.write(&dtype).map(|bytes| Number::read(&dtype, &bytes).expect("a number"))
    }

    #[test]
    fn what_fits_is_converted() {
        use Number::{Complex, Float, Integer};
        for (number, to, expected) in [
            (Integer(-128), "i8", Integer(-128)),
            (Integer(255), "u8", Integer(255)),
            (Integer(i128::from(u64::MAX)), "u64", Integer(i128::from(u64::MAX))),
            (Integer(i128::from(i64::MIN)), "i64", Integer(i128::from(i64::MIN))),
            (Integer(3), "f16", Float(3.0)),
            (Float(0.1), "f32", Float(f64::from(0.1_f32))),
            (Float(7.0), "u8", Integer(7)),
            (Float(f64::INFINITY), "f16", Float(f64::INFINITY)),
            (Float(2.0), "complex64", Complex(2.0, 0.0)),
            (Complex(2.0, 0.0), "i16", Integer(2)),
            (Integer(1), "bool", Integer(1)),
        ] {
            assert_eq!(convert(number, to), Ok(expected), "{number} as {to}");
        }
        for (number, to) in [
            (Integer(128), "i8"),
            (Integer(-1), "u64"),
            (Integer(2), "bool"),
            (Float(0.5), "i32"),
            (Float(f64::NAN), "i32"),
            (Float(1e5), "f16"),
            (Float(1e39), "f32"),
            (Complex(1.0, 1.0), "f64"),
        ] {
            assert!(convert(number, to).is_err_and(|error| error.contains("choose")), "{number} as {to}");
        }
    }
}
