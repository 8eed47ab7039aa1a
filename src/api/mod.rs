//! The API: the public types that make a wheel, own it, use it and drive it.

pub(crate) mod unfired;
pub(crate) mod scheduler;
pub(crate) mod wheel;
mod verbs;
pub(crate) mod driver;
pub(crate) mod builder;
