//! The oracle's part about repeated jobs: which occurrences there are.

use tickwheel_jobs::JobId;

use crate::ops::Policy;
use crate::oracle::{Known, Oracle, Outcome, Record, Repeated, encoded};

impl Oracle {
    /// Turns the times of schedules that have come into jobs.
    pub(crate) fn occur(&mut self, jumped: bool) {
        let now = self.now();
        for at in 0..self.schedules.len() {
            let Repeated { number, ref name, kind, period, mut next, policy, ref plan, is_paused } =
                self.schedules[at];
            if !self.handled[kind] {
                continue;
            }
            let (name, plan) = (name.clone(), plan.clone());
            // A clock that was ahead has left times out.
            if next - period > now + self.ahead + 1000 {
                next -= (next - now - 1) / period * period;
            }
            if is_paused {
                self.schedules[at].next = next;
                continue;
            }
            let mut times = Vec::new();
            if jumped && now - next > 1000 {
                let missed = (now - 1001 - next) / period + 1;
                let kept = match policy {
                    Policy::Skip => 0,
                    Policy::Once => 1,
                    Policy::Burst(most) => i64::from(most),
                };
                times.extend((missed - kept.min(missed)..missed).map(|n| next + n * period));
                next += missed * period;
            }
            while next <= now + self.ahead {
                times.push(next);
                next += period;
            }
            self.schedules[at].next = next;
            for time in times {
                let before = self.made.iter().find(|made| made.0 == name && made.1 == time);
                let known = before.map_or(Known::No, |made| self.known(made.2));
                if known == Known::Yes {
                    continue;
                }
                let at = self.insert(None, kind, time, None, true, plan.clone());
                self.jobs[at].occurs = Some((number, time));
                self.jobs[at].unsure = known == Known::Perhaps;
                self.jobs[at].perhaps = time > now || known == Known::Perhaps;
            }
        }
    }

    /// Returns the job that this is, which may be an occurrence that was not seen before.
    pub(crate) fn recognize(&mut self, id: JobId, kind: &str, payload: &[u8]) -> Outcome<usize> {
        if let Some(at) = self.find(id) {
            return Ok(at);
        }
        let is_it = |job: &Record| {
            job.id.is_none() && crate::ops::NAMES[job.kind] == kind && encoded(&job.plan) == payload
        };
        let mut candidates: Vec<usize> =
            (0..self.jobs.len()).filter(|at| is_it(&self.jobs[*at])).collect();
        candidates.sort_by_key(|at| self.jobs[*at].due);
        let expected = candidates.into_iter().find(|at| self.id_of(&self.jobs[*at]) == id);
        let Some(at) = expected else {
            return Err(format!("nobody inserted {id}, a job of the kind {kind}"));
        };
        self.jobs[at].id = Some(id);
        if self.jobs[at].perhaps {
            // It is made up to 50 ms before its time: it may have come just now, behind what was claimed before.
            self.jobs[at].change = self.number();
            self.jobs[at].perhaps = false;
        }
        self.remembered.retain(|remembered| remembered.id != id);
        self.ids.push(id);
        let name = self.name_of(&self.jobs[at]);
        self.made.push((name, self.jobs[at].due, id));
        Ok(at)
    }

    /// Returns the id of a job; of an occurrence that was not seen yet, the one that it will have.
    pub(crate) fn id_of(&self, job: &Record) -> JobId {
        let time = job.occurs.map_or(0, |(_, time)| time);
        let (queue, name) = (&self.queue, self.name_of(job));
        job.id.unwrap_or_else(|| JobId::named(&format!("schedule {queue} {time} {name}")))
    }

    fn name_of(&self, job: &Record) -> String {
        let number = job.occurs.map_or(0, |(number, _)| number);
        // A number is the name's, and a multiple of ten for each schedule that bore it.
        format!("repeat-{}", number % 10)
    }
}
