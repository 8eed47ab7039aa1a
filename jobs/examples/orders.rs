//! A shop whose orders close themselves unless they are paid in time.
//!
//! ```sh
//! cargo run --release -p tickwheel-jobs --example orders             # on a file, 20 seconds
//! cargo run --release -p tickwheel-jobs --example orders -- --short  # the same in a few seconds
//! cargo run --release -p tickwheel-jobs --features redis --example orders -- --redis --workers 3
//! ```
//!
//! The shop places orders and takes payments. Then it is away for a while, as in a deploy, and starts
//! again: its jobs are still there, and orders that came due meanwhile close at once. With `--redis` the
//! example starts a `redis-server`, and the workers share the jobs. The exit code is 1 unless every
//! unpaid order has closed exactly once, and no paid one.
//!
//! What to know before this is copied:
//!
//! - **The key of a job is the number of its order.** A payment needs no id of a job, also after a
//!   restart.
//! - **`cancel` decides between a payment and the deadline.** After `true` the order never closes. After
//!   `false` it has closed, or closes at this moment: the money goes back.
//! - **A job runs at least once**, and twice if its process ends before the end of the run is stored.
//!   A handler therefore closes an order only if it is still open: `outbox.rs` does.
//! - **One process runs the jobs of a file**, and any number of them those on a Redis server.

#![forbid(unsafe_code)]
#![allow(clippy::disallowed_methods, reason = "customers take their time")]

#[cfg(feature = "redis")]
mod redis_server;

use std::collections::BTreeSet;
use std::error::Error;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Sender};
use std::time::Duration;
use std::{env, fs, process, thread};

use serde::{Deserialize, Serialize};
use tickwheel_jobs::{Builder, Client, Job, Jobs, OpenError, StoreError};

type Result<T, E = Box<dyn Error>> = std::result::Result<T, E>;

/// The job: an order is to be closed.
#[derive(Serialize, Deserialize)]
struct CloseOrder {
    order: u64,
}

impl Job for CloseOrder {
    const KIND: &'static str = "close-order";
}

fn key(order: u64) -> String {
    format!("order-{order}")
}

/// Places an order, which closes after `time_to_pay`. The job is stored when this returns.
fn place(shop: &Client, order: u64, time_to_pay: Duration) -> Result<()> {
    shop.keyed(&key(order)).insert(time_to_pay, CloseOrder { order })?;
    Ok(())
}

/// Returns whether the payment of an order came in time: then the order never closes.
fn pay(shop: &Client, order: u64) -> Result<bool, StoreError> {
    shop.keyed(&key(order)).cancel()
}

/// Starts the workers, which run the jobs. `closed` is told every order that closes.
fn start(store: &Store, workers: usize, closed: &Sender<u64>) -> Result<Vec<Jobs>> {
    let start_one = |worker| {
        let closed = closed.clone();
        let builder = store.open()?.handle(move |close: CloseOrder, run| {
            println!("    worker {worker} closes order {}, {:.1?} late", close.order, run.late());
            Ok(closed.send(close.order)?)
        });
        Ok(builder.start()?)
    };
    (1..=workers).map(start_one).collect()
}

/// Where the jobs are.
enum Store {
    File(PathBuf),
    #[cfg(feature = "redis")]
    Redis(redis_server::RedisServer),
}

impl Store {
    fn open(&self) -> Result<Builder, OpenError> {
        match self {
            Store::File(path) => Jobs::open(path),
            #[cfg(feature = "redis")]
            Store::Redis(server) => Jobs::redis(server.url()),
        }
    }
}

const EARLY_ORDERS: RangeInclusive<u64> = 1001..=1010;
const LATE_ORDERS: RangeInclusive<u64> = 1011..=1020;
/// Longer than anything here takes on a loaded machine.
const LONG: Duration = Duration::from_secs(30);
const USAGE: &str = "usage: orders [--short] [--redis [--workers N]]";

fn main() -> Result<()> {
    let (mut time_to_pay, mut workers, mut on_redis) = (Duration::from_secs(12), 1, false);
    let mut args = env::args().skip(1);
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--short" => time_to_pay = Duration::from_secs(2),
            "--redis" => on_redis = true,
            "--workers" => workers = args.next().ok_or(USAGE)?.parse()?,
            _ => return Err(USAGE.into()),
        }
    }
    let folder = env::temp_dir().join(format!("tickwheel-orders-{}", process::id()));
    fs::create_dir_all(&folder)?;
    let result = store(&folder, on_redis).and_then(|store| sell(&store, workers, time_to_pay));
    fs::remove_dir_all(&folder)?;
    result
}

fn store(folder: &Path, on_redis: bool) -> Result<Store> {
    match on_redis {
        false => Ok(Store::File(folder.join("shop.db"))),
        #[cfg(feature = "redis")]
        true => Ok(Store::Redis(redis_server::RedisServer::start(folder)?)),
        #[cfg(not(feature = "redis"))]
        true => Err("--redis needs the feature redis".into()),
    }
}

fn sell(store: &Store, workers: usize, time_to_pay: Duration) -> Result<()> {
    let (closed, closings) = mpsc::channel();
    let mut paid = BTreeSet::new();
    let mut take_payments = |shop: &Client, orders: &[u64]| -> Result<()> {
        for &order in orders {
            let in_time = pay(shop, order)?;
            println!("order {order} is paid{}", if in_time { "" } else { " too late" });
            paid.extend(in_time.then_some(order));
        }
        Ok(())
    };

    let nodes = start(store, workers, &closed)?;
    let shop = nodes.first().ok_or(USAGE)?;
    println!("orders {EARLY_ORDERS:?} are placed, and {LATE_ORDERS:?} after {:?}", time_to_pay / 2);
    EARLY_ORDERS.into_iter().try_for_each(|order| place(shop, order, time_to_pay))?;
    thread::sleep(time_to_pay / 2);
    LATE_ORDERS.into_iter().try_for_each(|order| place(shop, order, time_to_pay))?;
    take_payments(shop, &[1002, 1005, 1012, 1015])?;

    println!("the shop is away until the first orders are overdue");
    nodes.into_iter().try_for_each(Jobs::shutdown)?;
    thread::sleep(time_to_pay * 6 / 10);
    let nodes = start(store, workers, &closed)?;
    let shop = nodes.first().ok_or(USAGE)?;
    take_payments(shop, &[1018])?;

    let is_paid = |order: &u64| paid.contains(order);
    let unpaid: Vec<u64> = EARLY_ORDERS.chain(LATE_ORDERS).filter(|it| !is_paid(it)).collect();
    let mut closed = Vec::new();
    while closed.len() < unpaid.len() {
        closed.push(closings.recv_timeout(LONG)?);
    }
    if pay(shop, 1001)? {
        return Err("order 1001 was paid, although it has closed".into());
    }
    nodes.into_iter().try_for_each(Jobs::shutdown)?; // It waits for runs.
    closed.extend(closings.try_iter());
    closed.sort_unstable();
    let left = store.open()?.client()?.count()?;
    if closed != unpaid || left.pending + left.claimed + left.dead > 0 {
        return Err(format!("unpaid: {unpaid:?}, closed: {closed:?}, left: {left:?}").into());
    }
    println!("{} unpaid orders have closed once, and no paid one", closed.len());
    Ok(())
}
