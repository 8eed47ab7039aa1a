//! x
#![forbid(unsafe_code)]
#![allow(dead_code)]
mod time;
mod error;
mod job;
mod identity;
mod table;
mod hierarchy;
pub use error::*;
pub use hierarchy::{Geometry, Hierarchy, Location, Turn, Violation};
pub use job::Job;
pub use table::Key;
pub use time::{Span, Tick};
