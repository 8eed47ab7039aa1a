//! Runs every target on its corpus, and on inputs at random that are the same each time.

use std::fs;
use std::path::Path;

/// How many inputs at random each target gets.
const RANDOM_INPUTS: u64 = 300;

fn replay(name: &str) {
    let target = tickwheel_fuzz::TARGETS.iter().find(|(target, _)| *target == name);
    let run = target.expect("it is in the list").1;
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(name);
    let mut files: Vec<_> =
        fs::read_dir(corpus).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert!(!files.is_empty(), "no corpus for {name}");
    for file in files {
        println!("{}", file.display());
        run(&fs::read(file).unwrap());
    }
    for seed in 0..RANDOM_INPUTS {
        println!("seed {seed}");
        run(&random_bytes(seed));
    }
}

/// Returns up to 300 bytes. The generator is splitmix64 (Steele, Lea and Flood 2014).
fn random_bytes(seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x2545_f491_4f6c_dd1d);
    let mut next = || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    };
    let length = next() % 300;
    (0..length).map(|_| next() as u8).collect()
}

#[test]
fn hierarchy() {
    replay("hierarchy");
}

#[test]
fn wheel() {
    replay("wheel");
}

#[test]
fn keyed() {
    replay("keyed");
}

#[test]
fn futures() {
    replay("futures");
}

#[test]
fn events() {
    replay("events");
}
