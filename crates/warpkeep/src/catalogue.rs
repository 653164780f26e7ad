//! The catalogue in the image: the tables, and their positions.
//!
//! One immutable block, which root 1 refers to. A change writes another block and sets the root, so a crash leaves
//! the old or the new one.

use std::sync::Arc;

use warpkeep_image::{Heap, Image, ImageError, Persist};

use crate::IndexKind;
use crate::attributes::Attributes;

/// The root that names the catalogue.
pub(crate) const ROOT: usize = 1;
const MAGIC: u64 = u64::from_le_bytes(*b"WKCATLG1");
/// Magic, checksum, length in bytes, next id.
const HEAD: u64 = 32;
/// Offset of the header, id, length of the name with the kind of index and a flag above it; then the name, with zeros to a multiple
/// of 8.
const ENTRY: u64 = 16;
/// Names are short, so the top byte of their length was always zero before there was a second index.
const KIND_SHIFT: u32 = 24;
/// In place of the kind of an index: the entry has attributes of the table with its id, in place of a name. Older
/// programs, without attributes, refuse it.
const ATTRIBUTES: u8 = 0xff;
/// A flag beside the length of a name: every get of the table is checked. A program that does not know it finds the
/// name too long and refuses.
const CHECK_GETS: u32 = 1 << 23;

/// The catalogue entry of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) id: u32,
    pub(crate) name: String,
    pub(crate) header: u64,
    pub(crate) kind: IndexKind,
    pub(crate) attributes: Attributes,
    /// Whether every get is checked.
    pub(crate) check_gets: bool,
}

/// All tables.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Catalogue {
    pub(crate) entries: Vec<Entry>,
    /// Ids are used once, so that a change in the log never meets another table than its own.
    pub(crate) next_id: u32,
}

/// A catalogue that is not reachable yet. Dropped, it is freed.
pub(crate) struct Written<P: Persist> {
    heap: Arc<Heap<P>>,
    offset: Option<u64>,
}

impl<P: Persist> Written<P> {
    /// Puts it in place of the present one, and frees that.
    pub(crate) fn install(mut self) -> Result<(), ImageError> {
        let old = self.heap.image().root(ROOT)?;
        self.heap.image().set_root(ROOT, self.offset)?;
        self.offset = None;
        old.map_or(Ok(()), |old| self.heap.free(old))
    }
}

impl<P: Persist> Drop for Written<P> {
    fn drop(&mut self) {
        let freed = self.offset.map_or(Ok(()), |offset| self.heap.free(offset));
        debug_assert!(freed.is_ok(), "{freed:?}");
    }
}

impl Catalogue {
    fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![0; HEAD as usize];
        let mut push = |header: u64, id: u32, kind: u8, flags: u32, content: &[u8]| {
            bytes.extend_from_slice(&header.to_le_bytes());
            bytes.extend_from_slice(&id.to_le_bytes());
            let len = content.len() as u32 | flags | u32::from(kind) << KIND_SHIFT;
            bytes.extend_from_slice(&len.to_le_bytes());
            bytes.extend_from_slice(content);
            bytes.resize(bytes.len().next_multiple_of(8), 0);
        };
        for entry in &self.entries {
            let flags = if entry.check_gets { CHECK_GETS } else { 0 };
            push(entry.header, entry.id, entry.kind.code(), flags, entry.name.as_bytes());
            if !entry.attributes.is_empty() {
                push(0, entry.id, ATTRIBUTES, 0, &entry.attributes.encode());
            }
        }
        let len = bytes.len() as u64;
        bytes[..8].copy_from_slice(&MAGIC.to_le_bytes());
        bytes[16..24].copy_from_slice(&len.to_le_bytes());
        bytes[24..28].copy_from_slice(&self.next_id.to_le_bytes());
        let crc = u64::from(crc32c::crc32c(&bytes[16..]));
        bytes[8..16].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// Puts this catalogue in place of the present one, durably, and frees the old block.
    pub(crate) fn store<P: Persist>(&self, heap: &Arc<Heap<P>>) -> Result<(), ImageError> {
        self.write(heap)?.install()
    }

    /// Writes this catalogue, durably but not reachable yet: every step that can fail for lack of space.
    pub(crate) fn write<P: Persist>(&self, heap: &Arc<Heap<P>>) -> Result<Written<P>, ImageError> {
        let bytes = self.encode();
        let mut block = heap.allocate(bytes.len() as u64)?;
        block.write(0, &bytes)?;
        let offset = block.persist("catalogue.block", bytes.len() as u64);
        Ok(Written { heap: Arc::clone(heap), offset: Some(offset) })
    }

    /// Reads the catalogue; gives it with the offset and the length of its block.
    pub(crate) fn load<P: Persist>(image: &Image<P>) -> Result<(Catalogue, u64, u64), ImageError> {
        let damaged = |what: &str| ImageError::Damaged {
            path: image.path().to_path_buf(),
            what: format!("the catalogue of tables: {what}"),
        };
        let at = image.root(ROOT)?.ok_or_else(|| damaged("it is not there"))?;
        if !at.is_multiple_of(8) || !image.contains(at, HEAD) || image.load(at) != MAGIC {
            return Err(damaged("something else is there"));
        }
        let len = image.load(at + 16);
        if len < HEAD || !len.is_multiple_of(8) || !image.contains(at, len) {
            return Err(damaged("its length makes no sense"));
        }
        let mut bytes = vec![0; len as usize];
        image.read(at, &mut bytes);
        if u64::from(crc32c::crc32c(&bytes[16..])) != image.load(at + 8) {
            return Err(damaged("wrong checksum"));
        }
        let next_id = u32::from_le_bytes(bytes[24..28].try_into().expect("four bytes"));
        let mut catalogue = Catalogue { entries: Vec::new(), next_id };
        let mut rest = &bytes[HEAD as usize..];
        while !rest.is_empty() {
            catalogue.decode_entry(&mut rest).ok_or_else(|| damaged("an entry makes no sense"))?;
        }
        Ok((catalogue, at, len))
    }

    fn decode_entry(&mut self, rest: &mut &[u8]) -> Option<()> {
        let head = rest.get(..ENTRY as usize)?;
        let header = u64::from_le_bytes(head[..8].try_into().ok()?);
        let id = u32::from_le_bytes(head[8..12].try_into().ok()?);
        let word = u32::from_le_bytes(head[12..].try_into().ok()?);
        let kind = (word >> KIND_SHIFT) as u8;
        let len = (word & (CHECK_GETS - 1)) as usize;
        let content = rest.get(ENTRY as usize..ENTRY as usize + len)?;
        *rest = rest.get((ENTRY as usize + len).next_multiple_of(8)..)?;
        if kind == ATTRIBUTES {
            let of = self.entries.iter_mut().find(|entry| entry.id == id)?;
            of.attributes = Attributes::decode(content)?;
            return Some(());
        }
        let kind = IndexKind::from_code(kind)?;
        let name = String::from_utf8(content.to_vec()).ok()?;
        let check_gets = word & CHECK_GETS != 0;
        self.entries.push(Entry { id, name, header, kind, attributes: Attributes::default(), check_gets });
        Some(())
    }
}
