//! The public types that own a wheel, use it, and make it.

pub(crate) mod unfired;
pub(crate) mod scheduler;
pub(crate) mod wheel;
pub(crate) mod driver;
pub(crate) mod builder;
