//! How often a wheel wakes with a hundred thousand timers pending and none due: not at all.
//!
//! Counts the context switches of the wheel's threads, which include every wake-up, and their
//! processor time, over ten seconds.
//!
//! ```text
//! cargo run --release --example idle [-- --seconds N | --short]
//! ```

// A program that measures may read the clock; the library may not.
#![allow(clippy::disallowed_methods)]

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;
use std::{env, fs, thread};

use tickwheel::Wheel;

const TIMERS: u64 = 100_000;

/// The use of one of the wheel's threads.
struct Thread {
    id: u32,
    name: String,
    switches: u64,
    /// Processor time in clock ticks of the system, usually hundredths of a second.
    cpu_ticks: u64,
}

fn main() -> ExitCode {
    let Some(window) = window(env::args().skip(1)) else {
        eprintln!("usage: idle [--seconds N | --short]");
        return ExitCode::FAILURE;
    };
    let wheel = Wheel::new();
    // A slot of the third ring is 65.5 s wide, and its timers move inwards when it begins. If the
    // first deadline lies further than that after the window, no timer has to move in the window.
    let first = window + Duration::from_secs(70);
    for number in 0..TIMERS {
        let within_an_hour = Duration::from_millis(number * 3_600_000 / TIMERS);
        wheel.insert(first + within_an_hour, || ());
    }
    // Lets the threads start, and the pool find that there is nothing to do.
    thread::sleep(Duration::from_millis(500));

    let Some(before) = threads() else {
        println!("cannot measure here: there is no /proc/self/task");
        return ExitCode::SUCCESS;
    };
    thread::sleep(window);
    let after = threads().unwrap_or_default();

    println!("{TIMERS} timers pending, none due for {} s", window.as_secs());
    println!("{:16} {:>8} {:>10}", "thread", "switches", "cpu ticks");
    let (mut switches, mut cpu_ticks) = (0, 0);
    for thread in &after {
        let known = before.iter().find(|known| known.id == thread.id);
        let during = |now: u64, then: fn(&Thread) -> u64| now - known.map_or(0, then);
        let switched = during(thread.switches, |then| then.switches);
        let used = during(thread.cpu_ticks, |then| then.cpu_ticks);
        println!("{:16} {switched:8} {used:10}", thread.name);
        switches += switched;
        cpu_ticks += used;
    }
    println!("{:16} {switches:8} {cpu_ticks:10}", "together");
    ExitCode::SUCCESS
}

/// Returns how long to watch.
fn window(mut arguments: impl Iterator<Item = String>) -> Option<Duration> {
    let mut seconds = 10;
    while let Some(argument) = arguments.next() {
        seconds = match argument.as_str() {
            "--short" => 2,
            "--seconds" => arguments.next()?.parse().ok()?,
            _ => return None,
        };
    }
    Some(Duration::from_secs(seconds))
}

/// Returns the use of the wheel's threads, or `None` if the system does not report it.
fn threads() -> Option<Vec<Thread>> {
    let tasks = fs::read_dir("/proc/self/task").ok()?;
    let mut threads: Vec<Thread> = tasks.filter_map(|task| thread(&task.ok()?.path())).collect();
    threads.retain(|thread| thread.name.starts_with("tickwheel"));
    threads.sort_by_key(|thread| thread.id);
    Some(threads)
}

fn thread(task: &Path) -> Option<Thread> {
    let status = fs::read_to_string(task.join("status")).ok()?;
    let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
    let number = |name: &str| field(name)?.parse::<u64>().ok();

    let stat = fs::read_to_string(task.join("stat")).ok()?;
    // The name is in parentheses and may hold anything. The first field after it is field 3.
    let (_, fields) = stat.rsplit_once(')')?;
    let mut times = fields.split_whitespace().skip(14 - 3).map(str::parse::<u64>);
    let (user, system) = (times.next()?.ok()?, times.next()?.ok()?);

    Some(Thread {
        id: field("Pid:")?.parse().ok()?,
        name: field("Name:")?.to_owned(),
        switches: number("voluntary_ctxt_switches:")? + number("nonvoluntary_ctxt_switches:")?,
        cpu_ticks: user + system,
    })
}
