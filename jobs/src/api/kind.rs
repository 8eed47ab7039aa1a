//! The settings of a kind, and of the whole queue: pauses, and how many completed jobs are kept.
//!
//! Ground rules:
//!
//! - A setting is stored. So it holds in every process, survives a restart, and an operator can change it while the
//!   jobs run.
//! - A kind need not be known to the process that sets it, nor to the store.

use super::caller::{Caller, on_thread};
use super::client::{Client, check_name};
use super::request;
use crate::values::error::StoreError;
use crate::values::job::Job;
use crate::values::keep::Keep;
use crate::values::setting;

/// A kind of jobs, and its settings. [`Client::kind`] returns one.
///
/// Settings are stored, and hold in every process within a second.
#[derive(Clone, Debug)]
pub struct Kind {
    client: Client,
    name: String,
}

impl Client {
    /// Returns the settings of the kind of `J`.
    #[must_use]
    pub fn kind<J: Job>(&self) -> Kind {
        self.kind_named(J::KIND)
    }

    /// Returns the settings of a kind, for a program that does not have its Rust type.
    #[must_use]
    pub fn kind_named(&self, name: &str) -> Kind {
        Kind { client: self.clone(), name: name.to_owned() }
    }

    /// Pauses the queue: no further job starts. Jobs that run go on; inserts go on, and occurrences of schedules
    /// are inserted. It is stored, and holds until [`Client::resume`], also across restarts.
    ///
    /// In this process no job starts once the call has returned; in any other process none starts a second later.
    ///
    /// # Errors
    ///
    /// If the store could not be changed.
    pub fn pause(&self) -> Result<(), StoreError> {
        on_thread(self.pause_by(Caller::Thread, None))
    }

    /// Ends a pause of the queue. A kind that was paused by itself stays so.
    ///
    /// # Errors
    ///
    /// If the store could not be changed.
    pub fn resume(&self) -> Result<(), StoreError> {
        on_thread(self.resume_by(Caller::Thread, None))
    }

    /// Says whether the queue is paused.
    ///
    /// # Errors
    ///
    /// If the store could not be read.
    pub fn is_paused(&self) -> Result<bool, StoreError> {
        Ok(on_thread(self.settings_by(Caller::Thread))?.is_paused)
    }

    pub(super) async fn pause_by(
        &self,
        caller: Caller,
        kind: Option<&str>,
    ) -> Result<(), StoreError> {
        let now = self.dispatcher.clock.latest().millis();
        self.set(caller, setting::pause(kind), Some(now.get().to_string())).await
    }

    pub(super) async fn resume_by(
        &self,
        caller: Caller,
        kind: Option<&str>,
    ) -> Result<(), StoreError> {
        self.set(caller, setting::pause(kind), None).await
    }

    async fn settings_by(&self, caller: Caller) -> Result<setting::Settings, StoreError> {
        Ok(setting::Settings::of(&self.ask(caller, request::settings()).await?))
    }

    async fn set(
        &self,
        caller: Caller,
        name: String,
        value: Option<String>,
    ) -> Result<(), StoreError> {
        self.ask(caller, request::put_setting(name, value)).await.map(drop)
    }

    /// [`Client::pause`], as a future.
    ///
    /// # Errors
    ///
    /// As [`Client::pause`].
    pub async fn pause_async(&self) -> Result<(), StoreError> {
        self.pause_by(Caller::Future, None).await
    }

    /// [`Client::resume`], as a future.
    ///
    /// # Errors
    ///
    /// As [`Client::resume`].
    pub async fn resume_async(&self) -> Result<(), StoreError> {
        self.resume_by(Caller::Future, None).await
    }
}

impl Kind {
    /// Returns the name of the kind.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn client(&self) -> &Client {
        &self.client
    }

    /// Pauses the kind, as [`Client::pause`] pauses the queue. Jobs of other kinds run on.
    ///
    /// # Errors
    ///
    /// If the store could not be changed, or the name of the kind is empty or longer than 255 bytes.
    pub fn pause(&self) -> Result<(), StoreError> {
        check_name("kind's name", &self.name)?;
        on_thread(self.client.pause_by(Caller::Thread, Some(&self.name)))
    }

    /// [`Kind::pause`], as a future.
    ///
    /// # Errors
    ///
    /// As [`Kind::pause`].
    pub async fn pause_async(&self) -> Result<(), StoreError> {
        check_name("kind's name", &self.name)?;
        self.client.pause_by(Caller::Future, Some(&self.name)).await
    }

    /// [`Kind::resume`], as a future.
    ///
    /// # Errors
    ///
    /// As [`Kind::resume`].
    pub async fn resume_async(&self) -> Result<(), StoreError> {
        check_name("kind's name", &self.name)?;
        self.client.resume_by(Caller::Future, Some(&self.name)).await
    }

    /// Ends a pause of the kind. If the queue is paused too, the kind waits on.
    ///
    /// # Errors
    ///
    /// As [`Kind::pause`].
    pub fn resume(&self) -> Result<(), StoreError> {
        check_name("kind's name", &self.name)?;
        on_thread(self.client.resume_by(Caller::Thread, Some(&self.name)))
    }

    /// Says whether the kind is paused by itself. A pause of the queue is not counted.
    ///
    /// # Errors
    ///
    /// If the store could not be read.
    pub fn is_paused(&self) -> Result<bool, StoreError> {
        let settings = on_thread(self.client.settings_by(Caller::Thread))?;
        Ok(settings.paused_kinds.contains(&self.name))
    }

    /// Keeps jobs of the kind that complete from now on, with their results, up to the bounds of `keep`:
    /// [`Client::get`] finds them, and [`Client::ended`] lists them. By default no completed job is kept.
    ///
    /// A lower bound takes effect as further jobs complete: each removes two kept ones at most.
    /// [`Keep::nothing`] keeps no further job; those that are kept stay for their age.
    ///
    /// A kept job costs one more write, of about the size of its insert.
    ///
    /// # Errors
    ///
    /// As [`Kind::pause`].
    #[doc(alias("retention", "remove_on_complete", "history"))]
    pub fn keep_completed(&self, keep: Keep) -> Result<(), StoreError> {
        check_name("kind's name", &self.name)?;
        let value = (!keep.is_nothing()).then(|| keep.to_text());
        on_thread(self.client.set(Caller::Thread, setting::keep(&self.name), value))
    }

    /// [`Kind::keep_completed`], as a future.
    ///
    /// # Errors
    ///
    /// As [`Kind::keep_completed`].
    pub async fn keep_completed_async(&self, keep: Keep) -> Result<(), StoreError> {
        check_name("kind's name", &self.name)?;
        let value = (!keep.is_nothing()).then(|| keep.to_text());
        self.client.set(Caller::Future, setting::keep(&self.name), value).await
    }
}
