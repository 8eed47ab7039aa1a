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

use std::time::Duration;

use redis::Cmd;

use super::decode::{Fault, ServerReply, bytes};
use super::groups::{callback_args, group_bytes};
use super::protocol::{self, Operation, ResultCode, group_error};
use super::records::{damaged, has_partition, id_bytes, id_of, missed, record, token};
use super::scripts::{ITEMS, Name, Part, ScriptCall, Scripts};
use crate::store::{Answer, End, Finish, Inserted, NewGroup, NewJob, NewSchedule, Op};
use crate::values::error::StoreError;
use crate::values::group::GroupError;
use crate::values::id::JobId;
use crate::values::info::Cancel;
use crate::values::time::Millis;

/// Added to the due time in the score of a new job with a partition: `COMING` in `scripts/prelude.lua`.
const COMING: i64 = 5_000_000_000_000_000;
/// More than the bytes of a change of one job that is stored already.
const CHANGE_BYTES: usize = 128;

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
            Op::Each(each) => {
                let grows = each.iter().any(|op| matches!(op, Op::Retry(..)));
                let bytes = each.len() * CHANGE_BYTES;
                let call = room(&mut calls, Name::Change, grows, each.len(), bytes);
                each.iter().for_each(|op| push_one(call, op));
                call.parts.push(Part { op: n, results: each.len() });
            }
            Op::Occur { name, expected, jobs, next } => {
                occur(&mut calls, n, (name, *expected, *next), jobs);
            }
            Op::Finish(Finish { then: Some(jobs), .. }) => {
                let (items, bytes) = (jobs.len() + 1, bytes_of(jobs) + CHANGE_BYTES);
                let call = room(&mut calls, Name::Change, true, items, bytes);
                push_one(call, op);
                call.parts.push(Part { op: n, results: items });
            }
            Op::InsertGroup(group) => insert_group(&mut calls, n, group),
            Op::AddToGroup(id, jobs) => {
                let call = room(&mut calls, Name::Change, true, jobs.len() + 1, bytes_of(jobs));
                call.begin(Operation::AddToGroup);
                call.push(group_bytes(*id));
                push_members(call, n, jobs);
            }
            Op::Extend(claims) => {
                for part in claims.chunks(ITEMS) {
                    let call = room(&mut calls, Name::Extend, false, part.len(), 0);
                    for (id, fence) in part {
                        call.push(id_bytes(*id));
                        call.push(token(*fence));
                    }
                    call.parts.push(Part { op: n, results: part.len() });
                }
            }
            op => one(&mut calls, n, op),
        }
    }
    calls
}

