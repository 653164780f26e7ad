//! What the kernels of a table are specialised by.

use warpkeep_core::{KeyCells, KeySpec, MergeRule, Seed, ValueSpec};
use warpkeep_device::Program;
use warpkeep_image::Persist;
use warpkeep_record::RecordForm;

use super::kernels::Kernels;
use super::params::body_code;
use crate::bucket::{Body, Shape};
use crate::header::Header;
use crate::{Geometry, Layout, Table, TableSpec};

/// Lengths and geometry of a table, as constants where the device's compiler can use them.
pub(crate) type Constants = [(&'static str, u64); 9];

/// The programs of all kernel sets for new tables of one kind; `None` if no device can work such tables: keys or values have any length, and
/// lie in place.
pub fn programs_for(
    geometry: Geometry,
    layout: Layout,
    key: KeySpec,
    value: ValueSpec,
) -> Option<Vec<Program>> {
    constants_for(geometry, layout, key, value).map(|constants| Kernels::programs(&constants))
}

/// The constants for new tables of one kind.
pub(crate) fn constants_for(
    geometry: Geometry,
    layout: Layout,
    key: KeySpec,
    value: ValueSpec,
) -> Option<Constants> {
    let spec = TableSpec { key, value, geometry, capacity: 0, layout, merge: MergeRule::None, seed: Seed(0) };
    let header = Header::of(&spec);
    constants(geometry, layout, (key, header.cells), value, header.form())
}

/// The constants for a table.
pub(crate) fn constants_of<P: Persist>(table: &Table<P>) -> Option<Constants> {
    constants(table.geometry, table.layout, (table.key, table.key_cells()), table.value, table.form)
}

/// Bytes of a record's tail in its tile; 0 if it lies in none.
pub(crate) fn tail_len(form: RecordForm) -> u64 {
    form.tile().map_or(0, warpkeep_image::Tile::tail)
}

fn constants(
    geometry: Geometry,
    layout: Layout,
    (key, cells): (KeySpec, Option<KeyCells>),
    value: ValueSpec,
    form: RecordForm,
) -> Option<Constants> {
    let key_len = cells.map(KeyCells::row_len).or_else(|| key.fixed_len());
    let variable = key_len.is_none() || value.fixed_len().is_none();
    let body = Shape::new(geometry, layout, key, value).body;
    if variable && body != Body::Packed {
        return None;
    }
    Some([
        ("GPHASH_HASHES", geometry.hashes() as u64),
        ("GPHASH_SLOTS", geometry.slots() as u64),
        ("GPHASH_BODY", u64::from(body_code(body))),
        ("GPHASH_KEY_LEN", key_len.unwrap_or_default() as u64),
        ("GPHASH_VALUE_LEN", value.fixed_len().unwrap_or_default() as u64),
        ("GPHASH_VARIABLE", u64::from(variable)),
        ("GPHASH_TAIL_LEN", tail_len(form)),
        ("GPHASH_LONGEST", cells.map_or(0, |cells| cells.max_len() as u64)),
        ("GPHASH_CHECKSUMS", u64::from(form.has_checksums())),
    ])
}
