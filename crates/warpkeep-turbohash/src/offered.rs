//! The traits that all indexes share, implemented for a table.

use crate::find::Found;
use crate::{Published, Seen, Stage, Table, TableError, TableSpec};

warpkeep_record::offer_index!(Table, TableSpec, TableError, Stage, Published, Found, Seen);
