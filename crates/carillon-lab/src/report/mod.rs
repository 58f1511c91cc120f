//! Reports for people: what was simulated, on one page.

mod page;

pub use page::Page;
