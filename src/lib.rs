//! A hashed timing wheel with hierarchical levels, for programs that hold hundreds of thousands of
//! timeouts at once: idle connections and devices, retries, orders that close themselves.
//!
//! ```
//! use std::{sync::mpsc, time::Duration};
//! use tickwheel::Wheel;
//!
//! let wheel = Wheel::new();
//! let (closed, orders) = mpsc::channel();
//! wheel.insert(Duration::from_millis(20), move || closed.send("order 1 closed").unwrap());
//! let paid = wheel.insert(Duration::from_millis(20), || println!("order 2 closed"));
//! assert!(wheel.cancel(paid));
//! assert_eq!(orders.recv(), Ok("order 1 closed"));
//! // A wheel that is dropped never runs its pending jobs. A shutdown hands them back.
//! for unfired in wheel.shutdown() {
//!     println!("{:?} would have run in {:?}", unfired.handle, unfired.remaining);
//! }
//! ```
//!
//! Jobs run on a rayon pool. A job never starts early. The ticker, a thread that sleeps until there is work, hands it
//! to the pool at most one tick late, plus the time that the ticker takes to wake. [`Wheel::cancel`] and
//! [`Wheel::reset`] take constant time and return exactly whether the job was pending; a stale [`Handle`] does nothing.
//! A panic in one job affects no other job.
//!
//! | for | use |
//! | --- | --- |
//! | a delay, an instant, a wall-clock time | [`Wheel::insert`] with a [`When`] |
//! | a repeating job | [`Wheel::every`], [`Wheel::repeat`] with [`Repeat`] and [`Next`] |
//! | many jobs at once | [`Wheel::insert_batch`], [`Wheel::cancel_batch`], [`Wheel::reset_batch`] |
//! | jobs under keys of your own | [`Keyed`] |
//! | jobs that are cancelled together, or by a drop | [`Group`], [`Guard`] |
//! | few wake-ups; no thundering herd | [`When::within`]; [`When::jitter`] |
//! | jobs that are saved, listed or moved | [`Task`], [`Job::downcast`], [`Wheel::close`] |
//! | values that come out of a channel | [`Events`] |
//! | a job that knows its own handle | [`Wheel::insert_with`] |
//! | parts of a program that do not own the wheel | [`Scheduler`] |
//! | a bound, a pool, other ticks and rings | [`Builder`], [`Geometry`] |
//! | tests, simulations | [`Builder::manual`], whose time a [`Driver`] moves |
//! | an event loop that computes its timeout | [`Builder::driven`], with a [`LoopDriver`] |
//! | your own clock and threads | [`Hierarchy`], the structure alone |
//! | async code, on any runtime | feature `async`: `Wheel::sleep`, `timeout` and `interval` |
//! | the timeouts of hyper | feature `hyper`: `HyperTimer` |
//! | to see problems in a log | feature `tracing`: an event for a panic, a ticker that is behind, a slow waker |
//!
//! The scheme is that of G. Varghese and T. Lauck, *Hashed and Hierarchical Timing Wheels* (SOSP
//! 1987). The [`cookbook`] has recipes: timeouts, retries, caches, cron. `docs/guarantees.md` lists
//! every promise with its test, `docs/architecture.md` shows where each part of the code is.

#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]
#![deny(missing_docs)]

// The order of these lines is the architecture: a module names only modules above it, in its own
// layer or in a layer declared earlier. `tests/architecture/` checks that.
mod values;
mod structure;
mod host;
mod engine;
mod api;
mod adapters;

/// Compiles the examples of the README, some of which are async.
#[cfg(all(doctest, feature = "async"))]
#[doc = include_str!("../README.md")]
mod readme {}

#[cfg(all(doctest, feature = "async"))]
#[doc = include_str!("../docs/coming-from.md")]
mod coming_from {}

// The async recipes of the cookbook need the feature `async`.
#[cfg_attr(any(not(doctest), feature = "async"), doc = include_str!("../docs/cookbook.md"))]
#[doc(alias("backoff", "cron", "debounce", "retry", "throttle", "ttl"))]
pub mod cookbook {}

#[cfg(feature = "async")]
pub use adapters::events::EventStream;
pub use adapters::events::{Event, Events, Full};
#[cfg(feature = "async")]
pub use adapters::futures::{
    Beat, Drive, Elapsed, Interval, Sleep, Timeout, WheelGone, ZeroPeriod,
};
pub use adapters::group::Group;
pub use adapters::guard::Guard;
#[cfg(feature = "hyper")]
pub use adapters::hyper::HyperTimer;
pub use adapters::keyed::Keyed;
pub use api::builder::Builder;
pub use api::driver::{Driver, LoopDriver};
pub use api::scheduler::Scheduler;
pub use api::unfired::{Unfired, UnfiredJob};
pub use api::wheel::Wheel;
pub use engine::metrics::{Histogram, Lateness, Metrics, Stats};
pub use host::user_panics::Panic;
pub use structure::{Geometry, Hierarchy, Key, Location, Turn, Violation};
pub use values::error::{ConfigError, GeometryError, InsertError, InsertErrorKind};
pub use values::handle::Handle;
pub use values::job::{Job, Task};
pub use values::repeat::{Missed, Next, Repeat, Run};
pub use values::time::{Earliest, Span, Tick, When};

/// One wheel for the whole process, for code that is not passed one. Feature `async`.
///
/// ```
/// use std::time::Duration;
/// use tickwheel::global;
///
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// global::sleep(Duration::from_millis(5)).await;
/// assert!(global::timeout(Duration::from_millis(5), std::future::pending::<()>()).await.is_err());
/// # });
/// ```
#[cfg(feature = "async")]
pub mod global {
    pub use crate::adapters::global::{
        install, interval, sleep, sleep_until, sleep_within, timeout, timeout_at, wheel,
    };
}

/// Virtual time for futures: a test that sleeps for a year ends at once. Feature `async`.
#[cfg(feature = "async")]
pub mod testing {
    pub use crate::adapters::testing::run;
}
