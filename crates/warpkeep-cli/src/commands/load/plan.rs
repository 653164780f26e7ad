//! How a file becomes a table: decided before the first item is stored.

use warpkeep::{CoreError, KeySpec, Store, Table, TableOptions, ValueSpec};

use super::Load;
use super::loader::{Entry, Skipped};
use crate::cell::Coding;
use crate::elements::{COLUMNS, Dtype, Elements, elements_of, remember};
use crate::failure::Failure;
use crate::files::{RawValue, Record, Source, ValueForm};

/// How a file becomes a table.
pub(super) struct Plan {
    /// The options of a new table.
    new: Option<TableOptions>,
    /// The elements of the file's values, if it records them.
    file: Option<Elements>,
    /// The requested type.
    asked: Option<Dtype>,
    /// Numbers in a row, if values are texts of numbers.
    numbers: Option<u64>,
    /// Whether rows are of f32 by default: columns of a CSV file are, arrays of JSON lines are not.
    f32_rows: bool,
    /// The header line of a CSV file of rows.
    columns: Option<String>,
}

impl Plan {
    /// `first` are the first records of the file. `whole` if it is a file and not a pipe: a pipe may end before its
    /// announced length.
    pub(super) fn new(
        load: &Load,
        source: &dyn Source,
        first: &[Entry],
        skipped: &mut Skipped,
        whole: bool,
    ) -> Result<Plan, Failure> {
        let records: Vec<&Record> = first.iter().flatten().collect();
        let numbers = records.iter().find_map(|record| match &record.value {
            RawValue::Numbers(texts) => Some(texts.len() as u64),
            RawValue::Bytes(_) => None,
        });
        let mut plan = Plan {
            new: None,
            file: source.elements(),
            asked: load.dtype.clone(),
            numbers,
            f32_rows: source.columns().is_some(),
            columns: source.columns(),
        };
        if load.create {
            let (key, value) = plan.specs(load, &records, || skipped.first(first))?;
            let form = ValueForm { to: plan.wanted(), convert: None };
            skipped.check(first, key, value, &form)?;
            let expected = source.records().filter(|_| whole);
            plan.new = Some(load.shape.options(key, value, expected)?);
        }
        Ok(plan)
    }

    /// The elements of rows if the table does not record them.
    fn wanted(&self) -> Option<Elements> {
        if self.file.is_some() {
            return self.file.clone();
        }
        let dtype = self.asked.clone().or_else(|| self.f32_rows.then(Dtype::f32))?;
        Some(Elements::row(dtype, self.numbers?))
    }

    /// The specs of the new table: as requested, or else those that suit the first records.
    fn specs(
        &self,
        load: &Load,
        first: &[&Record],
        bad: impl Fn() -> Option<Failure>,
    ) -> Result<(KeySpec, ValueSpec), Failure> {
        let known = |spec: Result<ValueSpec, CoreError>| spec.map_err(warpkeep::Error::from);
        // None of the first records was valid, or there is none.
        let nothing = || {
            bad().unwrap_or_else(|| {
                Failure::Usage(format!(
                    "{} has no items, so nothing tells what keys and values are; give --key and --value to create an empty \
                     table",
                    load.file.display()
                ))
            })
        };
        let key = match load.key {
            Some(key) => key,
            None if self.file.is_some() => KeySpec::U64,
            None if first.is_empty() => return Err(nothing()),
            None if first.iter().all(|record| record.key.is_number()) => KeySpec::U64,
            None => KeySpec::variable(KeySpec::DEFAULT_VARIABLE).map_err(warpkeep::Error::from)?,
        };
        let lengths = first.iter().map(|record| match &record.value {
            RawValue::Bytes(bytes) => Some(bytes.len() as u64),
            RawValue::Numbers(_) => None,
        });
        let numbers = matches!(load.coding, Some(Coding::F32 | Coding::U64));
        let one_length = lengths
            .clone()
            .next()
            .flatten()
            .filter(|len| numbers && lengths.clone().all(|other| other == Some(*len)));
        let fixed = self.wanted().and_then(|elements| elements.row_bytes()).or(one_length);
        let value = match (&load.value, fixed) {
            (Some(value), _) => value.spec,
            (None, Some(len)) => known(ValueSpec::fixed(u32::try_from(len).unwrap_or(u32::MAX)))?,
            (None, None) if first.is_empty() => return Err(nothing()),
            (None, None) => known(ValueSpec::variable(ValueSpec::MAX))?,
        };
        Ok((key, value))
    }

    /// The table, created if requested.
    pub(super) fn table(&self, store: &Store, name: &str) -> Result<Table, Failure> {
        Ok(match self.new {
            Some(options) => store.create_table(name, options)?,
            None => store.table(name)?,
        })
    }

    /// Records the element type in an empty table that has none.
    pub(super) fn remember(&self, table: &Table) -> Result<(), Failure> {
        let Some(elements) = self.wanted().filter(|_| table.is_empty() && elements_of(table).is_none())
        else {
            return Ok(());
        };
        remember(table, &elements)?;
        // A line that is too long for an attribute is left out; a dump then makes its own column names.
        let _ = self.columns.as_deref().map(|columns| table.set_attribute(COLUMNS, Some(columns)));
        Ok(())
    }

    /// How values are converted on their way into the table.
    pub(super) fn form(&self, table: &Table, file: &str, convert: bool) -> Result<ValueForm, Failure> {
        let Some(to) = elements_of(table) else {
            return Ok(ValueForm { to: self.wanted(), convert: None });
        };
        if let Some(asked) = self.asked.as_ref().filter(|asked| !asked.same_numbers(&to.dtype)) {
            return Err(Failure::Usage(format!(
                "the values of table {} are rows of {to}, not of {asked}; leave --dtype out",
                table.name()
            )));
        }
        match &self.file {
            Some(from) if !from.same_rows(&to) => {
                let name = table.name();
                if !from.can_become(&to) {
                    return Err(Failure::error(format!(
                        "{file} has rows of {from}, which cannot become rows of {to}, as table {name} has; load it into \
                         another table"
                    )));
                }
                if !convert {
                    return Err(Failure::error(format!(
                        "{file} has rows of {from}, and table {name} has rows of {to}; give --convert to have them converted, or \
                         load it into another table"
                    )));
                }
                Ok(ValueForm { to: Some(to), convert: Some(from.clone()) })
            }
            _ => Ok(ValueForm { to: Some(to), convert: None }),
        }
    }
}
