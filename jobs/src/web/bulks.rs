//! Changes of many jobs, in commits of at most 256, with progress, between the requests of a dashboard.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use http::request::Parts;

use super::options::{Action, Redactor};
use super::read::DashboardSettings;
use super::read::jobs::Query;
use super::views::{self, Number, Problem, Progress, Time};
use crate::store::{Answer, MOST_EACH, Op, Page, PageKey};
use crate::values::error::StoreError;
use crate::values::id::JobId;
use crate::values::info::{Cancel, JobInfo};
use crate::values::time::Millis;

/// How many bulks may be under way.
const MOST_UNDER_WAY: usize = 8;
/// How many bulks are remembered.
const MOST_REMEMBERED: usize = 64;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Change {
    Cancel,
    Reschedule(Millis),
    Retry,
    Delete,
}

/// A bulk that begins.
pub(crate) struct Start {
    /// The queue, by its place among those of the dashboard.
    pub(crate) at: usize,
    pub(crate) action: &'static str,
    pub(crate) change: Change,
    pub(crate) of: Number,
    /// The most jobs that may be changed: so many were confirmed.
    pub(crate) most: Option<u64>,
    pub(crate) scope: String,
    /// The list, unless `ids` has the jobs.
    pub(crate) wanted: Option<Query>,
    pub(crate) ids: Vec<JobId>,
    pub(crate) request: Arc<Parts>,
    pub(crate) back: String,
    pub(crate) now: Millis,
}

struct Bulk {
    start: Start,
    progress: Progress,
    /// The place in the list.
    after: Option<PageKey>,
    /// The jobs that were read and are not changed yet.
    chosen: VecDeque<JobId>,
    /// How many jobs were chosen so far.
    many: u64,
    has_read_all: bool,
    /// More jobs match than were confirmed.
    has_more: bool,
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

    /// Notes that the store changes.
    pub(crate) fn changed(&self) {
        self.changes.fetch_add(1, Ordering::SeqCst);
    }

    pub(crate) fn list(&self, now: Millis) -> views::Bulks {
        let progress = self.progress.lock().unwrap_or_else(PoisonError::into_inner);
        views::Bulks {
            now: Time::new(now.to_system()),
            rows: progress.iter().rev().cloned().collect(),
        }
    }

    pub(crate) fn find(&self, id: u64) -> Result<Progress, Problem> {
        let progress = self.progress.lock().unwrap_or_else(PoisonError::into_inner);
        progress.iter().find(|progress| progress.id == id).cloned().ok_or_else(|| {
            let message =
                format!("there is no change {id}: it ended long ago, or in another process");
            Problem { status: 404, error: "not_found", message }
        })
    }
}

/// The bulks of a dashboard.
pub(crate) struct Bulks {
    settings: Arc<DashboardSettings>,
    board: Arc<Board>,
    /// In the order of their start.
    all: VecDeque<Bulk>,
    last_id: u64,
    /// The bulk whose step is under way, or was the last.
    current: u64,
}

impl Bulks {
    pub(crate) fn new(settings: Arc<DashboardSettings>, board: Arc<Board>) -> Bulks {
        Bulks { settings, board, all: VecDeque::new(), last_id: 0, current: 0 }
    }

    /// Shows how far the bulks are.
    fn publish(&self) {
        let progress = self.all.iter().map(|bulk| bulk.progress.clone()).collect();
        *self.board.progress.lock().unwrap_or_else(PoisonError::into_inner) = progress;
    }

    pub(crate) fn are_under_way(&self) -> bool {
        self.under_way().next().is_some()
    }

    pub(crate) fn start(&mut self, start: Start) -> Result<Progress, Problem> {
        if self.under_way().count() >= MOST_UNDER_WAY {
            let message = format!("{MOST_UNDER_WAY} changes of many jobs are under way already");
            return Err(Problem { status: 429, error: "too_many_bulks", message });
        }
        self.last_id += 1;
        let progress = Progress {
            id: self.last_id,
            queue: self.settings.queues[start.at].name.clone(),
            action: start.action,
            scope: start.scope.clone(),
            started: Time::new(start.now.to_system()),
            ended: None,
            state: "running",
            of: start.of,
            seen: 0,
            changed: 0,
            asked_to_stop: 0,
            passed_over: 0,
            problem: None,
            back: start.back.clone(),
        };
        let (chosen, has_read_all) = (start.ids.iter().copied().collect(), start.wanted.is_none());
        self.all.push_back(Bulk {
            start,
            progress: progress.clone(),
            after: None,
            chosen,
            many: 0,
            has_read_all,
            has_more: false,
        });
        while self.all.len() > MOST_REMEMBERED {
            let ended = self.all.iter().position(|bulk| !bulk.is_under_way());
            ended.and_then(|at| self.all.remove(at));
        }
        self.publish();
        Ok(progress)
    }

    /// Makes a step of the bulk whose turn it is.
    pub(crate) fn step(&mut self) {
        let next = self.under_way().find(|id| *id > self.current);
        let Some(id) = next.or_else(|| self.under_way().next()) else { return };
        self.current = id;
        let settings = Arc::clone(&self.settings);
        let Some(bulk) = self.all.iter_mut().find(|bulk| bulk.progress.id == id) else { return };
        match bulk.step(&settings) {
            Ok(false) => self.publish(),
            Ok(true) if bulk.has_more => {
                let problem = format!(
                    "{} jobs were confirmed, and more match by now: the others are as they were",
                    bulk.many
                );
                self.finish(id, "stopped", Some(problem));
            }
            Ok(true) => self.finish(id, "done", None),
            Err(error) => self.finish(id, "failed", Some(error.to_string())),
        }
    }

