//! After each step: what the store says, all of it, against the oracle.

use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use tickwheel_jobs::{Client, JobId, JobInfo, JobState, Pages};

use crate::calls::{key_name, of_kind, ok};
use crate::history::{dead_by_error_agrees, overdue_agree};
use crate::ops::{NAMES, micros, system};
use crate::oracle::{Oracle, Outcome, Record, ensure};
use crate::world::World;

impl World {
    pub(crate) fn agree(&self) -> Outcome {
        let jobs = self.jobs();
        jobs.check().map_err(|violation| format!("check: {violation}"))?;
        // Each call makes a step. The first steps after a start, or after a jump of the clock, read the schedules,
        // leave occurrences out, and make those that are due: after that, a list and a count agree.
        // Other steps end the jobs that have expired.
        loop {
            let before = jobs.stats().expired;
            for _ in 0..3 {
                ok(jobs.count())?;
            }
            if jobs.stats().expired == before {
                break;
            }
        }
        self.lists_agree(jobs)?;
        self.counts_agree(jobs)?;
        self.groups_agree(jobs)?;
        let (ids, wall) = {
            let state = self.shared.lock();
            (state.oracle.ids.clone(), state.oracle.wall)
        };
        for id in ids.iter().rev().take(8) {
            let info = ok(jobs.get(*id))?;
            let oracle = &mut self.shared.lock().oracle;
            match (oracle.find(*id), info) {
                (Some(at), Some(info)) => oracle.compare(at, &info)?,
                (None, info) => oracle.get_of_kept(*id, info.as_ref())?,
                (Some(at), None) => {
                    return Err(format!("get {id}: nothing, not {:?}", oracle.jobs[at]));
                }
            }
        }
        for key in 0..3 {
            let keyed = jobs.keyed(&key_name(key));
            let found = ok(keyed.get())?;
            let remaining = ok(keyed.remaining())?;
            let oracle = &self.shared.lock().oracle;
            let at = oracle.pending_of(&key_name(key));
            let expected = at.and_then(|at| oracle.jobs[at].id);
            ensure(found.map(|job| job.id) == expected, || format!("{key:?}: not {expected:?}"))?;
            let left = at.map(|at| (oracle.jobs[at].due * 1000 - wall).max(0));
            let left = left.map(|left| Duration::from_micros(left as u64));
            ensure(remaining == left, || format!("remaining {remaining:?}, not {left:?}"))?;
        }
        self.nodes_agree(jobs)?;
        self.schedules_agree(jobs)
    }

