//! What a table offers through the traits that all indexes share.

use crate::find::Found;
use crate::{Published, Seen, Stage, Table, TableError, TableSpec};

warpkeep_record::offer_index!(Table, TableSpec, TableError, Stage, Published, Found, Seen);
