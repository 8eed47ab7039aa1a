//! The rules R1 to R13 and R15 to R20, over the log of a story and the place of the jobs at its end.
//!
//! | rule | must hold |
//! | --- | --- |
//! | R1 none lost | a job that was stored and not cancelled or replaced has a run that ended well, is dead, or has expired |
//! | R2 never early | no run starts before its deadline, and the deadline is the one that was asked for |
//! | R3 cancel | no run starts after `Cancelled` or `Running`; a dead job has a reason, and was not cancelled |
//! | R4 fence | fences and attempts of a job rise from run to run; after a snooze the fences alone |
//! | R5 causes | a run follows another of the same job only after a failure, or after a kill |
//! | R6 no ghosts | no run of a job that was never inserted, that was refused, or that the store has called gone |
//! | R7 keys | a job that was replaced under its key never starts; no two jobs wait under one key |
//! | R8 batches | all of a batch, or none |
//! | R9 in time | a run starts within [`BOUND_US`] after its deadline and the start of its process, less the time in which all threads of the process work |
//! | R10 schedules | each occurrence at its time, none missing but in an outage, none after the end; without overlap none beside another (P18) |
//! | R11 nothing left | in the end no rows, an empty log, a small file |
//! | R12 reopening | to open a file changes nothing, and `check` passes |
//! | R13 said is true | what was stored, at the level it was asked for, is there after a kill |
//! | R15 ends | after a shutdown or a drop every call is refused; after a shutdown no run starts |
//! | R16 leases | a run is asked to stop only if it was cancelled, its jobs end, or its lease could not be renewed |
//! | R17 set aside | only records that were written by hand are set aside and reported, and in the end all of them are |
//! | R18 senseless | a job that its handler cannot decode never runs, and is dead |
//! | R19 expiry | no run of a job starts after its expiry |
//! | R20 progress | a run finds a progress that an earlier run of the job has set, and none older than the stored one |
//!
//! R14 is a test of these rules. For children that share a server some rules differ: `is_shared` says which log is of
//! that kind, and `shared.rs` has the reasons for which a run is cut off there.
//!
//! What a kill leaves open (a call without an answer) may have happened or not; the rules hold either way. A refused
//! call has left nothing behind: `may_be_removed` and the deadlines of R2 leave it out. A job that was inserted without
//! waiting before an end is stored, or an event names it as lost: `was_said`.
//!
//! A job waits while every thread of its process works on longer ones: several handlers of three seconds in a row are
//! no fault of the jobs. So a run is late, for R9, by the time in which a thread was free.

use std::collections::{BTreeMap, BTreeSet};

use super::child::THREADS;
use super::history::{Call, History, JobHistory};
use super::record::{
    Answer, Event, FileEnd, How, LATER_MS, Level, Mode, Progress, RETRIES, RETRY_MS, Start, Tag,
    Verb, occurrence_of,
};
use super::schedules::r10_schedules;

/// How late a run may start on a loaded machine, in microseconds.
const BOUND_US: u64 = 15_000_000;
/// How large the file may be when it is empty, in bytes.
const MOST_BYTES: u64 = 2 << 20;
const MOST_INTERRUPTIONS: u32 = 5;
/// The present is rounded down to a millisecond before a wait is added to it.
const ROUNDING_US: u64 = 1000;

/// A rule that does not hold, and where.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Violation {
    pub(crate) rule: &'static str,
    pub(crate) text: String,
    /// The jobs that it is about.
    pub(crate) jobs: Vec<Tag>,
}

/// What the rules found.
#[derive(Default)]
pub(crate) struct Found {
    list: Vec<Violation>,
    /// What the rule that is looked at is about.
    jobs: Vec<Tag>,
}

impl Found {
    pub(crate) fn add(&mut self, rule: &'static str, text: impl Into<String>) {
        self.list.push(Violation { rule, text: text.into(), jobs: self.jobs.clone() });
    }

    pub(crate) fn about(&mut self, jobs: impl IntoIterator<Item = Tag>) {
        self.jobs = jobs.into_iter().collect();
    }
}

