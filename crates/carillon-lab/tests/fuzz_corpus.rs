//! The fuzz targets on the committed corpus and on seeded random inputs: what once failed stays
//! found, and the targets stay in working order, without a fuzzer.

use std::collections::BTreeSet;
use std::path::PathBuf;

use carillon_core::{Rng, Seeds};
use carillon_testkit::{first_seed, is_long_tier, variable};

#[path = "../../../fuzz/src/targets.rs"]
mod targets;

use targets::{Target, targets};

#[test]
fn the_committed_corpus_passes() {
    for target in targets() {
        for path in committed(&target) {
            // A failure names its input last.
            println!("{}", path.display());
            (target.body)(&std::fs::read(&path).expect("the corpus can be read"));
        }
        target.seeds.iter().for_each(|seed| (target.body)(seed));
    }
}

#[test]
fn every_corpus_folder_belongs_to_a_target() {
    let targets = targets();
    for entry in std::fs::read_dir(corpus()).expect("there is a corpus") {
        let name = entry.expect("the corpus can be listed").file_name();
        assert!(targets.iter().any(|target| name == *target.name), "no target is called {name:?}");
    }
}

#[test]
fn random_inputs_pass() {
    let seed = first_seed();
    let inputs =
        variable("CARILLON_RUNS").unwrap_or(if is_long_tier() { RANDOM_INPUTS } else { RANDOM_INPUTS / 8 });
    for target in targets() {
        let mut rng = Seeds::new(seed).part("fuzz").stream(&target.name);
        let read = |path| std::fs::read(path).expect("the corpus can be read");
        let mut seeds: Vec<Vec<u8>> = committed(&target).into_iter().map(read).collect();
        seeds.extend(target.seeds);
        for number in 0..inputs {
            let input = match seeds.is_empty() || number % 2 == 0 {
                true => random(&mut rng),
                false => mutated(&seeds, &mut rng),
            };
            let said = SaidOfAFailure(|| {
                println!("{}, CARILLON_SEED={seed}, input {number}: {input:?}", target.name)
            });
            (target.body)(&input);
            drop(said);
        }
    }
}

/// Is said when it is dropped by a panic: to write down each input would take as long as to try it.
struct SaidOfAFailure<F: Fn()>(F);

impl<F: Fn()> Drop for SaidOfAFailure<F> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            (self.0)();
        }
    }
}

/// The committed inputs of a target, if it has any.
fn committed(target: &Target) -> BTreeSet<PathBuf> {
    let Ok(folder) = std::fs::read_dir(corpus().join(&target.name)) else { return BTreeSet::new() };
    folder.map(|entry| entry.expect("the corpus can be listed").path()).collect()
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

/// Number of random inputs for each target.
const RANDOM_INPUTS: u64 = 1000;
