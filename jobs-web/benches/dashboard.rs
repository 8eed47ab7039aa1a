//! What each page of the dashboard costs, with a million jobs pending and a tenth as many dead; and what ten open tabs
//! cost the jobs.
//!
//! ```sh
//! cargo bench -p tickwheel-jobs-web                                 # a million jobs
//! cargo bench -p tickwheel-jobs-web -- --only tabs --level written  # `pages` or `tabs`
//! ```

#[allow(dead_code, reason = "the bench of the steps uses the rest")]
#[path = "../../jobs/benches/steps/open.rs"]
mod open;

use std::env;
use std::error::Error;
use std::mem;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use http::Request;
use tickwheel_jobs::{Client, JobId};
use tickwheel_jobs_web::{Access, Body, Dashboard};
use tokio::runtime::Runtime;
use tower_service::Service;

use open::{Fails, Filled, Level, Place, Task, fill, hour_in, in_time, task};

/// How often each page is asked for.
const REQUESTS: usize = 100;
/// How many different errors the dead jobs have.
const ERRORS: u64 = 50;
/// Every page, and every path of the API. `ID` is a job. An answer is kept for a second, so a change comes
/// before each request.
const PATHS: [&str; 31] = [
    "/",
    "/kinds",
    "/kinds?order=jobs",
    "/jobs?state=pending",
    "/jobs?state=pending&kind=task",
    "/jobs?state=overdue",
    "/jobs?state=running",
    "/jobs?state=retrying",
    "/jobs?state=dead",
    "/jobs?state=dead&kind=fails",
    "/jobs?state=completed",
    "/jobs?state=pending&text=absent",
    "/jobs?state=dead&text=absent",
    "/jobs/ID",
    "/jobs?state=pending&member=ID",
    "/dead",
    "/groups",
    "/schedules",
    "/bulk",
    "/nodes",
    "/store",
    "/metrics",
    "/healthz",
    "/api/v1/overview",
    "/api/v1/kinds",
    "/api/v1/jobs?state=pending",
    "/api/v1/jobs/ID",
    "/api/v1/dead",
    "/api/v1/history?step=minute",
    "/api/v1/history?step=minute&steps=2880",
    "/api/v1/store",
];

struct Options {
    jobs: usize,
    dir: PathBuf,
    only: Option<String>,
    levels: Vec<Level>,
}

fn main() -> Result<(), Box<dyn Error>> {
    let (dir, levels) = (env::temp_dir(), vec![Level::Written, Level::Synced, Level::Server]);
    let mut options = Options { jobs: 1_000_000, dir, only: None, levels };
    let mut args = env::args().skip(1);
    while let Some(arg) = args.next() {
        let mut value = || args.next().ok_or_else(|| format!("{arg} needs a value"));
        match arg.as_str() {
            "--jobs" => options.jobs = value()?.parse()?,
            "--dir" => options.dir = value()?.into(),
            "--only" => options.only = Some(value()?),
            "--level" => {
                let level =
                    |name: &str| Level::named(name).ok_or_else(|| format!("no level {name}"));
                options.levels = value()?.split(',').map(level).collect::<Result<_, _>>()?;
            }
            // Cargo adds it, and so does the short run of the CI.
            "--bench" => {}
            "--test" => options.jobs = 2_000,
            other => return Err(format!("no option {other}").into()),
        }
    }
    let wants = |name: &str| options.only.as_ref().is_none_or(|only| only == name);
    if wants("pages") {
        measure(&options)?;
    }
    if wants("tabs") {
        tabs(&options)?;
    }
    Ok(())
}

