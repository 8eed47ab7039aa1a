//! The jobs: their keys, their delays, their payload.

use std::str::FromStr;

use crate::Fallible;

/// The longest delay, and in (a) the only one.
const DELAY_MS: u64 = 72 * 3600 * 1000;
/// The moment at which a measurement starts.
const START_MS: u64 = 1_800_000_000_000;
/// All jobs of the comparison are of one kind.
pub(crate) const KIND: u16 = 1;

pub(crate) const PAYLOAD_BYTES: usize = 62;

#[derive(Clone)]
pub(crate) struct Job {
    /// Wall clock, in milliseconds.
    pub(crate) due: u64,
    /// Made by the client: in the order of creation.
    pub(crate) id: [u8; 16],
    pub(crate) payload: [u8; PAYLOAD_BYTES],
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Delays {
    /// (a): every delay is 72 hours.
    Constant,
    /// (b): delays are uniform over 72 hours.
    Uniform,
}

impl FromStr for Delays {
    type Err = Box<dyn std::error::Error>;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "a" => Ok(Delays::Constant),
            "b" => Ok(Delays::Uniform),
            _ => Err(format!("not a workload: {text}").into()),
        }
    }
}

/// Makes jobs as if time passed: `now` follows the deadlines that are taken.
pub(crate) struct Workload {
    delays: Delays,
    live: u64,
    pub(crate) now: u64,
    /// How many jobs were made, those included that filled the file.
    made: u64,
    random: u64,
    /// Two processes make different ids.
    process: [u8; 2],
}

impl Workload {
    pub(crate) fn new(delays: Delays, live: u64, seed: u64) -> Self {
        Self {
            delays,
            live,
            now: START_MS,
            made: 0,
            random: seed,
            process: (seed as u16).to_be_bytes(),
        }
    }

    fn draw(&mut self) -> u64 {
        // splitmix64.
        self.random = self.random.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.random;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// Jobs that are pending when the measurement starts. The remaining delays are those of the
    /// steady state: in (a) evenly spread, in (b) their density falls in a straight line to zero
    /// at 72 hours.
    pub(crate) fn pending(&mut self, count: u64) -> Vec<Job> {
        let jobs = (0..count).map(|_| {
            let due = match self.delays {
                Delays::Constant => self.next_constant(),
                Delays::Uniform => {
                    let u = (self.draw() >> 11) as f64 / (1u64 << 53) as f64;
                    START_MS + (DELAY_MS as f64 * (1.0 - (1.0 - u).sqrt())) as u64
                }
            };
            self.job(due)
        });
        sorted(jobs.collect())
    }

    /// Continues where `pending` stopped when it filled the file, in another process.
    pub(crate) fn resume(&mut self, filled: u64) {
        self.made = filled;
    }

    /// A group that is inserted in one commit, in the order of the keys.
    pub(crate) fn group(&mut self, size: usize, into: &mut Vec<Job>) {
        into.clear();
        for _ in 0..size {
            let due = match self.delays {
                Delays::Constant => self.next_constant(),
                Delays::Uniform => self.now + self.draw() % DELAY_MS,
            };
            into.push(self.job(due));
        }
        into.sort_unstable_by_key(|job| (job.due, job.id));
    }

    /// (a): deadlines are evenly spread, `live` of them over the delay.
    fn next_constant(&self) -> u64 {
        let after = u128::from(self.made) * u128::from(DELAY_MS) / u128::from(self.live);
        START_MS + after as u64
    }

    fn job(&mut self, due: u64) -> Job {
        self.made += 1;
        let mut id = [0; 16];
        id[..6].copy_from_slice(&START_MS.to_be_bytes()[2..]);
        id[6..8].copy_from_slice(&self.process);
        id[8..].copy_from_slice(&self.made.to_be_bytes());
        let mut payload = *br#"{"order":0000000000,"to":"user-0000000@example.org","try":false}"#
            .first_chunk::<PAYLOAD_BYTES>()
            .expect("the text is longer than the payload");
        digits(&mut payload[9..19], self.made);
        digits(&mut payload[31..38], self.made.wrapping_mul(7919));
        Job { due, id, payload }
    }
}

fn digits(place: &mut [u8], mut number: u64) {
    for digit in place.iter_mut().rev() {
        *digit = b'0' + (number % 10) as u8;
        number /= 10;
    }
}

fn sorted(mut jobs: Vec<Job>) -> Vec<Job> {
    jobs.sort_unstable_by_key(|job| (job.due, job.id));
    jobs
}

/// The key of the trees that take bytes: kind, deadline, id.
pub(crate) type Key = [u8; 24];

pub(crate) fn key(due: u64, id: &[u8; 16]) -> Key {
    let mut key = [0; 24];
    key[..2].copy_from_slice(&KIND.to_be_bytes());
    key[2..8].copy_from_slice(&due.to_be_bytes()[2..]);
    key[8..].copy_from_slice(id);
    key
}

pub(crate) fn due_of(key: &[u8]) -> Fallible<u64> {
    let mut due = [0; 8];
    due[2..].copy_from_slice(key.get(2..8).ok_or("a key is too short")?);
    Ok(u64::from_be_bytes(due))
}

/// The value beside such a key: tries, interruptions, the length of an absent key, the payload.
pub(crate) fn value(job: &Job) -> [u8; PAYLOAD_BYTES + 3] {
    let mut value = [0; PAYLOAD_BYTES + 3];
    value[3..].copy_from_slice(&job.payload);
    value
}
