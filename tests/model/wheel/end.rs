//! The end of the wheel, and the checks after it.

use std::collections::HashMap;

use tickwheel::{Group, Handle, InsertErrorKind, Wheel};

use super::events::EventState;
use super::truth::TICK;
use super::world::{World, nanos};
use super::{Ending, LastWill, Op, Time};

impl World {
    /// Ends the wheel, and checks the jobs and events that were handed back. Then the history of the sleepers begins
    /// again: those that are made now end only if their time had come.
    pub(crate) fn end<'a>(
        &self,
        wheel: Wheel,
        ending: Ending,
        history: impl IntoIterator<Item = &'a Op>,
    ) {
        {
            let mut truth = self.truth();
            truth.ended = Some(truth.tick());
        }
        match ending {
            Ending::Shutdown => self.shut_down(wheel),
            Ending::Drop => {
                // The last wills of the captured values find no job.
                let mut truth = self.truth();
                truth.end_all();
                drop(truth);
                drop(wheel);
            }
        }
        #[cfg(feature = "async")]
        self.claim_that_sleepers_were_told();
        self.end_events();
        for op in history {
            match *op {
                #[cfg(feature = "async")]
                Op::Sleeper(op) => self.sleeper(op),
                Op::Advance(by) => self.advance(by),
                _ => {}
            }
        }
        #[cfg(feature = "async")]
        self.end_sleepers();
        assert_eq!(self.driver.advance(nanos(1000 * TICK)), 0);
        assert!(self.keyed.is_empty() && self.groups.iter().all(Group::is_empty));
        assert_eq!(self.truth().alive, 0, "a captured value is left");
    }

    fn shut_down(&self, wheel: Wheel) {
        let mut handles: HashMap<Handle, Option<u64>> =
            self.truth().jobs.iter().filter_map(|job| Some((job.handle?, job.due))).collect();
        let truth = self.truth();
        for (key, &id) in &truth.keys {
            let handle = self.keyed.handle(key).expect("the key has a job");
            handles.insert(handle, truth.jobs[id].due);
        }
        drop(truth);
        let unfired = wheel.shutdown();
        let mut last = 0;
        assert_eq!(unfired.len(), self.truth().pending, "shutdown handed back others");
        {
            let mut truth = self.truth();
            truth.end_all();
        }
        for unfired in unfired {
            let due = handles.get(&unfired.handle).copied().flatten();
            let due = due.expect("handed back, but not pending");
            assert!(due >= last, "out of order");
            last = due;
            self.drop_outside(unfired.job);
        }
    }

    /// Checks that due events were sent as far as there was room, and that the rest is handed back.
    fn end_events(&self) {
        self.observe_events();
        self.truth().events.is_settled = true;
        self.insert_event(Time::After(0), LastWill::Nothing);
        let count = self.truth().events.all.len();
        self.reset_event(0, Time::After(0));
        self.cancel_event(count / 2);
        self.take_event(count / 3);
        while self.truth().events.all.iter().any(|event| event.state == EventState::Channel) {
            let before = self.due.len();
            self.receive();
            if self.due.len() == before {
                break;
            }
        }
        // The channel has disconnected.
        self.receive();
        let drained = self.events.clone().drain();
        let mut truth = self.truth();
        let (pending, now) = (truth.events.pending().count(), truth.now);
        truth.claim(drained.len() == pending, "another number of events was handed back");
        let in_order = drained.windows(2).all(|two| two[0].1 <= two[1].1);
        truth.claim(in_order, "events were handed back in no order");
        for (handle, remaining, value) in &drained {
            let event = &mut truth.events.all[value.id()];
            let was_pending = event.state == EventState::Pending && event.handle == Some(*handle);
            event.state = EventState::Gone;
            let expected = match event.high {
                u64::MAX => std::time::Duration::MAX,
                due => nanos((due * TICK).saturating_sub(now)),
            };
            let is_known = event.low == event.high;
            truth.claim(was_pending, "an event was handed back that was not pending");
            truth.claim(*remaining == expected || !is_known, "another time was left");
        }
        drop(truth);
        drained.into_iter().for_each(|event| self.drop_outside(event));
        let kind = self.scheduler.insert(nanos(0), || ()).map_err(|refused| refused.kind());
        assert_eq!(kind, Err(InsertErrorKind::Shutdown));
    }
}
