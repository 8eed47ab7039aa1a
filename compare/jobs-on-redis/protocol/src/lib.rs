//! The common part of all contenders in Rust: the driver's commands, and the times at which jobs started.
//!
//! A contender is a program of its own. It is started with `url=URL lease_ms=N hold_ms=N limited=0 partitions=0
//! role=work`, say, or `limited=1`, `partitions=1000` or `role=produce`. It says `ready`, and answers each line of its
//! standard input with lines of its own:
//!
//! | command | answer |
//! | --- | --- |
//! | `insert FIRST COUNT BULK FROM SPREAD` | `inserted` NANOSECONDS |
//! | `one FIRST COUNT PAUSE` | the same, after COUNT single inserts for now, PAUSE µs apart |
//! | `started` | `started` and how many runs have begun in this process |
//! | `unfinished` | `unfinished` and how many jobs the server holds that have not ended |
//! | `starts` | a line `NUMBER DUE START` for each run, then `end` |
//!
//! FROM and SPREAD are µs; FROM 0 is for now. Job `i` of `insert` is due at `FROM + (7919 * i % COUNT) *
//! SPREAD / COUNT`, in whole milliseconds, so that neighbours in a bulk are due far from each other. DUE
//! is µs, START ns, both since 1970. The answer to a command that cannot be done is `error`. A contender
//! ends when its input ends, or when the driver kills it. The contenders in other languages do the same.

mod commands;
mod runs;

pub use commands::{NEVER_REACHED, Setup, main, now_us};
pub use runs::ran;

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

/// A result whose error is a sentence.
pub type Fallible<T = ()> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// The queue of all contenders.
pub const QUEUE: &str = "orders";

/// The data of a job: some 100 bytes of JSON.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Payload {
    pub number: u64,
    /// When it is to run, in µs since 1970.
    pub due: u64,
    pub text: String,
}

/// The text of a job, in place of an address or a title.
const TEXT: &str = "close the order unless it has been paid for -----";

/// A job to insert.
#[derive(Clone, Debug)]
pub struct NewJob {
    /// Whether it is to run as soon as possible.
    pub now: bool,
    pub payload: Payload,
}

impl NewJob {
    fn now(number: u64) -> NewJob {
        NewJob { now: true, payload: Payload { number, due: now_us(), text: TEXT.to_owned() } }
    }

    fn at(number: u64, due: u64) -> NewJob {
        NewJob { now: false, payload: Payload { number, due, text: TEXT.to_owned() } }
    }

    /// Returns when it is to run, as a time of the system.
    pub fn system_time(&self) -> SystemTime {
        UNIX_EPOCH + Duration::from_micros(self.payload.due)
    }
}

/// A queue on a Redis server.
pub trait Contender: Sized {
    /// Connects, and runs jobs if `setup.works`. The handler of a job calls [`ran`], waits for
    /// `setup.hold`, and returns.
    fn open(setup: &Setup) -> Fallible<Self>;

    /// Inserts jobs in the fastest way there is.
    fn insert_many(&mut self, jobs: Vec<NewJob>) -> Fallible;

    /// Inserts one job.
    fn insert(&mut self, job: NewJob) -> Fallible {
        self.insert_many(vec![job])
    }

    /// Returns how many jobs the server holds that have not ended.
    fn unfinished(&mut self) -> Fallible<u64>;
}
