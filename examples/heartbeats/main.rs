//! Idle timeouts on real sockets: a TCP server with one timer for each connection, which every
//! heartbeat pushes back, and ten thousand clients. A tenth of the clients fall silent one after
//! the other, and the server must evict exactly those.
//!
//! ```sh
//! cargo run --release --example heartbeats
//! cargo run --release --example heartbeats -- --short
//! cargo run --release --example heartbeats -- --connections 2000 --seconds 60 --idle-ms 5000
//! ```
//!
//! `--help` lists the options. The program takes about twenty seconds and prints a table. It exits
//! with 1 if the server evicted a live connection, evicted one early, or kept a silent one; with 2 if
//! it does not understand its options.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `options.rs` | the options of the command line |
//! | `machine.rs` | the limit on open files, and the processor time used |
//! | `network.rs` | connections on loopback, both ends of each |
//! | `server.rs` | the part to copy: a timer for each connection, pushed back, and its job |
//! | `clients.rs` | the clients, which send heartbeats until they fall silent |
//! | `trial.rs` | server, clients and wheel together, from the first heartbeat to the shutdown |
//! | `verdict.rs` | the cause of each eviction: the client, the machine, or the wheel |
//! | `report.rs` | the progress line and the table |

#![forbid(unsafe_code)]
// A program may read the clock and sleep; the library may not.
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

/// Runs the trial and prints the result. Returns whether every requirement held.
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