/// Returns what does not hold.
pub(crate) fn check(log: &[Event], end: &FileEnd) -> Vec<Violation> {
    let history = History::new(log, end);
    let mut found = Found::default();
    for (&tag, job) in &history.jobs {
        found.about([tag]);
        lost(&history, tag, job, log, &mut found);
        early(&history, tag, job, &mut found);
        cancelled(&history, tag, job, &mut found);
        dead(&history, tag, job, log.len(), &mut found);
        fences(&history, tag, job, &mut found);
        causes(&history, tag, job, &mut found);
        ghosts(&history, tag, job, &mut found);
        too_old(&history, tag, job, &mut found);
        in_time(&history, tag, job, &mut found);
        told_without_a_cause(&history, job, &mut found);
        runs_that_must_not_be(&history, tag, job, &mut found);
        goes_on(&history, tag, job, &mut found);
    }
    keys(&history, &mut found);
    batches(&history, &mut found);
    found.about([]);
    r10_schedules(&history, &mut found);
    calls_after_the_end(&history, &mut found);
    set_aside(&history, &mut found);
    nothing_left(&history, &mut found);
    looks(&history, log, &mut found);
    found.about([]);
    for failure in &history.failures {
        found.add("child", *failure);
    }
    found.list
}

/// R1, and the part of R13 that the end shows.
fn lost(history: &History<'_>, tag: Tag, job: &JobHistory, log: &[Event], found: &mut Found) {
    let said = history.said(job);
    let removed = history.may_be_removed(tag, job, log.len());
    let last = log.last().map_or(0, |event| event.stamp);
    let has_expired = history.expires(job).is_some_and(|expires| expires * 1000 < last);
    let ended = job.is_done() || job.dead.is_some() || has_expired;
    if removed || ended {
        return;
    }
    if !job.starts.is_empty() {
        found.add("R1", format!("job {tag:x} has started, and no run of it has ended well"));
    } else if said.is_some() && job.seen.is_empty() {
        let call = job.inserts.iter().map(|&n| &history.calls[n]).find(|c| history.was_said(c));
        let life = call.map(|call| &history.lives[&call.life]);
        match life.filter(|life| !life.closed).and_then(|life| life.level) {
            Some(level) => found.add("R13", format!("job {tag:x}, stored {level:?}, is gone")),
            None => found.add("R1", format!("job {tag:x} was stored, and never runs")),
        }
    } else if said.is_some() {
        found.add("R1", format!("job {tag:x} was stored and seen, and never runs"));
    }
}

/// R2.
fn early(history: &History<'_>, tag: Tag, job: &JobHistory, found: &mut Found) {
    let by_key =
        |&n: &usize| matches!(history.calls[n].verb, Verb::Keyed { mode: Mode::KeepTime, .. });
    for &(place, _, start) in &job.starts {
        if start.at < start.due * 1000 {
            found.add("R2", format!("job {tag:x} starts before its due: {start:?}"));
        }
        if job.inserts.is_empty() || job.inserts.iter().any(by_key) {
            continue;
        }
        let (dues, retry) = due_times(history, job, place, &start);
        let retried = retry.is_some_and(|at| start.due * 1000 + ROUNDING_US >= at);
        if !dues.contains(&start.due) && !retried {
            let asked = format!("{dues:?}, after a failure {retry:?}");
            found.add("R2", format!("job {tag:x} runs for {}, not for {asked}", start.due));
        }
    }
}

/// Returns the deadlines that a run may have: by inserts and resets, and by a failure before it.
fn due_times(
    history: &History<'_>,
    job: &JobHistory,
    place: usize,
    start: &Start,
) -> (Vec<u64>, Option<u64>) {
    let mut dues = history.dues(job);
    for call in history.calls_on(job).filter(|call| call.place < place) {
        let Verb::Reschedule { due, .. } = call.verb else { continue };
        match &call.answer {
            _ if call.is_answered(&Answer::Done(false)) || call.is_refused() => {}
            Some(answered)
                if *answered.answer == Answer::Done(true) && answered.at <= start.since() =>
            {
                dues = vec![*due];
            }
            _ => dues.push(*due),
        }
    }
    let before = job.ends.iter().filter(|(end, ..)| *end < place);
    let waits = before.filter_map(|(.., end)| match end.how {
        How::Failed => Some(end.at + RETRY_MS * 1000),
        How::Later | How::Snoozed => Some(end.at + LATER_MS * 1000),
        How::Done | How::Dead => None,
    });
    (dues, waits.min())
}

