//! The follow-ups of a handler: they are there if and only if the end of their run is (P30).

use tickwheel_jobs::{GroupId, JobId, Run};

use crate::calls::{Call, key_name, ok};
use crate::insert::{Way, insert, no_time};
use crate::ops::{Plan, Time, Verb};
use crate::oracle::{Oracle, Outcome, ensure};
use crate::run_sets::RunSets;
use crate::world::Shared;

/// A follow-up, whose run has not ended.
pub(crate) struct FollowUp {
    id: JobId,
    kind: usize,
    due: i64,
    key: Option<(String, Verb)>,
    plan: Plan,
    /// The how-manieth insert: its id was made then.
    order: u64,
}

impl RunSets {
    /// Adds a follow-up. Nothing is in the store yet.
    pub(crate) fn then(
        &mut self,
        shared: &Shared,
        run: &Run,
        key: Option<(usize, Verb)>,
        (kind, time, plan): (usize, Time, &Plan),
    ) -> Outcome {
        let next = run.next();
        let call = Call::now(shared, &next, false);
        let key = key.map(|(key, verb)| (key_name(key), verb));
        let order = shared.lock().oracle.number();
        let plan = Plan { tag: order, ..plan.clone() };
        let way = key.as_ref().map_or(Way::Plain, |(key, verb)| Way::Key(key, *verb));
        let got = insert(&next, &way, kind, call.when(time), plan.clone());
        let Some(due) = time.due(call.wall) else { return no_time(&got, plan.tag) };
        let id = got.map_err(|refused| format!("refused: {refused:?}"))?;
        let found = ok(next.get(id))?;
        ensure(found.is_none(), || format!("there before the end of its run: {found:?}"))?;
        self.follow_ups.push(FollowUp { id, kind, due, key, plan, order });
        Ok(())
    }
}

impl RunSets {
    /// Says whether a follow-up takes the key of a job that may be claimed and has not started. A transaction of the
    /// caller sees that job as running, and the process that runs the jobs sees it as pending.
    pub(crate) fn take_claimed_keys(&self, oracle: &Oracle) -> bool {
        let keys = self.follow_ups.iter().filter_map(|follow_up| follow_up.key.as_ref());
        keys.filter_map(|(key, _)| oracle.pending_of(key)).any(|at| oracle.jobs[at].claimable)
    }
}

impl Oracle {
    /// The run of these follow-ups has ended well. They are members of its group.
    pub(crate) fn follow(&mut self, follow_ups: Vec<FollowUp>, group: Option<GroupId>) {
        for FollowUp { id, kind, mut due, key, plan, order } in follow_ups {
            if let Some((key, verb)) = &key {
                let pending = self.pending_of(key).map(|at| self.jobs[at].due);
                let is_left = *verb == Verb::IfAbsent && pending.is_some();
                if is_left || self.held_by(key).is_some() {
                    continue;
                }
                if *verb == Verb::KeepTime {
                    due = pending.unwrap_or(due);
                }
                self.take_key(key);
            }
            let at = self.insert(Some(id), kind, due, key.map(|(key, _)| key), false, plan);
            self.jobs[at].order = order;
            self.joins(at, group);
        }
    }
}
