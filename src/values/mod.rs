//! Values: the types that the other layers exchange with each other and with users. They depend on
//! nothing but each other.

pub(crate) mod time;
pub(crate) mod error;
pub(crate) mod handle;
pub(crate) mod repeat;
pub(crate) mod job;