/// Returns the kinds of the jobs and schedules that the operations which are `wanted` store.
pub(super) fn kinds_of(ops: &[Op], wanted: impl Fn(&Op) -> bool) -> Vec<&str> {
    let mut kinds: Vec<&str> = Vec::new();
    for op in ops.iter().filter(|op| wanted(op)) {
        match op {
            Op::Insert(job) => kinds.push(&job.kind),
            Op::InsertMany(jobs) | Op::Occur { jobs, .. } => {
                kinds.extend(jobs.first().map(|job| &*job.kind));
            }
            Op::PutSchedule(new) => kinds.push(&new.kind),
            Op::InsertGroup(group) => {
                let jobs = group.members.iter().chain(&group.callback);
                kinds.extend(jobs.map(|job| &*job.kind));
            }
            Op::AddToGroup(_, jobs) => kinds.extend(jobs.iter().map(|job| &*job.kind)),
            Op::Finish(Finish { then: Some(jobs), .. }) => {
                kinds.extend(jobs.iter().map(|job| &*job.kind));
            }
            _ => {}
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

fn push_insert(call: &mut ScriptCall, job: &NewJob) {
    if job.key.is_none() && !job.callers_id {
        let (operation, score) = match has_partition(job) {
            false => (Operation::InsertMany, time(job.due)),
            true => (Operation::InsertComing, (COMING + job.due.get()).to_string().into_bytes()),
        };
        call.item(operation, Some(&job.kind));
        call.push(id_bytes(job.id));
        call.push(score);
        call.push(record(job));
        return;
    }
    call.begin(Operation::Insert);
    push_single(call, job);
}

/// Adds the arguments of the insert of one job.
fn push_single(call: &mut ScriptCall, job: &NewJob) {
    let (if_taken, key) = match &job.key {
        None => ("", ""),
        Some((key, if_taken)) => (protocol::if_taken(*if_taken), &**key),
    };
    call.push(id_bytes(job.id));
    call.push(job.kind.as_bytes());
    call.push(time(job.due));
    call.push(if_taken);
    call.push(key);
    call.push(record(job));
}

fn bytes_of(jobs: &[NewJob]) -> usize {
    jobs.iter().map(|job| job.payload.len() + 400).sum()
}

fn insert_group(calls: &mut Vec<ScriptCall>, op: usize, group: &NewGroup) {
    let callback = group.callback.as_slice();
    let (items, bytes) = (group.members.len() + 2, bytes_of(&group.members) + bytes_of(callback));
    let call = room(calls, Name::Change, true, items, bytes);
    call.begin(Operation::InsertGroup);
    call.push(group_bytes(group.id));
    for mark in [group.is_sealed, group.waits_for_the_dead] {
        call.push(if mark { "1" } else { "0" });
    }
    callback_args(group.callback.as_ref()).into_iter().for_each(|arg| call.push(arg));
    push_members(call, op, &group.members);
}

/// Adds the number of the members and the members, as the end of an operation. It has a result for the group too.
fn push_members(call: &mut ScriptCall, op: usize, jobs: &[NewJob]) {
    call.push(jobs.len().to_string());
    jobs.iter().for_each(|job| push_single(call, job));
    call.parts.push(Part { op, results: jobs.len() + 1 });
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

/// Splits many occurrences among calls. The `following` of each call is the first occurrence of the next one,
/// so each call is a complete step of the schedule.
fn occur(
    calls: &mut Vec<ScriptCall>,
    op: usize,
    (name, mut expected, next): (&str, Millis, Option<Millis>),
    jobs: &[NewJob],
) {
    let mut parts = jobs.chunks(ITEMS - 1).peekable();
    let mut rest = true;
    while rest {
        let part = parts.next().unwrap_or(&[]);
        let follows = parts.peek().and_then(|part| part.first());
        rest = follows.is_some();
        let following = follows.map_or(next, |job| Some(job.due));
        let call = room(calls, Name::Change, true, part.len() + 1, bytes_of(part));
        call.begin(Operation::Occur);
        call.push(name);
        call.push(time(expected));
        call.push(following.map_or(Vec::new(), time));
        call.push(part.len().to_string());
        for job in part {
            call.push(id_bytes(job.id));
            call.push(job.kind.as_bytes());
            call.push(time(job.due));
            call.push(record(job));
        }
        call.parts.push(Part { op, results: 1 });
        expected = following.unwrap_or(expected);
    }
}

fn put_schedule(call: &mut ScriptCall, new: &NewSchedule) {
    call.begin(Operation::PutSchedule);
    call.push(&*new.name);
    call.push(new.kind.as_bytes());
    call.push(new.schedule.rule.to_text());
    call.push(missed(new));
    call.push(&*new.payload);
    call.push(time(new.first));
}

fn push_finish(call: &mut ScriptCall, finish: &Finish) {
    let Some(jobs) = &finish.then else { return push_end(call, finish) };
    call.begin(Operation::ThenInsert);
    call.push(jobs.len().to_string());
    jobs.iter().for_each(|job| push_single(call, job));
    push_end(call, finish);
    call.end_list();
}

fn push_end(call: &mut ScriptCall, finish: &Finish) {
    let (due, errors) = match &finish.end {
        End::Completed if finish.wanted || finish.keep.is_some() => {
            let bounds = finish.keep.map_or(String::new(), |keep| {
                format!("{} {} {}", keep_ms(keep.age), keep.last, keep.bytes)
            });
            call.item(Operation::CompleteAndKeep, Some(&bounds));
            call.push(id_bytes(finish.id));
            call.push(token_of_run(finish));
            call.push(finish.took.to_string());
            call.push(finish.result.as_deref().unwrap_or_default());
            return;
        }
        End::Completed => {
            let buckets = finish.run.map_or([0; 2], |run| [run.late, run.took]);
            let buckets = if finish.run.is_some() { &buckets[..] } else { &[] };
            let operation = match finish.group {
                Some(_) => Operation::CompleteMember,
                None => Operation::Complete,
            };
            call.completed(operation, id_bytes(finish.id), token(finish.fence), buckets);
            return;
        }
        End::Retry { due, errors } => (*due, errors.as_text()),
        End::Cancelled => (Millis::ZERO, ""),
        End::Snoozed { due } => (*due, ""),
        End::Dead { errors } => (Millis::ZERO, errors.as_text()),
    };
    call.begin(Operation::Finish);
    call.push(id_bytes(finish.id));
    call.push(token_of_run(finish));
    call.push(finish.end.outcome().to_string());
    call.push(time(due));
    call.push(errors);
    call.push(finish.took.to_string());
}

/// Returns the token of a claim. Behind it come the buckets of its run, if the history counts that.
fn token_of_run(finish: &Finish) -> Vec<u8> {
    let mut token = token(finish.fence).to_vec();
    token.extend(finish.run.iter().flat_map(|run| [run.late, run.took]));
    token
}

/// Returns a duration in milliseconds, at most as long as the calendar of the jobs.
pub(super) fn keep_ms(age: Duration) -> String {
    age.as_millis().min(Millis::MAX.get() as u128).to_string()
}

fn push_all(call: &mut ScriptCall, operation: Operation, args: &[&[u8]]) {
    call.begin(operation);
    args.iter().for_each(|arg| call.push(*arg));
}

/// Adds an operation that has one result.
fn one(calls: &mut Vec<ScriptCall>, op: usize, change: &Op) {
    let (grows, items, bytes) = match change {
        Op::Insert(job) => (true, 1, job.payload.len() + 400),
        Op::PutSchedule(new) => (true, 1, new.payload.len() + 400),
        Op::Retry(..) => (true, 1, 0),
        Op::Purge => (false, ITEMS, 0),
        Op::PutProgress { value, .. } => (true, 1, value.len()),
        Op::PutSetting { .. } | Op::Hold { .. } | Op::PauseSchedule(..) | Op::PutNode { .. } => {
            (true, 1, 400)
        }
        _ if change.is_question() || matches!(change, Op::Flush) => return,
        _ => (false, 1, 0),
    };
    let call = room(calls, Name::Change, grows, items, bytes);
    call.parts.push(Part { op, results: 1 });
    push_one(call, change);
}

fn push_one(call: &mut ScriptCall, change: &Op) {
    match change {
        Op::Insert(job) => push_insert(call, job),
        Op::PutSchedule(new) => put_schedule(call, new),
        Op::Finish(finish) => push_finish(call, finish),
        Op::Cancel(id) => push_all(call, Operation::Cancel, &[&id_bytes(*id)]),
        Op::CancelKey(key) => push_all(call, Operation::CancelKey, &[key.as_bytes()]),
        Op::Reschedule(id, due) => {
            push_all(call, Operation::Reschedule, &[&id_bytes(*id), &time(*due)])
        }
        Op::RescheduleKey(key, due) => {
            push_all(call, Operation::RescheduleKey, &[key.as_bytes(), &time(*due)])
        }
        Op::Retry(id, due) => push_all(call, Operation::Retry, &[&id_bytes(*id), &time(*due)]),
        Op::Delete(id) => push_all(call, Operation::Delete, &[&id_bytes(*id)]),
        Op::SealGroup(id) => push_all(call, Operation::SealGroup, &[&group_bytes(*id)]),
        Op::CancelGroup(id) => push_all(call, Operation::CancelGroup, &[&group_bytes(*id)]),
        Op::DropSchedule(name) => push_all(call, Operation::DropSchedule, &[name.as_bytes()]),
        Op::PauseSchedule(name, at) => {
            push_all(call, Operation::PauseSchedule, &[name.as_bytes(), &time(*at)]);
        }
        Op::ResumeSchedule { name, expected, next } => {
            let next = next.map(time).unwrap_or_default();
            push_all(call, Operation::ResumeSchedule, &[name.as_bytes(), &time(*expected), &next]);
        }
        Op::Release { id, fence, interrupted } => {
            let interrupted = if *interrupted { b"1" } else { b"0" };
            push_all(call, Operation::Release, &[&id_bytes(*id), &token(*fence), interrupted]);
        }
        Op::Purge => push_all(call, Operation::Purge, &[]),
        // The number of a node is that of its connections, which the fences of its claims have.
        Op::PutNode { node } => push_all(call, Operation::PutNode, &[node.as_bytes()]),
        Op::PutProgress { id, fence, value } => {
            push_all(call, Operation::PutProgress, &[&id_bytes(*id), &token(*fence), value]);
        }
        Op::PutSetting { name, value } => {
            let is_set = if value.is_some() { b"1" } else { b"0" };
            let value = value.as_deref().unwrap_or_default().as_bytes();
            push_all(call, Operation::PutSetting, &[name.as_bytes(), is_set, value]);
        }
        Op::Hold { name, until } => {
            let until = until.get().to_string();
            push_all(call, Operation::PutSetting, &[name.as_bytes(), b"2", until.as_bytes()]);
        }
        _ => {}
    }
}

fn time(time: Millis) -> Vec<u8> {
    time.get().to_string().into_bytes()
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
            ServerReply::Kinds(_)
            | ServerReply::Lanes(_)
            | ServerReply::Places
            | ServerReply::Unloaded
            | ServerReply::Count(_) => {}
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

/// Returns the answer that the results of an operation mean.
pub(super) fn answer(op: &Op, found: OpResults) -> Answer {
    let OpResults { results, taken, group_error, refusal } = found;
    if let Some(Refusal { error, unsure }) = refusal {
        if unsure {
            return Answer::Unsure(error);
        }
        let stored = results.len();
        return Answer::Refused(match op {
            Op::InsertMany(_) if stored > 0 => {
                StoreError::Incomplete { stored, error: Box::new(error) }
            }
            _ => error,
        });
    }
    if let Some(error) = group_error {
        return Answer::Refused(StoreError::Group(error));
    }
    let taken_by = taken.first().map(|taken| taken.by);
    match op {
        Op::Extend(claims) => {
            let lost =
                claims.iter().zip(&results).filter(|(_, result)| **result == ResultCode::ClaimLost);
            Answer::ClaimsLost(lost.map(|((id, _), _)| *id).collect())
        }
        Op::Insert(_) => Answer::Inserted(match (taken_by, &results[..]) {
            (Some(by), _) => Inserted::Taken(by),
            (None, [ResultCode::Known]) => Inserted::Known,
            _ => Inserted::New,
        }),
        Op::InsertMany(_) => {
            Answer::InsertedMany(taken.iter().map(|taken| (taken.at, taken.by)).collect())
        }
        // The first result is that of the group.
        Op::InsertGroup(_) | Op::AddToGroup(..) => Answer::InsertedMany(
            taken.iter().map(|taken| (taken.at.saturating_sub(1), taken.by)).collect(),
        ),
        Op::Retry(..) => match taken.into_iter().next() {
            Some(Taken { key, by, .. }) => Answer::Refused(StoreError::KeyTaken { key, by }),
            None => Answer::Changed(results == [ResultCode::Changed]),
        },
        Op::Cancel(_) => Answer::Cancelled(match &results[..] {
            [ResultCode::Cancelled] => Cancel::Cancelled,
            [ResultCode::Running] => Cancel::Running,
            _ => Cancel::Gone,
        }),
        Op::Each(ops) => Answer::Each(each(ops, &results, &taken)),
        Op::Finish(finish) if results.first() == Some(&ResultCode::ClaimLost) => {
            Answer::ClaimsLost(vec![finish.id])
        }
        // The first result is that of the end.
        Op::Finish(Finish { then: Some(_), .. }) => Answer::InsertedMany(
            taken.iter().map(|taken| (taken.at.saturating_sub(1), taken.by)).collect(),
        ),
        Op::Finish(_) | Op::Release { .. } | Op::Flush => Answer::Done,
        _ => Answer::Changed(results.iter().all(|result| *result == ResultCode::Changed)),
    }
}

/// Returns the answer to each operation, from its own result.
fn each(ops: &[Op], results: &[ResultCode], taken: &[Taken]) -> Vec<Answer> {
    let one = |(at, op): (usize, &Op)| {
        let results = results.get(at).copied().into_iter().collect();
        let taken = taken.iter().filter(|taken| taken.at == at).cloned().collect();
        answer(op, OpResults { results, taken, ..OpResults::default() })
    };
    ops.iter().enumerate().map(one).collect()
}
