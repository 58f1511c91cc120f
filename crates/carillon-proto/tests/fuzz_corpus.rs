//! The fuzz targets on the committed corpus and on seeded random inputs: what once failed stays
//! found, and the targets stay in working order, without a fuzzer.

use std::path::PathBuf;

use carillon_core::{Rng, Seeds};

#[path = "../../../fuzz/src/targets.rs"]
mod targets;

use targets::TARGETS;

#[test]
fn the_committed_corpus_passes() {
    for &(name, body) in TARGETS {
        let folder = corpus().join(name);
        let mut inputs: Vec<PathBuf> = std::fs::read_dir(&folder)
            .unwrap_or_else(|error| panic!("{}: {error}", folder.display()))
            .map(|entry| entry.expect("the corpus can be listed").path())
            .collect();
        inputs.sort();
        assert!(!inputs.is_empty(), "{} is empty", folder.display());
        for path in inputs {
            // A failure names its input last.
            println!("{}", path.display());
            body(&std::fs::read(&path).expect("the corpus can be read"));
        }
    }
}

#[test]
fn every_corpus_folder_belongs_to_a_target() {
    for entry in std::fs::read_dir(corpus()).expect("there is a corpus") {
        let name = entry.expect("the corpus can be listed").file_name();
        assert!(TARGETS.iter().any(|(known, _)| name == *known), "no target is called {name:?}");
    }
}

#[test]
fn random_inputs_pass() {
    for &(name, body) in TARGETS {
        let mut rng = Seeds::new(1).part("fuzz").stream(name);
        let seeds: Vec<Vec<u8>> = std::fs::read_dir(corpus().join(name))
            .expect("there is a corpus")
            .map(|entry| entry.expect("the corpus can be listed").path())
            .collect::<std::collections::BTreeSet<_>>()
            .into_iter()
            .map(|path| std::fs::read(path).expect("the corpus can be read"))
            .collect();
        for number in 0..RANDOM_INPUTS {
            let input = if number % 2 == 0 { random(&mut rng) } else { mutated(&seeds, &mut rng) };
            println!("{name}, input {number}: {input:?}");
            body(&input);
        }
    }
}

/// Up to 256 random bytes.
fn random(rng: &mut Rng) -> Vec<u8> {
    let mut bytes = vec![0; rng.below(257) as usize];
    rng.fill(&mut bytes);
    bytes
}

/// A committed input with a few bytes changed, put in, or taken out.
fn mutated(seeds: &[Vec<u8>], rng: &mut Rng) -> Vec<u8> {
    let mut bytes = seeds[rng.below(seeds.len() as u64) as usize].clone();
    for _ in 0..=rng.below(4) {
        let at = rng.below(bytes.len() as u64 + 1) as usize;
        match rng.below(3) {
            0 => bytes.insert(at, rng.bits() as u8),
            _ if at == bytes.len() => {}
            1 => drop(bytes.remove(at)),
            _ => bytes[at] ^= 1 << rng.below(8),
        }
    }
    bytes
}

fn corpus() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus"))
}

/// For each target.
const RANDOM_INPUTS: u32 = 3000;
