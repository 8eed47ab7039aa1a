//! How many wake-ups slack saves: 100,000 timers, with delays at random from 1 to 11 seconds.
//!
//! | column | what is counted, until the last of them has run |
//! | --- | --- |
//! | ticks | ticks at which any timer ran, on a manual clock: the same in every run |
//! | wake-ups | how often the ticker of a wheel with threads went to sleep (Linux) |
//! | CPU | processor time of the process, in hundredths of a second (Linux) |
//! | late | the median of how long after its delay a timer ran, on the wheel with threads |
//!
//! ```text
//! cargo bench --bench coalesce
//! ```

// A program that measures may read the clock; the library may not.
#![allow(clippy::disallowed_methods)]

mod common;

use std::path::{Path, PathBuf};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};
use std::{env, fs};

use tickwheel::{Wheel, When};

const TIMERS: usize = 100_000;
const MS: Duration = Duration::from_millis(1);

/// Slack in percent of the delay.
const SLACKS: [u32; 4] = [0, 1, 10, 50];

fn main() {
    // As in every bench, `cargo test` runs it once and measures nothing.
    let (timers, scale) = if env::args().any(|argument| argument == "--test") {
        (TIMERS / 100, 1)
    } else {
        (TIMERS, 100)
    };
    println!("{timers} timers, from {} to {} ms", 10 * scale, 110 * scale);
    println!("{:>6} {:>8} {:>8} {:>8} {:>8}", "slack", "ticks", "wake-ups", "CPU", "late");
    for percent in SLACKS {
        let mut random = common::random();
        let delays: Vec<Duration> = (0..timers)
            .map(|_| {
                10 * scale * MS + Duration::from_nanos(random.u64(..u64::from(scale) * 100_000_000))
            })
            .collect();
        let ticks = ticks(&delays, percent);
        let Real { wake_ups, cpu, late } = real(&delays, percent);
        let or_dash = |count: Option<u64>| count.map_or("-".to_owned(), |count| count.to_string());
        let cpu = cpu.map(|hundredths| hundredths * 10);
        println!(
            "{percent:>4} % {ticks:>8} {:>8} {:>5} ms {:>5} ms",
            or_dash(wake_ups),
            or_dash(cpu),
            late.as_millis(),
        );
    }
}

/// Runs on a manual clock, tick by tick.
fn ticks(delays: &[Duration], percent: u32) -> usize {
    let (wheel, driver) = Wheel::builder().manual().expect("the defaults are sound");
    for &delay in delays {
        wheel.insert(When::after(delay).within(delay * percent / 100), || ());
    }
    let mut ticks = 0;
    while !wheel.is_empty() {
        ticks += usize::from(driver.advance(MS) > 0);
    }
    ticks
}

struct Real {
    wake_ups: Option<u64>,
    cpu: Option<u64>,
    late: Duration,
}

/// Runs with threads, on the system's clock.
fn real(delays: &[Duration], percent: u32) -> Real {
    let wheel = Wheel::builder().name("coalesce").build().expect("the system starts threads");
    let (sender, receiver) = channel();
    let cpu_before = cpu();
    for &delay in delays {
        let (sender, begin) = (sender.clone(), Instant::now());
        let job = move || sender.send(begin.elapsed() - delay).expect("somebody counts");
        wheel.insert(When::after(delay).within(delay * percent / 100), job);
    }
    let before = ticker().and_then(|task| sleeps(&task));
    let mut late: Vec<Duration> = receiver.iter().take(delays.len()).collect();
    late.sort_unstable();
    let after = ticker().and_then(|task| sleeps(&task));
    Real {
        wake_ups: before.zip(after).map(|(before, after)| after - before),
        cpu: cpu_before.zip(cpu()).map(|(before, after)| after - before),
        late: late[late.len() / 2],
    }
}

/// Returns the path at which the system reports on the ticker's thread.
fn ticker() -> Option<PathBuf> {
    let mut tasks = fs::read_dir("/proc/self/task").ok()?.flatten().map(|task| task.path());
    tasks.find(|task| {
        fs::read_to_string(task.join("comm")).is_ok_and(|name| name.trim() == "coalesce-ticker")
    })
}

fn sleeps(task: &Path) -> Option<u64> {
    let status = fs::read_to_string(task.join("status")).ok()?;
    let count = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"))?;
    count.trim().parse().ok()
}

/// Returns the processor time of this process in clock ticks of the system, usually hundredths of a
/// second.
fn cpu() -> Option<u64> {
    let stat = fs::read_to_string("/proc/self/stat").ok()?;
    let (_, fields) = stat.rsplit_once(')')?;
    let mut times = fields.split_whitespace().skip(14 - 3).map(str::parse::<u64>);
    Some(times.next()?.ok()? + times.next()?.ok()?)
}
