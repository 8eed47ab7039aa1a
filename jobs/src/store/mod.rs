pub(crate) mod words;
pub(crate) mod memory;
#[cfg(feature = "sqlite")]
pub(crate) mod sqlite;
