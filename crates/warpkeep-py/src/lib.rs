//! The extension module of the Python package `warpkeep`.
//!
//! | module | what it does |
//! | --- | --- |
//! | [`store`], [`table`], [`mapping`], [`writes`] | the classes `Store` and `Table`, and the writes that were counted |
//! | [`spec`], [`dtype`] | what keys and values are |
//! | [`array`], [`dlpack`], [`library`], [`device_array`] | the caller's arrays, and arrays for answers |
//! | [`cells`], [`batch`], [`device`], [`scan`] | batches over those arrays in host memory and on a device, scans |
//! | [`hash_map`], [`ordered_map`], [`ordered_reads`] | the classes `HashMap`, `OrderedMap` and `OrderedSnapshot`, containers |
//! | [`slab`], [`slab_map`], [`slab_multi_map`] | the classes `SlabMap`, `SlabSet` and `SlabMultiMap`, containers |
//! | [`graph`], [`graph_answers`] | the class `Graph`, a container, and what it answers |
//! | [`container`] | what containers share |
//! | [`recorder`], [`timing`] | metrics, and what benchmarks ask |
//! | [`errors`], [`json`] | exceptions and reports |

mod array;
mod batch;
mod cells;
mod container;
mod device;
mod device_array;
mod device_columns;
mod dlpack;
mod dtype;
mod errors;
mod graph;
mod graph_answers;
mod graph_device;
mod hash_map;
mod json;
mod library;
mod mapping;
mod ordered_map;
mod ordered_reads;
mod recorder;
mod scan;
mod slab;
mod slab_map;
mod slab_multi_map;
mod spec;
mod store;
mod table;
mod timing;
mod writes;

use pyo3::prelude::*;

/// What the package is made of.
#[pymodule(gil_used = true)]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<store::Store>()?;
    module.add_class::<table::Table>()?;
    module.add_class::<spec::Spec>()?;
    module.add_class::<scan::Scan>()?;
    module.add_class::<scan::Items>()?;
    module.add_class::<device_array::DeviceArray>()?;
    module.add_class::<hash_map::HashMap>()?;
    module.add_class::<graph::Graph>()?;
    module.add_class::<graph_answers::GraphCsr>()?;
    module.add_class::<graph_answers::GraphEdges>()?;
    module.add_class::<graph_answers::GraphSample>()?;
    module.add_class::<ordered_map::OrderedMap>()?;
    module.add_class::<ordered_map::OrderedSnapshot>()?;
    module.add_class::<slab_map::SlabMap>()?;
    module.add_class::<slab_map::SlabSet>()?;
    module.add_class::<slab_multi_map::SlabMultiMap>()?;
    module.add_function(wrap_pyfunction!(store::open, module)?)?;
    module.add_function(wrap_pyfunction!(store::verify, module)?)?;
    module.add_function(wrap_pyfunction!(store::restore, module)?)?;
    module.add_function(wrap_pyfunction!(store::devices, module)?)?;
    module.add_function(wrap_pyfunction!(recorder::metrics, module)?)?;
    module.add_function(wrap_pyfunction!(timing::time_lookups, module)?)?;
    module.add_function(wrap_pyfunction!(batch::check_statuses, module)?)?;
    module.add_function(wrap_pyfunction!(spec::row, module)?)?;
    module.add_function(wrap_pyfunction!(spec::scalar, module)?)?;
    module.add_function(wrap_pyfunction!(spec::fixed, module)?)?;
    module.add_function(wrap_pyfunction!(spec::var, module)?)?;
    module.add_function(wrap_pyfunction!(spec::spec_from_text, module)?)?;
    recorder::rest_during_forks(module.py())
}
