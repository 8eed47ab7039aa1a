//! Schedules: they are stored, listed, paused, resumed, run by hand and removed.
//!
//! Ground rules:
//!
//! - A pause is stored, by the name of the schedule. It holds in every process, survives restarts, and ends with the
//!   schedule.
//! - The end of a pause and the move to the next occurrence are one change of the store. So no process sees a schedule
//!   that is resumed and has the occurrences of its pause before it.

use std::sync::Arc;

use super::asynchronous::both;
use super::client::{Client, check_name, payload};
use super::request::{self, Caller};
use crate::store::{Inserted, NewJob, NewSchedule, StoredSchedule};
use crate::values::error::StoreError;
use crate::values::id::{JobId, JobIds};
use crate::values::info::ScheduleInfo;
use crate::values::invalid_input::InvalidInput;
use crate::values::job::Job;
use crate::values::schedule::{Rule, Schedule, key_of_occurrences};

/// The schedules of a queue: see [`Client::schedules`].
#[derive(Clone, Debug)]
pub struct Schedules {
    client: Client,
}

impl Client {
    /// Returns the schedules: a handle to list, pause, run and remove them.
    #[doc(alias("repeats", "repeatable", "cron"))]
    #[must_use]
    pub fn schedules(&self) -> Schedules {
        Schedules { client: self.clone() }
    }
}

both! {
    Client:
    /// Stores a schedule under a name: its job occurs again and again, once a period or by a cron expression.
    ///
    /// Each occurrence is a job of its own, made up to 50 ms before it is due. Its id comes from the names of queue and
    /// schedule and the due time, so it cannot be made twice. It does not wait for the end of the one before, unless
    /// the schedule is [without overlap](Schedule::without_overlap). Occurrences are made where the kind is handled.
    ///
    /// A second call with the same schedule, for example at each start of a program, changes only the job's
    /// data. Another schedule replaces the one of this name. If the clock was ahead and is set right, the
    /// schedule goes on with the time that comes next. Occurrences that were made too early are not made again
    /// while their ids are remembered ([`Builder::keep_dead`](crate::Builder::keep_dead)).
    ///
    /// # Errors
    ///
    /// If the schedule is not valid, its name has not from 1 to 255 bytes, the job does not encode or is too long, or
    /// the store could not be changed.
    #[doc(alias("repeat", "every", "cron", "recurring", "periodic"))]
    pub fn schedule<J: Job>(
        &self,
        name: &str,
        every: impl Into<Schedule>,
        job: J,
    ) -> Result<(), StoreError> = |it, caller| {
        let schedule = every.into();
        check_name("name", name)?;
        let now = it.latest(caller).await?.millis();
        let first = schedule.first(now)?;
        if schedule.without_overlap {
            check_name("key of the schedule's jobs", &key_of_occurrences(name))?;
        }
        let payload = payload(&job)?;
        let (name, kind) = (name.to_owned(), Arc::from(J::KIND));
        let new = NewSchedule { name, kind, schedule, payload, first };
        it.ask(caller, request::put_schedule(new)).await.map(drop)
    };
}

