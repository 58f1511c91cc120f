//! Extension module `carillon._carillon`: the laboratory for Python.
//!
//! The module is a thin layer. It converts between Python objects and the types of the laboratory, and hands tables to
//! other libraries through the Arrow PyCapsule interface. Scenarios, runs and results are those of the command line, so
//! both give the same bytes. The package in `python/carillon` builds its public interface on this module.

mod background;
mod error;
mod loss;
mod network;
mod plan;
mod protocol;
mod reproduce;
mod scenario;
mod sweep;
mod table;
mod topology;
mod trace;
mod transport;

use pyo3::prelude::*;

#[pymodule]
mod _carillon {
    #[pymodule_export]
    use super::error::{CarillonError, Interrupted, RunError, ScenarioError, TransportError};
    #[pymodule_export]
    use super::loss::register_loss_model;
    #[pymodule_export]
    use super::plan::Plan;
    #[pymodule_export]
    use super::protocol::{check_protocol, protocols, register};
    #[pymodule_export]
    use super::reproduce::{compare, experiments, reproduce};
    #[pymodule_export]
    use super::scenario::Scenario;
    #[pymodule_export]
    use super::sweep::{read_table, run_elsewhere, run_into};
    #[pymodule_export]
    use super::table::Table;
    #[pymodule_export]
    use super::topology::{read_topology, topology_files};
    #[pymodule_export]
    use super::transport::{
        Inbound, Listener, Message, Outbound, Task, Transfer, connect, listen, start_receive, start_send,
    };
    #[pymodule_export]
    const VERSION: &str = env!("CARGO_PKG_VERSION");
}
