//! The handles of a kind and of the whole queue, with their settings: pauses, head starts, and how many completed jobs
//! are kept.
//!
//! Ground rules:
//!
//! - A setting is stored. So it holds in every process, survives a restart, and an operator can change it while the
//!   jobs run.
//! - A kind need not be known to the process that sets it, nor to the store.

use std::time::Duration;

use super::asynchronous::both;
use super::client::{Client, check_name};
use super::request;
use super::request::Caller;
use crate::values::error::StoreError;
use crate::values::job::Job;
use crate::values::setting;
use crate::values::setting::{HeadStart, Keep};

/// The queue of a client as a whole: its settings, limits and figures. [`Client::queue`] returns it.
///
/// Settings are stored, and hold in every process within a second.
#[derive(Clone, Debug)]
pub struct Queue(pub(super) Client);

/// A kind of jobs, and its settings. [`Client::kind`] returns one.
///
/// Settings are stored, and hold in every process within a second.
#[derive(Clone, Debug)]
pub struct Kind {
    pub(super) client: Client,
    pub(super) name: String,
    /// Its flow, if its Rust type is known.
    pub(super) flow: Option<&'static str>,
}

both! {
    Queue:
    /// Pauses the queue: no further job starts. Jobs that run go on; inserts go on, and occurrences of schedules
    /// are inserted. It is stored, and holds until [`Queue::resume`], also across restarts.
    ///
    /// In this process no job starts once the call has returned; in any other process none starts a second later.
    ///
    /// # Errors
    ///
    /// If the store could not be changed.
    pub fn pause(&self) -> Result<(), StoreError> = |it, caller| {
        it.0.pause_by(caller, None, true).await
    };

    /// Ends a pause of the queue. A kind that was paused by itself stays so.
    ///
    /// # Errors
    ///
    /// If the store could not be changed.
    pub fn resume(&self) -> Result<(), StoreError> = |it, caller| {
        it.0.pause_by(caller, None, false).await
    };

    /// Says whether the queue is paused.
    ///
    /// # Errors
    ///
    /// If the store could not be read.
    pub fn is_paused(&self) -> Result<bool, StoreError> = |it, caller| {
        Ok(it.0.settings_by(caller).await?.is_paused)
    };
}

impl Client {
    /// Returns the queue as a whole, to pause or limit it, or to read its figures.
    #[must_use]
    pub fn queue(&self) -> Queue {
        Queue(self.clone())
    }

    /// Returns the settings of the kind of `J`.
    #[must_use]
    pub fn kind<J: Job>(&self) -> Kind {
        Kind { flow: Some(J::FLOW), ..self.kind_named(J::KIND) }
    }

    /// Returns the settings of a kind, for a program that does not have its Rust type.
    #[must_use]
    pub fn kind_named(&self, name: &str) -> Kind {
        Kind { client: self.clone(), name: name.to_owned(), flow: None }
    }

    /// Pauses a kind, or the queue, or ends its pause.
    async fn pause_by(
        &self,
        caller: Caller,
        kind: Option<&str>,
        pauses: bool,
    ) -> Result<(), StoreError> {
        let now = self.dispatcher.clock.latest().millis();
        let value = pauses.then(|| now.get().to_string());
        self.set(caller, setting::pause_setting(kind), value).await
    }

    pub(super) async fn settings_by(
        &self,
        caller: Caller,
    ) -> Result<setting::QueueSettings, StoreError> {
        Ok(setting::QueueSettings::of(&self.ask(caller, request::settings()).await?))
    }

    pub(super) async fn set(
        &self,
        caller: Caller,
        name: String,
        value: Option<String>,
    ) -> Result<(), StoreError> {
        self.ask(caller, request::put_setting(name, value)).await.map(drop)
    }
}

impl Kind {
    /// Returns the name of the kind.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }
}

both! {
    Kind:
    /// Pauses the kind, as [`Queue::pause`] pauses the queue. Jobs of other kinds run on.
    ///
    /// # Errors
    ///
    /// If the store could not be changed, or the name of the kind is empty or longer than 255 bytes.
    pub fn pause(&self) -> Result<(), StoreError> = |it, caller| {
        check_name("kind's name", &it.name)?;
        it.client.pause_by(caller, Some(&it.name), true).await
    };

    /// Ends a pause of the kind. If the queue is paused too, the kind waits on.
    ///
    /// # Errors
    ///
    /// As [`Kind::pause`].
    pub fn resume(&self) -> Result<(), StoreError> = |it, caller| {
        check_name("kind's name", &it.name)?;
        it.client.pause_by(caller, Some(&it.name), false).await
    };

    /// Says whether the kind is paused by itself. A pause of the queue is not counted.
    ///
    /// # Errors
    ///
    /// If the store could not be read, or the name of the kind is empty or longer than 255 bytes.
    pub fn is_paused(&self) -> Result<bool, StoreError> = |it, caller| {
        check_name("kind's name", &it.name)?;
        Ok(it.client.settings_by(caller).await?.paused_kinds.contains(&it.name))
    };

    /// Lets jobs of the kind pass jobs of other kinds that are due: each counts as if it had become due earlier by
    /// `by`. Zero removes the head start.
    ///
    /// A job of the kind passes only jobs that became due at most `by` before it, so no job waits for ever: with
    /// a head start of a minute for charges, a charge starts before the mails of the last minute, and after the older
    /// ones. A head start of a day is as good as "always first". No job starts before its due time, and within the
    /// kind the order stays.
    ///
    /// While a kind that a process handles has a head start, an eighth of its slots ([`Builder::max_in_flight`]), from
    /// one to 64, is kept for such kinds, so that an urgent job does not wait for one. A change gives back the claimed
    /// jobs that have not started, which are claimed anew in the new order. The `cookbook` has an example.
    ///
    /// # Errors
    ///
    /// As [`Kind::pause`], and if the head start is longer than ten years
    /// ([`InvalidInput::DelayTooLong`](crate::InvalidInput::DelayTooLong)): the one before it then stays.
    ///
    /// [`Builder::max_in_flight`]: crate::Builder::max_in_flight
    #[doc(alias("priority", "urgent"))]
    pub fn head_start(&self, by: Duration) -> Result<(), StoreError> = |it, caller| {
        check_name("kind's name", &it.name)?;
        let head_start = HeadStart::new(by)?;
        let value = (!head_start.is_none()).then(|| head_start.to_text());
        it.client.set(caller, setting::head_start_setting(&it.name), value).await
    };

    /// Keeps jobs of the kind that complete from now on, with their results, up to the bounds of `keep`:
    /// [`Client::get`] finds them, and [`Client::ended`] lists them. By default no completed job is kept.
    ///
    /// A lower bound takes effect as further jobs complete: each removes two kept ones at most. No bound removes a job
    /// that [`Client::call`] has inserted within a minute after its end, so that its caller finds it.
    /// [`Keep::nothing`] keeps no further job; those that are kept stay for their age.
    ///
    /// A kept job costs one more write, of about the size of its insert.
    ///
    /// # Errors
    ///
    /// As [`Kind::pause`].
    #[doc(alias("retention", "remove_on_complete", "history"))]
    pub fn keep_completed(&self, keep: Keep) -> Result<(), StoreError> = |it, caller| {
        check_name("kind's name", &it.name)?;
        let value = (!keep.is_nothing()).then(|| keep.to_text());
        it.client.set(caller, setting::keep_setting(&it.name), value).await
    };
}
