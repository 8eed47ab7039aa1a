//! The store on a Redis server, with servers of the tests' own.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `server.rs` | a server: started, killed, started again |
//! | `support.rs` | jobs, and what is noted of them |
//! | `nodes.rs` | several processes on one queue |

mod leases;
mod limits;
mod lost;
mod nodes;
mod proxy;
mod server;
mod start;
mod support;
