//! What feature `tracing` promises: the span of each run, the events, and the context that a job carries from its
//! insert to its runs.
//!
//! | file | its tests |
//! | --- | --- |
//! | `recorder.rs` | a subscriber that notes every span and event |
//! | `spans.rs` | the span of each run |
//! | `events.rs` | the events |
//! | `context.rs` | the context of a trace |
//! | `panics.rs` | closures that panic |
//! | `calling.rs` | a subscriber that calls the jobs, shuts them down or panics in each of its functions |
//! | `meddler.rs` | the layer that does so |

mod calling;
mod context;
mod events;
#[path = "../redis/installed.rs"]
mod installed;
mod meddler;
mod panics;
mod recorder;
#[path = "../redis/server.rs"]
#[expect(dead_code, reason = "the tests of Redis use more of it")]
mod server;
mod spans;
