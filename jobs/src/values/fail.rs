//! The error of a handler: why its run did not succeed, and what happens to its job next.
//!
//! Ground rules:
//!
//! - `?` converts every error that can be boxed to a [`Fail`]. So [`Fail`] itself is no `Error`, and does not
//!   convert to a boxed one: its own `From` would overlap with the reflexive `From<Fail> for Fail`, with which
//!   `?` passes on a `Fail`.
//! - The text of an error holds the chain of its sources, because the store keeps only the text.

use core::fmt;
use std::error::Error;
use std::time::Duration;

use super::error_type::ErrorType;

/// Why a run did not succeed, and what happens to its job next.
///
/// `?` converts every error that can be boxed: those of the standard library and of other crates, an
/// `anyhow::Error`, a `Box<dyn Error + Send + Sync>`, a text. The job is then retried by its
/// [`Retry`](crate::Retry) policy, as with [`Fail::retry`].
///
/// | a handler returns | the run | the job |
/// | --- | --- | --- |
/// | `Err(error)?`, [`Fail::retry`] | failed | is retried by its policy, or is dead after its last retry |
/// | [`Fail::after`] | failed | is retried after this delay, or is dead after its last retry |
/// | [`Fail::dead`] | failed | is dead at once |
/// | [`Fail::snooze`] | did not fail | runs again after this delay, any number of times |
/// | [`Fail::interrupted`] | was cancelled | runs again, and the run does not count |
///
/// ```
/// use std::time::Duration;
/// use tickwheel_jobs::Fail;
/// fn handler(answer: u16) -> Result<(), Fail> {
///     match answer {
///         429 => Err(Fail::snooze(Duration::from_secs(30))), // not the job's fault: no failure is counted
///         503 => Err(Fail::after(Duration::from_secs(30), "busy")),
///         404 => Err(Fail::dead("no such account")),
///         200 => Ok(()),
///         0 => Err("no answer")?, // by the policy, as any error
///         _ => Err(Fail::retry(format!("status {answer}"))), // the same
///     }
/// }
/// assert!(handler(404).is_err());
/// ```
///
/// # Errors that do not convert
///
/// `?` refuses an error that is not `Send + Sync + 'static`. Convert it to text instead. Two such errors are
/// common: the `PoisonError` of a `lock()`, which holds the guard of the lock, and a `Box<dyn Error>` without
/// `Send + Sync`.
///
/// ```
/// use std::error::Error;
/// use std::sync::{Mutex, PoisonError};
/// use tickwheel_jobs::Fail;
/// fn handler(count: &Mutex<u64>) -> Result<(), Fail> {
///     *count.lock().map_err(|_| "a handler has panicked before")? += 1;
///     // Or go on with what is there:
///     *count.lock().unwrap_or_else(PoisonError::into_inner) += 1;
///     old_code().map_err(|error| error.to_string())?;
///     Ok(())
/// }
/// fn old_code() -> Result<(), Box<dyn Error>> {
///     Ok(())
/// }
/// assert!(handler(&Mutex::new(0)).is_ok());
/// ```
#[derive(Clone)]
pub struct Fail {
    pub(crate) fate: Fate,
    pub(crate) error: String,
    pub(crate) of_type: ErrorType,
}

/// What happens to a job whose run did not succeed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fate {
    /// Its retry policy decides: its own, or that of its kind.
    Policy,
    /// It is retried after this delay, if its policy allows another retry.
    After(Duration),
    /// It runs again after this delay, and the run is no failure.
    Snooze(Duration),
    /// It is dead.
    Dead,
    /// If the run was cancelled, its claim is given back, and the run does not count. Else the policy decides.
    Interrupted,
}

impl Fail {
    /// Fails the run: the job is retried by its [`Retry`](crate::Retry) policy, or is dead after its last
    /// retry. `?` does the same; this function is for an error that the handler makes itself.
    pub fn retry(error: impl Into<Box<dyn Error + Send + Sync>>) -> Fail {
        Fail::of(Fate::Policy, error)
    }

