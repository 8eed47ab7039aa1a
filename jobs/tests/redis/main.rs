//! The store on a Redis server, with servers of the tests' own.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `server.rs` | a server: started, killed, started again |
//! | `support.rs` | jobs, and what is noted of them |
//! | `proxy.rs` | a proxy that cuts, resets, stalls, drops replies and delivers late |
//! | `nodes.rs` | several nodes on one queue |
//! | `lost.rs` | lost replies, broken connections, servers that come back |
//! | `cuts.rs` | connections that end in the midst |
//! | `late.rs` | requests that arrive after they were sent again |
//! | `leases.rs`, `worker.rs` | workers that are cut off, stand still or die; clocks |
//! | `pauses.rs` | servers that stand still, or are busy |
//! | `soak.rs` | faults of every kind, at random |
//! | `start.rs` | servers that are refused, and full ones |
//! | `known_defects.rs` | what other queues did wrong |
//! | `limits.rs` | what scripts may not do |
//! | `half_done.rs` | scripts that fail, and full servers |
//! | `measures.rs` | figures |

mod cuts;
#[path = "../kill/draw.rs"]
mod draw;
mod half_done;
mod known_defects;
mod late;
mod leases;
mod limits;
mod lost;
mod measures;
mod nodes;
mod pauses;
mod proxy;
mod server;
mod soak;
mod start;
mod support;
#[cfg(unix)]
mod worker;
