//! A shop on a file, or on a Redis server: 100,000 orders that close unless they are paid, and workers
//! that are killed ten times meanwhile.
//!
//! ```sh
//! cargo run --release -p tickwheel-jobs --example orders             # under a minute
//! cargo run --release -p tickwheel-jobs --example orders -- --short  # 5,000 orders, 3 kills
//! cargo run --release -p tickwheel-jobs --features redis --example orders -- --redis --workers 3
//! ```
//!
//! The options `--orders N`, `--seconds S`, `--kills K` and `--file PATH` change one figure each. The
//! file must not exist; without `--file` it lies in a folder of its own, which is removed at the end.
//!
//! With `--redis URL` the jobs are in a queue of their own on that server, and the keys of the queue
//! are deleted at the end. With `--redis` alone the shop starts a `redis-server` of its own, which
//! writes each command to disk before it answers. `--workers N` says how many workers share the jobs,
//! 3 unless it is said; a file has one. Beside the kills, one worker is stopped (SIGSTOP) for longer
//! than its lease, and continued; and a server of the shop's own is killed, and started again
//! (`--stops N`, `--restarts N`).
//!
//! The processes share the store:
//!
//! - The **shop** is this process. It inserts, cancels and resets through a `client()` of its own, so
//!   it goes on while no worker runs.
//! - A **worker** is a child of the shop, the same program with other arguments. It handles
//!   `close-order`, and ends when the shop closes its standard input, or by SIGKILL.
//!
//! What the workers do is judged without the store: each run appends one record to a log, with one
//! write (see `log.rs`). At the end the shop compares this log with the answers it was given:
//!
//! | row | an order counts if | must be |
//! | --- | --- | --- |
//! | lost | it was inserted, no cancel answered `Cancelled` or `Running`, and it has no run | 0 |
//! | closed though paid | a cancel answered `Cancelled`, and a run started after that answer | 0 |
//! | early | a run started before its deadline: after a reset answered `true`, the new one | 0 |
//! | run twice | it has several runs. Each but the last must have been cut off | explained |
//!
//! What cuts off a run is a kill of its worker, a stop of it past the lease, or a server that is away
//! for longer than the lease. The times of a server's orders are those of its clock: the shop measures
//! how far that is from this machine's. The exit code is 1 if a row is not what it must be.
//!
//! A cancel that comes when a worker has claimed the order (on a file in the last 50 ms before the
//! deadline) may answer `Running`: the worker closes the order, or not.

#![forbid(unsafe_code)]
#![allow(clippy::disallowed_methods)]

mod causes;
mod incidents;
mod log;
mod place;
mod report;
#[cfg(feature = "redis")]
#[path = "../shared/mod.rs"]
mod shared;
mod shop;
mod worker;

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;
use std::{env, fs, process};

use serde::{Deserialize, Serialize};
use tickwheel_jobs::Job;

use place::Place;

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

/// The job: an order is to be closed.
#[derive(Serialize, Deserialize)]
struct CloseOrder {
    order: u64,
}

impl Job for CloseOrder {
    const KIND: &'static str = "close-order";
}

/// Where the jobs are to be.
#[derive(Clone, PartialEq, Eq)]
enum Target {
    File(Option<PathBuf>),
    /// Without a URL, a server is started.
    Redis(Option<String>),
}

/// What a run of the program is to do.
struct Plan {
    orders: u64,
    workers: usize,
    kills: usize,
    /// How often a worker is stopped past its lease.
    stops: usize,
    /// How often the server is restarted.
    restarts: usize,
    /// The last deadline lies this long after the start.
    window: Duration,
    /// The first deadline lies this long after the start: the orders are inserted meanwhile.
    lead: Duration,
    /// How long a claim on a server holds.
    lease: Duration,
    target: Target,
}

const USAGE: &str = "usage: orders [--short] [--orders N] [--seconds S] [--kills K] [--file PATH]
       orders --redis [URL] [--workers N] [--stops N] [--restarts N] [--short] [...]";

