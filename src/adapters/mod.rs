//! Adapters: other ways to use a wheel, built on the engine.
//!
//! `group`, `keyed`, `events` and `futures` call the engine directly; some of its functions exist
//! for them alone (`Engine::insert_in_place_of`, `Engine::admit_batch`). `guard`, `global`, `testing` and
//! `hyper` need only the API and other adapters. No layer below names an adapter.

pub(crate) mod guard;
mod attached;
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
