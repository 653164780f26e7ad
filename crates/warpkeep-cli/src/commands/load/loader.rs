//! Records on their way into a table, a batch at a time.

use serde::Serialize;
use warpkeep::{Batch, Durability, KeySpec, Status, Table, ValueSpec};

use crate::failure::Failure;
use crate::files::{Bad, Record, Source, ValueForm};
use crate::output::count;

/// Items in a batch.
const BATCH: usize = 4096;
/// Bytes in a batch, about: with `Power` it is one record of the log.
const BATCH_BYTES: usize = 4 << 20;
/// Bad records that are reported in full.
const EXAMPLES: usize = 5;

/// How things stand before the first batch.
pub(crate) const NOTHING: &str = "nothing was loaded";

/// The progress.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(crate) struct Loaded {
    pub(crate) loaded: u64,
    /// Items whose key was new.
    pub(crate) new: u64,
    #[serde(skip)]
    pub(crate) value_bytes: u64,
}

/// Records that make no sense: the first one ends the loading, unless they are to be left out.
#[derive(Debug, Serialize)]
pub(crate) struct Skipped {
    pub(crate) skipped: u64,
    #[serde(rename = "skipped_examples")]
    pub(crate) examples: Vec<String>,
    #[serde(skip)]
    name: String,
    #[serde(skip)]
    unit: &'static str,
    #[serde(skip)]
    allowed: bool,
}

impl Skipped {
    pub(crate) fn new(name: &str, unit: &'static str, allowed: bool) -> Skipped {
        Skipped { skipped: 0, examples: Vec::new(), name: name.to_owned(), unit, allowed }
    }

    /// An error if one of these makes no sense, and none may be left out.
    pub(crate) fn check(
        &mut self,
        entries: &[Entry],
        keys: KeySpec,
        values: ValueSpec,
        form: &ValueForm,
    ) -> Result<(), Failure> {
        let bad = entries.iter().find_map(|entry| match entry {
            Ok(record) => fit(record, keys, values, form).err().map(|why| (record.at, why)),
            Err(bad) => Some(bad.clone()),
        });
        match bad {
            Some((at, why)) if !self.allowed => self.skip(at, &why, NOTHING),
            _ => Ok(()),
        }
    }

    /// An error about the first invalid entry, if there is one.
    pub(crate) fn first(&self, entries: &[Entry]) -> Option<Failure> {
        let (at, why) = entries.iter().find_map(|entry| entry.as_ref().err())?;
        Some(Failure::error(format!("{}, {} {at}: {why} ({NOTHING})", self.name, self.unit)))
    }

    fn skip(&mut self, at: u64, why: &str, standing: &str) -> Result<(), Failure> {
        let told = format!("{} {at}: {why}", self.unit);
        if !self.allowed {
            return Err(Failure::error(format!(
                "{}, {told}; correct it, or give --skip-bad to leave such {}s out ({standing})",
                self.name, self.unit
            )));
        }
        self.skipped += 1;
        if self.examples.len() < EXAMPLES {
            self.examples.push(told);
        }
        Ok(())
    }
}

/// A record, or the position and fault of an invalid one.
pub(crate) type Entry = Result<Record, (u64, String)>;

/// Reads records for one batch; none at the end. Unless bad ones may be skipped, the first bad one is the last
/// entry.
pub(crate) fn read_some(
    source: &mut dyn Source,
    skipped: &Skipped,
    standing: &str,
) -> Result<Vec<Entry>, Failure> {
    let (mut entries, mut bytes) = (Vec::new(), 0);
    while entries.len() < BATCH && bytes < BATCH_BYTES {
        match source.next() {
            Ok(Some(record)) => {
                bytes += record.value.weight();
                entries.push(Ok(record));
            }
            Ok(None) => break,
            Err(Bad::Record { at, why }) => {
                entries.push(Err((at, why)));
                if !skipped.allowed {
                    break;
                }
            }
            Err(Bad::File(failure)) => {
                return Err(Failure::error(format!("{} ({standing})", failure.message())));
            }
        }
    }
    Ok(entries)
}

/// The bytes of key and value, if a table of these specs takes the record.
fn fit(
    record: &Record,
    keys: KeySpec,
    values: ValueSpec,
    form: &ValueForm,
) -> Result<(Vec<u8>, Vec<u8>), String> {
    // Before a batch checks it, which would number operations and not lines.
    let key = record.key.bytes(keys)?;
    let value = form.bytes(record.value.clone())?;
    values.check(&value).map_err(|error| error.to_string())?;
    Ok((key, value))
}

/// Puts records into a table.
pub(crate) struct Loader<'a> {
    table: &'a Table,
    batch: Batch,
    durability: Durability,
    form: ValueForm,
    skipped: &'a mut Skipped,
    pub(crate) loaded: Loaded,
}

impl<'a> Loader<'a> {
    pub(crate) fn new(
        table: &'a Table,
        durability: Durability,
        form: ValueForm,
        skipped: &'a mut Skipped,
    ) -> Loader<'a> {
        Loader { table, batch: table.batch(), durability, form, skipped, loaded: Loaded::default() }
    }

    /// The progress, for the message of an interrupted command.
    pub(crate) fn standing(&self) -> String {
        match self.loaded.loaded {
            0 => NOTHING.to_owned(),
            loaded => format!(
                "{} items before it were loaded; loading the file again replaces them by the same",
                count(loaded)
            ),
        }
    }

    pub(crate) fn read_some(&self, source: &mut dyn Source) -> Result<Vec<Entry>, Failure> {
        read_some(source, self.skipped, &self.standing())
    }

    pub(crate) fn load(&mut self, entries: Vec<Entry>) -> Result<(), Failure> {
        self.batch.clear();
        let (key_spec, value_spec) = (self.batch.key_spec(), self.batch.value_spec());
        for entry in entries {
            let fitting = entry.and_then(|record| {
                fit(&record, key_spec, value_spec, &self.form).map_err(|why| (record.at, why))
            });
            match fitting {
                Ok((key, value)) => {
                    self.batch.put(&key, &value).map_err(warpkeep::Error::from)?;
                    self.loaded.value_bytes += value.len() as u64;
                }
                Err((at, why)) => {
                    let standing = self.standing();
                    self.skipped.skip(at, &why, &standing)?;
                }
            }
        }
        if self.batch.is_empty() {
            return Ok(());
        }
        let results = self.table.run(&self.batch, self.durability)?;
        let done = results.statuses().iter().filter(|status| status.is_ok());
        self.loaded.loaded += done.clone().count() as u64;
        self.loaded.new += done.filter(|status| **status == Status::Created).count() as u64;
        super::super::check_statuses(&results)
    }
}
