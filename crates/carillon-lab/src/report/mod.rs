//! Reports for people: what was simulated, on one page or in a terminal.

mod page;
mod text;

pub use page::Page;
