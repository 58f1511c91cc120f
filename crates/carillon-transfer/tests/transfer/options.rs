//! The reference page of the options.

use std::fs;

use carillon_transfer::options::{OPTIONS, OptionEntry, Scope};

const PAGE: &str = include_str!("../../../../docs/reference/options.md");

/// Rows of the page for these options.
fn rows(table: &[OptionEntry]) -> String {
    let mut rows = String::new();
    for entry in table {
        let OptionEntry { name, kind, default, doc, repeats, argument, .. } = entry;
        let flag = argument.map_or(String::new(), |argument| format!(", `--{}`", argument.flag));
        let text = if *repeats { format!("{}; repeated", kind.text) } else { kind.text.to_owned() };
        let exact = if kind.exact.is_empty() { "the same" } else { kind.exact };
        let default = if default.is_empty() { String::new() } else { format!("`{default}`") };
        let ends = Scope::SCOPES.into_iter().filter(|&scope| entry.is_for(scope)).map(Scope::name);
        let ends = ends.collect::<Vec<_>>().join(", ");
        rows += &format!("| `{name}`{flag} | {text} | {exact} | {default} | {ends} | {doc} |\n");
    }
    rows
}

#[test]
fn every_option_is_on_the_page_and_no_other() {
    let head = "| option | values | exact values | default | ends | meaning |\n|---|---|---|---|---|---|\n";
    let (before, rest) = PAGE.split_once(head).expect("the head of the table");
    let (there, after) = rest.split_once("\n<!-- end of options -->").expect("the end of the table");
    let table = rows(OPTIONS);
    if there != table && std::env::var_os("CARILLON_BLESS").is_some() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/options.md");
        fs::write(path, format!("{before}{head}{table}\n<!-- end of options -->{after}")).expect("the page");
        return;
    }
    assert_eq!(
        there, table,
        "CARILLON_BLESS=1 cargo test -p carillon-transfer --test transfer options writes the table"
    );
}

/// A row that the table gets is a row of the page without further code.
#[test]
fn new_row_is_a_row_of_the_page() {
    let mut dummy = OPTIONS[0];
    (dummy.name, dummy.doc, dummy.scopes) = ("dummy", "A dummy.", &[Scope::Recv]);
    let rows = rows(&[dummy]);
    assert!(rows.starts_with("| `dummy`") && rows.ends_with("| recv | A dummy. |\n"), "{rows}");
}
