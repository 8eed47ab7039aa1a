//! Why a run did not end well, and what becomes of its job.
//!
//! Ground rules:
//!
//! - Every error that can be boxed becomes a [`Fail`] by `?`. So [`Fail`] is no `Error` itself, and does not
//!   convert into a boxed one: its own `From` would overlap with the reflexive `From<Fail> for Fail`, by
//!   which `?` hands a `Fail` on unchanged.
//! - The text of an error holds the whole chain of its sources, because nothing else of it is stored.

use core::fmt;
use std::error::Error;
use std::time::Duration;

/// Why a run did not end well, and what becomes of the job.
///
/// `?` makes one of every error that can be boxed: those of the standard library and of other crates, an
/// `anyhow::Error`, a `Box<dyn Error + Send + Sync>`, a text. The job is tried again then as its
/// [`Retry`](crate::Retry) says, which is what [`Fail::retry`] says too.
///
/// | a handler returns | the run | the job |
/// | --- | --- | --- |
/// | `Err(error)?`, [`Fail::retry`] | failed | is tried again by the policy, or is dead after its last try |
/// | [`Fail::after`] | failed | is tried again after this delay, or is dead after its last try |
/// | [`Fail::dead`] | failed | is dead at once |
/// | [`Fail::snooze`] | did not fail | runs again after this delay, as often as it takes |
/// | [`Fail::interrupted`] | was told to stop | runs again, and the run does not count |
///
/// ```
/// use std::time::Duration;
/// use tickwheel_jobs::Fail;
/// fn handler(answer: u16) -> Result<(), Fail> {
///     match answer {
///         429 => Err(Fail::snooze(Duration::from_secs(30))), // not its fault: no try is used up
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
/// An error that is not `Send + Sync + 'static` cannot be boxed so, and `?` refuses it. The cure is its text.
/// Two are common: the `PoisonError` of a `lock()`, which holds the guard of the lock, and a
/// `Box<dyn Error>` without `Send + Sync`.
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
#[derive(Debug)]
pub struct Fail {
    pub(crate) fate: Fate,
    pub(crate) error: String,
}

/// What becomes of a job whose run did not end well.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fate {
    /// The policy of its kind decides.
    Policy,
    /// It is tried again after this delay, if the policy allows another try.
    After(Duration),
    /// It runs again after this delay, and the run is no failure.
    Snooze(Duration),
    /// It is dead.
    Dead,
    /// It goes back as it was, and the run does not count.
    Interrupted,
}

impl Fail {
    /// Returns the failure after which the job is tried again by its [`Retry`](crate::Retry), and is dead
    /// after its last try. `?` does the same: this is for an error that is made here.
    pub fn retry(error: impl Into<Box<dyn Error + Send + Sync>>) -> Fail {
        Fail { fate: Fate::Policy, error: chain(&*error.into()) }
    }

    /// Returns the failure after which the job is tried again when `delay` has passed, if the
    /// number of tries that its [`Retry`](crate::Retry) allows is not used up. A delay that leads past the
    /// year 9999 ends with that year: an insert would be refused, but here nobody could be told.
    ///
    /// A job that must wait for no fault of its own, for a limiter or for another job, is
    /// [snoozed](Fail::snooze).
    #[doc(alias("retry_in", "backoff"))]
    pub fn after(delay: Duration, error: impl Into<Box<dyn Error + Send + Sync>>) -> Fail {
        Fail { fate: Fate::After(delay), error: chain(&*error.into()) }
    }

    /// Puts the job off: it runs again when `delay` has passed, and this run was no failure. No try is used
    /// up, no [`Event::Failed`](crate::Event::Failed) is told, the job keeps its key, and
    /// [`Stats::snoozed`](crate::Stats::snoozed) counts the run. The next run has the same
    /// [`Run::attempt`](crate::Run::attempt) and a greater [`Run::fence`](crate::Run::fence).
    ///
    /// A job that was [cancelled](crate::Client::cancel) while it ran ends. A delay that leads past the year
    /// 9999 ends with that year.
    ///
    /// Nothing but the handler bounds how often a job is put off. One that must not wait for ever says in its
    /// data until when it is of use, and its handler returns [`Fail::dead`] after that time: the
    /// `cookbook` shows it beside a limiter. [`JobInfo::due`](crate::JobInfo::due) is the time of
    /// the next run, and so says nothing of the job's age.
    ///
    /// A snooze costs what a failed run costs: one claim and one change of the job in the store. So the delay
    /// is the time until it is worth another look. Zero leads to the next run at once, again and again.
    #[doc(alias("defer", "delay", "postpone", "rate_limit", "reschedule"))]
    #[must_use]
    pub fn snooze(delay: Duration) -> Fail {
        Fail { fate: Fate::Snooze(delay), error: "the job was put off".to_owned() }
    }

    /// Returns the failure that makes the job dead at once.
    #[doc(alias("discard", "unrecoverable"))]
    pub fn dead(error: impl Into<Box<dyn Error + Send + Sync>>) -> Fail {
        Fail { fate: Fate::Dead, error: chain(&*error.into()) }
    }

    /// Returns the failure of a run that was told to stop ([`Run::is_cancelled`](crate::Run::is_cancelled)).
    /// It does not count as a try: a job that is still the store's to run is tried again at once.
    #[must_use]
    pub fn interrupted() -> Fail {
        Fail { fate: Fate::Interrupted, error: "the run was told to stop".to_owned() }
    }
}

impl<E: Into<Box<dyn Error + Send + Sync>>> From<E> for Fail {
    fn from(error: E) -> Fail {
        Fail::retry(error)
    }
}

/// The longest text of an error that is kept with a job, in bytes.
const ERROR_BYTES: usize = 4096;

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

impl fmt::Display for Fail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.error)
    }
}