/// R3, but for the dead.
fn cancelled(history: &History<'_>, tag: Tag, job: &JobHistory, found: &mut Found) {
    for call in history.calls_on(job) {
        let Some(answered) = call.answer.as_ref().filter(|_| call.is_cancel()) else { continue };
        if !matches!(answered.answer, Answer::Cancelled | Answer::Running) {
            continue;
        }
        let mut later = job.starts.iter().filter(|(.., start)| start.since() > answered.at);
        // Another child may have claimed the job, and start it.
        let may_start = history.is_shared && *answered.answer == Answer::Running;
        if let Some((.., start)) = later.nth(usize::from(may_start)) {
            let answer = answered.answer;
            found.add("R3", format!("job {tag:x} starts after {answer:?}: {start:?}"));
        }
        let runs = |(place, life, start): &&(usize, u32, Start)| {
            let ended = job.end_of(start).is_some_and(|(end, ..)| *end < answered.place);
            *place < call.place
                && (*life == call.life || history.is_shared)
                && !history.is_cut_off(*life, start.at, answered.at)
                && !ended
        };
        if *answered.answer == Answer::Cancelled && job.starts.iter().any(|start| runs(&start)) {
            found.add("R3", format!("job {tag:x} ran when its cancel answered Cancelled"));
        }
        if *answered.answer == Answer::Cancelled && job.dead.is_some() {
            found.add("R3", format!("job {tag:x} was cancelled, and is dead"));
        }
    }
}

/// R3, of the dead.
fn dead(history: &History<'_>, tag: Tag, job: &JobHistory, end: usize, found: &mut Found) {
    let Some(dead) = &job.dead else { return };
    let of = |how: &[How]| job.ends.iter().filter(|(.., end)| how.contains(&end.how)).count();
    let asked = (of(&[How::Dead]) > 0 || history.is_senseless(job)) && dead.failures > 0;
    let failed = dead.failures > RETRIES && of(&[How::Failed, How::Later]) > RETRIES as usize;
    let kills = history.kills_between(history.first_insert(job), end) + history.cuts();
    let interrupted =
        dead.interruptions == MOST_INTERRUPTIONS && kills >= MOST_INTERRUPTIONS as usize;
    // Its retry would have come after its expiry.
    let too_late = history.expires(job).is_some()
        && dead.failures > 0
        && of(&[How::Failed, How::Later]) >= dead.failures as usize;
    if !(asked || failed || interrupted || too_late) {
        found.add(
            "R3",
            format!("job {tag:x} is dead without a reason, after {kills} kills: {dead:?}"),
        );
    }
}

/// R4.
fn fences(history: &History<'_>, tag: Tag, job: &JobHistory, found: &mut Found) {
    for pair in job.starts.windows(2).filter(|pair| !history.is_overtaken(&pair[0], &pair[1])) {
        let (before, after) = (pair[0].2, pair[1].2);
        let put_off = job.end_of(&before).is_some_and(|(.., end)| end.how == How::Snoozed);
        // Nor does a run count as an attempt that a drop or a shutdown did not wait for.
        let counted = u32::from(!put_off && !history.lives[&pair[0].1].gives_up());
        if before.fence >= after.fence || before.attempt + counted > after.attempt {
            let text = format!("job {tag:x}: fence or attempt do not rise: {before:?}, {after:?}");
            found.add("R4", text);
        }
    }
}

/// R5.
fn causes(history: &History<'_>, tag: Tag, job: &JobHistory, found: &mut Found) {
    for pair in job.starts.windows(2).filter(|pair| !history.is_overtaken(&pair[0], &pair[1])) {
        let ((_, life, before), (place, next, after)) = (pair[0], pair[1]);
        let end = job.end_of(&before).filter(|(at, ..)| *at < place);
        let failed = end.is_some_and(|(.., end)| !matches!(end.how, How::Done | How::Dead));
        let killed = match history.is_shared {
            true => history.is_cut_off(life, before.at, after.at),
            false => life != next && !history.lives[&life].closed,
        };
        if !failed && !killed {
            found.add("R5", format!("job {tag:x} runs twice without a cause: {before:?}"));
        }
    }
}

