//! The calls of a child: drawn at random, each reported before and after.

use std::time::Duration;

use fastrand::Rng;
use tickwheel_jobs::{Cancel, Client, InsertError, InsertErrorKind, JobId, JobState, NewJob};
use tokio::runtime::{Builder, Runtime};

use super::child::{
    Act, Instructions, Other, Senseless, Tick, Waits, Work, done, failed, named, now_us, number,
    numbers, report, schedule, time,
};
use super::record::{Answer, Mode, Record, Tag, Verb};
use super::shutdown::Ending;

/// How many keys each caller has.
const KEYS: u64 = 6;
/// How many calls a caller makes more than it was told, at most, while it waits for the end of the jobs.
const BEYOND: usize = 500;

/// Calls a verb as the caller does: on its thread, or as a future.
macro_rules! by {
    ($caller:expr, $on:expr, $verb:ident ($($argument:expr),*)) => {
        match &$caller.runtime {
            Some(runtime) => runtime.block_on($on.asynchronous().$verb($($argument),*)),
            None => $on.$verb($($argument),*),
        }
    };
}

/// Reports a call, makes it, and reports its answer.
pub(crate) fn call(verb: Verb, make: impl FnOnce() -> Answer) -> Answer {
    let n = number();
    report(&Record::Call { n, at: now_us(), verb });
    let answer = make();
    report(&Record::Answer { n, at: now_us(), answer: answer.clone() });
    answer
}

/// Returns the answer of an insert.
fn inserted<J>(answer: Result<Vec<JobId>, InsertError<J>>) -> Answer {
    match answer {
        Ok(ids) => Answer::Ids(ids),
        Err(error) => match error.kind() {
            InsertErrorKind::Occupied => Answer::Occupied,
            InsertErrorKind::Unknown(_) => Answer::Unknown,
            other => Answer::Refused(other.to_string()),
        },
    }
}

/// Returns the answer of an insert of one job.
pub(crate) fn one<J>(answer: Result<JobId, InsertError<J>>) -> Answer {
    inserted(answer.map(|id| vec![id]))
}

/// Sets the schedules, as a program does at each start; or ends them.
pub(crate) fn schedules(jobs: &Client, life: &Instructions) {
    for repeat in &life.schedules {
        let name = repeat.name.to_string();
        if life.drain {
            let verb = Verb::Unschedule { name: repeat.name };
            call(verb, || done(jobs.schedules().remove(&name)));
        } else {
            let verb = Verb::Schedule { name: repeat.name, period: repeat.period_ms };
            let tick = Tick { name: repeat.name };
            call(verb, || done(jobs.schedule(&name, schedule(repeat), tick).map(|()| true)));
        }
    }
}

struct Caller<'a> {
    client: &'a Client,
    draw: Rng,
    first_key: u32,
    deadly: bool,
    long_ms: u64,
    is_closed: bool,
    /// Every other caller is a future.
    runtime: Option<Runtime>,
    /// Jobs that may be there.
    known: Vec<(Tag, JobId)>,
}

/// Makes some calls. Two callers share no job and no key, so each knows the order of its own calls.
pub(crate) fn some(client: &Client, life: &Instructions, caller: u32) {
    let draw = Rng::with_seed(life.seed ^ u64::from(caller) << 40);
    let known = if caller == 0 { life.known.clone() } else { Vec::new() };
    let first_key = caller * KEYS as u32;
    let (deadly, long_ms, is_closed) = (life.deadly, life.long_ms, false);
    let runtime = || Builder::new_current_thread().build().unwrap();
    let runtime = (caller % 2 == 1).then(runtime);
    let mut caller = Caller { client, draw, first_key, deadly, long_ms, is_closed, runtime, known };
    if first_key == 0 {
        for &(tag, due) in &life.again {
            caller.with_id(tag, due);
        }
    }
    for _ in 0..life.calls {
        caller.one();
    }
    if life.ending == Ending::Quiet || life.calls == 0 {
        return;
    }
    // The jobs end while this caller calls: until an insert was refused, and a few times more.
    for _ in 0..BEYOND {
        if caller.is_closed {
            break;
        }
        caller.one();
        std::thread::sleep(Duration::from_millis(1));
    }
    (0..10).for_each(|_| caller.one());
}

