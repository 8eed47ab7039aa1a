//! Schedules: they are stored, listed, paused, resumed and removed.
//!
//! Ground rules:
//!
//! - A pause is stored, by the name of the schedule. It holds in every process, survives restarts, and ends with the
//!   schedule.
//! - The end of a pause and the move to the next occurrence are one change of the store. So no process sees a schedule
//!   that is resumed and has the occurrences of its pause before it.

use std::sync::Arc;

use super::client::{Client, check_name, payload};
use super::request;
use super::request::{Caller, on_thread};
use crate::store::{NewSchedule, StoredSchedule};
use crate::values::error::StoreError;
use crate::values::info::ScheduleInfo;
use crate::values::job::Job;
use crate::values::schedule::{Rule, Schedule, ScheduleError};
use crate::values::setting::QueueSettings;

impl Client {
    /// Stores a schedule under a name: its job occurs again and again, once a period or by a cron expression.
    ///
    /// Each occurrence is a job of its own, made up to 50 ms before it is due. Its id comes from the names of queue and
    /// schedule and the due time, so it cannot be made twice. It does not wait for the end of the one before. Occurrences
    /// are made where the kind is handled.
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
    ) -> Result<(), StoreError> {
        on_thread(self.schedule_by(Caller::Thread, name, every.into(), job))
    }

    pub(super) async fn schedule_by<J: Job>(
        &self,
        caller: Caller,
        name: &str,
        schedule: Schedule,
        job: J,
    ) -> Result<(), StoreError> {
        check_name("name", name)?;
        let now = self.latest(caller).await.map_err(|failed| failed.error)?.millis();
        let first = schedule.first(now).map_err(StoreError::Schedule)?;
        let payload = payload(&job)?;
        let (name, kind) = (name.to_owned(), Arc::from(J::KIND));
        let new = NewSchedule { name, kind, schedule, payload, first };
        self.ask(caller, request::put_schedule(new)).await.map(drop)
    }

    /// Deletes a schedule. Jobs that it has made stay. Returns `false` if no schedule has this name.
    ///
    /// # Errors
    ///
    /// If the store could not be changed.
    #[doc(alias("cancel_repeat", "remove_repeatable"))]
    pub fn unschedule(&self, name: &str) -> Result<bool, StoreError> {
        on_thread(self.ask(Caller::Thread, request::drop_schedule(name.to_owned())))
    }

    /// Returns the schedules.
    ///
    /// # Errors
    ///
    /// If the store could not be read.
    #[doc(alias("repeats", "repeatable"))]
    pub fn schedules(&self) -> Result<Vec<ScheduleInfo>, StoreError> {
        on_thread(self.schedules_by(Caller::Thread))
    }

    pub(super) async fn schedules_by(
        &self,
        caller: Caller,
    ) -> Result<Vec<ScheduleInfo>, StoreError> {
        let schedules = self.ask(caller, request::schedules()).await?;
        let settings = QueueSettings::of(&self.ask(caller, request::settings()).await?);
        let info = |stored: StoredSchedule| ScheduleInfo {
            is_paused: settings.paused_schedules.contains(&stored.name),
            name: stored.name,
            kind: stored.kind,
            rule: stored.rule_text,
            next: stored.next.to_system(),
        };
        Ok(schedules.into_iter().map(info).collect())
    }

    /// Pauses a schedule: no further occurrence of it becomes a job. Occurrences that are jobs already go on. It is
    /// stored, and holds until [`Client::resume_schedule`], also across restarts, and also if a program stores the
    /// schedule again. [`Client::unschedule`] ends it with the schedule.
    ///
    /// In this process no occurrence is made once the call has returned; in any other process none is made a second
    /// later. [`Client::run_schedule`] still makes one by hand.
    ///
    /// # Errors
    ///
    /// [`StoreError::NoSchedule`] if no schedule has this name: then nothing is stored. Another error if the store
    /// could not be changed.
    pub fn pause_schedule(&self, name: &str) -> Result<(), StoreError> {
        on_thread(self.pause_schedule_by(Caller::Thread, name))
    }

    pub(super) async fn pause_schedule_by(
        &self,
        caller: Caller,
        name: &str,
    ) -> Result<(), StoreError> {
        let now = self.dispatcher.clock.latest().millis();
        let exists = self.ask(caller, request::pause_schedule(name.to_owned(), now)).await?;
        exists.then_some(()).ok_or_else(|| StoreError::NoSchedule(name.to_owned()))
    }

    /// Ends the pause of a schedule. The occurrences that fell into the pause are left out, under every policy of
    /// [`Missed`](crate::Missed). The next occurrence is the first after this call. A schedule
    /// without a further occurrence ends. A schedule that is not paused stays as it is.
    ///
    /// # Errors
    ///
    /// [`StoreError::NoSchedule`] if no schedule has this name. [`ScheduleError::UnknownRule`] if an occurrence
    /// fell into the pause, and this program cannot say which one follows: the schedule stays paused. Or if the store
    /// could not be read or changed.
    pub fn resume_schedule(&self, name: &str) -> Result<(), StoreError> {
        on_thread(self.resume_schedule_by(Caller::Thread, name))
    }

    pub(super) async fn resume_schedule_by(
        &self,
        caller: Caller,
        name: &str,
    ) -> Result<(), StoreError> {
        loop {
            let schedules = self.ask(caller, request::schedules()).await?;
            let found = schedules.into_iter().find(|schedule| schedule.name == name);
            let StoredSchedule { schedule, rule_text, next: expected, .. } =
                found.ok_or_else(|| StoreError::NoSchedule(name.to_owned()))?;
            let settings = QueueSettings::of(&self.ask(caller, request::settings()).await?);
            if !settings.paused_schedules.contains(name) {
                return Ok(());
            }
            let now = self.latest(caller).await.map_err(|failed| failed.error)?.millis();
            if schedule.rule == Rule::Unknown && expected <= now {
                return Err(StoreError::Schedule(ScheduleError::UnknownRule(rule_text)));
            }
            let next = schedule.rule.skip_to(expected, now);
            let resume = request::resume_schedule(name.to_owned(), expected, next);
            // Otherwise another process has changed the schedule meanwhile, or resumed it.
            if self.ask(caller, resume).await? {
                return Ok(());
            }
        }
    }
}