    /// Fails the run: the job is retried after `delay`, or is dead after the last retry that its
    /// [`Retry`](crate::Retry) policy allows. A delay that leads past the year 9999 ends with that year: an
    /// insert would refuse it, but here no caller waits for an error.
    ///
    /// A job that only has to wait, for a rate limiter or for another job, is better [snoozed](Fail::snooze).
    #[doc(alias("retry_in", "backoff"))]
    pub fn after(delay: Duration, error: impl Into<Box<dyn Error + Send + Sync>>) -> Fail {
        Fail::of(Fate::After(delay), error)
    }

    /// Ends the run without a failure: the job runs again after `delay`. No retry is used up, no
    /// [`Event::Failed`](crate::Event::Failed) is emitted, the job keeps its key, and
    /// [`Stats::snoozed`](crate::Stats::snoozed) counts the run. The next run has the same
    /// [`Run::attempt`](crate::Run::attempt) and a greater [`Run::fence`](crate::Run::fence).
    ///
    /// A job that was [cancelled](crate::Client::cancel) while it ran does not run again. A delay that leads
    /// past the year 9999 ends with that year.
    ///
    /// Only the handler limits the number of snoozes. If a job must not wait for ever, put an end time into its
    /// data, and return [`Fail::dead`] after that time: the `cookbook` shows this.
    /// [`JobInfo::due`](crate::JobInfo::due) is the time of the next run, so it does not tell the age of the
    /// job.
    ///
    /// A snooze costs as much as a failed run: one claim, and one change of the job in the store. So choose a
    /// delay after which the next run may succeed. After a delay of zero the job runs again at once.
    #[doc(alias("defer", "delay", "postpone", "rate_limit", "reschedule"))]
    #[must_use]
    pub fn snooze(delay: Duration) -> Fail {
        Fail::by_jobs(Fate::Snooze(delay), "the job was put off".to_owned(), ErrorType::OTHER)
    }

    /// Fails the run, and makes the job dead at once.
    #[doc(alias("discard", "unrecoverable"))]
    pub fn dead(error: impl Into<Box<dyn Error + Send + Sync>>) -> Fail {
        Fail::of(Fate::Dead, error)
    }

    /// Ends a run that was cancelled ([`Run::is_cancelled`](crate::Run::is_cancelled)), without counting it:
    /// unless its job was cancelled or its lease was lost, the job runs again at once. If the run was not
    /// cancelled, or has reached its [time limit](crate::Builder::time_limit), this is the same as
    /// [`Fail::retry`].
    #[must_use]
    pub fn interrupted() -> Fail {
        let error = "the run was told to stop".to_owned();
        Fail::by_jobs(Fate::Interrupted, error, ErrorType::INTERRUPTED)
    }

    fn of<E: Into<Box<dyn Error + Send + Sync>>>(fate: Fate, error: E) -> Fail {
        Fail { fate, error: chain(&*error.into()), of_type: ErrorType::of::<E>() }
    }

    /// Makes a failure that the jobs have noticed, not the handler.
    pub(crate) fn by_jobs(fate: Fate, error: String, of_type: ErrorType) -> Fail {
        Fail { fate, error, of_type }
    }
}

impl<E: Into<Box<dyn Error + Send + Sync>>> From<E> for Fail {
    fn from(error: E) -> Fail {
        Fail::retry(error)
    }
}

/// The longest text of an error that is kept with a job, in bytes.
pub(crate) const ERROR_BYTES: usize = 4096;

/// Returns the error and its sources, as one line of text of at most [`ERROR_BYTES`].
fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        text.push_str(": ");
        text.push_str(&error.to_string());
        source = error.source();
        if text.len() > ERROR_BYTES {
            break;
        }
    }
    truncated(text)
}

/// Returns the text, cut at a character's boundary to at most [`ERROR_BYTES`].
pub(crate) fn truncated(mut text: String) -> String {
    if text.len() > ERROR_BYTES {
        let mut end = ERROR_BYTES;
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        text.truncate(end);
    }
    text
}

impl fmt::Debug for Fail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fail").field("fate", &self.fate).field("error", &self.error).finish()
    }
}

impl fmt::Display for Fail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.error)
    }
}
