//! The operations of a batch: encoded as calls of scripts, and answered from the results of the calls.
//!
//! Ground rules:
//!
//! - A call has at most 256 items and 1 MiB, so that no script takes long. The jobs of one `InsertMany` are
//!   divided by number only: so up to 256 of them are one call of any size, all or nothing.
//! - A call contains either operations that need memory or others, never both. So a full server refuses
//!   inserts, schedules and retries, and nothing else.
//! - Each call of a batch has a place, which is the same when the batch is sent again. The server keeps
//!   the answer to the call under its place, together with the number of the batch.
//! - An operation is one row of `operations!` here, a variant of `Op`, and a function of the scripts with the word of
//!   the row. Jobs without keys or chosen ids, and the ends of runs that completed, are items of lists: `LISTS`.

use std::borrow::Cow;
use std::slice::from_ref;
use std::time::Duration;

use redis::Cmd;

use super::decode::{Fault, ServerReply, bytes};
use super::groups::{callback_args, group_bytes};
use super::protocol::{self, ResultCode, group_error};
use super::records::{choices, damaged, has_partition, id_bytes, id_of, record, token};
use super::scripts::{ITEMS, Name, Part, ScriptCall, Scripts};
use crate::store::{Answer, End, Fence, Finish, Inserted, NewJob, Op};
use crate::values::error::StoreError;
use crate::values::group::{GroupError, GroupId};
use crate::values::id::JobId;
use crate::values::info::Cancel;
use crate::values::setting::Keep;
use crate::values::time::Millis;

/// Added to the due time in the score of a new job with a partition: `COMING` in `scripts/prelude.lua`.
const COMING: i64 = 5_000_000_000_000_000;
/// More than the bytes of a change of one job that is stored already.
const CHANGE_BYTES: usize = 128;
/// More than the bytes of a new job besides its payload.
const JOB_BYTES: usize = 400;

/// The room that an operation needs in a call.
struct Needs {
    /// It needs memory.
    grows: bool,
    items: usize,
    bytes: usize,
    results: usize,
}

/// An operation with one item that needs no memory.
const ONE: Needs = Needs { grows: false, items: 1, bytes: 0, results: 1 };

/// An operation with one item of this size that needs memory.
fn grows(bytes: usize) -> Needs {
    Needs { grows: true, bytes, ..ONE }
}

/// An operation with these jobs as items, and one item besides. Each item has a result.
fn with_jobs(jobs: &[NewJob]) -> Needs {
    let items = jobs.len() + 1;
    Needs { grows: true, items, bytes: bytes_of(jobs) + CHANGE_BYTES, results: items }
}

/// Makes three functions of the rows. A row has the [`Op`]; the word of the operation with its arguments, in their
/// order; how its results are read; and what it needs.
macro_rules! operations {
    ($($op:pat => $word:ident($($arg:expr),*) -> $read:ident, $needs:expr;)+) => {
        /// The words of the rows.
        #[cfg(test)]
        const WORDS: &[&str] = &[$(stringify!($word)),+];

        /// Adds an operation to a call.
        fn push_row(call: &mut ScriptCall, op: &Op) {
            match op {
                $($op => {
                    call.begin(stringify!($word));
                    $(push_arg(call, $arg);)*
                })+
                _ => {}
            }
        }

        /// Returns `None` for an operation without a row.
        #[allow(unused_variables, reason = "the variables of a row are for its arguments")]
        fn needs_of_row(op: &Op) -> Option<Needs> {
            match op {
                $($op => Some($needs),)+
                _ => None,
            }
        }

        /// Returns the answer that the results of an operation mean.
        #[allow(unused_variables, reason = "the variables of a row are for its arguments")]
        fn read_row(op: &Op, found: OpResults) -> Answer {
            match op {
                $($op => $read(op, found),)+
                _ => Answer::Done,
            }
        }
    };
}

