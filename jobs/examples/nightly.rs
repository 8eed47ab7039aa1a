//! A report at half past two each night in Berlin, over both changes of the clocks; the runs of mornings that were
//! missed; and a report that never runs beside the report of the night before.
//!
//! ```sh
//! cargo run --release -p tickwheel-jobs --features cron --example nightly
//! ```
//!
//! The clock is one that the program moves, so that half a year passes in a moment. Only the nights of the last part
//! take their time, 20 ms each. It exits with 1 if a run is missing or comes at a wrong time.
//!
//! What to know before this is copied:
//!
//! - **When clocks go forward**, a fixed time in the hour that does not exist runs at the first moment
//!   after it. An expression with a `*` or a step leaves that hour out.
//! - **When clocks go back**, a fixed time in the hour that exists twice runs once, the first time. An
//!   expression with a `*` or a step runs in both.
//! - **`repeat` is called at each start of the program.** The same schedule under the same name goes
//!   on where it was; it is not made twice, and does not begin anew.
//! - **An occurrence that is found more than a second late was missed.** `Missed` says which of those
//!   run: none, the latest one, or the latest few.
//! - **Occurrences do not wait for each other,** unless the schedule is `without_overlap`. While a report runs or waits
//!   for a retry, the report of the next night is then skipped, and an event says so.

#![forbid(unsafe_code)]

use std::error::Error;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::{Duration, SystemTime};
use std::{env, fs, process, thread};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use tickwheel_jobs::{Cron, Driver, Event, Job, Jobs, Missed, Schedule};

type Result<T, E = Box<dyn Error>> = std::result::Result<T, E>;

/// A report, and the name of its schedule.
#[derive(Serialize, Deserialize)]
struct Report {
    schedule: String,
}

impl Job for Report {
    const KIND: &'static str = "report";
}

const ZONE: &str = "Europe/Berlin";
const HOUR: Duration = Duration::from_secs(3600);

fn main() -> Result<()> {
    let folder = env::temp_dir().join(format!("tickwheel-nightly-{}", process::id()));
    fs::create_dir_all(&folder)?;
    let file = folder.join("reports.db");
    let result = clocks_change(&file).and_then(|()| a_holiday(&file));
    let result = result.and_then(|()| long_reports(&folder.join("long.db")));
    fs::remove_dir_all(&folder)?;
    result
}

/// Starts the program at a time: its jobs, and the clock that moves. `ran` is told the schedule of each
/// report, and when it ran in Berlin.
fn start(file: &Path, at: &str, ran: &Sender<String>) -> Result<(Jobs, Driver)> {
    let ran = ran.clone();
    let (jobs, driver) = Jobs::open(file)?
        .handle(move |report: Report, run| {
            let at = Timestamp::try_from(run.due())?.in_tz(ZONE)?;
            println!("    {:<10} {}", report.schedule, at.strftime("%a %d %b %H:%M %Z"));
            Ok(ran.send(format!("{} {}", report.schedule, at.strftime("%d %H:%M %Z")))?)
        })
        .manual()?;
    driver.set_wall(time(at)?);
    Ok((jobs, driver))
}

fn schedule(jobs: &Jobs, name: &str, expression: &str, missed: Missed) -> Result<()> {
    let schedule = Cron::new(expression, ZONE)?.missed(missed);
    Ok(jobs.schedule(name, schedule, Report { schedule: name.to_owned() })?)
}

fn clocks_change(file: &Path) -> Result<()> {
    let (ran, runs) = mpsc::channel();
    let (jobs, driver) = start(file, "2027-03-27T00:00:00Z", &ran)?;
    schedule(&jobs, "nightly", "30 2 * * *", Missed::Once)?;
    println!("28 March: at 02:00 in Berlin it is 03:00");
    driver.advance(72 * HOUR);
    expect(&runs, &["nightly 27 02:30 CET", "nightly 28 03:00 CEST", "nightly 29 02:30 CEST"])?;

    println!("31 October: at 03:00 in Berlin it is 02:00 again");
    jobs.schedules().remove("nightly")?;
    driver.set_wall(time("2027-10-30T22:00:00Z")?);
    schedule(&jobs, "nightly", "30 2 * * *", Missed::Once)?;
    schedule(&jobs, "hourly", "30 * * * *", Missed::Once)?;
    driver.advance(5 * HOUR);
    let hours = ["00:30 CEST", "01:30 CEST", "02:30 CEST", "02:30 CET", "03:30 CET"];
    let hourly = hours.map(|hour| format!("hourly 31 {hour}"));
    let hourly = hourly.iter().map(String::as_str);
    expect(&runs, &hourly.chain(["nightly 31 02:30 CEST"]).collect::<Vec<_>>())?;
    jobs.schedules().remove("nightly")?;
    jobs.schedules().remove("hourly")?;
    Ok(jobs.shutdown()?)
}