/// Measures each page, with the pending jobs over a week and in one hour.
fn measure(options: &Options) -> Result<(), Box<dyn Error>> {
    println!("| pending | dead | level | due | page | 50th (ms) | 99th of {REQUESTS} (ms) |");
    println!("| ---: | ---: | --- | --- | --- | ---: | ---: |");
    let hour = Duration::from_secs(3600);
    for level in [Level::Written, Level::Server] {
        if !options.levels.contains(&level) {
            continue;
        }
        for (due, within) in [("in a week", 168 * hour), ("in one hour", hour)] {
            let filled = Filled::default();
            let place = Place::new(&options.dir, level, &filled)?;
            let client = place.client()?;
            // The kind is paused, so that what is overdue stays. The process lives, as it does in a healthy queue.
            client.kind::<Task>().pause()?;
            let jobs = place.handlers()?.start()?;
            // Those over a week begin an hour ago, so some are overdue.
            let begin = if within > hour { in_time(Duration::ZERO) - hour } else { hour_in(3) };
            let id = fill(&client, options.jobs, begin, within)?[0];
            let dead = options.jobs / 10;
            let fails = |n: u64| Fails { for_good: true, text: format!("error {}", n % ERRORS) };
            client
                .insert_batch((0..dead as u64).map(|n| (Duration::ZERO, fails(n))))
                .map_err(|error| error.to_string())?;
            while client.count()?.dead < dead as u64 {
                wait(Duration::from_millis(50));
            }
            let what = format!("{} | {dead} | {level} | {due}", options.jobs);
            pages(&what, place.client()?, id)?;
            jobs.shutdown().map_err(|error| error.to_string())?;
        }
    }
    println!();
    Ok(())
}

/// Measures each page.
fn pages(what: &str, client: Client, id: JobId) -> Result<(), Box<dyn Error>> {
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    let mut dashboard = Dashboard::new(client).access(|_| Access::Full);
    for path in PATHS {
        let path = path.replace("ID", &id.to_string());
        let mut times = Vec::new();
        for _ in 0..REQUESTS {
            change(&runtime, &mut dashboard)?;
            let begun = now();
            get(&runtime, &mut dashboard, &path)?;
            times.push(begun.elapsed().as_secs_f64() * 1e3);
        }
        times.sort_by(f64::total_cmp);
        let (median, last) = (times[REQUESTS / 2], times[REQUESTS * 99 / 100 - 1]);
        let path = path.replace(&id.to_string(), "{id}");
        println!("| {what} | `{path}` | {median:.1} | {last:.1} |");
    }
    Ok(())
}

/// Makes a change, which ends the second that an answer is kept.
fn change(runtime: &Runtime, dashboard: &mut Dashboard) -> Result<(), Box<dyn Error>> {
    let change = Request::post("/api/v1/queue/resume").header("content-type", "application/json");
    send(runtime, dashboard, change.body(Body::default())?)
}

fn get(runtime: &Runtime, dashboard: &mut Dashboard, path: &str) -> Result<(), Box<dyn Error>> {
    send(runtime, dashboard, Request::get(path).body(Body::default())?)
}

fn send(
    runtime: &Runtime,
    dashboard: &mut Dashboard,
    request: Request<Body>,
) -> Result<(), Box<dyn Error>> {
    let path = request.uri().path().to_owned();
    let answer = runtime.block_on(dashboard.call(request))?;
    match answer.status().as_u16() {
        200 => Ok(()),
        status => Err(format!("{path}: status {status}").into()),
    }
}

/// How many clients ask for the overview, and how often each of them does.
const TABS: usize = 10;
const INTERVAL: Duration = Duration::from_secs(2);
/// How often the runs without and with the tabs take turns, and for how long each.
const TURNS: usize = 9;
const TURN: Duration = Duration::from_secs(10);
/// The parts of the jobs of a turn whose lateness is printed.
const PARTS: [f64; 4] = [0.5, 0.99, 0.999, 1.0];
/// How many jobs are due in each ten milliseconds, and how long before they are inserted.
const JOBS: u64 = 10;
const NOTICE: Duration = Duration::from_secs(1);