operations! {
    Op::Insert(job) => insert(job) -> inserted, grows(bytes_of(from_ref(job)));
    Op::Cancel(id) => cancel(id) -> cancelled, ONE;
    Op::CancelKey(key) => cancel_key(key) -> changed, ONE;
    Op::Reschedule(id, due) => reschedule(id, due) -> changed, ONE;
    Op::RescheduleKey(key, due) => reschedule_key(key, due) -> changed, ONE;
    Op::Retry(id, due) => retry(id, due) -> retried, grows(0);
    Op::Delete(id) => delete(id) -> changed, ONE;
    Op::Purge => purge() -> changed, Needs { items: ITEMS, ..ONE };

    Op::InsertGroup(group) => insert_group(
        &group.id, &group.is_sealed, &group.waits_for_the_dead, &group.keeps_results,
        &callback_args(group.callback.as_ref()), &group.members
    ) -> inserted_with, with_callback(&group.members, group.callback.as_slice());
    Op::AddToGroup(id, jobs) => add_to_group(id, jobs) -> inserted_with, with_jobs(jobs);
    Op::SealGroup(id) => seal_group(id) -> changed, ONE;
    Op::CancelGroup(id) => cancel_group(id) -> changed, ONE;

    Op::PutSchedule(new) => put_schedule(
        &new.name, &*new.kind, &new.schedule.rule.to_text(), &choices(new)[..], &new.payload,
        &new.first
    ) -> changed, grows(new.payload.len() + JOB_BYTES);
    Op::DropSchedule(name) => drop_schedule(name) -> changed, ONE;
    Op::PauseSchedule(name, at) => pause_schedule(name, at) -> changed, grows(JOB_BYTES);
    Op::ResumeSchedule { name, expected, next } => resume_schedule(name, expected, next)
        -> changed, ONE;
    Op::Occur { name, expected, jobs, next } => occur(name, expected, next, jobs)
        -> occurred, with_jobs(jobs);

    Op::PutSetting { name, value } => put_setting(
        name, &value.is_some(), value.as_deref().unwrap_or_default()
    ) -> changed, grows(JOB_BYTES);
    Op::ReplaceSetting { name, expected, value } => replace_setting(
        name, &expected.is_some(), expected.as_deref().unwrap_or_default(),
        &value.is_some(), value.as_deref().unwrap_or_default()
    ) -> changed, grows(JOB_BYTES);
    Op::Hold { name, until } => put_setting(name, "2", until) -> changed, grows(JOB_BYTES);
    // The number of a node is that of its connections, which the fences of its claims have.
    Op::PutNode { node } => put_node(node) -> done, grows(JOB_BYTES);

    Op::PutProgress { id, fence, value } => put_progress(id, fence, value)
        -> changed, Needs { bytes: value.len(), ..ONE };
    Op::Release { id, fence, interrupted } => release(id, fence, interrupted) -> done, ONE;
    // The end of the run follows as an item of a list.
    Op::Finish(Finish { end: End::Completed, then: Some(jobs), .. }) => then_insert(&**jobs)
        -> ended, with_jobs(jobs);
    Op::Finish(finish) => finish(
        &finish.id, &token_of_run(finish), &finish.end.outcome().to_string(),
        &next_of(finish).0, &*next_of(finish).1, &finish.took
    ) -> ended, Needs { bytes: result_of(finish).map_or(0, <[u8]>::len), ..ONE };
}

/// The words of the operations that are lists of items. Jobs with a partition, members of groups, and those whose groups
/// keep results have their own.
#[cfg(test)]
const LISTS: [&str; 6] = [
    "insert_many",
    "insert_coming",
    "complete",
    "complete_member",
    "complete_with_result",
    "complete_and_keep",
];

/// A value that is an argument of an operation, or several.
trait Arg {
    fn add_to(&self, call: &mut ScriptCall);
}

fn push_arg(call: &mut ScriptCall, arg: &(impl Arg + ?Sized)) {
    arg.add_to(call);
}

macro_rules! args {
    ($($of:ty: $value:ident => $bytes:expr;)+) => {
        $(impl Arg for $of {
            fn add_to(&self, call: &mut ScriptCall) {
                let $value = self;
                call.push($bytes);
            }
        })+
    };
}