    /// Ends the bulk whose step has panicked. If the panic came from the audit of its end, that is not called again.
    pub(crate) fn fail(&mut self) {
        let (id, problem) = (self.current, "the program has failed on it".to_owned());
        let Some(bulk) = self.all.iter_mut().find(|bulk| bulk.progress.id == id) else { return };
        if bulk.is_under_way() {
            self.finish(id, "failed", Some(problem));
        } else {
            bulk.progress.state = "failed";
            bulk.progress.problem = Some(problem);
            self.publish();
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

    /// Returns the ids of the bulks that are under way.
    fn under_way(&self) -> impl Iterator<Item = u64> {
        let under_way = self.all.iter().filter(|bulk| bulk.is_under_way());
        under_way.map(|bulk| bulk.progress.id)
    }

    fn finish(&mut self, id: u64, state: &'static str, problem: Option<String>) {
        let settings = Arc::clone(&self.settings);
        let Some(bulk) = self.all.iter_mut().find(|bulk| bulk.progress.id == id) else { return };
        let queue = &settings.queues[bulk.start.at];
        bulk.progress.state = state;
        bulk.progress.problem = problem.clone();
        bulk.progress.ended = Some(Time::new(queue.client.present().to_system()));
        let action = Action {
            name: bulk.start.action,
            queue: queue.name.clone(),
            scope: bulk.start.scope.clone(),
            jobs: core::mem::take(&mut bulk.start.ids),
            changed: bulk.progress.changed,
            problem,
            request: Arc::clone(&bulk.start.request),
        };
        self.publish();
        self.audit(&action);
    }

    /// Calls the program's audit.
    pub(crate) fn audit(&self, action: &Action) {
        if let Some(audit) = &self.settings.audit {
            audit(action);
        }
    }
}

impl Bulk {
    fn is_under_way(&self) -> bool {
        self.progress.state == "running"
    }

    /// Reads a page if there is room for one, and changes at most 256 jobs. Returns whether all are done.
    fn step(&mut self, settings: &DashboardSettings) -> Result<bool, StoreError> {
        let client = &settings.queues[self.start.at].client;
        if !self.has_read_all && self.chosen.len() < MOST_EACH {
            self.read(settings)?;
        }
        let now = client.present();
        let of_step = self.chosen.iter().take(MOST_EACH);
        let ops: Vec<Op> = of_step.map(|id| self.start.change.op(*id, now)).collect();
        // A page with few jobs of the list is no reason for a commit, unless it was the last one.
        if ops.is_empty() || (ops.len() < MOST_EACH && !self.has_read_all) {
            return Ok(ops.is_empty() && self.has_read_all);
        }
        let jobs = ops.len();
        let answers = client.change_each(ops)?;
        self.chosen.drain(..jobs);
        let progress = &mut self.progress;
        for answer in answers {
            progress.seen += 1;
            match answer {
                Answer::Cancelled(Cancel::Cancelled) | Answer::Changed(true) => {
                    progress.changed += 1
                }
                Answer::Cancelled(Cancel::Running) => progress.asked_to_stop += 1,
                Answer::Refused(error) if !matches!(error, StoreError::KeyTaken { .. }) => {
                    return Err(error);
                }
                _ => progress.passed_over += 1,
            }
        }
        Ok(self.chosen.is_empty() && self.has_read_all)
    }

    /// Reads the next page of the list.
    fn read(&mut self, settings: &DashboardSettings) -> Result<(), StoreError> {
        let client = &settings.queues[self.start.at].client;
        let Some(wanted) = &self.start.wanted else { return Ok(()) };
        let redactor = Redactor(settings.redact.as_deref());
        let Page { jobs, next } = client.page(wanted.page(self.after, MOST_EACH))?;
        self.after = next;
        self.has_read_all = next.is_none();
        for job in jobs {
            // A list by due time comes to the jobs that were moved before: all of them have one time.
            if self.start.change.has_moved(&job) {
                if let Some((at, id)) = &mut self.after
                    && *at == Millis::present(job.due)
                {
                    *id = JobId::from_u128(u128::MAX);
                }
                continue;
            }
            if !wanted.takes(&job, redactor) {
                continue;
            }
            if self.start.most.is_some_and(|most| self.many >= most) {
                (self.has_more, self.has_read_all) = (true, true);
                break;
            }
            self.many += 1;
            self.chosen.push_back(job.id);
        }
        Ok(())
    }
}

impl Change {
    fn op(self, id: JobId, now: Millis) -> Op {
        match self {
            Change::Cancel => Op::Cancel(id),
            Change::Reschedule(due) => Op::Reschedule(id, due),
            Change::Retry => Op::Retry(id, now),
            Change::Delete => Op::Delete(id),
        }
    }

    fn has_moved(self, job: &JobInfo) -> bool {
        matches!(self, Change::Reschedule(due) if due == Millis::present(job.due))
    }
}
