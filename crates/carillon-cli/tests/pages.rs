//! Commands in tutorials and how-to pages: each is run, and its output is compared with the text below it.
//!
//! A page opts in with the line `<!-- tested -->`. Its `console` blocks run in one shell, in an empty folder and in
//! namespaces with loopback only and with mounts of their own, so that receivers can run in the background. Times,
//! rates and addresses differ from run to run: both sides are compared after these are masked. Lines may be in any
//! order. `CARILLON_BLESS=1 cargo test -p carillon-cli --test command pages` writes the output into the pages.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use carillon_testkit::{is_installed, skip, skip_anywhere};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
const MARK: &str = "<!-- tested -->";
const BLOCK: &str = "\n```console\n";

/// Begins a line that separates the outputs of commands.
const SEPARATOR: char = '\u{1e}';

/// Programs that a page may need beside the shell; a page without one of them is skipped.
const TOOLS: [&str; 3] = ["jq", "tshark", "python3"];

/// Commands of a block. A line that begins with `>` continues the command above it.
fn commands_of(block: &str) -> Vec<String> {
    let mut commands: Vec<String> = Vec::new();
    let mut continues = false;
    for line in block.lines() {
        if let Some(command) = line.strip_prefix("$ ") {
            commands.push(command.to_string());
            continues = true;
        } else if let Some(more) = line.strip_prefix('>').filter(|_| continues) {
            let command = commands.last_mut().expect("a command comes before its continuation");
            *command += &format!("\n{}", more.strip_prefix(' ').unwrap_or(more));
        } else {
            continues = false;
        }
    }
    commands
}

/// Commands of a page, in order.
fn commands(page: &str) -> Vec<String> {
    page.split(BLOCK).skip(1).filter_map(|rest| rest.split("```").next()).flat_map(commands_of).collect()
}

/// Runs commands in one shell; returns the output of each.
fn run(commands: &[String], directory: &Path) -> Vec<String> {
    for name in ["bin", "work"] {
        fs::create_dir(directory.join(name)).expect("the folder can be made");
    }
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_carillon"), directory.join("bin/carillon"))
        .expect("a link");
    let mut script =
        String::from("ip link set lo up multicast on\nip route add 224.0.0.0/4 dev lo\nexec 2>&1\n");
    for command in commands {
        script += &format!("printf '{SEPARATOR}\\n'\n{command}\n");
    }
    let output = Command::new("unshare")
        .args(["--net", "--mount", "--map-root-user", "bash", "-c", &script])
        .current_dir(directory.join("work"))
        .env(
            "PATH",
            format!("{}:{}", directory.join("bin").display(), std::env::var("PATH").unwrap_or_default()),
        )
        .env("CARILLON", ROOT)
        .env("LC_ALL", "C")
        .env("HOME", directory)
        .stdin(Stdio::null())
        .output()
        .expect("unshare(1) is installed");
    let text = String::from_utf8_lossy(&output.stdout);
    // Wireshark's programs say this to root only.
    let text: String =
        text.split_inclusive('\n').filter(|line| !line.starts_with("Running as user")).collect();
    let errors = String::from_utf8_lossy(&output.stderr);
    let parts: Vec<String> = text.split(&format!("{SEPARATOR}\n")).skip(1).map(String::from).collect();
    assert_eq!(parts.len(), commands.len(), "the shell ended early: {text}{errors}");
    parts
}

/// Replaces numbers with units, addresses and other text that differs between runs.
fn masked(line: &str) -> String {
    let mut masked = String::new();
    let words = line.split_whitespace().collect::<Vec<_>>();
    for (at, word) in words.iter().enumerate() {
        let plain = word.trim_matches(|letter: char| "(),:;".contains(letter));
        let unit = words.get(at + 1).map(|next| next.trim_end_matches([',', ';', ':', ')', '.']));
        let varies = plain.parse::<f64>().is_ok()
            && unit.is_some_and(|unit| {
                ["s", "ms", "us", "bit/s", "kbit/s", "Mbit/s", "Gbit/s", "MB/s", "MB"].contains(&unit)
            });
        let address = plain.contains('.')
            && plain.split(['.', ':']).all(|part| !part.is_empty() && part.parse::<u32>().is_ok());
        // Repairs stand behind bytes in a report.
        let is_count = |word: &str| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit());
        let repairs = is_count(plain) && at > 0 && is_count(words[at - 1]);
        masked += if varies || address || repairs { "#" } else { word };
        masked += " ";
    }
    // The column of waiting times is there only if the sender waited for a receiver.
    masked.replace(" waited ", " ").replace(" # s # s ", " # s ").replace(" - # s ", " - ")
}

/// Returns the page with these outputs below its commands.
fn written(page: &str, outputs: &[String]) -> String {
    let mut outputs = outputs.iter();
    let mut parts = page.split(BLOCK);
    let mut text = parts.next().unwrap_or_default().to_string();
    for part in parts {
        let (block, rest) = part.split_once("```").expect("the block ends");
        text += BLOCK;
        for command in commands_of(block) {
            let output = outputs.next().expect("an output for each command");
            let end = if output.is_empty() || output.ends_with('\n') { "" } else { "\n" };
            let command = command.replace('\n', "\n> ").replace("\n> \n", "\n>\n");
            text += &format!("$ {command}\n{output}{end}");
        }
        text += &format!("```{rest}");
    }
    text
}

