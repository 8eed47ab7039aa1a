//! A report at half past two each night in Berlin, over both changes of the clocks; and what becomes
//! of the mornings that nobody was there for.
//!
//! ```sh
//! cargo run --release -p tickwheel-jobs --features cron --example nightly
//! ```
//!
//! The clock is one that the program moves, so that half a year passes in a moment. It exits with 1 if
//! a run is not where it belongs.
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

#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::error::Error;
use std::path::Path;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};
use std::{env, fs, process};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use tickwheel_jobs::{Cron, Driver, Job, Jobs, Missed};

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

/// The times at which each schedule's report ran, in Berlin.
type Runs = Arc<Mutex<BTreeMap<String, Vec<String>>>>;

fn main() -> ExitCode {
    let folder = env::temp_dir().join(format!("tickwheel-nightly-{}", process::id()));
    let file = folder.join("reports.db");
    let result = fs::create_dir_all(&folder)
        .map_err(Into::into)
        .and_then(|()| clocks_change(&file))
        .and_then(|()| a_holiday(&file));
    let _ = fs::remove_dir_all(&folder);
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("nightly: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Starts the program at a time: its jobs, and the clock that moves.
fn start(file: &Path, at: &str, runs: &Runs) -> Result<(Jobs, Driver), Box<dyn Error>> {
    let runs = Arc::clone(runs);
    let (jobs, driver) = Jobs::open(file)?
        .handle(move |report: Report, run| {
            let at = Timestamp::try_from(run.due())?.in_tz(ZONE)?;
            println!("    {:<10} {}", report.schedule, at.strftime("%a %d %b %H:%M %Z"));
            let mut runs = runs.lock().unwrap_or_else(PoisonError::into_inner);
            let at = at.strftime("%m-%d %H:%M %Z").to_string();
            runs.entry(report.schedule).or_default().push(at);
            Ok(())
        })
        .manual()?;
    driver.set_wall(SystemTime::from(at.parse::<Timestamp>()?));
    Ok((jobs, driver))
}

fn clocks_change(file: &Path) -> Result<(), Box<dyn Error>> {
    let runs = Runs::default();
    let (jobs, driver) = start(file, "2027-03-27T00:00:00Z", &runs)?;
    let report = |schedule: &str| Report { schedule: schedule.to_owned() };
    jobs.schedule("nightly", Cron::new("30 2 * * *", ZONE)?, report("nightly"))?;
    println!("28 March: at 02:00 in Berlin it is 03:00");
    driver.advance(72 * HOUR);
    expect(&runs, "nightly", &["03-27 02:30 CET", "03-28 03:00 CEST", "03-29 02:30 CEST"])?;

    println!("31 October: at 03:00 in Berlin it is 02:00 again");
    jobs.unschedule("nightly")?;
    driver.set_wall(SystemTime::from("2027-10-29T22:00:00Z".parse::<Timestamp>()?));
    jobs.schedule("nightly", Cron::new("30 2 * * *", ZONE)?, report("nightly"))?;
    driver.advance(24 * HOUR);
    jobs.schedule("each hour", Cron::new("30 * * * *", ZONE)?, report("each hour"))?;
    driver.advance(5 * HOUR);
    expect(&runs, "nightly", &["10-30 02:30 CEST", "10-31 02:30 CEST"])?;
    let hours = ["00:30 CEST", "01:30 CEST", "02:30 CEST", "02:30 CET", "03:30 CET"];
    let hours: Vec<String> = hours.iter().map(|hour| format!("10-31 {hour}")).collect();
    expect(&runs, "each hour", &hours)?;
    jobs.unschedule("nightly")?;
    jobs.unschedule("each hour")?;
    Ok(jobs.shutdown()?)
}

/// The program is not there from Monday noon to Saturday noon.
fn a_holiday(file: &Path) -> Result<(), Box<dyn Error>> {
    let policies =
        [("skip", Missed::Skip), ("once", Missed::Once), ("burst of 3", Missed::Burst(3))];
    let repeat = |jobs: &Jobs| {
        for (name, missed) in policies {
            let each_morning = Cron::new("0 7 * * *", ZONE)?.missed(missed);
            jobs.schedule(name, each_morning, Report { schedule: name.to_owned() })?;
        }
        Ok::<(), Box<dyn Error>>(())
    };
    let runs = Runs::default();
    let (jobs, driver) = start(file, "2027-11-08T00:00:00Z", &runs)?;
    println!("Monday: every schedule runs");
    repeat(&jobs)?;
    driver.advance(12 * HOUR);
    for (name, _) in policies {
        expect(&runs, name, &["11-08 07:00 CET"])?;
    }
    jobs.shutdown()?;

    println!("Saturday: the program starts again, five mornings were missed");
    let (jobs, driver) = start(file, "2027-11-13T12:00:00Z", &runs)?;
    repeat(&jobs)?;
    driver.advance(HOUR);
    expect::<&str>(&runs, "skip", &[])?;
    expect(&runs, "once", &["11-13 07:00 CET"])?;
    expect(&runs, "burst of 3", &["11-11 07:00 CET", "11-12 07:00 CET", "11-13 07:00 CET"])?;

    println!("Sunday: every schedule goes on");
    driver.advance(18 * HOUR);
    for (name, _) in policies {
        expect(&runs, name, &["11-14 07:00 CET"])?;
    }
    jobs.check()?;
    Ok(jobs.shutdown()?)
}

/// Compares what ran since the last call with what was to run.
fn expect<T: AsRef<str>>(
    runs: &Runs,
    schedule: &str,
    expected: &[T],
) -> Result<(), Box<dyn Error>> {
    let ran = runs.lock().unwrap_or_else(PoisonError::into_inner).remove(schedule);
    let ran = ran.unwrap_or_default();
    let expected: Vec<&str> = expected.iter().map(AsRef::as_ref).collect();
    if ran == expected {
        return Ok(());
    }
    Err(format!("{schedule:?} ran at {ran:?}, and was to run at {expected:?}").into())
}
