//! What a file is to become in a table: settled before the first item is stored.

use warpkeep::{CoreError, KeySpec, Store, Table, TableOptions, ValueSpec};

use super::Load;
use super::loader::{Entry, Skipped};
use crate::cell::Coding;
use crate::elements::{COLUMNS, Dtype, Elements, elements_of, remember};
use crate::failure::Failure;
use crate::files::{RawValue, Record, Source, ValueForm};

/// What a file is to become in a table.
pub(super) struct Plan {
    /// What a new table is created with.
    new: Option<TableOptions>,
    /// What the file's values are rows of, if it says so.
    file: Option<Elements>,
    /// The type that was asked for.
    asked: Option<Dtype>,
    /// Numbers in a row, if values are texts of numbers.
    numbers: Option<u64>,
    /// Whether rows are of f32 where nothing says otherwise: columns of a CSV file are, arrays of JSON lines are not.
    f32_rows: bool,
    /// The header line of a CSV file of rows.
    columns: Option<String>,
}

impl Plan {
    /// `first` are the first records of the file. `whole` if it is a file and not a pipe: what a pipe promises need not come.
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

    /// What rows are to be where no table says it.
    fn wanted(&self) -> Option<Elements> {
        if self.file.is_some() {
            return self.file.clone();
        }
        let dtype = self.asked.clone().or_else(|| self.f32_rows.then(Dtype::f32))?;
        Some(Elements::row(dtype, self.numbers?))
    }

    /// What the new table takes: as asked for, or else what suits the first records.
    fn specs(
        &self,
        load: &Load,
        first: &[&Record],
        bad: impl Fn() -> Option<Failure>,
    ) -> Result<(KeySpec, ValueSpec), Failure> {
        let known = |spec: Result<ValueSpec, CoreError>| spec.map_err(warpkeep::Error::from);
        // None of the first records made sense, or there is none.
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

    /// The table, created if that was asked for.
    pub(super) fn table<'s>(&self, store: &'s Store, name: &str) -> Result<Table<'s>, Failure> {
        Ok(match self.new {
            Some(options) => store.create_table(name, options)?,
            None => store.table(name)?,
        })
    }

    /// Has a table that is empty and does not say what its values are say it from now on.
    pub(super) fn remember(&self, table: &Table<'_>) -> Result<(), Failure> {
        let Some(elements) = self.wanted().filter(|_| table.is_empty() && elements_of(table).is_none())
        else {
            return Ok(());
        };
        remember(table, &elements)?;
        // A line that is too long for an attribute is left out: a dump names the columns by itself then.
        let _ = self.columns.as_deref().map(|columns| table.set_attribute(COLUMNS, Some(columns)));
        Ok(())
    }

    /// What becomes of values on their way into the table.
    pub(super) fn form(&self, table: &Table<'_>, file: &str, convert: bool) -> Result<ValueForm, Failure> {
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