/// Runs a page. Compares or writes the outputs, and the files next to the page that it shows and its commands
/// created.
fn check(path: &Path) {
    let page = fs::read_to_string(path).expect("the page can be read");
    let commands = commands(&page);
    assert!(!commands.is_empty(), "{}: no command in an unindented console block", path.display());
    let needed =
        |tool: &&str| commands.iter().any(|command| command.split_whitespace().any(|word| word == *tool));
    if let Some(tool) = TOOLS.into_iter().filter(needed).find(|tool| !is_installed(tool)) {
        return skip_anywhere(format!("{} needs {tool}", path.display()));
    }
    let directory = tempfile::tempdir().expect("a folder");
    let outputs = run(&commands, directory.path());
    let now = written(&page, &outputs);
    let bless = std::env::var_os("CARILLON_BLESS").is_some();
    let pictures: BTreeMap<PathBuf, PathBuf> = page
        .split("](")
        .skip(1)
        .filter_map(|rest| rest.split(')').next())
        .filter(|target| target.ends_with(".svg"))
        .map(|name| (path.with_file_name(name), directory.path().join("work").join(name)))
        .filter(|(_, made)| made.exists())
        .collect();
    for (shown, made) in &pictures {
        let made = fs::read(made).expect("the figure");
        if bless {
            fs::write(shown, &made).expect("the figure can be written");
        }
        assert!(fs::read(shown).ok().as_deref() == Some(&made), "{} has changed", shown.display());
    }
    // Receivers join in any order.
    let sorted = |text: &str| {
        let mut lines: Vec<String> = text.lines().map(masked).collect();
        lines.sort();
        lines
    };
    if bless {
        return fs::write(path, now).expect("the page can be written");
    }
    if sorted(&now) == sorted(&page) {
        return;
    }
    let differences: Vec<String> = now
        .lines()
        .zip(page.lines())
        .filter(|(found, shown)| masked(found) != masked(shown))
        .map(|(found, shown)| format!("prints {found:?}\nnot    {shown:?}"))
        .collect();
    panic!(
        "{}: {}\nCARILLON_BLESS=1 cargo test -p carillon-cli --test command pages writes it",
        path.display(),
        differences.join("\n")
    );
}

/// Every command of the tested pages prints the text below it.
#[test]
fn tutorials_and_how_to_pages_show_real_output() {
    let can_unshare = Command::new("unshare")
        .args(["--net", "--map-root-user", "ip", "link", "set", "lo", "up"])
        .output()
        .is_ok_and(|output| output.status.success());
    if !can_unshare {
        return skip("no network namespace can be made with unshare(1)");
    }
    let folders = ["docs/tutorials", "docs/how-to"].map(|folder| Path::new(ROOT).join(folder));
    let mut pages: Vec<PathBuf> = folders
        .iter()
        .flat_map(|folder| fs::read_dir(folder).expect("the folder can be read"))
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.extension().is_some_and(|end| end == "md"))
        .filter(|path| fs::read_to_string(path).expect("the page can be read").contains(MARK))
        .collect();
    pages.sort();
    assert!(!pages.is_empty(), "no page has the line {MARK}");
    std::thread::scope(|scope| {
        let checks: Vec<_> = pages.iter().map(|page| (page, scope.spawn(|| check(page)))).collect();
        let failed: Vec<_> =
            checks.into_iter().filter_map(|(page, check)| check.join().err().map(|_| page)).collect();
        assert!(failed.is_empty(), "pages to correct: {failed:?}");
    });
}

/// Returns what `carillon … --help` prints.
fn help(command: &[String]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_carillon"))
        .args(command)
        .arg("--help")
        .env("COLUMNS", "100")
        .output()
        .expect("carillon starts");
    assert!(output.status.success(), "carillon {} --help fails", command.join(" "));
    let text = String::from_utf8(output.stdout).expect("help is UTF-8");
    let lines: Vec<&str> = text.trim_end().lines().map(str::trim_end).collect();
    lines.join("\n")
}

/// Names of the commands that a help text lists below "Commands:".
fn listed_commands(help: &str) -> Vec<String> {
    let list = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    list.take_while(|line| !line.is_empty())
        .filter(|line| line.starts_with("  ") && !line.starts_with("   "))
        .filter_map(|line| line.split_whitespace().next())
        .filter(|name| *name != "help")
        .map(str::to_owned)
        .collect()
}

/// Appends the section of a command and of the commands below it.
fn push_sections(page: &mut String, command: &[String]) {
    let help = help(command);
    let title = ["carillon".to_owned()].iter().chain(command).cloned().collect::<Vec<_>>().join(" ");
    *page += &format!("\n## {title}\n\n```text\n{help}\n```\n");
    for name in listed_commands(&help) {
        push_sections(page, &[command, &[name]].concat());
    }
}

/// The page of commands consists of their help texts.
#[test]
fn page_of_commands_shows_their_help() {
    let path = Path::new(ROOT).join("docs/reference/commands.md");
    let page = fs::read_to_string(&path).expect("the page can be read");
    let end = page.find("\n## ").unwrap_or(page.len());
    let mut now = page[..end].to_owned();
    push_sections(&mut now, &[]);
    if std::env::var_os("CARILLON_BLESS").is_some() {
        return fs::write(&path, now).expect("the page can be written");
    }
    assert!(
        page == now,
        "CARILLON_BLESS=1 cargo test -p carillon-cli --test command page_of_commands writes docs/reference/commands.md"
    );
}