    /// All pages, of the pending, the running and the dead.
    fn lists_agree(&self, jobs: &Client) -> Outcome {
        let pending = all(jobs.pending())?;
        let running = all(jobs.running())?;
        let dead = all(jobs.dead())?;
        let ended = all(jobs.ended())?;
        ensure(running.is_empty(), || format!("nothing runs, and {running:?}"))?;
        let sorted = pending.is_sorted_by_key(|job| (job.due, job.id));
        ensure(sorted, || "the pending are not in the order of due".to_owned())?;
        let latest_first = dead.is_sorted_by_key(|job| std::cmp::Reverse((job.died, job.id)));
        ensure(latest_first, || "the dead are not in order".to_owned())?;
        let latest_first = ended.is_sorted_by_key(|job| std::cmp::Reverse((job.ended, job.id)));
        ensure(latest_first, || "what has ended is not in order".to_owned())?;
        let (dead_too, kept): (Vec<_>, Vec<_>) =
            ended.into_iter().partition(|job| job.state == JobState::Dead);
        ensure(dead_too == dead, || format!("{dead_too:?}, not {dead:?}"))?;
        let groups = ok(jobs.dead_by_error(1000))?;
        let oracle = &mut self.shared.lock().oracle;
        dead_by_error_agrees(&groups, oracle, &dead)?;
        oracle.list_of_kept(&kept)?;
        let mut seen: HashSet<JobId> = HashSet::new();
        // A callback comes when the dead members of its group are gone, at the latest.
        let (callbacks, others): (Vec<_>, Vec<_>) =
            pending.iter().chain(&dead).partition(|info| oracle.is_coming(info.id));
        for info in others {
            ensure(seen.insert(info.id), || format!("listed twice: {info:?}"))?;
            oracle.listed(info)?;
        }
        let numbers: HashSet<u64> = oracle.schedules.iter().map(|of| of.number).collect();
        let mut wrong = None;
        let oldest = oracle.now() - oracle.retention;
        oracle.jobs.retain(|job| {
            if job.id.is_some_and(|id| seen.contains(&id)) {
                return true;
            }
            // A crash made it dead before the present process knew what time it is.
            let died = job.doubtful && job.interruptions == 4 && job.died.0 < oldest;
            if !job.perhaps && !died {
                wrong.get_or_insert(format!("it is gone: {job:?}"));
            }
            // The schedule may still make it.
            let alive = job.occurs.is_some_and(|(number, _)| numbers.contains(&number));
            job.state == JobState::Pending && alive && !job.unsure && !died
        });
        wrong.map_or(Ok(()), Err)?;
        oracle.settle((0, i64::MAX));
        for info in callbacks {
            ensure(seen.insert(info.id), || format!("listed twice: {info:?}"))?;
            oracle.listed(info)?;
        }
        let is_unseen = |job: &Record| job.own.is_callback && job.own.due_between.is_some();
        let lost = oracle.jobs.iter().find(|job| is_unseen(job));
        ensure(lost.is_none(), || format!("P31: the callback has not come: {lost:?}"))?;
        // Once set back, the clock takes ten minutes and more to the next look at what is too old.
        let too_old = oracle.now() - oracle.retention - 601_000;
        let old = oracle
            .jobs
            .iter()
            .find(|job| job.state == JobState::Dead && job.died.1 < too_old && !oracle.set_back);
        ensure(old.is_none(), || format!("past its retention: {old:?}"))
    }

    fn counts_agree(&self, jobs: &Client) -> Outcome {
        let counts = ok(jobs.count())?;
        let unhandled = ok(jobs.unhandled())?;
        let stats = jobs.stats();
        let others = self.other.as_ref().map(Client::count).transpose();
        let others = ok(others)?;
        let state = self.shared.lock();
        let oracle = &state.oracle;
        let of = |state: JobState| {
            oracle
                .jobs
                .iter()
                .filter(move |job| job.state == state && !(job.perhaps && job.id.is_none()))
        };
        let (pending, dead) =
            (of(JobState::Pending).count() as u64, of(JobState::Dead).count() as u64);
        let same = counts.pending == pending
            && counts.running == 0
            && counts.dead == dead
            && counts.schedules == oracle.schedules.len() as u64;
        ensure(same, || format!("{counts:?}, not {pending} pending and {dead} dead"))?;
        overdue_agree(oracle, &counts)?;
        if let Some(others) = others {
            let same = others.pending + others.claimed + others.running == pending
                && others.dead == dead
                && others.schedules == counts.schedules;
            ensure(same, || format!("another process counts {others:?}, not {counts:?}"))?;
        }
        let mut expected: BTreeMap<&str, u64> = BTreeMap::new();
        for job in of(JobState::Pending).filter(|job| !oracle.handled[job.kind]) {
            *expected.entry(NAMES[job.kind]).or_default() += 1;
        }
        let found: BTreeMap<&str, u64> =
            unhandled.iter().map(|(kind, jobs)| (kind.as_str(), *jobs)).collect();
        ensure(found == expected, || format!("unhandled: {found:?}, not {expected:?}"))?;
        let same = stats.started == oracle.started
            && stats.failed == oracle.failed
            && stats.completed + stats.snoozed == oracle.started - oracle.failed
            && stats.died == state.deaths
            && state.deaths == oracle.died;
        ensure(same, || {
            let Oracle { started, failed, died, .. } = oracle;
            format!("{stats:?}: not {started} started, {failed} failed, {died} died")
        })
    }

