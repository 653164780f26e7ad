//! Rust types as keys and values.

use bytemuck::Pod;
use warpkeep_core::{CoreError, KeySpec, ValueSpec};

/// A type whose values can be keys. Two keys are the same if their bytes are; tables are unordered.
///
/// Implemented for integers, arrays of up to 128 bytes, `String` and `Vec<u8>`.
pub trait Key: Sized {
    /// The key spec of a table of such keys.
    fn spec() -> Result<KeySpec, CoreError>;

    /// Whether a table of such keys can hold them all.
    fn fits(spec: KeySpec) -> bool {
        Self::spec().is_ok_and(|own| own == spec)
    }

    /// The bytes that are stored.
    fn to_cell(&self) -> impl AsRef<[u8]>;

    /// Decodes stored bytes; `None` if they are not a key of this type.
    fn from_cell(bytes: &[u8]) -> Option<Self>;
}

/// A type whose values can be stored.
///
/// Implemented for numbers, arrays of plain data such as `[f32; 32]`, `String`, `Vec<u8>`, and with [`Row`] for any plain
/// struct.
pub trait Value: Sized {
    /// The value spec of a table of such values.
    fn spec() -> Result<ValueSpec, CoreError>;

    /// Whether a table of such values can hold them all.
    fn fits(spec: ValueSpec) -> bool {
        Self::spec().is_ok_and(|own| own == spec)
    }

    /// The bytes that are stored.
    fn to_cell(&self) -> impl AsRef<[u8]>;

    /// Makes a value of `len` stored bytes, which `fill` copies to their destination; `None` if they are not a
    /// value of this type.
    fn from_cell(len: usize, fill: impl FnOnce(&mut [u8])) -> Option<Self>;
}

/// Plain data as a value: a struct of numbers, with no padding and no pointers.
///
/// ```
/// use bytemuck::{Pod, Zeroable};
/// use warpkeep::{Durability, Row, Store};
///
/// #[derive(Clone, Copy, Debug, PartialEq, Pod, Zeroable)]
/// #[repr(C)]
/// struct Position {
///     x: f64,
///     y: f64,
/// }
///
/// # let directory = tempfile::tempdir().unwrap();
/// let store = Store::open(directory.path())?;
/// let ships = store.create_typed::<u32, Row<Position>>("ships", 100)?;
/// ships.put(&7, &Row(Position { x: 1.0, y: 2.0 }), Durability::Power)?;
/// assert_eq!(ships.get(&7)?, Some(Row(Position { x: 1.0, y: 2.0 })));
/// # Ok::<(), warpkeep::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct Row<T>(pub T);

fn fixed_value(len: usize) -> Result<ValueSpec, CoreError> {
    ValueSpec::fixed(u32::try_from(len).unwrap_or(u32::MAX))
}

/// Lets `fill` write the bytes of plain data, if the lengths match.
fn filled<T: Pod>(mut data: T, len: usize, fill: impl FnOnce(&mut [u8])) -> Option<T> {
    let bytes = bytemuck::bytes_of_mut(&mut data);
    (bytes.len() == len).then(|| fill(bytes))?;
    Some(data)
}

impl<T: Pod> Value for Row<T> {
    fn spec() -> Result<ValueSpec, CoreError> {
        fixed_value(size_of::<T>())
    }

    fn to_cell(&self) -> impl AsRef<[u8]> {
        bytemuck::bytes_of(&self.0)
    }

    fn from_cell(len: usize, fill: impl FnOnce(&mut [u8])) -> Option<Row<T>> {
        filled(T::zeroed(), len, fill).map(Row)
    }
}

impl<T: Pod, const N: usize> Value for [T; N] {
    fn spec() -> Result<ValueSpec, CoreError> {
        fixed_value(size_of::<[T; N]>())
    }

    fn to_cell(&self) -> impl AsRef<[u8]> {
        bytemuck::cast_slice::<T, u8>(self)
    }

