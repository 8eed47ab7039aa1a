//! The threads of a dashboard: one answers what is read, one makes the changes, and one keeps the limit of each answer.
//!
//! Ground rules:
//!
//! - A change may wait for the store, for example for the lock of another program. No read waits for a change.
//! - The threads hold no sender of their own channels. So they end once the last clone of the dashboard is dropped
//!   and the last request is answered.
//! - A request is answered once: by the first of the thread and the limit. A task that is dropped answers that it
//!   was.
//! - A panic of the program's code ends its request, and not the thread: of a hook, of a waker, of the drop of a value
//!   in the request's extensions, or of what a panic carries.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::bulks::Board;
use super::options::caught;
use super::outcomes::Outcomes;
use super::respond::Responder;
use super::response;
use super::route::Route;
use super::settings::Settings;
use super::task::{Reply, Task, ended};
use super::times::now;
use super::views::Problem;
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, TryRecvError, TrySendError, bounded};

/// How many requests may wait. Further ones are refused.
const WAITING: usize = 256;
/// The limit of an answer.
const LIMIT: Duration = Duration::from_secs(20);
/// The limit of the answer whether the store answers.
const HEALTH_LIMIT: Duration = Duration::from_secs(2);

/// The way to the threads.
pub(crate) struct Worker {
    reads: Sender<Task>,
    changes: Sender<Task>,
    limits: Sender<(Instant, Reply)>,
}

impl Worker {
    /// Starts the threads, unless the system refuses one.
    pub(crate) fn start(settings: Arc<Settings>) -> Option<Worker> {
        let (limits, limits_out) = bounded(4 * WAITING);
        let (board, outcomes) = (Arc::new(Board::default()), Arc::new(Outcomes::default()));
        let thread = |name: &str| std::thread::Builder::new().name(name.to_owned());
        let answers = |name: &str, only_reads: bool| {
            let (tasks, tasks_out) = bounded(WAITING);
            let (settings, board) = (Arc::clone(&settings), Arc::clone(&board));
            let outcomes = Arc::clone(&outcomes);
            let run = move || {
                let settings = if only_reads { that_reads(&settings) } else { settings };
                run(&mut Responder::new(settings, board, outcomes), &tasks_out);
            };
            thread(name).spawn(run).ok().map(|_| tasks)
        };
        let reads = answers("tickwheel-web", true)?;
        let changes = answers("tickwheel-web-change", false)?;
        thread("tickwheel-web-limit").spawn(move || keep_limits(&limits_out)).ok()?;
        Some(Worker { reads, changes, limits })
    }

    pub(crate) fn send(&self, task: Task) -> Result<(), Problem> {
        let limit = if task.route == Route::Health { HEALTH_LIMIT } else { LIMIT };
        // Without room for the limit, the request has none.
        drop(self.limits.try_send((now() + limit, task.reply.clone())));
        // The metrics are those of the program's client, which may wait for a change.
        let tasks = match task.route {
            Route::Act(_) | Route::Metrics => &self.changes,
            _ => &self.reads,
        };
        match tasks.try_send(task) {
            Ok(()) => Ok(()),
            Err(TrySendError::Full(task) | TrySendError::Disconnected(task)) => {
                task.reply.forget();
                let message = "too many requests wait already".to_owned();
                Err(Problem { status: 503, error: "busy", message })
            }
        }
    }
}

/// Returns the settings with clients that only read, and wait for no change.
fn that_reads(settings: &Settings) -> Arc<Settings> {
    let mut settings = settings.clone();
    for queue in &mut settings.queues {
        queue.client = queue.that_reads();
    }
    Arc::new(settings)
}

/// Answers requests. Between two of them, makes a step of the changes that are under way.
fn run(responder: &mut Responder, tasks: &Receiver<Task>) {
    loop {
        let task = if responder.has_work() {
            match tasks.try_recv() {
                Ok(task) => Some(task),
                Err(TryRecvError::Empty) => None,
                Err(TryRecvError::Disconnected) => break,
            }
        } else {
            match tasks.recv() {
                Ok(task) => Some(task),
                Err(_) => break,
            }
        };
        if let Some(task) = task {
            caught(|| answer(responder, task));
        }
        if responder.has_work() && caught(|| responder.work()).is_none() {
            caught(|| responder.fail_work());
        }
    }
    while caught(|| responder.end()).is_none() {}
}

/// Answers a request and drops it.
fn answer(responder: &mut Responder, task: Task) {
    if task.reply.is_over() {
        return;
    }
    let answer = caught(|| responder.answer(&task));
    task.reply.set(|| {
        answer.unwrap_or_else(|| {
            let message = "the program has failed on this request".to_owned();
            response::problem(&Problem { status: 500, error: "failed", message })
        })
    });
}

/// Answers the requests that the other thread has not answered in time.
fn keep_limits(limits: &Receiver<(Instant, Reply)>) {
    let mut waiting: BTreeMap<(Instant, u64), Reply> = BTreeMap::new();
    let mut number = 0;
    loop {
        let next = waiting.first_key_value().map(|((at, _), _)| *at);
        let received = match next {
            Some(at) => limits.recv_deadline(at),
            None => limits.recv().map_err(|_| RecvTimeoutError::Disconnected),
        };
        match received {
            Ok((at, reply)) => {
                number += 1;
                waiting.retain(|_, reply| !reply.is_over());
                waiting.insert((at, number), reply);
            }
            Err(RecvTimeoutError::Timeout) => {
                let now = now();
                while let Some(first) = waiting.first_entry().filter(|first| first.key().0 <= now) {
                    first.remove().set(|| ended("the store did not answer in time"));
                }
            }
            // The dashboard is gone, and with it every request.
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
}
