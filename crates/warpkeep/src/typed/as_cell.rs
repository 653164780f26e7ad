//! Borrowed forms of keys and values.

use super::{Key, Value};

/// A form in which a key of type `K` can be given: a `K`, for `String` also a `str`, and for `Vec<u8>` a slice.
///
/// ```
/// use warpkeep::{Durability, Store};
/// # let directory = tempfile::tempdir().unwrap();
/// let store = Store::open(directory.path())?;
/// let names = store.create_typed::<String, u64>("names", 100)?;
/// names.put("ada", &36, Durability::Power)?;
/// assert_eq!(names.get("ada")?, names.get(&"ada".to_owned())?);
/// # Ok::<(), warpkeep::Error>(())
/// ```
pub trait AsKey<K: Key> {
    /// The bytes that are stored for this key.
    fn key_cell(&self) -> impl AsRef<[u8]>;
}

/// A form in which a value of type `V` can be given: a `V`, for `String` also a `str`, and for `Vec<u8>` a slice.
pub trait AsValue<V: Value> {
    /// The bytes that are stored for this value.
    fn value_cell(&self) -> impl AsRef<[u8]>;
}

impl<K: Key> AsKey<K> for K {
    fn key_cell(&self) -> impl AsRef<[u8]> {
        self.to_cell()
    }
}

impl<V: Value> AsValue<V> for V {
    fn value_cell(&self) -> impl AsRef<[u8]> {
        self.to_cell()
    }
}

macro_rules! borrowed {
    ($($borrowed:ty => $owned:ty),*) => {$(
        impl AsKey<$owned> for $borrowed {
            fn key_cell(&self) -> impl AsRef<[u8]> {
                self
            }
        }

        impl AsValue<$owned> for $borrowed {
            fn value_cell(&self) -> impl AsRef<[u8]> {
                self
            }
        }
    )*};
}

borrowed!(str => String, [u8] => Vec<u8>);
