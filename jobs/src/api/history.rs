//! The history of a queue: what happened in each minute of the last 48 hours, and in each hour of the last 90 days.

use core::ops::Range;
use std::time::SystemTime;

use super::caller::{Caller, on_thread};
use super::client::{Client, check_name};
use super::kind::Kind;
use super::request;
use crate::store::HistoryPart;
use crate::values::error::StoreError;
use crate::values::history::{HistoryEntry, Step};
use crate::values::time::Millis;

impl Client {
    /// Returns what happened to the jobs of the queue: an entry for each minute or hour in which something happened,
    /// in their order, if it began in `range`. There are minutes of the last 48 hours, and hours of the last 90 days.
    ///
    /// The figures are exact: an event counts in the minute in which it was committed, by the clock of the store, and
    /// in that commit. Inserts of [`Client::statement`] count when the process that runs the jobs takes them.
    ///
    /// It reads one row for each kind and hour, or for each kind and day. At most 200 kinds have a history of their
    /// own; further ones share that of the kind `other`.
    ///
    /// # Errors
    ///
    /// If the store could not be read.
    #[doc(alias("statistics", "metrics", "rate", "throughput"))]
    pub fn history(
        &self,
        step: Step,
        range: Range<SystemTime>,
    ) -> Result<Vec<HistoryEntry>, StoreError> {
        on_thread(self.history_by(Caller::Thread, None, step, range))
    }

    /// [`Client::history`], as a future.
    ///
    /// # Errors
    ///
    /// As [`Client::history`].
    pub async fn history_async(
        &self,
        step: Step,
        range: Range<SystemTime>,
    ) -> Result<Vec<HistoryEntry>, StoreError> {
        self.history_by(Caller::Future, None, step, range).await
    }

    pub(super) async fn history_by(
        &self,
        caller: Caller,
        kind: Option<&str>,
        step: Step,
        range: Range<SystemTime>,
    ) -> Result<Vec<HistoryEntry>, StoreError> {
        let (from, to) = (next(step, range.start), next(step, range.end));
        let kind = kind.map(str::to_owned);
        let parts = self.ask(caller, request::history(kind, from, to)).await?;
        Ok(entries(step, parts))
    }
}

impl Kind {
    /// Returns what happened to the jobs of the kind: see [`Client::history`]. A kind that has none of its own, because
    /// 200 others have one, has an empty history; `kind_named("other")` has that of all such kinds.
    ///
    /// # Errors
    ///
    /// If the store could not be read, or the name of the kind is empty or longer than 255 bytes.
    pub fn history(
        &self,
        step: Step,
        range: Range<SystemTime>,
    ) -> Result<Vec<HistoryEntry>, StoreError> {
        check_name("kind's name", self.name())?;
        on_thread(self.client().history_by(Caller::Thread, Some(self.name()), step, range))
    }

    /// [`Kind::history`], as a future.
    ///
    /// # Errors
    ///
    /// As [`Kind::history`].
    pub async fn history_async(
        &self,
        step: Step,
        range: Range<SystemTime>,
    ) -> Result<Vec<HistoryEntry>, StoreError> {
        check_name("kind's name", self.name())?;
        self.client().history_by(Caller::Future, Some(self.name()), step, range).await
    }
}

/// Returns the first beginning of a minute or an hour at this time or after it.
fn next(step: Step, time: SystemTime) -> Millis {
    let (ms, length) = (Millis::present(time).get(), length_ms(step));
    Millis::clamped(ms.saturating_add(length - 1) / length * length)
}

fn length_ms(step: Step) -> i64 {
    i64::try_from(step.length().as_millis()).unwrap_or(i64::MAX)
}

/// Adds up parts of a history by the step that was asked for.
fn entries(step: Step, parts: Vec<HistoryPart>) -> Vec<HistoryEntry> {
    let length = length_ms(step);
    let mut entries: Vec<HistoryEntry> = Vec::new();
    for (begin, is_hour, figures) in parts {
        if is_hour && step == Step::Minute {
            continue;
        }
        let begin = Millis::clamped(begin.get() - begin.get().rem_euclid(length)).to_system();
        if entries.last().is_none_or(|last| last.begin != begin) {
            entries.push(HistoryEntry::at(begin));
        }
        if let Some(last) = entries.last_mut() {
            figures.add_to(last);
        }
    }
    entries
}
