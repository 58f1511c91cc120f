//! docs/tutorials/afternoon.md: every command there is run, and prints what stands under it.
//!
//! `CARILLON_BLESS=1 cargo test -p carillon-cli --test command afternoon` writes what they print into the page.

use std::fs;
use std::path::Path;
use std::process::Command;

use carillon_testkit::{is_installed, skip};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
const PAGE: &str = include_str!("../../../docs/tutorials/afternoon.md");

/// Runs a line of the page as a shell does, `carillon` being the program under test.
fn shell(dir: &Path, line: &str) -> String {
    let path = format!("{}:{}", dir.join("bin").display(), std::env::var("PATH").unwrap_or_default());
    let output = Command::new("sh")
        .args(["-c", line])
        .current_dir(dir.join("work"))
        .env("PATH", path)
        .env("CARILLON", ROOT)
        .env("LC_ALL", "C")
        .output()
        .expect("there is a shell");
    assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

#[test]
fn every_step_of_the_afternoon_prints_what_stands_in_the_page() {
    let dir = tempfile::tempdir().expect("a folder");
    for name in ["bin", "work"] {
        fs::create_dir(dir.path().join(name)).expect("a folder");
    }
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_carillon"), dir.path().join("bin/carillon"))
        .expect("a link");
    let bless = std::env::var_os("CARILLON_BLESS").is_some();
    let (mut page, mut missing) = (String::new(), Vec::new());
    for (at, part) in PAGE.split("```").enumerate() {
        let Some(block) = part.strip_prefix("console\n").filter(|_| at % 2 == 1) else {
            page += &format!("{}{part}", if at > 0 { "```" } else { "" });
            continue;
        };
        let tools: Vec<&str> = ["jq", "tshark"]
            .into_iter()
            .filter(|tool| block.contains(&format!("$ {tool} ")) && !is_installed(tool))
            .collect();
        if !tools.is_empty() {
            missing.extend(tools);
            page += &format!("```{part}");
            continue;
        }
        page += "```console\n";
        for line in block.lines().filter_map(|line| line.strip_prefix("$ ")) {
            page += &format!("$ {line}\n{}", shell(dir.path(), line));
        }
    }
    let drawn = fs::read(dir.path().join("work/latency.svg")).expect("the figure");
    let figure = Path::new(ROOT).join("docs/tutorials/afternoon.svg");
    if bless {
        fs::write(Path::new(ROOT).join("docs/tutorials/afternoon.md"), &page)
            .expect("the page can be written");
        fs::write(figure, drawn).expect("the figure can be written");
        return;
    }
    assert!(fs::read(figure).expect("the figure of the page") == drawn, "the figure has moved");
    for (now, then) in page.lines().zip(PAGE.lines()) {
        assert_eq!(
            now, then,
            "CARILLON_BLESS=1 cargo test -p carillon-cli --test command afternoon writes it anew"
        );
    }
    assert_eq!(page.len(), PAGE.len());
    if !missing.is_empty() {
        skip(format!("some steps need {}", missing.join(", ")));
    }
}