fn main() -> ExitCode {
    let args: Vec<String> = env::args().skip(1).collect();
    let outcome = match args.first().map(String::as_str) {
        Some(worker::FLAG) => worker::main(&args[1..]).map(|()| true),
        _ => Plan::from_args(&args).and_then(|plan| run(&plan)),
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("orders: {error}");
            ExitCode::FAILURE
        }
    }
}

impl Plan {
    fn from_args(args: &[String]) -> Result<Plan> {
        let is_short = args.iter().any(|arg| arg == "--short");
        let on_server = args.iter().any(|arg| arg == "--redis");
        let mut plan = Plan::new(is_short, on_server);
        let mut args = args.iter().peekable();
        while let Some(arg) = args.next() {
            if arg == "--redis" {
                let url = args.next_if(|next| !next.starts_with("--")).cloned();
                // A server that was there before is not ours to restart.
                plan.restarts = usize::from(url.is_none());
                plan.target = Target::Redis(url);
                continue;
            }
            let mut value = || args.next().ok_or(USAGE);
            match arg.as_str() {
                "--short" => {}
                "--orders" => plan.orders = value()?.parse()?,
                "--seconds" => plan.window = Duration::from_secs(value()?.parse()?),
                "--kills" => plan.kills = value()?.parse()?,
                "--workers" if on_server => plan.workers = value()?.parse()?,
                "--stops" if on_server => plan.stops = value()?.parse()?,
                "--restarts" if on_server => plan.restarts = value()?.parse()?,
                "--file" if !on_server => plan.target = Target::File(Some(value()?.into())),
                _ => return Err(USAGE.into()),
            }
        }
        if plan.orders == 0 || plan.workers == 0 || plan.window <= plan.lead {
            let lead = plan.lead;
            return Err(format!("no orders, no workers, or fewer than {lead:?} for them").into());
        }
        Ok(plan)
    }

    fn new(is_short: bool, on_server: bool) -> Plan {
        let seconds = Duration::from_secs;
        let (orders, kills) = if is_short { (5_000, 3) } else { (100_000, 10) };
        let window = match (is_short, on_server) {
            (true, false) => seconds(6),
            (true, true) => seconds(9),
            (false, false) => seconds(30),
            (false, true) => seconds(40),
        };
        let lead = match (is_short, on_server) {
            (true, _) => seconds(1),
            (false, false) => seconds(4),
            (false, true) => seconds(10),
        };
        Plan {
            orders,
            workers: if on_server { 3 } else { 1 },
            kills,
            stops: usize::from(on_server && cfg!(unix)),
            restarts: 0,
            window,
            lead,
            lease: if is_short { seconds(1) } else { seconds(2) },
            target: Target::File(None),
        }
    }
}

/// Opens the shop, lets it work, and prints the table. Returns whether everything holds.
fn run(plan: &Plan) -> Result<bool> {
    let folder = env::temp_dir().join(format!("tickwheel-orders-{}", process::id()));
    fs::create_dir_all(&folder)?;
    let done = place(plan, &folder).and_then(|place| {
        let log = folder.join("runs.log");
        let done = shop::open(plan, &place, &log).and_then(|day| report::print(plan, &day, &log));
        place.close()?;
        done
    });
    fs::remove_dir_all(&folder)?;
    done
}

fn place(plan: &Plan, folder: &Path) -> Result<Place> {
    match &plan.target {
        Target::File(file) => {
            let file = file.clone().unwrap_or_else(|| folder.join("shop.db"));
            match file.exists() {
                true => Err(format!("{} is there already", file.display()).into()),
                false => Ok(Place::File(file)),
            }
        }
        #[cfg(feature = "redis")]
        Target::Redis(url) => {
            let url = url.as_deref();
            Ok(Place::Redis(shared::queue::Queue::new("orders", url, plan.lease, folder)?))
        }
        #[cfg(not(feature = "redis"))]
        Target::Redis(_) => Err("--redis: the example was built without the feature redis".into()),
    }
}
