//! Reports for people: simulated results as one HTML page or as text for a terminal.

mod page;
mod text;

pub use page::Page;
