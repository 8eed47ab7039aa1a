pub(crate) mod hook;
pub(crate) mod time;
pub(crate) mod id;
pub(crate) mod job;
pub(crate) mod retry;
pub(crate) mod schedule;
pub(crate) mod error;
pub(crate) mod info;
