//! The Python package: its tests and its documented examples. `make check` checks its types and its style.
//!
//! The default tier leaves out what starts a Dask cluster, and the long tier tests that alone.
//!
//! The extension module that cargo built for this test is put beside the Python sources, as a wheel would have it. The
//! tests then run in a virtual environment that `scripts/python-env.sh` makes.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Root of the repository.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("crates/carillon-py has a root").into()
}

/// Interpreter of the virtual environment.
fn python() -> PathBuf {
    let script = Command::new("scripts/python-env.sh").current_dir(root()).output().expect("bash runs");
    let error = String::from_utf8_lossy(&script.stderr);
    assert!(script.status.success(), "scripts/python-env.sh: {error}");
    String::from_utf8(script.stdout).expect("a path in UTF-8").trim().into()
}

/// Copies a folder with its subfolders, except caches and extension modules of other builds.
fn copy_sources(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let (source, name) = entry.map(|entry| (entry.path(), entry.file_name())).unwrap();
        if source.is_dir() && name != "__pycache__" {
            copy_sources(&source, &to.join(name));
        } else if source.extension().is_some_and(|extension| extension != "so") {
            std::fs::copy(&source, to.join(name)).unwrap();
        }
    }
}

/// Folder with the package as it would be installed.
fn package() -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("python");
    let package = folder.join("carillon");
    // Files that are no longer among the sources must not stay.
    let _ = std::fs::remove_dir_all(&package);
    copy_sources(&root().join("python/carillon"), &package);
    let module = std::env::current_exe().unwrap().with_file_name("lib_carillon.so");
    std::fs::copy(&module, package.join("_carillon.abi3.so")).expect("cargo builds the extension module");
    folder
}

/// Command in a network of its own where that is permitted, so that two runs of the tests do not meet on loopback.
fn isolated(program: &Path) -> Command {
    let is_permitted =
        Command::new("unshare").args(["-n", "true"]).status().is_ok_and(|status| status.success());
    if !is_permitted {
        return Command::new(program);
    }
    let mut command = Command::new("unshare");
    command.args(["-n", "sh", "-c", "ip link set lo up && exec \"$@\"", "sh"]).arg(program);
    command
}

fn run(what: &str, command: &mut Command) {
    let output = command.current_dir(root()).output().expect("the program runs");
    let (out, error) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{what}:\n{out}\n{error}");
    println!("{out}");
}

#[test]
fn tests_of_the_python_package_pass() {
    let (python, package) = (python(), package());
    let mut pytest = isolated(&python);
    pytest.args(["-m", "pytest", "-p", "no:cacheprovider", "--doctest-modules", "python/tests"]);
    pytest.args(["-m", if std::env::var_os("CARILLON_LONG").is_some() { "cluster" } else { "not cluster" }]);
    pytest
        .arg(package.join("carillon"))
        .env("PYTHONPATH", &package)
        .env("MPLBACKEND", "agg")
        .env("RUST_BACKTRACE", "0");
    // The command that was built with these tests, if any.
    let command = std::env::current_exe().unwrap().ancestors().nth(2).map(|folder| folder.join("carillon"));
    match command.filter(|command| command.exists()) {
        Some(command) => drop(pytest.env("CARILLON_COMMAND", command)),
        None => println!("SKIPPED: the comparison with the command, which is not built"),
    }
    run("pytest", &mut pytest);
}