/// The program is not there from Monday noon to Saturday noon.
fn a_holiday(file: &Path) -> Result<()> {
    let schedules = |jobs: &Jobs| {
        schedule(jobs, "skip", "0 7 * * *", Missed::Skip)?;
        schedule(jobs, "once", "0 7 * * *", Missed::Once)?;
        schedule(jobs, "burst of 3", "0 7 * * *", Missed::Burst(3))
    };
    let (ran, runs) = mpsc::channel();
    let (jobs, driver) = start(file, "2027-11-08T00:00:00Z", &ran)?;
    println!("Monday: every schedule runs");
    schedules(&jobs)?;
    driver.advance(12 * HOUR);
    expect(&runs, &["burst of 3 08 07:00 CET", "once 08 07:00 CET", "skip 08 07:00 CET"])?;
    jobs.shutdown()?;

    println!("Saturday: the program starts again, five mornings were missed");
    let (jobs, driver) = start(file, "2027-11-13T12:00:00Z", &ran)?;
    schedules(&jobs)?;
    driver.advance(HOUR);
    let burst = ["burst of 3 11 07:00 CET", "burst of 3 12 07:00 CET", "burst of 3 13 07:00 CET"];
    expect(&runs, &[&burst[..], &["once 13 07:00 CET"]].concat())?;

    println!("Sunday: every schedule goes on");
    driver.advance(18 * HOUR);
    expect(&runs, &["burst of 3 14 07:00 CET", "once 14 07:00 CET", "skip 14 07:00 CET"])?;
    jobs.check()?;
    Ok(jobs.shutdown()?)
}

/// Each report takes three nights and a half. None runs beside another, and the nights between are skipped.
fn long_reports(file: &Path) -> Result<()> {
    const NIGHT: Duration = Duration::from_millis(20);
    println!("Reports that take three nights and a half each");
    static AT_ONCE: AtomicUsize = AtomicUsize::new(0);
    let (ran, runs) = mpsc::channel();
    let (skipping, skipped) = mpsc::channel();
    let jobs = Jobs::open(file)?
        .handle(move |_: Report, _| {
            let others = AT_ONCE.fetch_add(1, Ordering::SeqCst);
            work(NIGHT * 7 / 2);
            AT_ONCE.fetch_sub(1, Ordering::SeqCst);
            Ok(ran.send(others)?)
        })
        .on_event(move |event| {
            if let Event::OccurrencesSkipped { occurrences, .. } = event {
                let _ = skipping.send(occurrences);
            }
        })
        .threads(4)
        .start()?;
    let nights = Schedule::every(NIGHT).without_overlap();
    jobs.schedule("nights", nights, Report { schedule: "long".to_owned() })?;
    for _ in 0..5 {
        let others = runs.recv_timeout(Duration::from_secs(60))?;
        if others > 0 {
            return Err(format!("a report ran beside {others} others").into());
        }
    }
    jobs.schedules().remove("nights")?;
    let skipped: usize = skipped.try_iter().sum();
    println!("    5 reports, one at a time; {skipped} nights were skipped");
    if skipped < 5 {
        return Err("no report was skipped in the nights in which another one ran".into());
    }
    jobs.shutdown()?;
    Ok(())
}

#[expect(clippy::disallowed_methods, reason = "a report that takes its time")]
fn work(time: Duration) {
    thread::sleep(time);
}

/// Compares what ran since the last call, in the order of names and then of times, with what was to run.
fn expect(runs: &Receiver<String>, expected: &[&str]) -> Result<()> {
    let mut ran: Vec<String> = runs.try_iter().collect();
    ran.sort_by_key(|run| run.split_whitespace().next().map(str::to_owned));
    if ran == expected {
        return Ok(());
    }
    Err(format!("these ran: {ran:?}, and these were to run: {expected:?}").into())
}

fn time(text: &str) -> Result<SystemTime> {
    Ok(text.parse::<Timestamp>()?.into())
}
