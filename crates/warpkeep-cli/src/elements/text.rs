//! Elements as text that gives every bit back.

use super::Dtype;
use super::half::from_half;
use super::number::{Number, write_float};

/// The prefix of the bits of a NaN, of which there are many.
const BITS: &str = "bits:";

/// The text of an element; an error if its type has none.
pub(super) fn show(dtype: &Dtype, bytes: &[u8]) -> Result<String, String> {
    let number = Number::read(dtype, bytes)
        .ok_or_else(|| format!("elements of type {dtype} have no text; write a NumPy array instead"))?;
    Ok(match (dtype.kind(), number) {
        ('b', Number::Integer(0)) => "false".to_owned(),
        ('b', Number::Integer(1)) => "true".to_owned(),
        ('b', other) => return Err(format!("{other} is neither true nor false; ask for --as hex")),
        ('f', _) => show_float(bytes),
        ('c', _) => {
            let (real, imaginary) = bytes.split_at(bytes.len() / 2);
            let imaginary = show_float(imaginary);
            let sign = if imaginary.starts_with('-') { "" } else { "+" };
            format!("{}{sign}{imaginary}j", show_float(real))
        }
        (_, number) => number.to_string(),
    })
}

fn show_float(bytes: &[u8]) -> String {
    let bits = bytes.iter().rev().fold(0, |bits: u64, &byte| bits << 8 | u64::from(byte));
    // As short as the type allows: 0.1 is another number in 32 bits than in 64.
    let (number, text) = match bytes.len() {
        2 => (from_half(bits as u16), plain(from_half(bits as u16) as f32)),
        4 => (f64::from(f32::from_bits(bits as u32)), plain(f32::from_bits(bits as u32))),
        _ => (f64::from_bits(bits), plain(f64::from_bits(bits))),
    };
    let usual = write_float(f64::NAN, bytes.len());
    match number.is_nan() && usual.is_none_or(|usual| usual != bytes) {
        true => format!("{BITS}{bits:0width$x}", width = 2 * bytes.len()),
        false => text,
    }
}

/// Without an exponent the smallest numbers would have hundreds of digits.
fn plain<T: Copy + Into<f64> + std::fmt::Display + std::fmt::LowerExp>(number: T) -> String {
    let size = number.into().abs();
    let far = size.is_finite() && size != 0.0 && !(1e-5..1e16).contains(&size);
    if far { format!("{number:e}") } else { number.to_string() }
}

/// The bytes of the element that this text is.
pub(super) fn parse(dtype: &Dtype, text: &str) -> Result<Vec<u8>, String> {
    let text = text.trim();
    let wrong = || format!("'{text}' is no {dtype}; write it like {}", example(dtype));
    match dtype.kind() {
        'f' => parse_float(text, dtype.bytes() as usize).ok_or_else(wrong),
        'c' => parse_complex(text, dtype.bytes() as usize / 2).ok_or_else(wrong),
        'b' => match text {
            "true" | "True" | "1" => Ok(vec![1]),
            "false" | "False" | "0" => Ok(vec![0]),
            _ => Err(wrong()),
        },
        'i' | 'u' => Number::Integer(text.parse().map_err(|_| wrong())?).write(dtype),
        _ => Err(format!("elements of type {dtype} have no text; choose a type of numbers")),
    }
}

fn example(dtype: &Dtype) -> &'static str {
    match dtype.kind() {
        'f' => "0.25, 1e-3, inf or NaN",
        'c' => "0.25, 1+2j or -2e-3-1j",
        'b' => "true or false",
        _ => "42",
    }
}

fn parse_float(text: &str, bytes: usize) -> Option<Vec<u8>> {
    if bytes > 8 {
        return None;
    }
    if let Some(bits) = text.strip_prefix(BITS) {
        let bits = (bits.len() == 2 * bytes).then(|| u64::from_str_radix(bits, 16).ok())??;
        return Some(bits.to_le_bytes()[..bytes].to_vec());
    }
    // Rounded once: from the digits to the type.
    let number = if bytes == 4 { f64::from(text.parse::<f32>().ok()?) } else { text.parse().ok()? };
    let endless = text.trim_start_matches(['+', '-']).to_ascii_lowercase().starts_with("inf");
    (number.is_finite() || number.is_nan() || endless).then(|| write_float(number, bytes))?
}

fn parse_complex(text: &str, half: usize) -> Option<Vec<u8>> {
    let parts = |real: &str, imaginary: &str| {
        Some([parse_float(real, half)?, parse_float(imaginary, half)?].concat())
    };
    let Some(body) = text.strip_suffix('j') else { return parts(text, "0") };
    // The sign between the two parts: not that of an exponent, and not one behind a digit that looks like one.
    let sign = |at: usize| body[at..].chars().next().filter(|sign| matches!(sign, '+' | '-'));
    let between = match body.starts_with(BITS) {
        true => Some(BITS.len() + 2 * half).filter(|at| body.is_char_boundary(*at)),
        false => body
            .char_indices()
            .map(|(at, _)| at)
            .rev()
            .find(|&at| at > 0 && sign(at).is_some() && !body[..at].ends_with(['e', 'E'])),
    };
    let between = between.and_then(|at| sign(at).map(|sign| (at, sign)));
    match between {
        Some((at, '+')) => parts(&body[..at], &body[at + 1..]),
        Some((at, _)) => parts(&body[..at], &body[at..]),
        None => parts("0", body),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bit_comes_back() {
        let types = [
            "bool",
            "i8",
            "u8",
            "i16",
            "u16",
            "i32",
            "u32",
            "i64",
            "u64",
            "f16",
            "f32",
            "f64",
            "complex64",
            "complex128",
        ];
        let mut seen = 0;
        for word in types {
            let dtype: Dtype = word.parse().expect("a type");
            let len = dtype.bytes() as usize;
            let special = [[0; 16], [0xff; 16], [0x7f; 16], [0x80; 16]];
            let many = (0..3000_u64).map(|n| {
                let word = (n + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
                std::array::from_fn::<u8, 16, _>(|at| (word.rotate_left(7 * at as u32)) as u8)
            });
            for bytes in special.into_iter().chain(many) {
                let bytes: Vec<u8> =
                    bytes[..len].iter().map(|byte| if word == "bool" { byte & 1 } else { *byte }).collect();
                let text = show(&dtype, &bytes).expect("text");
                assert_eq!(parse(&dtype, &text).as_deref(), Ok(&bytes[..]), "{word}: {text}");
                seen += 1;
            }
        }
        assert_eq!(seen, types.len() * 3004);
    }

    #[test]
    fn what_is_no_element_is_refused() {
        for (word, text) in [
            ("f32", "one"),
            ("f32", "1e39"),
            ("f16", "70000"),
            ("f32", ""),
            ("f32", "bits:7fc0"),
            ("i8", "128"),
            ("u8", "-1"),
            ("i32", "0.5"),
            ("bool", "2"),
            ("complex64", "1+j+"),
            ("|S3", "abc"),
        ] {
            assert!(parse(&word.parse().expect("a type"), text).is_err(), "{word}: {text}");
        }
        let complex = |text: &str| {
            parse(&"complex64".parse().expect("a type"), text)
                .map(|bytes| show(&"complex64".parse().expect("a type"), &bytes))
        };
        for (text, shown) in
            [("1", "1+0j"), ("2j", "0+2j"), ("-1e-3-2e-7j", "-0.001-2e-7j"), ("inf+NaNj", "inf+NaNj")]
        {
            assert_eq!(complex(text), Ok(Ok(shown.to_owned())), "{text}");
        }
    }
}
