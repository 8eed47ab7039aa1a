//! The common part of all contenders: the rows, and how they are measured.
//!
//! A contender is a program of its own, because two versions of SQLite's C code cannot be linked into
//! one. It implements [`Contender`] and calls [`main`]; the driver starts it with the name of a row
//! and its sizes, and reads lines `key value` from its standard output.
//!
//! | file | what it does |
//! | --- | --- |
//! | `options.rs` | reads the command line |
//! | `job.rs` | the job that all of them store: number, due time, 64 bytes of text |
//! | `runs.rs` | keeps when each job started, and whether one started twice or early |
//! | `clock.rs` | a wall clock that can be set forward |
//! | `process.rs` | reads the system's counters of this process, and counts each fsync |
//! | `rows/` | one file for each row |

mod clock;
mod job;
mod options;
mod process;
mod rows;
mod runs;

pub use job::{Due, NewJob, Payload, distant_job, wall_ns};
pub use options::{Level, Setup};
pub use runs::ran;

use std::process::ExitCode;
use std::time::Instant;

/// A result whose error says why a row could not be measured.
pub type Fallible<T = ()> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// A queue of durable jobs on a file.
pub trait Contender: Send + Sync + Sized + 'static {
    /// Opens the file, which is made if it is absent; runs jobs if `setup.works`. The handler of a job
    /// calls [`ran`] and returns.
    fn open(setup: &Setup) -> Fallible<Self>;

    /// Stores one job. Returns once it is as durable as the setup says.
    fn insert(&self, job: NewJob) -> Fallible;

    /// Stores many jobs, in the fastest way there is.
    fn insert_many(&self, jobs: Vec<NewJob>) -> Fallible;

    /// Lets a number of callers insert [`distant_job`]s one by one, until a time. Returns how many
    /// they inserted.
    fn insert_by(&self, callers: usize, until: Instant) -> Fallible<u64> {
        std::thread::scope(|scope| {
            let caller = || {
                let mut inserted = 0;
                while Instant::now() < until {
                    self.insert(distant_job())?;
                    inserted += 1;
                }
                Fallible::Ok(inserted)
            };
            let callers: Vec<_> = (0..callers).map(|_| scope.spawn(caller)).collect();
            callers.into_iter().map(|caller| caller.join().expect("a caller panicked")).sum()
        })
    }

    /// Returns how many jobs are stored and have not ended, by the store's own account.
    fn unfinished(&self) -> Fallible<u64>;

    /// Figures that only this contender has.
    fn figures(&self) -> Vec<(&'static str, f64)> {
        Vec::new()
    }

    /// Ends in an orderly way.
    fn close(self) -> Fallible;
}

/// Measures the row that the command line names.
pub fn main<C: Contender>() -> ExitCode {
    let measured = options::parse(std::env::args().skip(1))
        .and_then(|(row, setup)| rows::measure::<C>(&row, &setup));
    match measured {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("contender: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Prints a figure.
pub fn figure(key: &str, value: f64) {
    println!("{key} {value}");
}
