//! The example programs of the documentation are those run here, and are short.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use carillon_testkit::loopback_group;

/// Builds the examples as the tests of the workspace are, so that nothing is built twice, and says where they are.
fn examples() -> PathBuf {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["build", "--profile", "test", "--quiet", "--examples", "--workspace"]);
    // What cargo tells a test of its package makes build scripts run again that look at it, and all that is above them
    // be compiled again.
    for (name, _) in std::env::vars_os() {
        let told = ["CARGO_PKG_", "CARGO_MANIFEST_"];
        if name.to_str().is_some_and(|name| told.iter().any(|prefix| name.starts_with(prefix))) {
            cargo.env_remove(name);
        }
    }
    let built = cargo.current_dir(env!("CARGO_MANIFEST_DIR")).status();
    assert!(built.expect("there is a cargo").success(), "the examples do not compile");
    let test = std::env::current_exe().expect("this is a program");
    // Tests are in deps, beside examples.
    test.ancestors().nth(2).expect("it is in a directory").join("examples")
}

fn start(directory: &Path, name: &str, args: &[&str]) -> Child {
    Command::new(directory.join(name))
        .args(args)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn output(child: Child) -> String {
    let output = child.wait_with_output().expect("it ends");
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).expect("it is text")
}

#[test]
fn examples_are_in_the_how_to_page_and_under_forty_lines() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = std::fs::read_to_string(root.join("../../docs/how-to/embed-rust.md")).expect("there is one");
    for name in ["talk.rs", "talk_async.rs"] {
        let program = std::fs::read_to_string(root.join("examples").join(name)).expect(name);
        let code: Vec<&str> = program.lines().skip_while(|line| line.starts_with("//!")).collect();
        assert!(program.lines().count() < 40, "{name} is long");
        assert!(page.contains(code.join("\n").trim()), "docs/how-to/embed-rust.md differs from {name}");
    }
}

#[test]
fn the_blocking_example_talks_to_listeners_in_other_processes() {
    let Some(group) = loopback_group() else { return };
    let (directory, group) = (examples(), group.to_string());
    let there = [(); 2].map(|()| start(&directory, "talk", &["listen", &group]));
    output(start(&directory, "talk", &["say", &group, "2", "hello", "everybody"]));
    for one in there {
        let text = output(one);
        let words: Vec<_> = text.lines().filter_map(|line| line.split(": ").nth(1)).collect();
        assert_eq!(words, ["hello", "everybody"]);
    }
}

#[test]
fn the_async_example_talks_to_its_own_tasks() {
    let Some(group) = loopback_group() else { return };
    let text = output(start(&examples(), "talk_async", &[&group.to_string(), "hello", "everybody"]));
    for line in ["alice hears hello", "bob hears hello", "alice hears everybody", "bob hears everybody"] {
        assert!(text.lines().any(|one| one == line), "{text}");
    }
}
