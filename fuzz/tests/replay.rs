//! Runs every target on its corpus, and on inputs at random: bytes, and files of the corpus with some
//! bytes changed. The inputs are the same each time. `FUZZ_SECONDS` says for how long at least.

use std::fs;
use std::ops::ControlFlow::{self, Break, Continue};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

/// How many inputs at random each target gets at least.
const RANDOM_INPUTS: u64 = 300;

fn replay(name: &str) {
    let run = |bytes: &[u8]| tickwheel_fuzz::run(name, bytes);
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(name);
    let mut paths: Vec<_> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    assert!(!paths.is_empty(), "no corpus for {name}");
    let corpus: Vec<Vec<u8>> = paths.iter().map(|path| fs::read(path).unwrap()).collect();
    for (path, bytes) in paths.iter().zip(&corpus) {
        let input = Input { name: path.display().to_string(), bytes: bytes.clone() };
        run(&input.bytes);
    }
    let mut is_enough = enough();
    let inputs = (0..).take_while(|&seed| is_enough(seed).is_continue());
    let count = inputs.map(|seed| {
        let mut random = Random(seed.wrapping_mul(0x2545_f491_4f6c_dd1d));
        let bytes = match seed % 4 {
            0 => random.bytes(300),
            _ => random.change(&corpus),
        };
        let input = Input { name: format!("seed {seed}"), bytes };
        run(&input.bytes);
    });
    println!("{name}: {} inputs at random", count.count());
}

/// Returns a function of the number of inputs so far: `Break` once that is enough.
#[expect(clippy::disallowed_methods, reason = "for a time of the machine, not of a wheel")]
fn enough() -> impl FnMut(u64) -> ControlFlow<()> {
    let seconds = std::env::var("FUZZ_SECONDS").map_or(0, |seconds| seconds.parse().unwrap());
    let began = Instant::now();
    move |inputs| match inputs < RANDOM_INPUTS || began.elapsed() < Duration::from_secs(seconds) {
        true => Continue(()),
        false => Break(()),
    }
}

/// Is told if its run panics.
struct Input {
    name: String,
    bytes: Vec<u8>,
}

impl Drop for Input {
    fn drop(&mut self) {
        if thread::panicking() {
            println!("{}: {:02x?}", self.name, self.bytes);
        }
    }
}

/// The generator is splitmix64 (Steele, Lea and Flood 2014).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number less than `end`, which is not zero.
    fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    /// Returns fewer bytes than `most`.
    fn bytes(&mut self, most: usize) -> Vec<u8> {
        (0..self.below(most)).map(|_| self.next() as u8).collect()
    }

    /// Returns the beginning of one file, the end of another, and some bytes that are in neither.
    fn change(&mut self, corpus: &[Vec<u8>]) -> Vec<u8> {
        let (one, other) = (&corpus[self.below(corpus.len())], &corpus[self.below(corpus.len())]);
        let mut bytes = one[..self.below(one.len() + 1)].to_vec();
        if self.next() % 4 == 0 {
            bytes.extend(self.bytes(40));
        }
        bytes.extend(&other[self.below(other.len() + 1)..]);
        for _ in 0..self.below(6) {
            let place = self.below(bytes.len() + 1);
            match bytes.get_mut(place) {
                Some(byte) => *byte = self.next() as u8,
                None => bytes.push(self.next() as u8),
            }
        }
        bytes
    }
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
