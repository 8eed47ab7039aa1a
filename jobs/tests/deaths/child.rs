//! The child: opens the file, runs jobs and makes calls, reports all of it, and is killed.

use std::error::Error;
use std::fs::File;
use std::io::Write;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use std::{env, io, process, thread};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};
use tickwheel_jobs::{
    Builder, Durability, Fail, Job, JobId, Missed, NewJob, Retry, Run, Schedule, StoreError,
};

use super::calls;
use super::hooks;
use super::place::Place;
use super::record::{
    Answer, How, LATER_MS, Level, RETRIES, RETRY_MS, Record, Start, Tag, Verb, first_number,
    follow_of, occurrence,
};
use super::shutdown::{self, Ending, told};

/// The environment variable with the child's instructions.
pub(crate) const INSTRUCTIONS: &str = "TICKWHEEL_KILL_CHILD";
/// How many threads of a child run jobs.
pub(crate) const THREADS: usize = 3;

/// What the parent wants of a child.
#[derive(Clone, Serialize, Deserialize, Debug)]
pub(crate) struct Instructions {
    pub(crate) path: PathBuf,
    pub(crate) seed: u64,
    pub(crate) life: u32,
    pub(crate) level: Level,
    pub(crate) in_flight: usize,
    /// How many calls each of two threads makes.
    pub(crate) calls: u64,
    /// How long the child stays after the last call before it shuts down.
    pub(crate) stay_ms: u64,
    /// How the child ends.
    pub(crate) ending: Ending,
    /// How long the longest handlers work.
    pub(crate) long_ms: u64,
    /// A right may be missing, also in a shutdown, which then returns an error.
    pub(crate) rights_change: bool,
    /// Nothing new: end the schedules, and wait until no job is left.
    pub(crate) drain: bool,
    /// Jobs end the process, in one of a hundred inserts.
    pub(crate) deadly: bool,
    pub(crate) doom: Option<Doom>,
    /// Jobs of earlier lives that may be there still.
    pub(crate) known: Vec<(Tag, JobId)>,
    /// Inserts of earlier lives under ids of the caller's that were not answered: to be repeated.
    pub(crate) again: Vec<(Tag, u64)>,
    pub(crate) schedules: Vec<Periodic>,
}

/// Where the child kills itself.
#[derive(Clone, Serialize, Deserialize, Debug)]
pub(crate) struct Doom {
    pub(crate) point: String,
    /// At which passage of the point.
    pub(crate) passage: i64,
    /// How long after it.
    pub(crate) delay_us: u64,
}

#[derive(Clone, Copy, Serialize, Deserialize, Debug)]
pub(crate) struct Periodic {
    pub(crate) name: u32,
    pub(crate) period_ms: u64,
    /// Below zero: `Once`. Zero: `Skip`. Above: `Burst`.
    pub(crate) missed: i64,
}

/// What a handler does.
#[derive(Clone, Copy, Serialize, Deserialize, Debug)]
pub(crate) enum Act {
    Done,
    Nap(u64),
    /// Fails while the attempt is not above this.
    Fail(u32),
    Later,
    /// Puts the job off in every second run.
    Snooze,
    Die,
    /// Works for a number of milliseconds, or until the run is asked to stop.
    Long(u64),
    /// Inserts two jobs.
    Follow,
    Abort,
    Overflow,
}

#[derive(Serialize, Deserialize)]
pub(crate) struct Work {
    pub(crate) tag: Tag,
    pub(crate) act: Act,
}

/// The same, of another kind.
#[derive(Serialize, Deserialize)]
pub(crate) struct Other(pub(crate) Work);

/// The same, of a kind whose handler is a future.
#[derive(Serialize, Deserialize)]
pub(crate) struct Waits(pub(crate) Work);

#[derive(Serialize, Deserialize)]
pub(crate) struct Tick {
    pub(crate) name: u32,
}

/// A job of the kind of [`Work`] that another program has inserted: its payload is no work.
#[derive(Serialize, Deserialize)]
pub(crate) struct Senseless {
    pub(crate) tag: Tag,
}

impl Job for Waits {
    const KIND: &'static str = "waits";
}
impl Job for Senseless {
    const KIND: &'static str = "work";
}
impl Job for Work {
    const KIND: &'static str = "work";
}
impl Job for Other {
    const KIND: &'static str = "other";
}
impl Job for Tick {
    const KIND: &'static str = "tick";
}

static REPORT: OnceLock<File> = OnceLock::new();
static DOOM: OnceLock<Doom> = OnceLock::new();
static PASSAGES: AtomicI64 = AtomicI64::new(0);
static NUMBERS: AtomicU64 = AtomicU64::new(0);

