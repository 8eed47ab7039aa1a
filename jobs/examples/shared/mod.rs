//! What the examples on a Redis server share: the server, and a queue on it.

#![allow(dead_code, reason = "each example uses a part")]

pub(crate) mod queue;
pub(crate) mod server;
