//! The progress line and the table.

use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use tickwheel::Lateness;

use crate::trial::Outcome;
use crate::verdict::Verdict;

/// A line that is rewritten once a second on a terminal; elsewhere a line every few seconds.
pub(crate) struct Progress {
    terminal: bool,
    pause: Duration,
    due: Duration,
    shown: Duration,
    heartbeats: u64,
}

impl Progress {
    pub(crate) fn new() -> Progress {
        let terminal = io::stdout().is_terminal();
        let pause = Duration::from_secs(if terminal { 1 } else { 3 });
        Progress { terminal, pause, due: pause, shown: Duration::ZERO, heartbeats: 0 }
    }

    /// Shows the state after `elapsed`, if a new line is due.
    pub(crate) fn show(&mut self, elapsed: Duration, heartbeats: u64, evicted: usize) {
        if elapsed < self.due {
            return;
        }
        let rate = per_second(heartbeats - self.heartbeats, elapsed - self.shown);
        let seconds = elapsed.as_secs();
        let line = format!("{seconds:>3} s {rate:>8.0} heartbeats/s {evicted:>6} evicted");
        if self.terminal {
            print!("\r{line:<60}");
            // A progress line that cannot be shown is no reason to stop.
            let _ = io::stdout().flush();
        } else {
            println!("{line}");
        }
        self.due += self.pause;
        (self.shown, self.heartbeats) = (elapsed, heartbeats);
    }

    pub(crate) fn end(self) {
        if self.terminal {
            println!();
        }
    }
}

pub(crate) fn table(outcome: &Outcome, verdict: &Verdict) {
    let Outcome { elapsed, heartbeats, stats, .. } = outcome;
    let resets: u64 = outcome.served.iter().map(|served| served.resets).sum();
    let silent = verdict.silent_evicted + verdict.silent_kept;
    let seconds = format!("in {:.1} s", elapsed.as_secs_f64());
    println!();
    row("connections", outcome.sent.len(), "");
    row("heartbeats", heartbeats, &seconds);
    row("resets a second", format!("{:.0}", per_second(resets, *elapsed)), "");
    row("silent evicted", verdict.silent_evicted, &format!("must be {silent}"));
    row("live evicted", verdict.live_evicted, "must be 0");
    row("evicted early", verdict.early, "must be 0");
    row("starved", verdict.starved, "sent or read too late: the machine, not the wheel");
    row("lost", verdict.lost, "ended by an error, and their timers cancelled");
    row(
        "unfired at shutdown",
        verdict.unfired,
        &format!("must be {}, as many as live", verdict.live),
    );
    row("CPU time", cpu_time(outcome), "user and system, of server and clients");
    println!();
    println!("{:<24}{:>10}{:>12}{:>12}", "late by", "p50", "p99", "max");
    late("evictions", percentiles(&verdict.lateness));
    late("wheel: to the pool", of_wheel(&stats.handover));
    late("wheel: from there", of_wheel(&stats.start));
}

fn row(name: &str, value: impl ToString, remark: &str) {
    let line = format!("{name:<24}{:>10}  {remark}", value.to_string());
    println!("{}", line.trim_end());
}

fn late(name: &str, percentiles: [Duration; 3]) {
    let [p50, p99, max] = percentiles.map(|late| format!("{:.2} ms", late.as_secs_f64() * 1e3));
    println!("{name:<24}{p50:>10}{p99:>12}{max:>12}");
}

fn of_wheel(lateness: &Lateness) -> [Duration; 3] {
    [lateness.p50, lateness.p99, lateness.max]
}

/// Returns the median, the 99th percentile, and the maximum of values in ascending order.
fn percentiles(sorted: &[Duration]) -> [Duration; 3] {
    [50, 99, 100].map(|percent| {
        let rank = (sorted.len() * percent).div_ceil(100);
        rank.checked_sub(1).map_or(Duration::ZERO, |index| sorted[index])
    })
}

fn cpu_time(outcome: &Outcome) -> String {
    outcome.cpu.map_or("unknown".to_owned(), |cpu| format!("{:.2} s", cpu.as_secs_f64()))
}

fn per_second(count: u64, time: Duration) -> f64 {
    if time.is_zero() { 0.0 } else { count as f64 / time.as_secs_f64() }
}