/// The child itself, which is a test. Without instructions it does nothing.
pub(crate) fn life<P: Place>() {
    let Ok(instructions) = env::var(INSTRUCTIONS) else { return };
    let instructions: Instructions = serde_json::from_str(&instructions).unwrap();
    let stdout = io::stdout().as_fd().try_clone_to_owned().unwrap();
    let mut stdout = File::from(stdout);
    // The test harness has begun a line.
    stdout.write_all(b"\n").unwrap();
    REPORT.set(stdout).unwrap();
    NUMBERS.store(first_number(instructions.life), Ordering::Relaxed);
    if let Some(doom) = &instructions.doom {
        PASSAGES.store(doom.passage, Ordering::Relaxed);
        DOOM.set(doom.clone()).unwrap();
        tickwheel_jobs::hook::set(passing);
    }
    if let Err(error) = live::<P>(instructions) {
        report(&Record::Failed { text: error.to_string() });
        process::exit(3);
    }
    process::exit(0);
}

fn live<P: Place>(life: Instructions) -> Result<(), Box<dyn Error>> {
    let durability = match life.level {
        Level::Synced => Durability::Synced,
        Level::Written => Durability::Written,
        Level::Buffered => Durability::Buffered,
    };
    let hooked = Arc::new(OnceLock::new());
    let jobs = P::start(|| {
        let builder = P::open(&life.path)?.durability(durability).max_in_flight(life.in_flight);
        Ok(hooks::listening(handlers(builder).threads(THREADS), &hooked))
    })?;
    report(&Record::Ready { at: now_us(), level: life.level });
    let _ = hooked.set(jobs.client());
    let client = jobs.client();
    let client = &client;
    calls::schedules(client, &life);
    P::watch(&life.path);
    if life.drain {
        let until = SystemTime::now() + Duration::from_secs(60);
        while SystemTime::now() < until {
            // A question may meet a server that a busy machine keeps waiting.
            if jobs.count().is_ok_and(|left| left.pending + left.claimed + left.running == 0) {
                break;
            }
            thread::sleep(Duration::from_millis(5));
        }
        return shutdown::end(jobs, &life);
    }
    let life = &life;
    let begin = |caller| move || calls::some(client, life, caller);
    match life.ending {
        Ending::Quiet => {
            thread::scope(|scope| (0..2).for_each(|caller| drop(scope.spawn(begin(caller)))));
            thread::sleep(Duration::from_millis(life.stay_ms));
            shutdown::end(jobs, life)
        }
        Ending::Amid(after) | Ending::Soon(after, _) | Ending::Drop(after) => {
            thread::scope(|scope| {
                (0..2).for_each(|caller| drop(scope.spawn(begin(caller))));
                thread::sleep(Duration::from_millis(after));
                shutdown::end(jobs, life)
            })
        }
    }
}

/// Adds the handlers of every kind.
pub(crate) fn handlers(builder: Builder) -> Builder {
    let retry = Retry::fixed(Duration::from_millis(RETRY_MS)).max_retries(RETRIES);
    let builder = hooks::futures(builder, retry);
    builder
        .handle_with(retry, |job: Work, run: &Run| work(&job, run))
        .handle_with(retry, |job: Other, run: &Run| work(&job.0, run))
        .handle_with(retry, |job: Tick, run: &Run| {
            let tag = occurrence(job.name, ms(run.due()));
            started(tag, run);
            if job.name == WITHOUT_OVERLAP {
                // Longer than the period of the schedule.
                thread::sleep(Duration::from_millis(30));
            }
            ended(tag, run, How::Done);
            Ok(())
        })
}

fn work(job: &Work, run: &Run) -> Result<(), Fail> {
    let tag = job.tag;
    started(tag, run);
    if !matches!(job.act, Act::Done) {
        go_on(tag, run);
    }
    let how = match job.act {
        Act::Done => How::Done,
        Act::Nap(ms) => {
            thread::sleep(Duration::from_millis(ms));
            How::Done
        }
        Act::Long(ms) => {
            let until = now_us() + ms * 1000;
            while now_us() < until {
                if run.is_cancelled() {
                    return Err(told(tag, run));
                }
                thread::sleep(Duration::from_millis(10));
            }
            How::Done
        }
        Act::Fail(attempts) if run.attempt() <= attempts => How::Failed,
        Act::Later if run.attempt() == 1 => How::Later,
        Act::Snooze if !run.fence().get().is_multiple_of(2) => How::Snoozed,
        Act::Fail(_) | Act::Later | Act::Snooze => How::Done,
        Act::Die => How::Dead,
        Act::Follow => {
            follow(tag, run);
            How::Done
        }
        Act::Abort => process::abort(),
        Act::Overflow => {
            std::hint::black_box(overflow(1));
            How::Done
        }
    };
    ended(tag, run, how);
    match how {
        How::Done => Ok(()),
        How::Failed => Err(io::Error::other("asked to fail"))?,
        How::Later => Err(Fail::after(Duration::from_millis(LATER_MS), "asked to fail")),
        How::Snoozed => Err(Fail::snooze(Duration::from_millis(LATER_MS))),
        How::Dead => Err(Fail::dead("asked to die")),
    }
}

