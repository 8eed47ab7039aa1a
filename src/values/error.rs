//! The errors: one type for each operation that can fail. A refused insert gives the job back.

use core::fmt;
use core::time::Duration;
use std::sync::{Mutex, PoisonError};

/// Why a [`Geometry`](crate::Geometry) was refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum GeometryError {
    /// The list of levels is empty.
    NoLevels,
    /// A level has no slots.
    NoSlots {
        /// The level, counted from the innermost, 0.
        level: usize,
    },
    /// All levels together have more slots than
    /// [`Geometry::MAX_SLOTS`](crate::Geometry::MAX_SLOTS).
    TooManySlots {
        /// The level at which the sum exceeds the limit, counted from the innermost, 0.
        level: usize,
        /// The number of slots that this level asks for.
        slots: usize,
    },
    /// The product of the sizes exceeds 64 bits, so the range of the levels cannot be counted in
    /// ticks.
    RangeOverflow {
        /// The level at which the product overflows, counted from the innermost, 0.
        level: usize,
        /// The number of slots that this level asks for.
        slots: usize,
    },
}

impl fmt::Display for GeometryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            GeometryError::NoLevels => f.write_str("a geometry needs at least one level"),
            GeometryError::NoSlots { level } => {
                write!(f, "level {level} has 0 slots, it needs at least one")
            }
            GeometryError::TooManySlots { level, slots } => write!(
                f,
                "level {level} asks for {slots} slots, which makes more than 2^24 in all levels"
            ),
            GeometryError::RangeOverflow { level, slots } => write!(
                f,
                "with the {slots} slots of level {level} the range of the levels exceeds 2^64 ticks"
            ),
        }
    }
}

impl std::error::Error for GeometryError {}

/// Why a [`Builder`](crate::Builder) could not build.
#[derive(Debug)]
#[non_exhaustive]
pub enum ConfigError {
    /// The tick is zero, or longer than 2^64 nanoseconds (584 years).
    Tick(Duration),
    /// The number of threads is zero, or above
    /// [`Builder::MAX_THREADS`](crate::Builder::MAX_THREADS).
    Threads(usize),
    /// The number of shards is zero, or above [`Builder::MAX_SHARDS`](crate::Builder::MAX_SHARDS).
    Shards(usize),
    /// The bound on pending jobs is zero: the wheel could not take any job.
    MaxPending(usize),
    /// The bound on jobs in flight is zero: the wheel could not run any job.
    MaxInFlight(usize),
    /// The name contains a NUL byte. The name of a thread cannot.
    Name(String),
    /// Two choices that exclude each other, by the names of their methods of
    /// [`Builder`](crate::Builder).
    Conflict(&'static str, &'static str),
    /// The system refused to start the ticker's thread.
    Ticker(std::io::Error),
    /// The pool could not be built, most often because the system refused to start its threads. No
    /// function returns this error: the threads start with the first job that comes due, so the
    /// panic handler receives this error, as the payload of a [`Panic`](crate::Panic).
    Pool(rayon::ThreadPoolBuildError),
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ConfigError::Tick(tick) => {
                write!(f, "tick({tick:?}): a tick is above zero and below 584 years")
            }
            ConfigError::Threads(threads) => {
                write!(f, "threads({threads}): the pool needs between 1 and 1024")
            }
            ConfigError::Shards(shards) => {
                write!(f, "shards({shards}): the wheel needs between 1 and 1024")
            }
            ConfigError::MaxPending(bound) => {
                write!(f, "max_pending({bound}): the wheel could not take any job")
            }
            ConfigError::MaxInFlight(bound) => {
                write!(f, "max_in_flight({bound}): the wheel could not run any job")
            }
            ConfigError::Name(name) => {
                write!(f, "name({name:?}): names of threads cannot contain a NUL byte")
            }
            ConfigError::Conflict(one, other) => {
                write!(f, "{one} and {other} exclude each other: choose one")
            }
            ConfigError::Ticker(error) => write!(f, "the ticker's thread did not start: {error}"),
            ConfigError::Pool(error) => write!(f, "the pool could not be built: {error}"),
        }
    }
}

impl std::error::Error for ConfigError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            ConfigError::Ticker(error) => Some(error),
            ConfigError::Pool(error) => Some(error),
            _ => None,
        }
    }
}