args! {
    str: text => text;
    String: text => text.as_str();
    [u8]: bytes => bytes;
    Vec<u8>: bytes => bytes.as_slice();
    bool: it => if *it { "1" } else { "0" };
    u64: number => number.to_string();
    JobId: id => id_bytes(*id);
    GroupId: id => group_bytes(*id);
    Fence: fence => token(*fence);
    Millis: time => time.get().to_string();
    Option<Millis>: time => time.map_or(String::new(), |time| time.get().to_string());
}

impl Arg for [Vec<u8>; 3] {
    fn add_to(&self, call: &mut ScriptCall) {
        self.iter().for_each(|arg| arg.add_to(call));
    }
}

impl Arg for NewJob {
    fn add_to(&self, call: &mut ScriptCall) {
        let (if_taken, key) = match &self.key {
            None => ("", ""),
            Some((key, if_taken)) => (protocol::if_taken(*if_taken), &**key),
        };
        self.id.add_to(call);
        self.kind.add_to(call);
        self.due.add_to(call);
        if_taken.add_to(call);
        key.add_to(call);
        record(self).add_to(call);
    }
}

/// The number of the jobs, and the jobs.
impl Arg for Vec<NewJob> {
    fn add_to(&self, call: &mut ScriptCall) {
        (self.len() as u64).add_to(call);
        self.iter().for_each(|job| job.add_to(call));
    }
}

fn bytes_of(jobs: &[NewJob]) -> usize {
    jobs.iter().map(|job| job.payload.len() + JOB_BYTES).sum()
}

fn with_callback(members: &[NewJob], callback: &[NewJob]) -> Needs {
    let needs = with_jobs(members);
    Needs { items: needs.items + 1, bytes: needs.bytes + bytes_of(callback), ..needs }
}

/// Returns when a job is due again after this end of a run, and the errors of its attempts. For an expired job it
/// returns the bounds of its kind instead of the errors.
fn next_of(finish: &Finish) -> (Millis, Cow<'_, str>) {
    match &finish.end {
        End::Completed | End::Cancelled => (Millis::ZERO, Cow::default()),
        End::Retry { due, errors } => (*due, errors.as_text().into()),
        End::Snoozed { due } => (*due, Cow::default()),
        End::Dead { errors } => (Millis::ZERO, errors.as_text().into()),
        End::Expired => (Millis::ZERO, bounds_of(finish).into()),
    }
}

/// Returns how long a kind keeps completed jobs, how many, and how many bytes. Empty: it keeps none.
fn bounds_of(finish: &Finish) -> String {
    let bounds = |keep: Keep| format!("{} {} {}", keep_ms(keep.age), keep.last, keep.bytes);
    finish.keep.map_or(String::new(), bounds)
}

/// Says whether an operation ends a run that has follow-ups.
pub(super) fn has_follow_ups(op: &Op) -> bool {
    matches!(op, Op::Finish(Finish { then: Some(_), .. }))
}

/// Returns the calls for the operations that change something and are `wanted`.
pub(super) fn calls(ops: &[Op], wanted: impl Fn(&Op) -> bool) -> Vec<ScriptCall> {
    let mut calls: Vec<ScriptCall> = Vec::new();
    for (n, op) in ops.iter().enumerate().filter(|(_, op)| wanted(op)) {
        match op {
            Op::InsertMany(jobs) => insert_many(&mut calls, n, jobs),
            Op::Occur { jobs, .. } if jobs.len() >= ITEMS => occur(&mut calls, n, op),
            Op::Extend(claims) => extend(&mut calls, n, claims),
            op => add(&mut calls, n, op),
        }
    }
    calls
}

fn needs_of(op: &Op) -> Option<Needs> {
    let Op::Each(each) = op else { return needs_of_row(op) };
    let grows = each.iter().filter_map(needs_of_row).any(|needs| needs.grows);
    let (items, bytes) = (each.len(), each.len() * CHANGE_BYTES);
    Some(Needs { grows, items, bytes, results: items })
}

