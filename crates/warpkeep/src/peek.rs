//! A look at a store without taking it into use.

use std::path::Path;

use serde::Serialize;
use warpkeep_image::HeapUsage;

use crate::look::{LogContents, Look};
use crate::{Result, StoreOptions, TablePeek};

/// The contents of a store, read without taking it into use.
#[derive(Clone, Debug, Serialize)]
pub struct Peek {
    /// Its tables, by name.
    pub tables: Vec<TablePeek>,
    /// The use of the image's space; all zeros if there is no usable image.
    pub usage: HeapUsage,
    /// Where this was found.
    pub source: PeekSource,
}

/// The source of the information.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum PeekSource {
    /// In the image.
    Image,
    /// Checkpoint and log: the image is missing, was lost with the machine, or is older, and opening the store will
    /// rebuild it.
    Log,
}

/// Inspects a store: its tables, and their numbers of items. Not a byte is changed. A store that is in use is an
/// error that names its holder.
///
/// The image is marked as at an opening, so it takes as long as one; without an image, all of the log is read.
///
/// ```
/// use warpkeep::{Durability, KeySpec, Store, StoreOptions, TableOptions, ValueSpec, peek};
/// # let directory = tempfile::tempdir().unwrap();
/// # let directory = directory.path();
/// let store = Store::open(directory)?;
/// let table = store.create_table("t", TableOptions::new(KeySpec::U64, ValueSpec::U64))?;
/// table.put(1, 2, Durability::Power)?;
/// assert!(peek(directory, &StoreOptions::default()).is_err(), "it is in use");
/// drop(table);
/// store.close()?;
///
/// let found = peek(directory, &StoreOptions::default())?;
/// assert_eq!((found.tables[0].name.as_str(), found.tables[0].items), ("t", 1));
/// # Ok::<(), warpkeep::Error>(())
/// ```
pub fn peek(directory: &Path, options: &StoreOptions) -> Result<Peek> {
    let look = Look::hold(directory, options)?;
    let image = match look.image() {
        Ok(image) => image.filter(|found| {
            // One that is older than the log will be thrown away.
            look.log.as_ref().is_none_or(|log| found.image().epoch() >= log.epoch())
        }),
        Err(error) if error.is_damage() && look.log.is_some() => None,
        Err(error) => return Err(error),
    };
    match (image, &look.log) {
        (Some(found), _) => {
            let list = found.tables.list();
            let table = |named: &std::sync::Arc<crate::tables::NamedTable<_>>| {
                let attributes = found.tables.attributes(named.id).into_map();
                TablePeek {
                    attributes,
                    ..TablePeek::new(&named.name, named.id, &named.spec, named.table.len())
                }
            };
            let tables = list.iter().map(table).collect();
            Ok(Peek { tables, usage: found.usage(), source: PeekSource::Image })
        }
        (None, Some(log)) => {
            let tables = LogContents::read_once(log, |_| Ok(()))?.tables();
            Ok(Peek { tables, usage: HeapUsage::default(), source: PeekSource::Log })
        }
        (None, None) => match look.log_damage {
            Some(error) => Err(error),
            None => Ok(Peek { tables: Vec::new(), usage: HeapUsage::default(), source: PeekSource::Image }),
        },
    }
}
