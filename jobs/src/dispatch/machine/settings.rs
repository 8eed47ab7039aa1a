//! The settings of a machine: they do not change while the jobs run.

use std::sync::Arc;
use std::time::Duration;

use foldhash::HashMap;

use crate::dispatch::capacity::Capacity;
use crate::dispatch::end_waits::EndWaits;
use crate::dispatch::progress::Progress;
use crate::dispatch::run_state::Slot;
use crate::values::fail_and_retry::Retry;
use crate::values::limit::Limit;

/// The choices of the builder, as the machine needs them.
#[derive(Clone)]
pub(crate) struct Settings {
    /// The name of the queue. Empty: the default one.
    pub(crate) queue: String,
    /// How many jobs may be claimed at once.
    pub(crate) max_in_flight: usize,
    /// How many runs can be under way at once.
    pub(crate) most_runs: usize,
    /// How long before its due time a job is claimed.
    pub(crate) ahead: Duration,
    /// How long a claim holds unless it is renewed. None: as long as the process runs.
    pub(crate) lease: Option<Duration>,
    /// The limit of a call. Zero on a manual clock.
    pub(crate) call_timeout: Duration,
    /// A change is on stable storage before its answer.
    pub(crate) synced: bool,
    /// The retry policy of each kind that is handled here. Empty: nothing is claimed.
    pub(crate) policies: HashMap<Arc<str>, Retry>,
    /// What a job takes, of each kind whose jobs do not take a thread each.
    pub(crate) slots: HashMap<Arc<str>, Slot>,
    /// How many jobs of each of these kinds may be claimed at once. Other kinds share the threads.
    pub(crate) rooms: HashMap<Arc<str>, usize>,
    /// How long a run of a kind may take, and how much longer until the machine gives it up.
    pub(crate) time_limits: HashMap<Arc<str>, Duration>,
    pub(crate) limit_grace: Duration,
    /// How many jobs the threads can start soon. None on a manual clock.
    pub(crate) capacity: Option<Arc<Capacity>>,
    /// The callers that wait for the end of a job.
    pub(crate) end_waits: Arc<EndWaits>,
    /// The progress that runs have set, until a step takes it.
    pub(crate) progress: Arc<Progress>,
    /// How many threads run the handlers, if that was set.
    pub(crate) threads: Option<usize>,
    /// How many handlers that block can run at once.
    pub(crate) pool: usize,
    /// The flow of each kind that is handled here.
    pub(crate) flows: HashMap<Arc<str>, &'static str>,
    /// The limits of flows that hold as long as none is stored.
    pub(crate) limits: Vec<(String, Limit)>,
    /// The store counts what happens in each minute.
    pub(crate) history: bool,
}