/// Adds an operation to a call that has room for it.
fn add(calls: &mut Vec<ScriptCall>, n: usize, op: &Op) {
    let Some(Needs { grows, items, bytes, results }) = needs_of(op) else { return };
    let call = room(calls, Name::Change, grows, items, bytes);
    match op {
        Op::Each(each) => each.iter().for_each(|op| push(call, op)),
        op => push(call, op),
    }
    call.parts.push(Part { op: n, results });
}

fn push(call: &mut ScriptCall, op: &Op) {
    match op {
        Op::Insert(job) => push_insert(call, job),
        Op::Finish(finish) if finish.end == End::Completed => {
            if finish.then.is_some() {
                push_row(call, op);
                push_completed(call, finish);
                call.end_list();
            } else {
                push_completed(call, finish);
            }
        }
        op => push_row(call, op),
    }
}

fn push_insert(call: &mut ScriptCall, job: &NewJob) {
    if job.key.is_some() || job.callers_id {
        call.begin("insert");
        return job.add_to(call);
    }
    let (word, score) = match has_partition(job) {
        false => ("insert_many", job.due.get()),
        true => ("insert_coming", COMING + job.due.get()),
    };
    call.item(word, Some(&job.kind));
    job.id.add_to(call);
    call.push(score.to_string());
    call.push(record(job));
}

/// Says whether the job of a run that completed is kept.
fn is_kept(finish: &Finish) -> bool {
    finish.wanted || finish.keep.is_some()
}

/// Returns the result of a run, if the server keeps it.
fn result_of(finish: &Finish) -> Option<&[u8]> {
    finish.result.as_deref().filter(|_| is_kept(finish) || finish.gives_result)
}

fn push_completed(call: &mut ScriptCall, finish: &Finish) {
    if is_kept(finish) {
        call.item("complete_and_keep", Some(&bounds_of(finish)));
        finish.id.add_to(call);
        token_of_run(finish).add_to(call);
        finish.took.add_to(call);
        return result_of(finish).unwrap_or_default().add_to(call);
    }
    let word = match finish.group {
        Some(_) if finish.gives_result => "complete_with_result",
        Some(_) => "complete_member",
        None => "complete",
    };
    call.completed(word, id_bytes(finish.id), token(finish.fence), &buckets_of(finish));
    if word == "complete_with_result" {
        result_of(finish).unwrap_or_default().add_to(call);
    }
}

fn extend(calls: &mut Vec<ScriptCall>, op: usize, claims: &[(JobId, Fence)]) {
    for part in claims.chunks(ITEMS) {
        let call = room(calls, Name::Extend, false, part.len(), 0);
        for (id, fence) in part {
            id.add_to(call);
            fence.add_to(call);
        }
        call.parts.push(Part { op, results: part.len() });
    }
}

/// Splits many occurrences among calls. Each call sets the next occurrence to the first one of the call after it, so
/// each call is a complete step of the schedule.
fn occur(calls: &mut Vec<ScriptCall>, n: usize, op: &Op) {
    let Op::Occur { name, expected, jobs, next } = op else { return };
    let mut expected = *expected;
    let mut parts = jobs.chunks(ITEMS - 1).peekable();
    while let Some(part) = parts.next() {
        let next = parts.peek().and_then(|part| part.first()).map(|job| job.due).or(*next);
        let (name, jobs) = (name.clone(), part.to_vec());
        add(calls, n, &Op::Occur { name, expected, jobs, next });
        expected = next.unwrap_or(expected);
    }
}

fn insert_many(calls: &mut Vec<ScriptCall>, op: usize, jobs: &[NewJob]) {
    if jobs.len() <= ITEMS {
        let call = room(calls, Name::Change, true, jobs.len(), bytes_of(jobs));
        jobs.iter().for_each(|job| push_insert(call, job));
        call.parts.push(Part { op, results: jobs.len() });
        return;
    }
    for (n, part) in jobs.chunks(ITEMS).enumerate() {
        let mut call = ScriptCall::new(Name::Change, true);
        call.items = part.len();
        part.iter().for_each(|job| push_insert(&mut call, job));
        call.parts.push(Part { op, results: part.len() });
        call.continues = n > 0;
        calls.push(call);
    }
    // No later operation may join the last call.
    if let Some(last) = calls.last_mut() {
        last.items = ITEMS;
    }
}