both! {
    Schedules:
    /// Returns the schedules.
    ///
    /// # Errors
    ///
    /// If the store could not be read.
    pub fn list(&self) -> Result<Vec<ScheduleInfo>, StoreError> = |it, caller| {
        let schedules = it.client.ask(caller, request::schedules()).await?;
        let settings = it.client.settings_by(caller).await?;
        let info = |stored: StoredSchedule| ScheduleInfo {
            is_paused: settings.paused_schedules.contains(&stored.name),
            without_overlap: stored.schedule.without_overlap,
            name: stored.name,
            kind: stored.kind,
            rule: stored.rule_text,
            next: stored.next.to_system(),
        };
        Ok(schedules.into_iter().map(info).collect())
    };

    /// Deletes a schedule. Jobs that it has made stay. Returns `false` if no schedule has this name.
    ///
    /// # Errors
    ///
    /// If the store could not be changed.
    #[doc(alias("cancel_repeat", "remove_repeatable"))]
    pub fn remove(&self, name: &str) -> Result<bool, StoreError> = |it, caller| {
        it.client.ask(caller, request::drop_schedule(name.to_owned())).await
    };

    /// Makes an additional occurrence of a schedule, due now, and returns its id, or `None` if there is no
    /// schedule of this name: for example for a nightly report that is wanted at noon.
    ///
    /// The job has the kind and the data of the schedule, and runs where its kind is handled. The schedule does not
    /// change. Each call makes a job of its own, under a new id, even if the schedule has an occurrence at the same
    /// time. There is one exception: the schedule is [without overlap](Schedule::without_overlap), and an occurrence of
    /// it has not ended. Then the call makes no job, and returns the id of that occurrence.
    ///
    /// # Errors
    ///
    /// If the store could not be read or changed. After [`StoreError::Unknown`] the job is in the store once,
    /// or not at all.
    pub fn run(&self, name: &str) -> Result<Option<JobId>, StoreError> = |it, caller| {
        it.run_by(caller, name, None).await
    };

    /// [`Schedules::run`] with a chosen id. A second call with this id makes no second job, so a form that is sent
    /// twice makes one. The errors are the same.
    pub fn run_once(
        &self,
        name: &str,
        id: JobId,
    ) -> Result<Option<JobId>, StoreError> = |it, caller| {
        it.run_by(caller, name, Some(id)).await
    };

    /// Pauses a schedule: no further occurrence of it becomes a job. Occurrences that are jobs already go on. It is
    /// stored, and holds until [`Schedules::resume`], also across restarts, and also if a program stores the
    /// schedule again. [`Schedules::remove`] ends it with the schedule.
    ///
    /// In this process no occurrence is made once the call has returned; in any other process none is made a second
    /// later. [`Schedules::run`] still makes one by hand.
    ///
    /// # Errors
    ///
    /// [`StoreError::NoSchedule`] if no schedule has this name: then nothing is stored. Another error if the store
    /// could not be changed.
    pub fn pause(&self, name: &str) -> Result<(), StoreError> = |it, caller| {
        let now = it.client.dispatcher.clock.latest().millis();
        let exists = it.client.ask(caller, request::pause_schedule(name.to_owned(), now)).await?;
        exists.then_some(()).ok_or_else(|| StoreError::NoSchedule(name.to_owned()))
    };

    /// Ends the pause of a schedule. The occurrences that fell into the pause are left out, under every policy of
    /// [`Missed`](crate::Missed). The next occurrence is the first after this call. A schedule
    /// without a further occurrence ends. A schedule that is not paused stays as it is.
    ///
    /// # Errors
    ///
    /// [`StoreError::NoSchedule`] if no schedule has this name. [`InvalidInput::UnknownRule`] if an occurrence
    /// fell into the pause, and this program cannot say which one follows: the schedule stays paused. Or if the store
    /// could not be read or changed.
    pub fn resume(&self, name: &str) -> Result<(), StoreError> = |it, caller| {
        loop {
            let schedules = it.client.ask(caller, request::schedules()).await?;
            let found = schedules.into_iter().find(|schedule| schedule.name == name);
            let StoredSchedule { schedule, rule_text, next: expected, .. } =
                found.ok_or_else(|| StoreError::NoSchedule(name.to_owned()))?;
            let settings = it.client.settings_by(caller).await?;
            if !settings.paused_schedules.contains(name) {
                return Ok(());
            }
            let now = it.client.latest(caller).await?.millis();
            if schedule.rule == Rule::Unknown && expected <= now {
                return Err(InvalidInput::UnknownRule(rule_text).into());
            }
            let next = schedule.rule.skip_to(expected, now);
            let resume = request::resume_schedule(name.to_owned(), expected, next);
            // Otherwise another process has changed the schedule meanwhile, or resumed it.
            if it.client.ask(caller, resume).await? {
                return Ok(());
            }
        }
    };
}

impl Schedules {
    async fn run_by(
        &self,
        caller: Caller,
        name: &str,
        chosen: Option<JobId>,
    ) -> Result<Option<JobId>, StoreError> {
        let schedules = self.client.ask(caller, request::schedules()).await?;
        let Some(schedule) = schedules.into_iter().find(|schedule| schedule.name == name) else {
            return Ok(None);
        };
        let now = self.client.latest(caller).await?.millis();
        let new_id = || JobIds::of_this_process().next(now, Some((&schedule.kind, now)));
        let id = chosen.unwrap_or_else(new_id);
        let kind = Arc::from(&*schedule.kind);
        let occurrence = NewJob::occurrence(&schedule, kind, now, (id, chosen.is_some()));
        // It waits for no run, also if the inserts of this client do.
        let at_once = Client::new(Arc::clone(&self.client.dispatcher));
        match at_once.ask(caller, request::insert(occurrence)).await? {
            Inserted::Taken(by) => Ok(Some(by)),
            Inserted::New | Inserted::Known => Ok(Some(id)),
        }
    }
}
