//! The oracle's part about what a process finds when it starts, and about what a store says of a job.

use tickwheel_jobs::{JobId, JobInfo, JobState};

use crate::ops::{NAMES, Pick, micros};
use crate::oracle::{Oracle, Outcome, Record, encoded, ensure};
use crate::run_sets::json;

impl Oracle {
    /// A process starts to run the jobs; the one before ended by a crash, or gave back its claims.
    /// `opened` is what the clock read then.
    pub(crate) fn taken_over(&mut self, crashed: bool, opened: i64) {
        (self.started, self.failed, self.died) = (0, 0, 0);
        // A job dies of its fifth interruption if no other suspect was claimed after it: fences ascend.
        let suspects = self.jobs.iter().filter(|job| job.interruptions > 0);
        let running = suspects.filter(|job| job.state == JobState::Running);
        let last_suspect = running.map(|job| job.fence).max().unwrap_or(0);
        // One that was claimed and had not started may have been claimed after it, or not at all.
        let waits = |job: &Record| job.state == JobState::Pending && job.claimable;
        let perhaps_later = self.jobs.iter().any(|job| waits(job) && job.interruptions > 0);
        for at in (0..self.jobs.len()).rev() {
            let job = &mut self.jobs[at];
            let claimed = core::mem::take(&mut job.claimable);
            job.robbed = false;
            if !crashed {
                continue;
            }
            match job.state {
                JobState::Running if job.asked => self.end(at, (opened, opened)),
                JobState::Running => {
                    job.state = JobState::Pending;
                    let most = if last_suspect > job.fence { 4 } else { 5 };
                    job.runs += 1;
                    job.died = (opened, opened);
                    if perhaps_later && most == 5 && job.interruptions == 4 {
                        (job.doubtful, job.interrupted) = (true, true);
                        self.moved(at);
                        continue;
                    }
                    job.interruptions = (job.interruptions + 1).min(most);
                    if job.interruptions == 5 {
                        job.state = JobState::Dead;
                        job.killed();
                    } else {
                        self.moved(at);
                    }
                }
                JobState::Pending if claimed => {
                    job.doubtful = true;
                    job.runs_unsure = job.interruptions == 4;
                    job.died = (opened, opened);
                }
                _ => {}
            }
        }
    }

    /// Returns the id of an operation's job.
    pub(crate) fn picked(&self, pick: Pick, own: Option<JobId>) -> JobId {
        match pick {
            Pick::Own => own.unwrap_or(JobId::from_u128(0)),
            Pick::Nobody => JobId::from_u128(3),
            Pick::Latest => self.ids.last().copied().unwrap_or(JobId::from_u128(1)),
            Pick::Nth(n) if self.ids.is_empty() => JobId::from_u128(n as u128),
            Pick::Nth(n) => self.ids[n % self.ids.len()],
        }
    }

    /// Says in what a job differs from what the store says.
    pub(crate) fn compare(&mut self, at: usize, info: &JobInfo) -> Outcome {
        let job = &mut self.jobs[at];
        let interrupted = core::mem::take(&mut job.interrupted);
        if core::mem::take(&mut job.doubtful) && info.interruptions == job.interruptions + 1 {
            job.interruptions += 1;
            job.runs += u32::from(!interrupted);
            if job.interruptions == 5 {
                job.state = JobState::Dead;
                job.killed();
            }
        }
        let died = info.died.map(|died| micros(died) / 1000);
        let in_time = match job.state {
            JobState::Dead => died.is_some_and(|died| (job.died.0..=job.died.1).contains(&died)),
            _ => died.is_none(),
        };
        let same = info.kind == NAMES[job.kind]
            && info.state == job.state
            && micros(info.due) == job.due * 1000
            && info.failures == job.failures
            && info.interruptions == job.interruptions
            && info.key == job.key
            && info.partition == job.partition()
            && info.group == job.own.group
            && job.has_errors(info)
            && job.has_own(info)
            && info.progress == job.progress.as_deref().map(json)
            // Only a job that has completed has a result.
            && info.result.is_none()
            && info.payload == encoded(&job.plan)
            && in_time;
        ensure(same, || format!("the store has {info:?}, not {job:?}"))
    }
}