/// Measures how late 1,000 scheduled jobs a second start, by turns without and with ten open tabs: the dashboard is in
/// the process that runs the jobs, with a client of its own. Of each figure of a turn, it prints the median of all
/// turns with the least and the most.
fn tabs(options: &Options) -> Result<(), Box<dyn Error>> {
    println!(
        "| pending | level | tabs | 50th late (ms) | 99th | 999 of 1,000 | latest | overviews |"
    );
    println!("| ---: | --- | ---: | ---: | ---: | ---: | ---: | ---: |");
    for &level in &options.levels {
        let filled = Filled::default();
        let place = Place::new(&options.dir, level, &filled)?;
        let hour = Duration::from_secs(3600);
        fill(&place.client()?, options.jobs, in_time(5 * hour), 168 * hour)?;
        let late = Arc::new(Mutex::new(Vec::new()));
        let noted = Arc::clone(&late);
        let builder = place.handlers()?.on_run(move |report| {
            if report.outcome.is_none()
                && let Ok(mut noted) = noted.lock()
            {
                noted.push(report.late.as_secs_f64() * 1e3);
            }
        });
        let jobs = builder.start()?;
        // Of each turn, how late the parts of `PARTS` are.
        let mut found: [Vec<[f64; PARTS.len()]>; 2] = Default::default();
        let mut asked = [0, 0];
        for _ in 0..TURNS {
            for (with, tabs) in [0, TABS].into_iter().enumerate() {
                asked[with] += turn(&jobs, place.client()?, tabs)?;
                wait(2 * NOTICE);
                let mut times = mem::take(&mut *late.lock().map_err(|error| error.to_string())?);
                times.sort_by(f64::total_cmp);
                let last = times.len().checked_sub(1).ok_or("no job has started in a turn")? as f64;
                found[with].push(PARTS.map(|part| times[(last * part) as usize]));
            }
        }
        jobs.shutdown().map_err(|error| error.to_string())?;
        for (with, tabs) in [0, TABS].into_iter().enumerate() {
            let of_turns = |part: usize| {
                let mut of_turns: Vec<f64> = found[with].iter().map(|turn| turn[part]).collect();
                of_turns.sort_by(f64::total_cmp);
                let (least, most) = (of_turns[0], of_turns[TURNS - 1]);
                format!("{:.2} ({least:.2} to {most:.2})", of_turns[TURNS / 2])
            };
            let cells: Vec<String> = (0..PARTS.len()).map(of_turns).collect();
            println!(
                "| {} | {level} | {tabs} | {} | {} |",
                options.jobs,
                cells.join(" | "),
                asked[with]
            );
        }
    }
    println!();
    Ok(())
}

/// Inserts jobs for a while, with this many open tabs. Returns how many overviews they had.
fn turn(jobs: &Client, client: Client, tabs: usize) -> Result<u64, Box<dyn Error>> {
    let dashboard = Dashboard::new(client);
    let (is_over, asked) = (AtomicBool::new(false), Mutex::new(0));
    let look = |tab: usize| {
        let mut dashboard = dashboard.clone();
        let Ok(runtime) = tokio::runtime::Builder::new_current_thread().build() else { return };
        wait(INTERVAL / TABS as u32 * tab as u32);
        while !is_over.load(Ordering::Relaxed) {
            let answer = get(&runtime, &mut dashboard, "/");
            if let (Ok(()), Ok(mut asked)) = (answer, asked.lock()) {
                *asked += 1;
            }
            wait(INTERVAL);
        }
    };
    let inserted = thread::scope(|scope| {
        for tab in 0..tabs {
            let look = &look;
            scope.spawn(move || look(tab));
        }
        let (begun, step) = (now(), Duration::from_millis(10));
        let mut number = 0;
        let mut insert = || -> Result<(), Box<dyn Error>> {
            while begun.elapsed() < TURN {
                let due = in_time(NOTICE);
                jobs.insert_batch(
                    (0..JOBS).map(|n| (due + n as u32 * step / JOBS as u32, task(n))),
                )
                .map_err(|error| error.to_string())?;
                number += 1;
                wait((step * number).saturating_sub(begun.elapsed()));
            }
            Ok(())
        };
        let inserted = insert();
        is_over.store(true, Ordering::Relaxed);
        inserted
    });
    inserted?;
    let asked = *asked.lock().map_err(|error| error.to_string())?;
    Ok(asked)
}

#[expect(clippy::disallowed_methods, reason = "other threads are waited for")]
fn wait(time: Duration) {
    thread::sleep(time);
}

#[expect(clippy::disallowed_methods, reason = "real time is what is measured")]
fn now() -> Instant {
    Instant::now()
}
