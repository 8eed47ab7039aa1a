//! The main job on real sockets: a TCP server with one idle timer a connection, which every
//! heartbeat pushes back, and ten thousand clients, a tenth of which fall silent one after the
//! other. The server must evict exactly those.
//!
//! ```sh
//! cargo run --release --example heartbeats
//! cargo run --release --example heartbeats -- --short
//! cargo run --release --example heartbeats -- --connections 2000 --seconds 60 --idle-ms 5000
//! ```
//!
//! `--help` lists the options. It takes about twenty seconds, prints a table, and exits with 1 when
//! the server evicted a live connection, evicted one early, or kept a silent one; with 2 when it
//! does not understand its options.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `options.rs` | what the command line may ask for |
//! | `machine.rs` | what the system allows, and what it charged |
//! | `network.rs` | connections on loopback, both ends of each |
//! | `server.rs` | the part to copy: a timer for each connection, pushed back, and its job |
//! | `clients.rs` | those who send heartbeats, until they fall silent |
//! | `trial.rs` | all of them together, from the first heartbeat to the shutdown |
//! | `verdict.rs` | what each eviction was: deserved, the machine's fault, or the wheel's |
//! | `report.rs` | the progress line and the table |

#![forbid(unsafe_code)]
// A program owns its clock and its threads; only the library has to be handed them.
#![allow(clippy::disallowed_methods)]

mod clients;
mod machine;
mod network;
mod options;
mod report;
mod server;
mod trial;
mod verdict;

use std::env;
use std::io;
use std::process::ExitCode;

use options::{Asked, Options};
use verdict::Verdict;

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let options = match options::parse(&arguments) {
        Ok(Asked::Run(options)) => options,
        Ok(Asked::Help) => {
            println!("{}", options::HELP);
            return ExitCode::SUCCESS;
        }
        Err(error) => {
            eprintln!("heartbeats: {error}");
            return ExitCode::from(2);
        }
    };
    match run(&options) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("heartbeats: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Runs the trial and prints what came out; whether every must held.
fn run(options: &Options) -> io::Result<bool> {
    let count = machine::affordable(options.connections);
    println!("connections to make: {count}");
    let pairs = network::connect(count)?;
    let outcome = trial::run(options, pairs);
    let verdict = Verdict::of(&outcome, options.idle);
    report::table(&outcome, &verdict);
    let broken = verdict.broken();
    for must in &broken {
        println!("BROKEN: {must}");
    }
    Ok(broken.is_empty())
}
