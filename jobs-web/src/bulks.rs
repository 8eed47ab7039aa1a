//! Changes of many jobs, in commits of at most 256, with progress, between the requests of a dashboard.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use http::request::Parts;

use super::options::Action;
use super::page::counted;
use super::read::DashboardSettings;
use super::views::{self, Problem, Progress};
use tickwheel_jobs::view::Time;
use tickwheel_jobs::{Bulk, JobId};

const MOST_UNDER_WAY: usize = 8;
const MOST_REMEMBERED: usize = 64;

/// The problem of a bulk whose step or audit has panicked.
const PANICKED: &str = "the program has failed on it";

pub(crate) struct UnderWay {
    /// The queue, by its place among those of the dashboard.
    pub(crate) at: usize,
    pub(crate) bulk: Bulk,
    /// The jobs, if they were named one by one.
    pub(crate) ids: Vec<JobId>,
    pub(crate) request: Arc<Parts>,
    pub(crate) progress: Progress,
}

/// What the thread of the changes tells the thread of the reads.
#[derive(Default)]
pub(crate) struct Board {
    /// How far the bulks are, in the order of their start.
    progress: Mutex<Vec<Progress>>,
    /// It moves before and after each change: an answer that was read under another number may be old.
    changes: AtomicU64,
}

impl Board {
    pub(crate) fn changes(&self) -> u64 {
        self.changes.load(Ordering::SeqCst)
    }

    pub(crate) fn changed(&self) {
        self.changes.fetch_add(1, Ordering::SeqCst);
    }

    pub(crate) fn list(&self, now: Time) -> views::Bulks {
        let progress = self.progress.lock().unwrap_or_else(PoisonError::into_inner);
        views::Bulks { now, rows: progress.iter().rev().cloned().collect() }
    }

    pub(crate) fn find(&self, id: u64) -> Result<Progress, Problem> {
        let progress = self.progress.lock().unwrap_or_else(PoisonError::into_inner);
        progress.iter().find(|progress| progress.id == id).cloned().ok_or_else(|| {
            let why = "it ended long ago, or in another process";
            Problem::not_found(format!("there is no change {id}: {why}"))
        })
    }
}

pub(crate) struct Bulks {
    settings: Arc<DashboardSettings>,
    board: Arc<Board>,
    /// In the order of their start.
    all: VecDeque<UnderWay>,
    last_id: u64,
    /// The bulk whose step is under way, or was the last.
    current: u64,
}

impl Bulks {
    pub(crate) fn new(settings: Arc<DashboardSettings>, board: Arc<Board>) -> Bulks {
        Bulks { settings, board, all: VecDeque::new(), last_id: 0, current: 0 }
    }

    fn publish(&self) {
        let progress = self.all.iter().map(|bulk| bulk.progress.clone()).collect();
        *self.board.progress.lock().unwrap_or_else(PoisonError::into_inner) = progress;
    }

    pub(crate) fn are_under_way(&self) -> bool {
        self.under_way().next().is_some()
    }

    pub(crate) fn start(&mut self, mut bulk: UnderWay) -> Result<Progress, Problem> {
        if self.under_way().count() >= MOST_UNDER_WAY {
            let message = format!("{MOST_UNDER_WAY} changes of many jobs are under way already");
            return Err(Problem::new(429, "too_many_bulks", message));
        }
        self.last_id += 1;
        bulk.progress.id = self.last_id;
        let progress = bulk.progress.clone();
        self.all.push_back(bulk);
        while self.all.len() > MOST_REMEMBERED {
            let ended = self.all.iter().position(|bulk| !bulk.is_under_way());
            ended.and_then(|at| self.all.remove(at));
        }
        self.publish();
        Ok(progress)
    }

    pub(crate) fn step(&mut self) {
        let next = self.under_way().find(|id| *id > self.current);
        let Some(id) = next.or_else(|| self.under_way().next()) else { return };
        self.current = id;
        let Some(bulk) = self.all.iter_mut().find(|bulk| bulk.progress.id == id) else { return };
        let step = bulk.bulk.next_step();
        bulk.note();
        match step {
            Ok(Some(_)) => self.publish(),
            Ok(None) if bulk.bulk.has_more() => {
                let problem = format!(
                    "{} were confirmed, and more match by now: the others are as they were",
                    counted(bulk.progress.of.count, "job", "jobs")
                );
                self.finish(id, "stopped", Some(problem));
            }
            Ok(None) => self.finish(id, "done", None),
            Err(error) => self.finish(id, "failed", Some(error.to_string())),
        }
    }

    /// Ends the bulk whose step has panicked, unless the panic came from the audit of its end.
    pub(crate) fn fail(&mut self) {
        let (id, problem) = (self.current, PANICKED.to_owned());
        if self.under_way().any(|under_way| under_way == id) {
            self.finish(id, "failed", Some(problem));
        }
    }

    /// Stops a bulk, and returns how far it was. Its commits before stay.
    pub(crate) fn stop(&mut self, id: u64) -> Result<Progress, Problem> {
        let progress = self.board.find(id)?;
        if progress.state == "running" {
            self.finish(id, "stopped", Some("it was stopped".to_owned()));
        }
        Ok(progress)
    }

    /// Ends all bulks: the dashboard is gone. After a panic of an audit, the next call goes on with the next bulk.
    pub(crate) fn end(&mut self) {
        let under_way: Vec<u64> = self.under_way().collect();
        for id in under_way {
            self.finish(id, "stopped", Some("the dashboard has ended".to_owned()));
        }
    }

    fn under_way(&self) -> impl Iterator<Item = u64> {
        let under_way = self.all.iter().filter(|bulk| bulk.is_under_way());
        under_way.map(|bulk| bulk.progress.id)
    }

    fn finish(&mut self, id: u64, state: &'static str, problem: Option<String>) {
        let settings = Arc::clone(&self.settings);
        let Some(bulk) = self.all.iter_mut().find(|bulk| bulk.progress.id == id) else { return };
        let queue = &settings.queues[bulk.at];
        bulk.progress.state = state;
        bulk.progress.problem = problem.clone();
        bulk.progress.ended = Some(queue.view.now());
        let action = Action {
            name: bulk.progress.action,
            queue: queue.name.clone(),
            scope: bulk.progress.scope.clone(),
            jobs: core::mem::take(&mut bulk.ids),
            changed: bulk.progress.changed,
            text: format!("{} changed", counted(bulk.progress.changed, "job", "jobs")),
            problem,
            request: Arc::clone(&bulk.request),
        };
        // The audit is called before the end is published. So a reader never sees `done` first and `failed` later.
        let audited = catch_unwind(AssertUnwindSafe(|| self.audit(&action)));
        if audited.is_err()
            && let Some(bulk) = self.all.iter_mut().find(|bulk| bulk.progress.id == id)
        {
            bulk.progress.state = "failed";
            bulk.progress.problem = Some(PANICKED.to_owned());
        }
        self.publish();
        if let Err(panic) = audited {
            resume_unwind(panic);
        }
    }

    pub(crate) fn audit(&self, action: &Action) {
        if let Some(audit) = &self.settings.audit {
            audit(action);
        }
    }
}

impl UnderWay {
    fn is_under_way(&self) -> bool {
        self.progress.state == "running"
    }

    fn note(&mut self) {
        let total = self.bulk.total();
        self.progress.seen = total.seen;
        self.progress.changed = total.changed;
        self.progress.asked_to_stop = total.asked_to_stop;
        self.progress.passed_over = total.passed_over;
    }
}
