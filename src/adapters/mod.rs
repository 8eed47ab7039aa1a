//! Adapters: each stands on a [`Scheduler`](crate::Scheduler) and changes nothing below it.

pub(crate) mod guard;
pub(crate) mod group;
pub(crate) mod keyed;
pub(crate) mod events;
#[cfg(feature = "async")]
pub(crate) mod futures;
#[cfg(feature = "async")]
pub(crate) mod global;
#[cfg(feature = "async")]
pub(crate) mod testing;
#[cfg(feature = "hyper")]
pub(crate) mod hyper;

#[cfg(all(test, not(loom)))]
mod tests;
