//! Tests of the laboratory through its public functions. They are one program, so that it is linked once; comparisons
//! with the documentation are in `docs.rs`.

mod chang_maxemchuk;
mod command_file;
mod competitor;
mod crowd;
mod determinism;
mod erramilli_singh;
mod experiment_files;
mod fuzz_corpus;
mod graph;
mod helpers;
mod intervals;
mod late;
mod many_sources;
mod measure;
mod nam;
mod on_lan;
mod parity;
mod parts;
mod pgm_dissector;
mod plot;
mod plot_folders;
mod precision;
mod regions;
mod report;
mod reproduce;
mod roles;
mod rra;
mod scenario;
mod sequencer;
mod shared;
mod slow_applications;
mod studies;
mod table;
mod trace;
