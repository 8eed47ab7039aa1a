//! The store on a Redis server, with servers of the tests' own.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `server.rs` | a server: started, killed, started again |
//! | `support.rs` | jobs, and what is noted of them |
//! | `proxy.rs` | a proxy that cuts, stalls, and drops replies |
//! | `nodes.rs` | several nodes on one queue |
//! | `lost.rs` | lost replies, broken connections, servers that come back |
//! | `leases.rs`, `worker.rs` | workers that are cut off, stand still or die; clocks |
//! | `start.rs` | servers that are refused, and full ones |
//! | `limits.rs` | what scripts may not do |
//! | `cluster.rs`, `cluster_servers.rs` | queues in a cluster; the cluster |
//! | `sentinel.rs` | servers that sentinels name |
//! | `replicas.rs` | inserts that wait for replicas |
//! | `measures.rs` | figures |

mod cluster;
mod cluster_servers;
mod leases;
mod limits;
mod lost;
mod measures;
mod nodes;
mod proxy;
#[cfg(unix)]
mod replicas;
mod sentinel;
mod server;
mod start;
mod support;
#[cfg(unix)]
mod worker;