    fn schedules_agree(&self, jobs: &Client) -> Outcome {
        let schedules = ok(jobs.schedules().list())?;
        let oracle = &self.shared.lock().oracle;
        let mut expected = oracle.schedules.clone();
        expected.sort_by(|a, b| a.name.cmp(&b.name));
        ensure(schedules.len() == expected.len(), || format!("{schedules:?}, not {expected:?}"))?;
        for (found, expected) in schedules.iter().zip(&expected) {
            let next = micros(found.next) / 1000;
            // Those up to 50 ms ahead may have become jobs.
            let in_time = next == expected.next
                || (next < expected.next
                    && next > oracle.now()
                    && next <= oracle.now() + oracle.ahead);
            let same = found.name == expected.name
                && found.kind == NAMES[expected.kind]
                && found.is_paused == expected.is_paused
                && found.rule == format!("every {} ms", expected.period)
                && in_time;
            ensure(same, || format!("{found:?}, not {expected:?}"))?;
        }
        Ok(())
    }

    /// The pending and the dead of a kind, due between two times that are told from the present.
    pub(crate) fn pages_agree(&self, kind: Option<usize>, from: i64, to: i64) -> Outcome {
        let jobs = self.jobs();
        let (wall, _) = self.shared.look_at_the_clocks(false);
        let (from, to) = ((wall + from * 1000).max(0), (wall + to * 1000).max(0));
        let found = |pages: Pages| -> Outcome<HashSet<JobId>> {
            let pages = of_kind(pages.between(system(from), system(to)), kind);
            Ok(all(pages)?.into_iter().map(|job| job.id).collect())
        };
        let is_wanted = |job: &Record| {
            kind.is_none_or(|kind| kind == job.kind) && (from..=to).contains(&(job.due * 1000))
        };
        for (pages, state) in [(jobs.pending(), JobState::Pending), (jobs.dead(), JobState::Dead)] {
            let found = found(pages)?;
            let oracle = &self.shared.lock().oracle;
            let wanted = oracle.jobs.iter().filter(|job| job.state == state && is_wanted(job));
            let wanted: HashSet<JobId> = wanted.filter_map(|job| job.id).collect();
            ensure(found == wanted, || format!("{state:?} between: {found:?}, not {wanted:?}"))?;
        }
        for state in [JobState::Completed, JobState::Cancelled, JobState::Expired] {
            let found = found(jobs.ended().state(state))?;
            let oracle = &self.shared.lock().oracle;
            let wanted = oracle.kept.iter();
            let wanted = wanted.filter(|kept| kept.outcome == state && is_wanted(&kept.job));
            // The list of this step has not been read yet.
            let (mut sure, mut any) = (HashSet::new(), HashSet::new());
            for kept in wanted {
                any.insert(kept.id);
                sure.extend((!kept.perhaps).then_some(kept.id));
            }
            let right = found.is_subset(&any) && sure.is_subset(&found);
            ensure(right, || format!("{state:?} between: {found:?}, not {any:?}"))?;
        }
        Ok(())
    }
}

impl Oracle {
    /// Compares a job that is listed as pending or dead.
    fn listed(&mut self, info: &JobInfo) -> Outcome {
        self.is_seen(info.id, micros(info.due) / 1000)?;
        let at = self.recognize(info.id, &info.kind, &info.payload)?;
        self.compare(at, info)?;
        if info.state == JobState::Pending {
            self.jobs[at].perhaps = false;
        }
        Ok(())
    }
}

fn all(mut pages: Pages) -> Outcome<Vec<JobInfo>> {
    let jobs: Vec<JobInfo> = pages.by_ref().collect();
    match pages.error() {
        Some(error) => Err(format!("a page: {error}")),
        None => Ok(jobs),
    }
}