/// Returns the kinds of the jobs and schedules that the operations which are `wanted` store.
pub(super) fn kinds_of(ops: &[Op], wanted: impl Fn(&Op) -> bool) -> Vec<&str> {
    let mut kinds: Vec<&str> = Vec::new();
    for op in ops.iter().filter(|op| wanted(op)) {
        match op {
            Op::PutSchedule(new) => kinds.push(&new.kind),
            Op::InsertGroup(group) => kinds.extend(group.callback.iter().map(|job| &*job.kind)),
            _ => {}
        }
        for job in op.jobs() {
            if kinds.last().is_none_or(|last| **last != *job.kind) {
                kinds.push(&job.kind);
            }
        }
    }
    kinds
}

/// Returns a call with room for these items, and counts them.
fn room(
    calls: &mut Vec<ScriptCall>,
    name: Name,
    grows: bool,
    items: usize,
    bytes: usize,
) -> &mut ScriptCall {
    if !calls.last().is_some_and(|call| call.takes(name, grows, items, bytes)) {
        calls.push(ScriptCall::new(name, grows));
    }
    let last = calls.len() - 1;
    calls[last].items += items;
    &mut calls[last]
}

/// Returns the token of a claim. Behind it come the buckets of its run, if the history counts that.
fn token_of_run(finish: &Finish) -> Vec<u8> {
    [&token(finish.fence)[..], &buckets_of(finish)].concat()
}

fn buckets_of(finish: &Finish) -> Vec<u8> {
    finish.run.iter().flat_map(|run| [run.late, run.took]).collect()
}

/// Returns a duration in milliseconds, at most as long as the calendar of the jobs.
pub(super) fn keep_ms(age: Duration) -> String {
    age.as_millis().min(Millis::MAX.get() as u128).to_string()
}

/// Returns the commands of these calls. `head`: the first arguments of every script.
pub(super) fn commands(
    calls: &[ScriptCall],
    scripts: &Scripts,
    keys: &[Vec<u8>],
    head: &[Vec<u8>],
    (number, lease): (u64, u64),
    counted: bool,
) -> Vec<Cmd> {
    let mut place = 0_usize;
    let command = |call: &ScriptCall| {
        let mut cmd = scripts.call(call.script(counted), keys);
        cmd.arg(head);
        if call.name == Name::Extend {
            cmd.arg(lease);
        } else {
            let before = if call.continues { (place - 1).to_string() } else { String::new() };
            cmd.arg(place).arg(number).arg(before).arg(u8::from(call.grows));
            place += 1;
        }
        cmd.arg(&call.args);
        cmd
    };
    calls.iter().map(command).collect()
}

const ID_BYTES: usize = 16;

/// The results of one operation.
#[derive(Clone, Default)]
pub(super) struct OpResults {
    results: Vec<ResultCode>,
    taken: Vec<Taken>,
    group_error: Option<GroupError>,
    refusal: Option<Refusal>,
}

/// A key that another job has.
#[derive(Clone)]
struct Taken {
    /// The index of the result.
    at: usize,
    by: JobId,
    key: String,
}

/// Why a call of an operation has no results.
#[derive(Clone)]
struct Refusal {
    error: StoreError,
    /// The operation may have been done all the same.
    unsure: bool,
}

