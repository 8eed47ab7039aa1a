//! When each job started.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::job::wall_ns;
use crate::{Fallible, Payload, figure};

/// The starts of the jobs `0..n`, in nanoseconds since 1970. Jobs with other numbers are ignored.
pub(crate) struct Runs {
    starts: Box<[AtomicI64]>,
    dues: Box<[AtomicI64]>,
    count: AtomicU64,
    twice: AtomicU64,
    strange: AtomicU64,
}

static RUNS: OnceLock<Runs> = OnceLock::new();

/// Notes that the handler of a job has started.
pub fn ran(payload: &Payload) {
    let now = wall_ns();
    let Some(runs) = RUNS.get() else { return };
    let place = usize::try_from(payload.number).ok().filter(|place| *place < runs.starts.len());
    let Some(place) = place else {
        runs.strange.fetch_add(1, Ordering::Relaxed);
        return;
    };
    runs.dues[place].store(payload.due, Ordering::Relaxed);
    if runs.starts[place].swap(now, Ordering::Relaxed) == 0 {
        runs.count.fetch_add(1, Ordering::Release);
    } else {
        runs.twice.fetch_add(1, Ordering::Relaxed);
    }
}

/// Makes room for the starts of a number of jobs. Called once, before the contender is opened.
pub(crate) fn expect(jobs: usize) -> &'static Runs {
    let room = |_| AtomicI64::new(0);
    RUNS.get_or_init(|| Runs {
        starts: (0..jobs).map(room).collect(),
        dues: (0..jobs).map(room).collect(),
        count: AtomicU64::new(0),
        twice: AtomicU64::new(0),
        strange: AtomicU64::new(0),
    })
}

impl Runs {
    /// Returns how many jobs have started.
    pub(crate) fn count(&self) -> u64 {
        self.count.load(Ordering::Acquire)
    }

    /// Returns how many runs have started, of all jobs.
    pub(crate) fn all(&self) -> u64 {
        let (twice, strange) = (&self.twice, &self.strange);
        self.count() + twice.load(Ordering::Relaxed) + strange.load(Ordering::Relaxed)
    }

    /// Returns when a job started, or zero.
    pub(crate) fn start(&self, number: usize) -> i64 {
        self.starts[number].load(Ordering::Relaxed)
    }

    /// Waits until a number of jobs have started. Gives up when none has started for `patience`.
    pub(crate) fn wait_for(&self, jobs: u64, patience: Duration) {
        let (mut seen, mut since) = (self.count(), Instant::now());
        while seen < jobs && since.elapsed() < patience {
            std::thread::sleep(Duration::from_micros(500));
            let count = self.count();
            if count > seen {
                (seen, since) = (count, Instant::now());
            }
        }
    }

    /// Prints the counts of what must not happen: jobs among the first `jobs` that never started,
    /// and jobs that started twice, early, or although they were not due.
    pub(crate) fn faults(&self, jobs: u64) {
        figure("lost", jobs.saturating_sub(self.count()) as f64);
        figure("strange", self.strange.load(Ordering::Relaxed) as f64);
        self.untimely();
    }

    /// Prints how many jobs started twice, and how many early.
    pub(crate) fn untimely(&self) {
        figure("twice", self.twice.load(Ordering::Relaxed) as f64);
        let early = self.lateness(0..self.starts.len()).into_iter().filter(|late| *late < 0);
        figure("early", early.count() as f64);
    }

    /// Returns how late the jobs of a range have started, in nanoseconds, sorted. Jobs that have
    /// not started are left out.
    pub(crate) fn lateness(&self, jobs: std::ops::Range<usize>) -> Vec<i64> {
        let late = |number: usize| {
            let start = self.start(number);
            (start != 0).then(|| start - self.dues[number].load(Ordering::Relaxed))
        };
        let mut late: Vec<i64> = jobs.filter_map(late).collect();
        late.sort_unstable();
        late
    }
}

/// Returns a quantile of sorted values.
pub(crate) fn quantile(sorted: &[i64], part: f64) -> Fallible<f64> {
    let last = sorted.len().checked_sub(1).ok_or("no job ran")?;
    Ok(sorted[((last as f64) * part).round() as usize] as f64)
}
