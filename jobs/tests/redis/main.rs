//! The store on a Redis server, with servers of the tests' own.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `server.rs` | a server: started, killed, started again |
//! | `support.rs` | jobs, and what is noted of them |
//! | `proxy.rs` | a proxy that cuts, resets, stalls, drops replies and delivers late |
//! | `nodes.rs` | several nodes on one queue |
//! | `lost.rs` | lost replies, broken connections, servers that come back |
//! | `batches.rs` | handlers of batches |
//! | `bulk.rs` | verbs for every job of a list |
//! | `by_hand.rs` | records that were removed by hand |
//! | `clocks.rs` | nodes whose clocks are wrong, and drift |
//! | `cuts.rs` | connections that end in the midst |
//! | `failover.rs`, `stoppable_replica.rs`, `slow_disk.rs` | servers that lack what was answered last |
//! | `late.rs` | requests that arrive after they were sent again |
//! | `leases.rs`, `worker.rs` | workers that are cut off, stand still or die; clocks |
//! | `pauses.rs` | servers that stand still, or are busy |
//! | `soak.rs` | faults of every kind, at random |
//! | `run_ends.rs` | time limits of runs, and what is reported of their ends |
//! | `start.rs` | servers that are refused, and full ones |
//! | `neighbours.rs` | what a job that ends its process does to the jobs beside it |
//! | `server_clock.rs`, `settable_clock.c` | a server whose clock is set while it runs |
//! | `known_defects.rs` | what other queues did wrong |
//! | `limits.rs` | what scripts may not do |
//! | `lanes.rs` | limits and partitions |
//! | `rates.rs`, `killed_rates.rs` | rates on several nodes, of which one is cut off, or is killed |
//! | `held_keys.rs` | keys that are held, policies of jobs |
//! | `half_done.rs` | scripts that fail, and full servers |
//! | `rights.rs` | users who may not do all |
//! | `foreign.rs` | values in every key that another program wrote |
//! | `unreadable.rs` | what cannot be read, and parts of a round trip that fail |
//! | `follow_ups.rs` | ends with follow-ups on a full server, with lost replies, with lost leases |
//! | `groups.rs` | groups on a full server, with lost replies, on several nodes |
//! | `suspects.rs` | jobs that were interrupted |
//! | `cluster.rs`, `cluster_servers.rs` | queues in a cluster; the cluster |
//! | `sentinel.rs`, `sentinel_servers.rs` | servers that sentinels name; the sentinels |
//! | `tls.rs` | connections by TLS |
//! | `replicas.rs` | inserts that wait for replicas |
//! | `share.rs` | nodes that share the work |
//! | `pages.rs` | programs of the pages, which need a server |
//! | `in_time.rs` | calls and shutdowns that keep their limit |

mod batches;
mod bulk;
mod by_hand;
#[cfg(unix)]
mod clocks;
mod cluster;
mod cluster_servers;
mod cuts;
mod failover;
mod fake_time;
mod follow_ups;
mod foreign;
mod groups;
mod half_done;
mod held_keys;
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
mod nodes;
mod pages;
mod pauses;
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
#[cfg(unix)]
mod worker;