impl OpResults {
    /// Takes at most `many` results off the answer to a call, and returns the rest of the answer.
    fn take<'a>(&mut self, mut answer: &'a [u8], many: usize) -> Result<&'a [u8], StoreError> {
        for _ in 0..many {
            let Some((&letter, mut rest)) = answer.split_first() else { break };
            let result = ResultCode::of(letter).ok_or_else(|| damaged("is no result"))?;
            if result == ResultCode::KeyTaken {
                let cut = || damaged("is cut off");
                let (length, behind) = rest.split_first_chunk().ok_or_else(cut)?;
                let length = usize::from(u16::from_be_bytes(*length));
                let (detail, behind) = behind.split_at_checked(length).ok_or_else(cut)?;
                let (id, key) = detail.split_at_checked(ID_BYTES).ok_or_else(cut)?;
                let key = String::from_utf8_lossy(key).into_owned();
                self.taken.push(Taken { at: self.results.len(), by: id_of(id)?, key });
                rest = behind;
            }
            if result == ResultCode::GroupRefused {
                let (&letter, behind) = rest.split_first().ok_or_else(|| damaged("is cut off"))?;
                self.group_error = group_error(letter);
                rest = behind;
            }
            self.results.push(result);
            answer = rest;
        }
        Ok(answer)
    }
}

/// Returns the results of each operation, from the replies to the calls.
pub(super) fn found(ops: usize, calls: &[ScriptCall], replies: Vec<ServerReply>) -> Vec<OpResults> {
    let mut found = vec![OpResults::default(); ops];
    let mut wanted = vec![0; ops];
    for (call, reply) in calls.iter().zip(replies) {
        let mut refusal = None;
        match reply {
            ServerReply::Done(fields) => {
                let mut answer = bytes(&fields[2]).unwrap_or_default();
                for part in &call.parts {
                    // A call that continues a refused call has an empty answer. The refusal stands then.
                    match found[part.op].take(answer, part.results) {
                        Ok(rest) => answer = rest,
                        Err(error) => {
                            refusal = Some(Refusal { error, unsure: true });
                            break;
                        }
                    }
                }
            }
            ServerReply::Full => refusal = Some(Refusal { error: StoreError::Full, unsure: false }),
            ServerReply::Wrong(Fault { error, sent, .. }) => {
                refusal = Some(Refusal { error, unsure: sent });
            }
            _ => {}
        }
        for part in &call.parts {
            wanted[part.op] += part.results;
            if let Some(refusal) = &refusal {
                found[part.op].refusal.get_or_insert_with(|| refusal.clone());
            }
        }
    }
    for (found, wanted) in found.iter_mut().zip(wanted) {
        if found.refusal.is_none() && found.results.len() != wanted {
            let error = damaged("is no answer to a change");
            found.refusal = Some(Refusal { error, unsure: true });
        }
    }
    found
}

impl OpResults {
    /// Returns the jobs that were not inserted since other jobs have their keys. `from`: the index of the first job's
    /// result.
    fn taken_from(&self, from: usize) -> Answer {
        let taken = self.taken.iter().map(|taken| (taken.at.saturating_sub(from), taken.by));
        Answer::InsertedMany(taken.collect())
    }
}

fn changed(_: &Op, found: OpResults) -> Answer {
    Answer::Changed(found.results.iter().all(|result| *result == ResultCode::Changed))
}

/// Each call of the operation has one result of its own, before the results of its jobs.
fn occurred(_: &Op, found: OpResults) -> Answer {
    let results = &found.results;
    if results.contains(&ResultCode::Unchanged) {
        return Answer::Changed(false);
    }
    let of_calls =
        |at: usize| results[..at].iter().filter(|it| **it == ResultCode::Changed).count();
    let taken = found.taken.iter().map(|taken| (taken.at - of_calls(taken.at), taken.by));
    Answer::InsertedMany(taken.collect())
}

fn done(_: &Op, _: OpResults) -> Answer {
    Answer::Done
}

fn inserted(_: &Op, found: OpResults) -> Answer {
    Answer::Inserted(match (found.taken.first(), &found.results[..]) {
        (Some(taken), _) => Inserted::Taken(taken.by),
        (None, [ResultCode::Known]) => Inserted::Known,
        _ => Inserted::New,
    })
}

/// The first result is that of the group.
fn inserted_with(_: &Op, found: OpResults) -> Answer {
    found.taken_from(1)
}