impl Caller<'_> {
    fn one(&mut self) {
        let due = self.due();
        match self.draw.u64(..100) {
            0..21 => self.insert(due),
            21..25 => self.expiring(due),
            25..37 => {
                let tag = number();
                self.with_id(tag, due);
            }
            37..45 => self.batch(due),
            45..62 => self.keyed(due),
            62..66 => {
                let key = self.key();
                let keyed = self.client.keyed(&key.to_string());
                call(Verb::CancelKey { key }, || done(by!(self, keyed, cancel())));
            }
            66..78 => self.cancel(),
            78..88 => self.reschedule(due),
            88..95 => self.get(),
            95..97 => {
                drop(call(Verb::Flush, || done(by!(self, self.client, flush()).map(|()| true))))
            }
            97 => self.senseless(due),
            _ => std::thread::sleep(Duration::from_millis(self.draw.u64(..8))),
        }
    }

    fn due(&mut self) -> u64 {
        let after = match self.draw.u64(..10) {
            0..4 => self.draw.u64(..4),
            4..8 => self.draw.u64(..80),
            _ => self.draw.u64(..400),
        };
        now_us() / 1000 + after
    }

    fn act(&mut self) -> Act {
        match self.draw.u64(..200) {
            0..100 => Act::Done,
            100..108 => Act::Snooze,
            108..110 => Act::Long(self.long_ms / 3 + self.draw.u64(..self.long_ms)),
            110..140 => Act::Nap(self.draw.u64(..12)),
            140..160 => Act::Fail(self.draw.u32(..3) + 1),
            160..163 => Act::Fail(100),
            163..175 => Act::Later,
            175..180 => Act::Die,
            180..198 => Act::Follow,
            198 if self.deadly => Act::Abort,
            199 if self.deadly => Act::Overflow,
            _ => Act::Done,
        }
    }

    fn learn(&mut self, tag: Tag, answer: &Answer) {
        self.is_closed |= matches!(answer, Answer::Refused(_));
        if let Answer::Ids(ids) = answer {
            self.known.extend((tag..).zip(ids.iter().copied()));
        }
    }

    fn insert(&mut self, due: u64) {
        let (tag, act, kind) = (number(), self.act(), self.draw.u64(..6));
        let answer = call(Verb::Insert { tag, due }, || {
            let job = Work { tag, act };
            let when = time(due);
            match kind {
                0 | 1 => one(by!(self, self.client, insert(when, Other(job)))),
                2 if waits(act) => one(by!(self, self.client, insert(when, Waits(job)))),
                _ => one(by!(self, self.client, insert(when, job))),
            }
        });
        self.learn(tag, &answer);
    }

    /// Inserts a job that may be too old at its turn.
    fn expiring(&mut self, due: u64) {
        let (tag, act, expires) = (number(), self.act(), due + self.draw.u64(1..300));
        let answer = call(Verb::Expiring { tag, due, expires }, || {
            let job = NewJob::new(Work { tag, act }).at(time(due)).expires(time(expires));
            one(by!(self, self.client, insert_job(job)).map(|job| job.id))
        });
        self.learn(tag, &answer);
    }

    fn senseless(&mut self, due: u64) {
        let tag = number();
        let answer = call(Verb::Senseless { tag, due }, || {
            one(by!(self, self.client, insert(time(due), Senseless { tag })))
        });
        self.learn(tag, &answer);
    }

    fn with_id(&mut self, tag: Tag, due: u64) {
        // The same job each time, so the draw is the tag's.
        let act = if tag.is_multiple_of(5) { Act::Fail(1) } else { Act::Done };
        let answer = call(Verb::WithId { tag, due }, || {
            let job = NewJob::new(Work { tag, act }).at(time(due)).id(named(tag));
            one(by!(self, self.client, insert_job(job)).map(|job| job.id))
        });
        self.learn(tag, &answer);
    }

    fn batch(&mut self, due: u64) {
        let count = 2 + self.draw.u64(..30);
        let first = numbers(count);
        let jobs: Vec<_> =
            (first..first + count).map(|tag| (time(due), Work { tag, act: Act::Done })).collect();
        let answer = call(Verb::Batch { first, count, due }, || {
            inserted(by!(self, self.client, insert_batch(jobs)))
        });
        if self.draw.u64(..2) == 0 {
            self.learn(first, &answer);
        }
    }

    fn key(&mut self) -> u32 {
        self.first_key + self.draw.u64(..KEYS) as u32
    }

    fn keyed(&mut self, due: u64) {
        let (key, tag, act) = (self.key(), number(), self.act());
        let mode = match self.draw.u64(..4) {
            0 => Mode::Absent,
            1 => Mode::KeepTime,
            _ => Mode::Replace,
        };
        let keyed = self.client.keyed(&key.to_string());
        let answer = call(Verb::Keyed { key, tag, due, mode }, || {
            let (when, job) = (time(due), Work { tag, act });
            one(match mode {
                Mode::Replace => by!(self, keyed, insert(when, job)),
                Mode::KeepTime => by!(self, keyed, insert_keeping_time(when, job)),
                Mode::Absent => by!(self, keyed, insert_if_absent(when, job)),
            })
        });
        self.learn(tag, &answer);
    }

    fn any(&mut self) -> Option<(Tag, JobId)> {
        let many = self.known.len() as u64;
        // Late ones are more likely to be there.
        let back = self.draw.u64(..many.max(1)).min(self.draw.u64(..many.max(1)));
        let at = self.known.len().checked_sub(1 + back as usize)?;
        Some(self.known[at])
    }

    fn cancel(&mut self) {
        let Some((tag, id)) = self.any() else { return };
        call(Verb::Cancel { tag }, || match by!(self, self.client, cancel(id)) {
            Ok(Cancel::Cancelled) => Answer::Cancelled,
            Ok(Cancel::Running) => Answer::Running,
            Ok(Cancel::Gone) => Answer::Gone,
            Err(error) => failed(error),
        });
    }

    fn reschedule(&mut self, due: u64) {
        let Some((tag, id)) = self.any() else { return };
        call(Verb::Reschedule { tag, due }, || {
            done(by!(self, self.client, reschedule(id, time(due))))
        });
    }

    fn get(&mut self) {
        let Some((tag, id)) = self.any() else { return };
        call(Verb::Get { tag }, || match by!(self, self.client, get(id)) {
            Ok(None) => Answer::Gone,
            Ok(Some(job)) => match job.state {
                JobState::Pending => Answer::Pending,
                JobState::Running | JobState::Claimed => Answer::Running,
                JobState::Dead => Answer::Dead,
                ended => panic!("no job of these stories is {ended}"),
            },
            Err(error) => failed(error),
        });
    }
}

/// Says whether a handler that is a future does this too.
fn waits(act: Act) -> bool {
    cfg!(feature = "tokio") && matches!(act, Act::Done | Act::Nap(_) | Act::Long(_))
}
