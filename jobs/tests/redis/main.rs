//! The store on a Redis server, with servers of the tests' own (`server.rs`), and a proxy before them that cuts, resets,
//! stalls, drops replies and delivers late (`proxy.rs`).

mod by_hand;
#[cfg(unix)]
mod clocks;
mod cluster;
mod cluster_servers;
mod failover;
mod fake_time;
mod follow_ups;
mod foreign;
mod groups;
mod half_done;
mod history;
#[cfg(unix)]
mod in_time;
mod kept_lists;
mod kept_work;
#[cfg(unix)]
mod killed_rates;
mod known_defects;
mod lanes;
mod late;
mod leases;
mod limits;
mod lost;
mod metrics;
#[cfg(unix)]
mod neighbours;
#[cfg(unix)]
#[path = "../deaths/node.rs"]
mod node;
mod nodes;
mod pages;
mod pauses;
#[cfg(unix)]
#[path = "../deaths/process.rs"]
mod process;
mod proxy;
mod rates;
#[cfg(unix)]
mod replicas;
mod rights;
#[path = "../scenarios/mod.rs"]
mod scenarios;
mod run_ends;
#[cfg(feature = "redis-tls")]
mod secured;
mod sentinel;
mod sentinel_servers;
mod server;
#[cfg(target_os = "linux")]
mod server_clock;
mod share;
mod slow_disk;
mod soak;
mod start;
mod stoppable_replica;
mod support;
mod suspects;
#[cfg(feature = "redis-tls")]
mod tls;
mod unreadable;
