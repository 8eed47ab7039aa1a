//! Jobs that outlast the program: at its end it saves the pending jobs to a file of JSON, and at its
//! next start it reloads them. Here the jobs send reminders of orders, and close them.
//!
//! ```sh
//! cargo run --release --example save_and_reload             # Ctrl-C stops it; run it again
//! cargo run --release --example save_and_reload -- --short  # two rounds, and their sum
//! ```
//!
//! A run takes ten seconds, or until Ctrl-C or SIGTERM. The first run takes twelve orders. The next
//! runs do the jobs that are left: at their time, or at once if they came due between two runs. With
//! a path as its argument, the program keeps its file in that directory.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `orders.rs` | the jobs as data: a `Task` that `Job::downcast` gives back |
//! | `store.rs` | the file: replaced as a whole, checked when it is read |
//! | `scratch.rs` | a directory for `--short` and for the tests |
//!
//! Before you copy this:
//!
//! - **A crash loses the jobs that were inserted since the last save**, and every reset and cancel
//!   since. Durable jobs must be written to a log or a database at every insert: another crate.
//! - **After a crash, jobs may run again.** The file stays as it is until the next save, so no job in
//!   it is lost, but a job that ran before the crash is still in it. So a job must check first
//!   whether its work is still to be done.
//! - A crash during a save leaves the old file or the new one, and no mixture: the new one is
//!   written beside it, synced, and renamed.
//! - Closures and jobs that repeat cannot be saved. They are counted, and the program makes them
//!   anew.
//! - Times are those of the wall clock, because no other clock lasts over a restart. `remaining` is
//!   rounded up, so every restart makes a job later by up to a tick. A job that has to keep its
//!   time exactly holds it in its data.
//! - All overdue jobs run at once after the start, in no promised order. `When::jitter` spreads them.
//! - Two processes must not share a directory: the later save wins.

#![forbid(unsafe_code)]

mod orders;
mod scratch;
mod store;

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::mpsc::{self, Sender};
use std::time::Duration;
use std::{env, thread};

use orders::{Command, OrderTask};
use scratch::Scratch;
use store::Store;
use tickwheel::Wheel;

/// How long a run takes without Ctrl-C.
const RUN: Duration = Duration::from_secs(10);

/// How long the end waits for running jobs. A service manager kills a program that takes longer.
const LIMIT: Duration = Duration::from_secs(5);

const ORDERS: u64 = 12;

fn main() -> ExitCode {
    let result = match env::args().nth(1).as_deref() {
        Some("--short") => two_rounds(),
        Some(directory) => one_run(Path::new(directory)),
        None => one_run(&default_directory()),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("save_and_reload: {error}");
            ExitCode::FAILURE
        }
    }
}

fn default_directory() -> PathBuf {
    env::temp_dir().join("tickwheel-save-and-reload")
}

fn one_run(directory: &Path) -> Result<(), Box<dyn Error>> {
    let (stop, stopped) = mpsc::channel();
    ctrlc::set_handler(move || {
        // An error means that the program is at its end already.
        let _ = stop.send(());
    })?;
    let (shop, commands) = mpsc::channel();
    let at_work = thread::spawn(move || commands.iter().for_each(|done| println!("{done:?}")));

    let store = Store::open(directory)?;
    let wheel = start(&store, &shop)?;
    if wheel.stats().inserted == 0 {
        take_orders(&wheel, &shop);
    }
    let scheduler = wheel.scheduler();
    // Repeats, so it is not saved.
    wheel.every(Duration::from_secs(3), move || println!("{} pending", scheduler.len()))?;
    // An error is the usual case: `RUN` has passed without Ctrl-C.
    let _ = stopped.recv_timeout(RUN);
    finish(&store, &wheel)?;

    // This was the last sender: the shop ends when it has done all commands.
    drop(shop);
    at_work.join().map_err(|_| "the shop panicked".into())
}

fn take_orders(wheel: &Wheel, shop: &Sender<Command>) {
    let task = |command| OrderTask { command, shop: shop.clone() };
    for order in 1..=ORDERS {
        let patience = Duration::from_secs(2 * order);
        let address = format!("customer-{order}@example.org");
        wheel.insert(patience / 2, task(Command::Remind { order, address }));
        wheel.insert(patience, task(Command::Close { order }));
    }
    println!("{ORDERS} orders taken");
}

/// Two runs in one process. The first ends when a quarter of the orders have closed.
fn two_rounds() -> Result<(), Box<dyn Error>> {
    const ORDERS: u64 = 200;
    let scratch = Scratch::new("short");
    let store = Store::open(scratch.path())?;
    let (shop, commands) = mpsc::channel();

    let wheel = start(&store, &shop)?;
    for order in 0..ORDERS {
        let task = OrderTask { command: Command::Close { order }, shop: shop.clone() };
        wheel.insert(Duration::from_millis(5 * order), task);
    }
    let mut closed: Vec<Command> = commands.iter().take(ORDERS as usize / 4).collect();
    finish(&store, &wheel)?;

    let wheel = start(&store, &shop)?;
    wheel.wait_idle();
    finish(&store, &wheel)?;

    closed.extend(commands.try_iter());
    closed.sort();
    assert!(
        closed.into_iter().eq((0..ORDERS).map(|order| Command::Close { order })),
        "every order closed, and none twice"
    );
    assert_eq!(store.load()?, [], "nothing is left");
    println!("{ORDERS} orders closed, each once");
    Ok(())
}

/// Returns a wheel with the jobs of the file.
fn start(store: &Store, shop: &Sender<Command>) -> Result<Wheel, Box<dyn Error>> {
    let jobs = store.load()?;
    let wheel = Wheel::new();
    let now = wheel.wall_now();
    let overdue = jobs.iter().filter(|job| job.at.is_some_and(|at| at <= now)).count();
    println!("{} jobs reloaded, {overdue} of them overdue", jobs.len());
    orders::insert(&wheel, jobs, shop)?;
    Ok(wheel)
}

/// Stops the wheel and saves the pending jobs.
fn finish(store: &Store, wheel: &Wheel) -> Result<(), Box<dyn Error>> {
    let pending = orders::stop(wheel, LIMIT);
    let file = store.file();
    store.save(&pending.jobs).map_err(|error| {
        format!("{}: {error}; {} jobs are lost", file.display(), pending.jobs.len())
    })?;
    println!("{} jobs saved to {}", pending.jobs.len(), file.display());
    if pending.others > 0 {
        println!("other jobs, not saved: {}", pending.others);
    }
    if pending.still_running > 0 {
        println!("jobs that still run, and end with the process: {}", pending.still_running);
    }
    Ok(())
}
