//! The contents of a thread's tables.

use std::collections::BTreeMap;
use std::io::{self, Read};

/// Keys, by number, and values.
pub(crate) type Items = BTreeMap<u64, Vec<u8>>;
/// The tables that are there, by number.
pub(crate) type State = BTreeMap<usize, Items>;

/// As bytes, for another process.
pub(crate) fn encode(state: &State) -> Vec<u8> {
    let mut bytes = Vec::new();
    let number = |number: u64| number.to_le_bytes();
    for (table, items) in state {
        bytes.extend(number(*table as u64));
        bytes.extend(number(items.len() as u64));
        for (key, value) in items {
            bytes.extend(number(*key));
            bytes.extend(number(value.len() as u64));
            bytes.extend(value);
        }
    }
    bytes
}

pub(crate) fn decode(mut bytes: &[u8]) -> io::Result<State> {
    fn number(bytes: &mut &[u8]) -> io::Result<u64> {
        let mut number = [0; 8];
        bytes.read_exact(&mut number)?;
        Ok(u64::from_le_bytes(number))
    }
    let mut state = State::new();
    while !bytes.is_empty() {
        let table = number(&mut bytes)? as usize;
        let items = state.entry(table).or_default();
        for _ in 0..number(&mut bytes)? {
            let key = number(&mut bytes)?;
            let mut value = vec![0; number(&mut bytes)? as usize];
            bytes.read_exact(&mut value)?;
            items.insert(key, value);
        }
    }
    Ok(state)
}

/// How two states differ, briefly.
pub(crate) fn difference(found: &State, wanted: &State) -> String {
    let shown = |value: Option<&Vec<u8>>| match value {
        None => "nothing".to_owned(),
        Some(value) => format!("{} bytes {:02x?}", value.len(), &value[..value.len().min(8)]),
    };
    let sizes = |state: &State| -> BTreeMap<usize, usize> {
        state.iter().map(|(table, items)| (*table, items.len())).collect()
    };
    let mut lines = vec![format!("items by table {:?} instead of {:?}", sizes(found), sizes(wanted))];
    let empty = Items::new();
    for table in 0..crate::kind::TABLES.len() {
        if found.contains_key(&table) != wanted.contains_key(&table) {
            lines.push(format!("table {table} is there: {}", found.contains_key(&table)));
        }
        let (here, there) = (found.get(&table).unwrap_or(&empty), wanted.get(&table).unwrap_or(&empty));
        let keys = (0..crate::kind::KEYS).filter(|key| here.get(key) != there.get(key));
        lines.extend(keys.take(6).map(|key| {
            format!(
                "table {table}, key {key}: {} instead of {}",
                shown(here.get(&key)),
                shown(there.get(&key))
            )
        }));
    }
    lines.join("; ")
}
