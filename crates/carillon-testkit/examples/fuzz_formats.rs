//! Random and mutated packets for the formats of other implementations, without a fuzzer:
//!
//! ```text
//! cargo run --release -p carillon-testkit --example fuzz_formats -- RUNS [SEED]
//! ```
//!
//! Each run is one input of at most 256 bytes: random bytes, or a golden packet or document with a few changed bytes.
//! The program prints the number of runs of each target. A fault is a panic, with the input behind it.

use std::time::Instant;

use carillon_core::{Rng, Seeds};
use carillon_testkit::FORMATS;
use carillon_testkit::fuzz::wire;

type Body = Box<dyn Fn(&[u8])>;

fn main() {
    let mut args = std::env::args().skip(1).map(|arg| arg.parse::<u64>().expect("a number"));
    let (runs, seed) = (args.next().unwrap_or(1_000_000), args.next().unwrap_or(1));
    let documents: Vec<Vec<u8>> = DOCUMENTS.iter().map(|text| text.as_bytes().to_vec()).collect();
    let mut targets: Vec<(String, Body, Vec<Vec<u8>>)> =
        vec![("fdt".to_owned(), Box::new(wire::fdt), documents)];
    for tests in FORMATS.iter().filter(|tests| NAMES.contains(&tests.format.name)) {
        let golden: Vec<Vec<u8>> = tests.golden.iter().map(carillon_testkit::Golden::bytes).collect();
        let format = tests.format;
        targets.push((
            format.name.to_owned(),
            Box::new(move |bytes| wire::format(format, bytes)),
            golden.clone(),
        ));
        if format.name == "pgm" {
            targets.push(("pgm elements".to_owned(), Box::new(wire::pgm_elements), golden));
        }
    }
    assert_eq!(targets.len(), NAMES.len() + 2, "a format has another name");
    for (name, body, golden) in targets {
        let (mut rng, begin) = (Seeds::new(seed).stream(&name), Instant::now());
        let mut input = Vec::new();
        for run in 0..runs {
            fill(&mut input, &golden, &mut rng);
            let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| body(&input))).is_err();
            assert!(!panicked, "{name}, run {run}: {input:02x?}");
        }
        let rate = runs as f64 / begin.elapsed().as_secs_f64();
        println!("{name}: {runs} runs, {rate:.0} a second");
    }
}

/// Makes the next input.
fn fill(input: &mut Vec<u8>, golden: &[Vec<u8>], rng: &mut Rng) {
    input.clear();
    if golden.is_empty() || rng.below(4) == 0 {
        input.resize(rng.below(257) as usize, 0);
        return rng.fill(input);
    }
    input.extend_from_slice(&golden[rng.below(golden.len() as u64) as usize]);
    for _ in 0..rng.below(6) {
        let at = rng.below(input.len().max(1) as u64) as usize;
        match rng.below(5) {
            0 => input.truncate(at),
            1 => input.insert(at.min(input.len()), rng.below(256) as u8),
            2 if at < input.len() => input[at] ^= 1 << rng.below(8),
            3 if at < input.len() => drop(input.remove(at)),
            _ if at < input.len() => input[at] = rng.below(256) as u8,
            _ => {}
        }
    }
}

/// Formats of other implementations.
const NAMES: &[&str] = &["norm", "alc", "pgm"];

/// Tables of FLUTE.
const DOCUMENTS: &[&str] = &[
    "<FDT-Instance Expires=\"1\" Complete=\"true\"><File TOI=\"1\" Content-Location=\"file:///a\"/></FDT-Instance>",
    "TOI=\"2\" Content-Location=\"a%20b\" Content-Length=\"7\" Transfer-Length=\"9\" Content-Encoding=\"gzip\"/>",
    "FEC-OTI-FEC-Encoding-ID=\"5\" FEC-OTI-Encoding-Symbol-Length=\"1400\" FEC-OTI-Maximum-Source-Block-Length=\"64\"/>",
    "Content-MD5=\"1B2M2Y8AsgTpgAmY7PhCfg==\" FEC-OTI-Scheme-Specific-Info=\"AAAAAQ==\"/>",
];
