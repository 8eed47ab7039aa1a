//! A TCP proxy with a timeout for each connect, for each read, and for idleness: once with the
//! timers of tokio, once with those of a wheel, under the same load in the same run.
//!
//! ```sh
//! cargo run --release -p proxy                    # 5,000 connections, as fast as they can
//! cargo run --release -p proxy -- --pause 500     # each waits for half a second between requests
//! cargo run -p proxy -- --short                   # whether it works, in six seconds
//! ```
//!
//! The proxy is a process of its own, so that its processor time can be told from that of the load.
//! Some connections are silent on purpose, and some have an origin that is. The proxy must close
//! each of these, in time and never early, and no other: else the run fails.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `timers.rs` | what the proxy needs of a timer, from tokio and from a wheel |
//! | `proxy.rs` | the proxy |
//! | `load.rs` | the clients, and what they find wrong |
//! | `origins.rs` | the servers behind the proxy: one answers, one does not, one cannot be reached |
//! | `process.rs` | the process of the proxy, and its processor time |
//! | `report.rs` | medians, and the table |

#![forbid(unsafe_code)]

mod load;
mod origins;
mod process;
mod proxy;
mod report;
mod timers;

use std::env;
use std::process::ExitCode;
use std::time::Duration;

use load::{Clients, Load};
use origins::Origins;
use process::Proxy;
use proxy::Limits;
use timers::Kind;

/// What the command line asks for.
struct Options {
    load: Load,
    limits: Limits,
    repetitions: usize,
}

impl Options {
    fn full() -> Options {
        let second = Duration::from_secs(1);
        Options {
            load: Load {
                clients: Clients { busy: 4_700, silent: 100, idle: 100, unanswered: 80, lost: 20 },
                window: 5 * second,
                pause: Duration::ZERO,
            },
            limits: Limits { connect: 3 * second, read: 3 * second, idle: 3 * second },
            repetitions: 5,
        }
    }

    fn short() -> Options {
        let second = Duration::from_secs(1);
        let limit = 3 * second / 2;
        Options {
            load: Load {
                clients: Clients { busy: 200, silent: 20, idle: 20, unanswered: 20, lost: 5 },
                window: 2 * second,
                pause: second / 50,
            },
            limits: Limits { connect: limit, read: limit, idle: limit },
            repetitions: 1,
        }
    }

    fn parse(mut arguments: impl Iterator<Item = String>) -> Option<Options> {
        let mut options = Options::full();
        while let Some(argument) = arguments.next() {
            let mut number = || arguments.next()?.parse::<u64>().ok();
            match argument.as_str() {
                "--short" => options = Options::short(),
                "--pause" => options.load.pause = Duration::from_millis(number()?),
                "--repetitions" => options.repetitions = number()?.try_into().ok()?,
                "--connections" => {
                    let others = options.load.clients.others();
                    let all = usize::try_from(number()?).ok()?;
                    options.load.clients.busy = all.checked_sub(others)?;
                }
                _ => return None,
            }
        }
        Some(options)
    }
}

fn main() -> ExitCode {
    let mut arguments = env::args().skip(1).peekable();
    if arguments.peek().is_some_and(|first| first == process::SERVE) {
        return process::serve(arguments.skip(1));
    }
    let Some(options) = Options::parse(arguments) else {
        eprintln!("usage: proxy [--short] [--connections N] [--pause MS] [--repetitions N]");
        return ExitCode::from(2);
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("threads for the load");
    runtime.block_on(compare(options))
}

/// Runs both kinds of timers by turns, and prints what was measured.
async fn compare(mut options: Options) -> ExitCode {
    let origins = Origins::start().await.expect("ports for the servers");
    if origins.unreachable.is_none() {
        println!("here no connect hangs, so the timeout of a connect is not tried");
        options.load.clients.lost = 0;
    }
    let mut rows = [(Kind::Tokio, Vec::new()), (Kind::Wheel, Vec::new())];
    let mut failed = false;
    for _ in 0..options.repetitions {
        for (kind, runs) in &mut rows {
            let proxy = Proxy::start(*kind, &origins, options.limits).expect("the proxy starts");
            let mut run = load::run(&options.load, options.limits, &proxy).await;
            let closed = proxy.stop().expect("the proxy says what it closed");
            run.check(&options.load.clients, closed);
            for wrong in &run.wrong {
                println!("wrong, with {kind}: {wrong}");
                failed = true;
            }
            runs.push(run);
        }
    }
    report::print(&options, &rows);
    if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}
