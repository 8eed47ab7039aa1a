//! The promises of the dashboard, asked for as a browser and as a program ask: without a network.

mod ask;
mod bulk;
mod forged;
mod forms;
#[path = "../../../jobs/tests/redis/installed.rs"]
mod installed;
mod limits;
mod lists;
mod names;
mod parameters;
mod on_redis;
mod outcomes;
mod paths;
mod redacted;
mod rights;
#[allow(dead_code, reason = "the tests of Redis use the rest")]
#[path = "../../../jobs/tests/redis/server.rs"]
mod server;
mod service;
mod settings;
mod warnings;