/// R6.
fn ghosts(history: &History<'_>, tag: Tag, job: &JobHistory, found: &mut Found) {
    let Some((first, ..)) = job.starts.first() else { return };
    let inserts = job.inserts.iter().map(|&n| &history.calls[n]);
    if let Some((name, _)) = occurrence_of(tag) {
        let asked = |c: &Call<'_>| matches!(c.verb, Verb::Schedule { name: n, .. } if *n == name);
        if !history.calls.iter().any(|call| asked(call) && call.place < *first) {
            found.add("R6", format!("an occurrence of schedule {name}, which nobody has made"));
        }
    } else if inserts.clone().all(|call| call.place > *first || call.is_refused()) {
        found.add("R6", format!("job {tag:x} runs, and nobody inserted it, or it was refused"));
    }
    let id = job.starts[0].2.id;
    if job.starts.iter().any(|(.., start)| start.id != id) {
        found.add("R6", format!("job {tag:x} is there twice, under two ids"));
    }
    let Some(said) = history.said(job) else { return };
    for call in history.calls_on(job).filter(|call| call.place > said) {
        let Some(answered) = &call.answer else { continue };
        if *answered.answer == Answer::Gone
            && job.starts.iter().any(|(.., start)| start.since() > answered.at)
        {
            found.add("R6", format!("job {tag:x} starts after the store said that it is gone"));
        }
    }
}