/// Sets the progress of the run, and waits for some values until they are stored.
fn go_on(tag: Tag, run: &Run) {
    let (n, fence) = (number(), run.fence().get());
    let say = |is_stored| report(&Record::Progress { at: now_us(), tag, fence, n, is_stored });
    say(false);
    if n.is_multiple_of(2) {
        run.set_progress(&n).expect("a number serializes");
    } else if run.store_progress(&n).is_ok() {
        say(true);
    }
}

/// Inserts two jobs: one under an id that each run of this job uses, one that is new each time.
fn follow(tag: Tag, run: &Run) {
    let client = run.client();
    let due = now_us() / 1000 + 3;
    let again = follow_of(tag);
    calls::call(Verb::WithId { tag: again, due }, || {
        let job = NewJob::new(Work { tag: again, act: Act::Done }).at(time(due)).id(named(again));
        calls::one(client.insert_job(job).map(|job| job.id))
    });
    let tag = number();
    calls::call(Verb::Insert { tag, due }, || {
        let job = Work { tag, act: Act::Done };
        calls::one(client.insert(time(due), job))
    });
}

#[expect(unconditional_recursion, reason = "what it is for")]
fn overflow(depth: u64) -> u64 {
    let block = std::hint::black_box([depth; 512]);
    overflow(depth + 1) + block[511]
}

pub(crate) fn started(tag: Tag, run: &Run) {
    report(&Record::Start(Start {
        at: now_us(),
        tag,
        id: run.id(),
        fence: run.fence().get(),
        attempt: run.attempt(),
        due: ms(run.due()),
        late: u64::try_from(run.late().as_micros()).unwrap_or(u64::MAX),
        left: run.progress().expect("a progress is a number"),
    }));
}

pub(crate) fn ended(tag: Tag, run: &Run, how: How) {
    report(&Record::End { at: now_us(), tag, fence: run.fence().get(), how });
}

/// The hook: kills the process at its point.
fn passing(point: &'static str) {
    let Some(doom) = DOOM.get() else { return };
    if doom.point != point || PASSAGES.fetch_sub(1, Ordering::Relaxed) != 1 {
        return;
    }
    report(&Record::Dying { point: point.to_owned() });
    let die = || kill(Pid::this(), Signal::SIGKILL).unwrap_or_default();
    match doom.delay_us {
        0 => die(),
        delay => drop(thread::spawn(move || {
            thread::sleep(Duration::from_micros(delay));
            die();
        })),
    }
}

/// Writes one line, with one write.
pub(crate) fn report(record: &Record) {
    let Some(mut file) = REPORT.get() else { return };
    let mut line = serde_json::to_vec(record).unwrap();
    line.push(b'\n');
    assert!(line.len() <= 4096, "a line is longer than what a pipe takes at once");
    // A parent that is gone reads nothing.
    if file.write(&line).is_ok_and(|bytes| bytes == line.len()) {
        return;
    }
    process::exit(4);
}

/// Returns the next number of a call, which serves as the tag of what it inserts.
pub(crate) fn number() -> u64 {
    numbers(1)
}

pub(crate) fn numbers(count: u64) -> u64 {
    NUMBERS.fetch_add(count, Ordering::Relaxed)
}

/// Returns the id that a caller chooses for a job.
pub(crate) fn named(tag: Tag) -> JobId {
    JobId::named(&format!("job {tag}"))
}

pub(crate) fn now_us() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}

pub(crate) fn time(ms: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_millis(ms)
}

pub(crate) fn ms(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// The schedule whose occurrences must not overlap.
pub(crate) const WITHOUT_OVERLAP: u32 = 9;

pub(crate) fn schedule(repeat: &Periodic) -> Schedule {
    let period = Duration::from_millis(repeat.period_ms);
    let schedule = Schedule::every(period).missed(match repeat.missed {
        0 => Missed::Skip,
        cap if cap > 0 => Missed::Burst(cap as u32),
        _ => Missed::Once,
    });
    if repeat.name == WITHOUT_OVERLAP { schedule.without_overlap() } else { schedule }
}

/// What an operation without a value answers.
pub(crate) fn done(answer: Result<bool, StoreError>) -> Answer {
    answer.map_or_else(failed, Answer::Done)
}

/// What a call without an answer says.
pub(crate) fn failed(error: StoreError) -> Answer {
    match error {
        StoreError::Closed => Answer::Refused(error.to_string()),
        _ => Answer::Unknown,
    }
}