/// Why an insert was refused.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum InsertErrorKind {
    /// There is no room for the job. The wheel has as many pending jobs as
    /// [`Builder::max_pending`](crate::Builder::max_pending) allows; or the calling thread's shard
    /// holds 2^32 - 1 jobs, the most that a shard can number. (A job that repeats, that waits for a wall-clock time,
    /// or of [`Wheel::insert_with`](crate::Wheel::insert_with) counts twice there while it is in the wheel.) For
    /// [`Events`](crate::Events): 2^32 - 1 events are pending in them.
    Full,
    /// The wheel was dropped or shut down. A wheel that is full as well reports this, because it is
    /// final.
    Shutdown,
    /// The period is zero: the job would run without a pause.
    ZeroPeriod,
    /// The key has a pending job already.
    Occupied,
    /// All receivers of the [`Events`](crate::Events) were dropped.
    Disconnected,
}

impl fmt::Display for InsertErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            InsertErrorKind::Full => "the wheel is full",
            InsertErrorKind::Shutdown => "the wheel is shut down",
            InsertErrorKind::ZeroPeriod => "a repeating job needs a period above zero",
            InsertErrorKind::Occupied => "the key has a pending job already",
            InsertErrorKind::Disconnected => "the receivers of the events are gone",
        })
    }
}

impl std::error::Error for InsertErrorKind {}

impl<F> From<InsertError<F>> for InsertErrorKind {
    /// Drops the refused job, so that `?` works in a function that has no use for it.
    fn from(refused: InsertError<F>) -> InsertErrorKind {
        refused.kind
    }
}

/// An insert that was refused. [`InsertError::into_inner`] gives back the job; the key and the job;
/// or the whole batch.
///
/// ```
/// # use std::time::Duration;
/// # use tickwheel::{InsertErrorKind, Wheel};
/// let wheel = Wheel::builder().max_pending(1).build()?;
/// wheel.insert(Duration::from_secs(60), || ());
/// let refused = wheel.try_insert(Duration::from_secs(60), || println!("too many")).unwrap_err();
/// assert_eq!(refused.kind(), InsertErrorKind::Full);
/// let job = refused.into_inner();
/// job();
/// # Ok::<(), tickwheel::ConfigError>(())
/// ```
///
/// It is `Send` and `Sync` for every job, so `?` turns it into a boxed error. A caller that does
/// not want the job back converts it into its [`InsertErrorKind`], which is an error too. A boxed
/// kind can be found by a downcast; a boxed `InsertError` of a closure cannot, because the type of
/// a closure has no name:
///
/// ```
/// # use std::time::Duration;
/// # use tickwheel::{InsertErrorKind, Wheel};
/// fn ping(wheel: &Wheel) -> Result<(), InsertErrorKind> {
///     wheel.every(Duration::from_secs(1), || println!("ping"))?;
///     Ok(())
/// }
/// # assert!(ping(&Wheel::new()).is_ok());
/// ```
pub struct InsertError<F> {
    kind: InsertErrorKind,
    /// Never locked. The mutex makes the error `Sync` for every job that is `Send`, so that `?`
    /// turns it into a boxed error.
    job: Mutex<F>,
}

impl<F> InsertError<F> {
    pub(crate) fn new(kind: InsertErrorKind, job: F) -> InsertError<F> {
        InsertError { kind, job: Mutex::new(job) }
    }

    /// Returns the same error with its job wrapped, or unwrapped, by `job`.
    pub(crate) fn map<G>(self, job: impl FnOnce(F) -> G) -> InsertError<G> {
        InsertError::new(self.kind, job(self.into_inner()))
    }

    /// Returns why the insert was refused.
    pub fn kind(&self) -> InsertErrorKind {
        self.kind
    }

    /// Returns the refused job, key and job, or batch.
    pub fn into_inner(self) -> F {
        self.job.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<F> fmt::Debug for InsertError<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InsertError").field("kind", &self.kind).finish_non_exhaustive()
    }
}

impl<F> fmt::Display for InsertError<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the insert was refused: {}", self.kind)
    }
}

impl<F> std::error::Error for InsertError<F> {}
