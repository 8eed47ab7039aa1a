//! Jobs that come too often: at most one a period, or one after the last of a burst.

use std::time::Duration;

use tickwheel_jobs::InsertErrorKind;

use crate::calls::{Call, key_name, ok};
use crate::insert::{of_kind, refused};
use crate::ops::{Plan, Task, Time, Verb, micros};
use crate::oracle::{Known, Outcome, ensure};

impl Call<'_> {
    pub(crate) fn debounce(
        &self,
        key: usize,
        (quiet, at_most): (u64, u64),
        kind: usize,
        plan: &Plan,
    ) -> Outcome {
        let (key, plan) = (key_name(key), self.numbered(plan));
        let keyed = self.client.keyed(&key);
        let ms = Duration::from_millis;
        let job = plan.clone();
        let got = of_kind!(kind, N => {
            keyed.debounce(ms(quiet), ms(at_most), Task::<N>(job)).map_err(refused)
        });
        let due = Time::After(quiet.min(at_most)).due(self.wall).expect("not so long");
        let holder = {
            let oracle = &self.shared.lock().oracle;
            oracle.pending_of(&key).map(|at| oracle.jobs[at].clone())
        };
        let left = matches!(got, Err((InsertErrorKind::Occupied, _)));
        if let Some(holder) = self.key_is_free(&key, Verb::Replace, &mut due.clone(), left)? {
            return ensure(left, || format!("{holder} has the key: {got:?}"));
        }
        let id = got.map_err(|refused| format!("refused: {refused:?}"))?;
        let info = ok(self.client.get(id))?.ok_or("it is not there")?;
        let found = micros(info.due) / 1000;
        let oracle = &mut self.shared.lock().oracle;
        let now = oracle.now();
        let goes_on = holder.as_ref().and_then(|holder| {
            let first = holder.own.burst.filter(|_| holder.runs == 0)?.min(now);
            Some((first, due.min(first + at_most as i64)))
        });
        let is_sure = holder.is_none_or(|of| !of.doubtful && !of.runs_unsure && !of.interrupted);
        let begins = (now, due);
        let wanted = goes_on.unwrap_or(begins);
        let (first, due) = if found == wanted.1 { wanted } else { begins };
        let right = found == due && (is_sure || found == begins.1 || found == wanted.1);
        ensure(right && (!is_sure || due == wanted.1), || {
            format!("due {found}, not {wanted:?}, or {begins:?} of a new burst")
        })?;
        oracle.take_key(&key);
        let at = oracle.insert(Some(id), kind, due, Some(key), false, plan);
        oracle.jobs[at].own.burst = Some(first);
        Ok(())
    }

    pub(crate) fn throttle(&self, key: usize, period: u64, kind: usize, plan: &Plan) -> Outcome {
        let plan = self.numbered(plan);
        let keyed = self.client.keyed(&key_name(key));
        let job = plan.clone();
        let period = Duration::from_millis(period);
        let got = of_kind!(kind, N => keyed.throttle(period, Task::<N>(job)).map_err(refused));
        let got = got.map_err(|refused| format!("refused: {refused:?}"))?;
        let oracle = &mut self.shared.lock().oracle;
        match oracle.known(got.id) {
            Known::Yes => return ensure(!got.is_new, || format!("it was there: {got:?}")),
            Known::Perhaps if !got.is_new => return Ok(()),
            _ => ensure(got.is_new, || format!("nobody has inserted it before: {got:?}"))?,
        }
        let now = oracle.now();
        oracle.insert(Some(got.id), kind, now, None, true, plan);
        Ok(())
    }
}