/// R7, of runs. That of two jobs that wait is in [`looks`].
fn keys(history: &History<'_>, found: &mut Found) {
    let mut of_key: BTreeMap<u32, Vec<(Tag, &Call<'_>)>> = BTreeMap::new();
    for call in &history.calls {
        let Verb::Keyed { key, tag, .. } = call.verb else { continue };
        let (Some(answered), inserted) = (&call.answer, of_key.entry(*key).or_default()) else {
            continue;
        };
        // What was only posted has replaced nothing yet when it is answered.
        if !answered.is_ids() || history.lives[&call.life].level == Some(Level::Buffered) {
            continue;
        }
        for (other, _) in inserted.iter().filter(|(_, c)| before(c, call)) {
            let job = &history.jobs[other];
            let starts = || job.starts.iter().map(|(.., start)| start);
            let started = starts().any(|start| start.since() <= answered.at);
            // A run that a kill cut off before it could report its start is not in the log. It began at
            // any of the times that the job has had: a reset may have made one earlier.
            let resets = history.calls_on(job).filter_map(|call| match call.verb {
                Verb::Reschedule { due, .. } => Some(*due),
                _ => None,
            });
            let dues: Vec<_> = history.dues(job).into_iter().chain(resets).collect();
            let certain = |start: &Start| {
                let mut times = dues.iter().chain([&start.due]);
                history.lives[&call.life].closed && !history.is_shared
                    || times.all(|due| due * 1000 > answered.at)
            };
            if let Some(start) = starts().next().filter(|start| !started && certain(start)) {
                let text = format!("job {other:x} was replaced by {tag:x}, and starts: {start:?}");
                found.about([*other, *tag]);
                found.add("R7", text);
            }
        }
        inserted.push((*tag, call));
    }
}

fn before(one: &Call<'_>, other: &Call<'_>) -> bool {
    one.answer.as_ref().is_some_and(|answered| answered.place < other.place)
}

/// R8.
fn batches(history: &History<'_>, found: &mut Found) {
    for call in &history.calls {
        let Verb::Batch { first, count, .. } = call.verb else { continue };
        let jobs = || (*first..first + count).map(|tag| &history.jobs[&tag]);
        let existed = jobs().filter(|job| history.existed(job)).count() as u64;
        let cancelled = |job: &&JobHistory| {
            let open = |call: &Call<'_>| call.is_cancel() && call.answer.is_none();
            !history.existed(job) && history.calls_on(job).any(open)
        };
        let open = jobs().filter(cancelled).count() as u64;
        if existed != 0 && existed + open != *count {
            found.about(*first..first + count);
            found.add("R8", format!("{existed} of {count} jobs of batch {first:x} are there"));
        }
    }
}

/// R11, and the start of each process of R9.
fn nothing_left(history: &History<'_>, found: &mut Found) {
    for (n, life) in &history.lives {
        let took = life.ready.map_or(0, |(_, stamp)| stamp.saturating_sub(life.born));
        if took > BOUND_US {
            found.add("R9", format!("life {n} needs {} ms to open the file", took / 1000));
        }
    }
    let end = history.end;
    for (table, rows) in end.rows.iter().filter(|(_, rows)| *rows > 0) {
        found.add("R11", format!("{rows} rows are left in {table}"));
    }
    for seen in end.jobs.iter().filter(|seen| !seen.dead) {
        found.add("R11", format!("a job is left: {seen:?}"));
    }
    if end.bytes > MOST_BYTES || end.log_bytes > 0 {
        let (file, log) = (end.bytes, end.log_bytes);
        found.add("R11", format!("the empty file has {file} bytes, its log {log}"));
    }
}

/// R12, and what R7 and R13 say of the file between two lives.
fn looks(history: &History<'_>, log: &[Event], found: &mut Found) {
    for &(place, look) in &history.looks {
        found.about([]);
        if let Some(violation) = &look.violation {
            found.add("R12", format!("check: {violation}"));
        }
        if !look.same {
            found.add("R12", "to open the file has changed it");
        }
        let mut keys: Vec<&String> =
            look.jobs.iter().filter(|seen| !seen.dead).filter_map(|s| s.key.as_ref()).collect();
        keys.sort_unstable();
        if let Some(pair) = keys.windows(2).find(|pair| pair[0] == pair[1]) {
            found.add("R7", format!("two jobs wait under the key {}", pair[0]));
        }
        for (&tag, job) in &history.jobs {
            let said = history.said_before(job, place);
            let looked_at = log.get(place).map_or(0, |event| event.stamp);
            let has_expired =
                history.expires(job).is_some_and(|expires| expires * 1000 < looked_at);
            let untouched = job.starts.iter().all(|(start, ..)| *start > place)
                && !history.may_be_removed(tag, job, place)
                && !has_expired;
            if let Some(level) = said.filter(|_| untouched && !job.seen.contains(&place)) {
                found.about([tag]);
                let text = format!("job {tag:x}, stored {level:?}, is not in the file");
                found.add("R13", text);
            }
        }
    }
}

/// R9, for the runs of one job.
fn in_time(history: &History<'_>, tag: Tag, job: &JobHistory, found: &mut Found) {
    for (_, life, start) in &job.starts {
        let ready = history.lives[life].ready.map_or(0, |(at, _)| at);
        let could = ready.max(start.due * 1000);
        let late = start.at.saturating_sub(could);
        if late <= BOUND_US {
            continue;
        }
        let late = late - busy(history, *life, could, start.at);
        if late > BOUND_US {
            found.add("R9", format!("job {tag:x} starts {} ms late: {start:?}", late / 1000));
        }
    }
}

/// For how long all threads of a life were at work between two times, in microseconds.
fn busy(history: &History<'_>, life: u32, from: u64, until: u64) -> u64 {
    let mut changes = Vec::new();
    for job in history.jobs.values() {
        for (_, _, start) in job.starts.iter().filter(|(_, other, _)| *other == life) {
            let ended = job.end_of(start).map(|(.., end)| end.at).or(job.told_at(start));
            let end = ended.unwrap_or(until).min(until);
            let begin = start.at.max(from);
            if begin < end {
                changes.extend([(begin, 1_isize), (end, -1)]);
            }
        }
    }
    // Where a run ends and another begins, the end comes first.
    changes.sort_unstable();
    let (mut at_work, mut since, mut busy) = (0_isize, from, 0);
    for (at, change) in changes {
        if at_work >= THREADS as isize {
            busy += at - since;
        }
        (at_work, since) = (at_work + change, at);
    }
    busy
}

/// R19. `late` tells which time the jobs have compared with the expiry.
fn too_old(history: &History<'_>, tag: Tag, job: &JobHistory, found: &mut Found) {
    let Some(expires) = history.expires(job) else { return };
    let is_late = |start: &Start| (start.due * 1000 + start.late) / 1000 > expires;
    if let Some((.., start)) = job.starts.iter().find(|(.., start)| is_late(start)) {
        found.add("R19", format!("job {tag:x} has expired at {expires}, and starts: {start:?}"));
    }
}

/// R15, of runs, and R18.
fn runs_that_must_not_be(history: &History<'_>, tag: Tag, job: &JobHistory, found: &mut Found) {
    if history.is_senseless(job) && !job.starts.is_empty() {
        found.add("R18", format!("job {tag:x} makes no sense, and runs"));
    }
    for (place, life, start) in &job.starts {
        let life = &history.lives[life];
        if life.closed && life.ended.is_some_and(|ended| ended < *place) {
            found.add("R15", format!("job {tag:x} starts after a shutdown: {start:?}"));
        }
    }
}

/// R20.
fn goes_on(history: &History<'_>, tag: Tag, job: &JobHistory, found: &mut Found) {
    for (n, (place, life, start)) in job.starts.iter().enumerate() {
        let earlier = |set: &&Progress| set.fence < start.fence && set.place < *place;
        let sets = || job.progress.iter().filter(earlier);
        // The end of a run stores its progress. On a server a kill may have come first, which the log does not tell.
        let has_ended = |of: &(usize, u32, Start)| {
            !history.is_shared && of.1 == *life && job.end_of(&of.2).is_some()
        };
        let ended = job.starts[..n].iter().filter(|of| has_ended(of)).map(|of| of.2.fence);
        let ended: Vec<u64> = ended.collect();
        let is_stored = |set: &&Progress| set.is_stored || ended.contains(&set.fence);
        let stored = sets().filter(is_stored).max_by_key(|set| (set.fence, set.place));
        let of = |n: u64| sets().find(|set| set.n == n).map(|set| (set.fence, set.place));
        let is_right = match (start.left, stored) {
            (None, stored) => stored.is_none(),
            (Some(left), None) => of(left).is_some(),
            (Some(left), Some(stored)) => of(left).is_some_and(|left| Some(left) >= of(stored.n)),
        };
        if !is_right {
            found.add("R20", format!("job {tag:x} goes on from {:?}: {stored:?}", start.left));
        }
    }
}

/// R15, of calls.
fn calls_after_the_end(history: &History<'_>, found: &mut Found) {
    for call in &history.calls {
        let ended = history.lives.get(&call.life).and_then(|life| life.ended);
        let Some(answered) = call.answer.as_ref().filter(|_| ended < Some(call.place)) else {
            continue;
        };
        if ended.is_some() && !matches!(answered.answer, Answer::Refused(_)) {
            let text = format!("{:?} after the end is answered {:?}", call.verb, answered.answer);
            found.add("R15", text);
        }
    }
}

/// R16.
fn told_without_a_cause(history: &History<'_>, job: &JobHistory, found: &mut Found) {
    for &(place, life, at, fence) in &job.told {
        let started = job.starts.iter().find(|(.., start)| start.fence == fence);
        let since = started.map_or(0, |(.., start)| start.at);
        let is_cancelled = history
            .calls_on(job)
            .any(|call| call.is_cancel() && call.place < place && !call.is_refused());
        let is_ending = history.lives[&life].ending.is_some_and(|(ending, _)| ending < place);
        if !is_cancelled && !is_ending && !history.is_cut_off(life, since, at) {
            found.add("R16", format!("the run {fence} of life {life} was told to stop"));
        }
    }
}

/// R17.
fn set_aside(history: &History<'_>, found: &mut Found) {
    // A claim has failed because the user lacks a right: this is its report.
    let due = |what: &&str| !history.denials.is_empty() && *what == "the jobs that are due";
    let told = history.unreadable.iter().filter(|what| !history.foreign.contains(*what));
    for what in told.filter(|what| !due(what)) {
        found.add("R17", format!("{what} was told of, and nobody has written it by hand"));
    }
    let Some(set_aside) = history.set_aside else { return };
    let set_aside: BTreeSet<&str> = set_aside.iter().map(String::as_str).collect();
    for what in set_aside.symmetric_difference(&history.foreign) {
        found.add("R17", format!("{what} was written by hand or is set aside, and not both"));
    }
}
