#![forbid(unsafe_code)]
#![warn(missing_docs)]
//! Durable jobs.

mod hook_impl;
/// Named points of the code, for tests that end the process there. Not a part of the interface.
#[doc(hidden)]
pub mod hook {
    pub use crate::hook_impl::{at, set};
}

mod values;
mod store;
mod dispatch;
mod api;

pub use api::builder::Builder;
pub use api::client::Client;
pub use api::driver::Driver;
pub use api::jobs::Jobs;
pub use api::keyed::Keyed;
pub use api::pages::Pages;
pub use dispatch::events::Event;
pub use dispatch::metrics::Stats;
pub use dispatch::run::{Lost, Run};
pub use store::Fence;
pub use values::error::{InsertError, InsertErrorKind, OpenError, StoreError, Violation};
pub use values::id::{JobId, ParseIdError};
pub use values::info::{Cancel, Counts, Durability, JobInfo, JobState, Lateness, ScheduleInfo};
pub use values::job::{DecodeError, EncodeError, Job};
pub use values::retry::{Fail, Retry};
#[cfg(feature = "cron")]
pub use values::schedule::Cron;
pub use values::schedule::{Missed, Schedule, ScheduleError};
pub use values::time::TimeError;

#[cfg(feature = "sqlite")]
pub use rusqlite;
pub use tickwheel;
