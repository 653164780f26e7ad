//! Attributes of a table: short texts under names, kept beside its items for applications.

use std::collections::BTreeMap;

use warpkeep_core::{Change, ChangeKind};
use warpkeep_image::Persist;
use warpkeep_log::ChangeBatch;

use crate::tables::CATALOGUE;
use crate::{Error, Result, Table};

/// Bytes that the attributes of one table may take, encoded.
const MAX_BYTES: usize = 64 << 10;
/// Lengths of the name and of the value, before them.
const HEAD: usize = 8;
/// The first byte of the log's key for the attributes of a table. No table name begins with it, because names are
/// UTF-8.
const MARK: u8 = 0xff;

/// The attributes of one table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Attributes(BTreeMap<String, String>);

impl Attributes {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn into_map(self) -> BTreeMap<String, String> {
        self.0
    }

    fn set(&mut self, name: &str, value: Option<&str>) -> Result<()> {
        if name.is_empty() {
            return Err(Error::Invalid("an attribute needs a name; give one".into()));
        }
        match value {
            Some(value) => self.0.insert(name.to_owned(), value.to_owned()),
            None => self.0.remove(name),
        };
        match self.encode().len() {
            len if len > MAX_BYTES => Err(Error::Invalid(format!(
                "the attributes of a table take at most {MAX_BYTES} bytes, and these take {len}; make them shorter"
            ))),
            _ => Ok(()),
        }
    }

    /// Each as length of the name (u32), length of the value (u32), name, value; in the order of the names.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (name, value) in &self.0 {
            bytes.extend_from_slice(&(name.len() as u32).to_le_bytes());
            bytes.extend_from_slice(&(value.len() as u32).to_le_bytes());
            bytes.extend_from_slice(name.as_bytes());
            bytes.extend_from_slice(value.as_bytes());
        }
        bytes
    }

    /// `None` if the bytes are no attributes.
    pub(crate) fn decode(mut bytes: &[u8]) -> Option<Attributes> {
        let mut map = BTreeMap::new();
        while !bytes.is_empty() {
            let length =
                |at: usize| Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?) as usize);
            let (name, value) = (HEAD, HEAD.checked_add(length(0)?)?);
            let end = value.checked_add(length(4)?)?;
            let text = |range: std::ops::Range<usize>| String::from_utf8(bytes.get(range)?.to_vec()).ok();
            map.insert(text(name..value)?, text(value..end)?);
            bytes = &bytes[end..];
        }
        Some(Attributes(map))
    }
}

/// The key under which the log has the attributes of the table with this number.
pub(crate) fn log_key(id: u32) -> [u8; 5] {
    let [a, b, c, d] = id.to_le_bytes();
    [MARK, a, b, c, d]
}

/// The attributes that a change of the catalogue sets, with the number of their table; `None` if it is another kind
/// of change.
pub(crate) fn logged(change_key: &[u8], value: &[u8]) -> Option<Result<(u32, Attributes)>> {
    let (MARK, id) = change_key.split_first().map(|(first, id)| (*first, id))? else { return None };
    let unknown = || {
        Error::Invalid(
            "the log describes attributes of a table this program does not know; open it with a newer one"
                .into(),
        )
    };
    let id = id.try_into().ok().map(u32::from_le_bytes);
    Some(id.zip(Attributes::decode(value)).ok_or_else(unknown))
}

impl<P: Persist> Table<P> {
    /// The value of an attribute, if the table has it.
    pub fn attribute(&self, name: &str) -> Option<String> {
        self.attributes().remove(name)
    }

    /// All attributes of the table; none in another process than the one that opened the store, nor once the table was dropped or the store
    /// closed.
    pub fn attributes(&self) -> BTreeMap<String, String> {
        let Ok(call) = self.lease.enter() else { return BTreeMap::new() };
        call.keeper.items().attributes(self.id()).into_map()
    }

    /// Sets an attribute, or removes it: a short text that an application stores with the table, such as the
    /// meaning of its values. With a log it survives the machine when this returns; it is kept by a rebuild and by
    /// a backup. All attributes of a table take at most 64 KiB.
    ///
    /// ```
    /// use warpkeep::{KeySpec, Store, TableOptions, ValueSpec};
    /// # let directory = tempfile::tempdir().unwrap();
    /// let store = Store::open(directory.path())?;
    /// let rows = store.create_table("rows", TableOptions::new(KeySpec::U64, ValueSpec::fixed(8)?))?;
    /// rows.set_attribute("unit", Some("metres"))?;
    /// assert_eq!(rows.attribute("unit").as_deref(), Some("metres"));
    /// # Ok::<(), warpkeep::Error>(())
    /// ```
    pub fn set_attribute(&self, name: &str, value: Option<&str>) -> Result<()> {
        let call = self.lease.enter()?;
        let (keeper, durability) = (&call.keeper, call.keeper.strongest());
        keeper.admit(durability)?;
        let tables = keeper.items();
        let _alone = tables.hold();
        if call.named.is_dropped() {
            return Err(Error::NoTable { name: self.name().to_owned() });
        }
        let id = self.id();
        let mut attributes = tables.attributes(id);
        attributes.set(name, value)?;
        let version = keeper.next_version();
        let (key, value) = (log_key(id), attributes.encode());
        let mut changes = ChangeBatch::new();
        changes.push(&Change {
            table: CATALOGUE,
            kind: ChangeKind::Put,
            version,
            key: &key,
            value: &value,
        })?;
        // Before it is logged, so that a logged change cannot fail for lack of space.
        let planned = tables.plan_attributes(id, version, attributes)?;
        keeper.write(durability, &changes, || tables.install(planned))?
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_encoded_can_be_decoded() {
        let mut attributes = Attributes::default();
        assert_eq!(Attributes::decode(&attributes.encode()), Some(Attributes::default()));
        attributes.set("elements", Some("<f4[8]")).expect("short");
        attributes.set("empty", Some("")).expect("short");
        let bytes = attributes.encode();
        assert_eq!(Attributes::decode(&bytes).as_ref(), Some(&attributes));
        for len in 1..bytes.len() {
            // Where one ends, the ones before it are whole.
            let whole = len == HEAD + "elements".len() + "<f4[8]".len();
            assert_eq!(Attributes::decode(&bytes[..len]).is_some(), whole, "cut at {len}");
        }
        assert!(attributes.set("long", Some(&"x".repeat(MAX_BYTES))).is_err());
        assert!(attributes.set("", Some("x")).is_err());
    }

    #[test]
    fn no_name_of_a_table_is_taken_for_attributes() {
        assert!(logged("rows".as_bytes(), b"").is_none());
        assert!(logged("\u{ff}".as_bytes(), b"").is_none());
        assert!(logged(&log_key(7), b"").is_some_and(|found| found.is_ok_and(|(id, _)| id == 7)));
        assert!(logged(&[MARK, 1], b"").is_some_and(|found| found.is_err()));
    }
}
