//! Devices that report, and a gateway that notices which of them have fallen silent.
//!
//! ```sh
//! cargo run --release -p tickwheel-jobs --features redis --example devices             # two minutes
//! cargo run --release -p tickwheel-jobs --features redis --example devices -- --short  # ten seconds
//! ```
//!
//! The gateway is three processes, its nodes, which share a queue on a Redis server: one at
//! `--redis URL`, or one that the example starts. A device reports to any node. For each report the
//! node inserts a job under the key of the device, to run after 30 seconds, in place of the one that
//! was there: so a job that starts is a silence, and whichever node is alive starts it. One node is
//! killed meanwhile, and does not come back. The options `--devices N`, `--nodes N` and `--kills K`
//! change one figure each.
//!
//! What the nodes notice is judged without the store: each start of a job appends one record to a log
//! (see `alarms.rs`). At the end the log is compared with the reports that a node said were stored:
//!
//! | row | counts | must be |
//! | --- | --- | --- |
//! | not noticed | silences that lasted, of devices whose last report was stored, without an alarm | 0 |
//! | though it had reported | alarms of devices of which a report was stored before the alarm was due | 0 |
//! | early | alarms before their time by the server's clock | 0 |
//! | cut short | alarms whose time lies less than 30 seconds after the report, by more than 5 ms | 0 |
//! | second alarms | alarms about one report. Each but the last must have been cut off by a kill | explained |
//!
//! The exit code is 1 if a row is not what it must be.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `field.rs` | the devices: when each reports, and to which node |
//! | `node.rs` | a node of the gateway |
//! | `alarms.rs` | the log of alarms |
//! | `report.rs` | the table at the end |

#![forbid(unsafe_code)]
#![allow(clippy::disallowed_methods)]

mod alarms;
mod field;
mod node;
mod report;
#[path = "../shared/mod.rs"]
mod shared;

use std::error::Error;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;
use std::{env, fs, process};

use serde::{Deserialize, Serialize};
use tickwheel_jobs::Job;

use shared::queue::Queue;

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

/// The job: a device has been silent since a report, which is counted over all devices.
#[derive(Serialize, Deserialize)]
struct Silent {
    device: u64,
    report: u64,
}

impl Job for Silent {
    const KIND: &'static str = "silent";
}

/// What a run of the program is to do.
struct Plan {
    devices: u64,
    nodes: usize,
    /// How many nodes are killed.
    kills: usize,
    /// How long a device may be silent.
    silence: Duration,
    /// How long after one report the next one comes, at most.
    interval: Duration,
    /// How long the devices report.
    open: Duration,
    lease: Duration,
    url: Option<String>,
}

const USAGE: &str = "usage: devices [--short] [--redis URL] [--devices N] [--nodes N] [--kills K]";

fn main() -> ExitCode {
    let args: Vec<String> = env::args().skip(1).collect();
    let outcome = match args.first().map(String::as_str) {
        Some(node::FLAG) => node::main(&args[1..]).map(|()| true),
        _ => Plan::from_args(&args).and_then(|plan| run(&plan)),
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("devices: {error}");
            ExitCode::FAILURE
        }
    }
}

impl Plan {
    fn from_args(args: &[String]) -> Result<Plan> {
        let mut plan = match args.iter().any(|arg| arg == "--short") {
            true => Plan::short(),
            false => Plan::full(),
        };
        let mut args = args.iter();
        while let Some(arg) = args.next() {
            let mut value = || args.next().ok_or(USAGE);
            match arg.as_str() {
                "--short" => {}
                "--redis" => plan.url = Some(value()?.clone()),
                "--devices" => plan.devices = value()?.parse()?,
                "--nodes" => plan.nodes = value()?.parse()?,
                "--kills" => plan.kills = value()?.parse()?,
                _ => return Err(USAGE.into()),
            }
        }
        if plan.devices == 0 || plan.kills >= plan.nodes {
            return Err("no devices, or no node that is left".into());
        }
        Ok(plan)
    }

    fn full() -> Plan {
        let seconds = Duration::from_secs;
        Plan {
            devices: 1000,
            nodes: 3,
            kills: 1,
            silence: seconds(30),
            interval: seconds(12),
            open: seconds(90),
            lease: seconds(5),
            url: None,
        }
    }

    fn short() -> Plan {
        let ms = Duration::from_millis;
        Plan {
            devices: 200,
            silence: ms(1500),
            interval: ms(600),
            open: ms(7500),
            lease: ms(1000),
            ..Plan::full()
        }
    }

    /// Returns how long after its time an alarm may come before the silence counts as not noticed: a
    /// node may have been killed, and the machine be loaded.
    fn notice(&self) -> Duration {
        self.lease + Duration::from_secs(2)
    }
}

/// Lets the devices report, and prints the table. Returns whether everything holds.
fn run(plan: &Plan) -> Result<bool> {
    let folder = env::temp_dir().join(format!("tickwheel-devices-{}", process::id()));
    fs::create_dir_all(&folder)?;
    let done = on_queue(plan, &folder);
    fs::remove_dir_all(&folder)?;
    done
}

fn on_queue(plan: &Plan, folder: &Path) -> Result<bool> {
    let queue = Queue::new("devices", plan.url.as_deref(), plan.lease, folder)?;
    let log = folder.join("alarms.log");
    let done = field::open(plan, &queue, &log).and_then(|field| report::print(plan, &field, &log));
    if !queue.has_own_server() {
        queue.remove()?;
    }
    done
}
