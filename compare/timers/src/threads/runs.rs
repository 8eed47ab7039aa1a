//! When each of many jobs ran: a place for each, written by its job, read when all have run.
//!
//! Jobs share no counter: the thread that waits looks at the places in order.

use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// The mark of a job that has not run: no job is as early as that.
const NOT_YET: i64 = i64::MIN;

/// How long to wait for the last job before it is taken for lost.
const PATIENCE: Duration = Duration::from_secs(30);

/// How late each job ran, in nanoseconds.
pub(crate) struct Runs {
    late: Vec<AtomicI64>,
    twice: AtomicUsize,
}

impl Runs {
    /// Places for this number of jobs, with memory that was touched already. They live as long as
    /// the process, so that a job captures no more than a reference.
    pub(crate) fn new(jobs: usize) -> &'static Runs {
        let late = (0..jobs).map(|_| AtomicI64::new(NOT_YET)).collect();
        Box::leak(Box::new(Runs { late, twice: AtomicUsize::new(0) }))
    }

    /// The job that was due at `at` runs now.
    pub(crate) fn record(&self, job: usize, at: Instant) {
        let now = Instant::now();
        let late = match now.checked_duration_since(at) {
            Some(late) => late.as_nanos() as i64,
            None => -((at - now).as_nanos() as i64),
        };
        if self.late[job].swap(late, Ordering::Relaxed) != NOT_YET {
            self.twice.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Waits until all have run, looking every `pause`.
    pub(crate) fn wait(&self, last_due: Instant, pause: Duration) -> Result<(), String> {
        let mut first_open = 0;
        loop {
            let open = self.late[first_open..].iter().position(|late| !has_run(late));
            let Some(open) = open else { return Ok(()) };
            first_open += open;
            if Instant::now() > last_due + PATIENCE {
                return Err(format!("{} jobs were lost", self.lost()));
            }
            thread::sleep(pause);
        }
    }

    pub(crate) fn has_run(&self, job: usize) -> bool {
        has_run(&self.late[job])
    }

    /// How often a job ran again.
    pub(crate) fn twice(&self) -> usize {
        self.twice.load(Ordering::Relaxed)
    }

    /// In milliseconds and in order, of those that have run.
    pub(crate) fn sorted_millis(&self) -> Vec<f64> {
        let ran = self.late.iter().filter(|late| has_run(late));
        let mut late: Vec<i64> = ran.map(|late| late.load(Ordering::Relaxed)).collect();
        late.sort_unstable();
        late.into_iter().map(|nanos| nanos as f64 / 1e6).collect()
    }

    fn lost(&self) -> usize {
        self.late.iter().filter(|late| !has_run(late)).count()
    }
}

fn has_run(late: &AtomicI64) -> bool {
    late.load(Ordering::Relaxed) != NOT_YET
}

/// What one producer or task did, and when.
pub(crate) struct Lap {
    pub(crate) operations: usize,
    pub(crate) start: Instant,
    pub(crate) end: Instant,
}

/// Millions a second, all laps together.
pub(crate) fn rate(laps: &[Lap]) -> f64 {
    let start = laps.iter().map(|lap| lap.start).min();
    let end = laps.iter().map(|lap| lap.end).max();
    let elapsed = end.zip(start).map_or(Duration::ZERO, |(end, start)| end - start);
    let operations: usize = laps.iter().map(|lap| lap.operations).sum();
    operations as f64 / elapsed.as_secs_f64() / 1e6
}

/// The value that a share of all values do not exceed.
pub(crate) fn quantile(sorted: &[f64], share: f64) -> f64 {
    let rank = (sorted.len() as f64 * share).ceil() as usize;
    sorted[rank.clamp(1, sorted.len()) - 1]
}