fn retried(op: &Op, mut found: OpResults) -> Answer {
    match found.taken.pop() {
        Some(Taken { key, by, .. }) => Answer::Refused(StoreError::KeyTaken { key, by }),
        None => changed(op, found),
    }
}

fn cancelled(_: &Op, found: OpResults) -> Answer {
    Answer::Cancelled(match &found.results[..] {
        [ResultCode::Cancelled] => Cancel::Cancelled,
        [ResultCode::Running] => Cancel::Running,
        _ => Cancel::Gone,
    })
}

/// The first result is that of the end.
fn ended(op: &Op, found: OpResults) -> Answer {
    match op {
        Op::Finish(finish) if found.results.first() == Some(&ResultCode::ClaimLost) => {
            Answer::ClaimsLost(vec![finish.id])
        }
        Op::Finish(_) if found.results.first() == Some(&ResultCode::Cancelled) => {
            Answer::Cancelled(Cancel::Cancelled)
        }
        op if has_follow_ups(op) => found.taken_from(1),
        _ => Answer::Done,
    }
}

/// Returns the answer that the results of an operation mean.
pub(super) fn answer(op: &Op, found: OpResults) -> Answer {
    if let Some(Refusal { error, unsure }) = found.refusal {
        if unsure {
            return Answer::Unsure(error);
        }
        let done = found.results.len();
        return Answer::Refused(match op {
            Op::InsertMany(_) if done > 0 => {
                StoreError::Incomplete { done, error: Box::new(error) }
            }
            _ => error,
        });
    }
    if let Some(error) = found.group_error {
        return Answer::Refused(StoreError::Group(error));
    }
    match op {
        Op::Extend(claims) => {
            let of = claims.iter().zip(&found.results);
            let lost = of.filter(|(_, result)| **result == ResultCode::ClaimLost);
            Answer::ClaimsLost(lost.map(|((id, _), _)| *id).collect())
        }
        Op::InsertMany(_) => found.taken_from(0),
        Op::Each(ops) => Answer::Each(each(ops, &found)),
        op => read_row(op, found),
    }
}

/// Returns the answer to each operation, from its own result.
fn each(ops: &[Op], found: &OpResults) -> Vec<Answer> {
    let one = |(at, op): (usize, &Op)| {
        let results = found.results.get(at).copied().into_iter().collect();
        let taken = found.taken.iter().filter(|taken| taken.at == at).cloned().collect();
        answer(op, OpResults { results, taken, ..OpResults::default() })
    };
    ops.iter().enumerate().map(one).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::store::redis::scripts::parts_of;

    /// P110: A node sends the results of members whose groups keep them, and no others. The ends of a claim are one
    /// operation in both cases.
    #[test]
    fn results_are_sent_to_groups_that_keep_them() {
        let end = |gives_result| {
            let end = Finish::of(JobId::new(), Fence::new(1, 2), End::Completed);
            let result = Some(vec![b'7'; 1000]);
            Op::Finish(Finish { result, group: Some(GroupId::new()), gives_result, ..end })
        };
        for (gives_result, each) in [(false, 1), (true, 2)] {
            let ops: Vec<Op> = (0..100).map(|_| end(gives_result)).collect();
            let [call] = &calls(&ops, |_| true)[..] else { panic!("one call") };
            assert_eq!(call.args.len(), 4 + 100 * each);
            assert_eq!(call.args.iter().any(|arg| arg.len() == 1000), gives_result);
        }
    }

    /// Each operation is a function of the scripts, and the scripts have no others.
    #[test]
    fn operations_are_those_of_the_scripts() {
        let mut defined = BTreeSet::new();
        for (_, text) in parts_of(Name::Change) {
            let lines = text.lines().map(str::trim_start);
            let named =
                lines.filter_map(|line| line.strip_prefix("operations.")?.split(" = ").next());
            defined.extend(named);
        }
        let words: BTreeSet<&str> = WORDS.iter().chain(&LISTS).copied().collect();
        assert_eq!(defined, words);
    }
}