    fn from_cell(len: usize, fill: impl FnOnce(&mut [u8])) -> Option<[T; N]> {
        let mut row = [T::zeroed(); N];
        let bytes = bytemuck::cast_slice_mut::<T, u8>(&mut row);
        (bytes.len() == len).then(|| fill(bytes))?;
        Some(row)
    }
}

macro_rules! number {
    ($($number:ty),*) => {$(
        impl Value for $number {
            fn spec() -> Result<ValueSpec, CoreError> {
                fixed_value(size_of::<$number>())
            }

            fn to_cell(&self) -> impl AsRef<[u8]> {
                self.to_le_bytes()
            }

            fn from_cell(len: usize, fill: impl FnOnce(&mut [u8])) -> Option<$number> {
                filled([0; size_of::<$number>()], len, fill).map(<$number>::from_le_bytes)
            }
        }
    )*};
}

number!(u8, u16, u32, u64, u128, i8, i16, i32, i64, i128, f32, f64);

macro_rules! integer_key {
    ($($integer:ty => $spec:expr),*) => {$(
        impl Key for $integer {
            fn spec() -> Result<KeySpec, CoreError> {
                $spec
            }

            fn to_cell(&self) -> impl AsRef<[u8]> {
                self.to_le_bytes()
            }

            fn from_cell(bytes: &[u8]) -> Option<$integer> {
                bytes.try_into().ok().map(<$integer>::from_le_bytes)
            }
        }
    )*};
}

integer_key!(
    u8 => KeySpec::fixed(1), i8 => KeySpec::fixed(1),
    u16 => KeySpec::fixed(2), i16 => KeySpec::fixed(2),
    u32 => KeySpec::fixed(4), i32 => KeySpec::fixed(4),
    u64 => Ok(KeySpec::U64), i64 => Ok(KeySpec::U64),
    u128 => KeySpec::fixed(16), i128 => KeySpec::fixed(16)
);

impl<const N: usize> Key for [u8; N] {
    fn spec() -> Result<KeySpec, CoreError> {
        KeySpec::fixed(u32::try_from(N).unwrap_or(u32::MAX))
    }

    fn to_cell(&self) -> impl AsRef<[u8]> {
        self
    }

    fn from_cell(bytes: &[u8]) -> Option<[u8; N]> {
        bytes.try_into().ok()
    }
}

macro_rules! variable_key {
    ($($text:ty: $decode:expr),*) => {$(
        impl Key for $text {
            fn spec() -> Result<KeySpec, CoreError> {
                KeySpec::variable(KeySpec::DEFAULT_VARIABLE)
            }

            /// Any limit is accepted: a longer key is refused when it is used.
            fn fits(spec: KeySpec) -> bool {
                matches!(spec, KeySpec::Variable { .. })
            }

            fn to_cell(&self) -> impl AsRef<[u8]> {
                self.as_bytes_of_cell()
            }

            fn from_cell(bytes: &[u8]) -> Option<$text> {
                $decode(bytes.to_vec())
            }
        }

        impl Value for $text {
            fn spec() -> Result<ValueSpec, CoreError> {
                ValueSpec::variable(ValueSpec::MAX)
            }

            /// Any limit is accepted: a longer value is refused when it is used.
            fn fits(spec: ValueSpec) -> bool {
                matches!(spec, ValueSpec::Variable { .. })
            }

            fn to_cell(&self) -> impl AsRef<[u8]> {
                self.as_bytes_of_cell()
            }

            fn from_cell(len: usize, fill: impl FnOnce(&mut [u8])) -> Option<$text> {
                let mut bytes = vec![0; len];
                fill(&mut bytes);
                $decode(bytes)
            }
        }
    )*};
}

/// The bytes of text and of bytes, by one name.
trait CellBytes {
    fn as_bytes_of_cell(&self) -> &[u8];
}

impl CellBytes for String {
    fn as_bytes_of_cell(&self) -> &[u8] {
        self.as_bytes()
    }
}

impl CellBytes for Vec<u8> {
    fn as_bytes_of_cell(&self) -> &[u8] {
        self
    }
}

variable_key!(String: |bytes| String::from_utf8(bytes).ok(), Vec<u8>: Some);
