//! A shop on a file: 100,000 orders that close unless they are paid, and a worker that is killed ten
//! times meanwhile.
//!
//! ```sh
//! cargo run --release -p tickwheel-jobs --example orders             # under a minute
//! cargo run --release -p tickwheel-jobs --example orders -- --short  # 5,000 orders, 3 kills
//! ```
//!
//! The options `--orders N`, `--seconds S`, `--kills K` and `--file PATH` change one figure each. The
//! file must not exist; without `--file` it lies in a folder of its own, which is removed at the end.
//!
//! Two processes share the file:
//!
//! - The **shop** is this process. It inserts, cancels and resets through a `client()` of its own, so
//!   it goes on while no worker runs.
//! - The **worker** is a child of the shop, the same program with other arguments. It handles
//!   `close-order`, and ends when the shop closes its standard input, or by SIGKILL.
//!
//! What the worker does is judged without the store: each run appends one record to a log, with one
//! write (see `log.rs`). At the end the shop compares this log with the answers it was given:
//!
//! | row | an order counts if | must be |
//! | --- | --- | --- |
//! | lost | it was inserted, no cancel answered `Cancelled` or `Running`, and it has no run | 0 |
//! | closed though paid | a cancel answered `Cancelled`, and a run started after that answer | 0 |
//! | early | a run started before its deadline: after a reset answered `true`, the new one | 0 |
//! | run twice | it has several runs. Each but the last must have been cut off by a kill | explained |
//!
//! A cancel that comes in the last 50 ms before the deadline may answer `Running`: the worker has
//! claimed the order by then, and closes it or not. The exit code is 1 if a row is not what it must
//! be.

#![forbid(unsafe_code)]
#![allow(clippy::disallowed_methods)]

mod log;
mod place;
mod report;
mod shop;
mod worker;

use std::error::Error;
use std::path::PathBuf;
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
    const NAME: &'static str = "close-order";
}

/// What a run of the program is to do.
struct Plan {
    orders: u64,
    kills: usize,
    /// The last deadline lies this long after the start.
    window: Duration,
    /// The first deadline lies this long after the start: the orders are inserted meanwhile.
    lead: Duration,
    file: Option<PathBuf>,
}

const USAGE: &str = "usage: orders [--short] [--orders N] [--seconds S] [--kills K] [--file PATH]";

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
        let (full, short) = (Duration::from_secs(30), Duration::from_secs(6));
        let lead = Duration::from_secs(4);
        let mut plan = Plan { orders: 100_000, kills: 10, window: full, lead, file: None };
        let mut args = args.iter();
        while let Some(arg) = args.next() {
            let mut value = || args.next().ok_or(USAGE);
            match arg.as_str() {
                "--short" => {
                    let lead = Duration::from_secs(1);
                    plan = Plan { orders: 5_000, kills: 3, window: short, lead, ..plan };
                }
                "--orders" => plan.orders = value()?.parse()?,
                "--seconds" => plan.window = Duration::from_secs(value()?.parse()?),
                "--kills" => plan.kills = value()?.parse()?,
                "--file" => plan.file = Some(PathBuf::from(value()?)),
                _ => return Err(USAGE.into()),
            }
        }
        if plan.orders == 0 || plan.window <= plan.lead {
            return Err(format!("no orders, or fewer than {:?} for them", plan.lead).into());
        }
        Ok(plan)
    }
}

/// Opens the shop, lets it work, and prints the table. Returns whether everything holds.
fn run(plan: &Plan) -> Result<bool> {
    let folder = env::temp_dir().join(format!("tickwheel-orders-{}", process::id()));
    fs::create_dir_all(&folder)?;
    let file = plan.file.clone().unwrap_or_else(|| folder.join("shop.db"));
    if file.exists() {
        return Err(format!("{} is there already", file.display()).into());
    }
    let place = Place::File(file);
    let log = folder.join("runs.log");
    let done = shop::open(plan, &place, &log).and_then(|day| report::print(&day, &log));
    fs::remove_dir_all(&folder)?;
    done
}
