//! The job that all contenders store.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

/// The data of a job: some 110 bytes of JSON.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Payload {
    pub number: u64,
    /// When it is to run, in nanoseconds since 1970.
    pub due: i64,
    pub text: String,
}

/// The text of a job, in place of an address or a title.
const TEXT: &str = "close the order unless it has been paid for in the meantime ----";

/// When a job is to run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Due {
    Now,
    /// In nanoseconds since 1970.
    At(i64),
}

/// A job to store.
#[derive(Clone, Debug)]
pub struct NewJob {
    pub due: Due,
    pub payload: Payload,
}

impl NewJob {
    /// Returns a job for now.
    pub fn now(number: u64) -> NewJob {
        NewJob { due: Due::Now, payload: Payload { number, due: wall_ns(), text: TEXT.to_owned() } }
    }

    /// Returns a job for a time in nanoseconds since 1970.
    pub fn at(number: u64, due: i64) -> NewJob {
        NewJob { due: Due::At(due), payload: Payload { number, due, text: TEXT.to_owned() } }
    }
}

impl Due {
    /// Returns the due time rounded up to a whole second, for contenders whose times are seconds.
    pub fn whole_second(self) -> Option<i64> {
        match self {
            Due::Now => None,
            Due::At(ns) => Some(ns.div_euclid(1_000_000_000) + i64::from(ns % 1_000_000_000 != 0)),
        }
    }

    /// Returns the due time as a `SystemTime`.
    pub fn system_time(self) -> SystemTime {
        let ns = match self {
            Due::Now => wall_ns(),
            Due::At(ns) => ns,
        };
        UNIX_EPOCH + Duration::from_nanos(u64::try_from(ns).unwrap_or(0))
    }
}

pub(crate) const SECOND: i64 = 1_000_000_000;
pub(crate) const HOUR: i64 = 3600 * SECOND;

/// Numbers from here on belong to jobs that are not to run while a row is measured.
pub(crate) const DISTANT: u64 = 1 << 40;

/// Returns a job that is due three days after its insert.
pub fn distant_job() -> NewJob {
    static NEXT: AtomicU64 = AtomicU64::new(DISTANT);
    NewJob::at(NEXT.fetch_add(1, Ordering::Relaxed), wall_ns() + 72 * HOUR)
}

/// Returns what the wall clock reads, in nanoseconds since 1970.
pub fn wall_ns() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
}
