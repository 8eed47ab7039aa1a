pub(crate) mod hurry;
pub(crate) mod claim;
pub(crate) mod words;
pub(crate) mod memory;
#[cfg(feature = "sqlite")]
pub(crate) mod sqlite;
#[cfg(feature = "redis")]
pub(crate) mod redis;
