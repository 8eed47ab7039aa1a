//! How a verb asks the store: the caller of the verb, and requests, operations that know the type of their answer.
//!
//! - Each verb is written once, as an `async fn` with a [`Caller`]: a thread, which waits, or a future, which is woken.
//!   For a thread every wait in it blocks, so the first poll returns the result.
//! - A batch carries operations of every kind, so [`Op`] and [`Answer`] are enums. A caller makes a [`Request`]
//!   instead, and gets an answer of its type. This file alone says which answer belongs to which operation.

use core::pin::pin;
use core::task::{Context, Poll, Waker};

use crate::store::{
    Answer, HistoryPart, Inserted, KindGauges, NewGroup, NewJob, NewSchedule, Op, Page,
    PageRequest, StoredSchedule,
};
use crate::values::error::StoreError;
use crate::values::group::{GroupId, GroupInfo};
use crate::values::id::{Fence, JobId};
use crate::values::info::{Cancel, Counts, DeadByError, JobInfo, MemberResult};
use crate::values::limit::Tokens;
use crate::values::node::NodeInfo;
use crate::values::time::Millis;

/// Whether a thread or a future calls.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Caller {
    Thread,
    Future,
}

/// Runs a verb on the calling thread, and returns its result.
pub(super) fn on_thread<T>(verb: impl Future<Output = T>) -> T {
    let mut verb = pin!(verb);
    let mut context = Context::from_waker(Waker::noop());
    loop {
        if let Poll::Ready(value) = verb.as_mut().poll(&mut context) {
            return value;
        }
    }
}

/// An operation whose answer is an `A`.
pub(crate) struct Request<A> {
    pub(crate) op: Op,
    /// Takes the answer out of the enum.
    pub(super) read: fn(Answer) -> Option<A>,
}

/// Returns the error for an answer of another operation, which is a defect of this crate.
pub(super) fn strange() -> StoreError {
    StoreError::Other("the store gave a strange answer".to_owned())
}

/// Requests: the constructor, its arguments, the operation, and the answer with its type.
macro_rules! requests {
    ($($(#[$doc:meta])* $name:ident($($arg:ident: $of:ty),*) -> $answer:ty = $op:expr, $pattern:pat => $value:expr;)*) => {
        $($(#[$doc])*
        pub(crate) fn $name($($arg: $of),*) -> Request<$answer> {
            Request {
                op: $op,
                read: |answer| match answer {
                    $pattern => Some($value),
                    _ => None,
                },
            }
        })*
    };
}

requests! {
    insert(job: NewJob) -> Inserted = Op::Insert(job), Answer::Inserted(inserted) => inserted;
    /// The answer has the jobs that were not inserted: see [`Answer::InsertedMany`].
    insert_many(jobs: Vec<NewJob>) -> Vec<(usize, JobId)> =
        Op::InsertMany(jobs), Answer::InsertedMany(taken) => taken;
    /// The answer has the members that were not inserted.
    insert_group(group: Box<NewGroup>) -> Vec<(usize, JobId)> =
        Op::InsertGroup(group), Answer::InsertedMany(taken) => taken;
    add_to_group(id: GroupId, jobs: Vec<NewJob>) -> Vec<(usize, JobId)> =
        Op::AddToGroup(id, jobs), Answer::InsertedMany(taken) => taken;
    seal_group(id: GroupId) -> bool = Op::SealGroup(id), Answer::Changed(changed) => changed;
    cancel_group(id: GroupId) -> bool = Op::CancelGroup(id), Answer::Changed(changed) => changed;
    group(id: GroupId) -> Option<GroupInfo> =
        Op::Group(id), Answer::Group(group) => group.map(|group| *group);
    groups(most: usize) -> Vec<GroupInfo> = Op::Groups(most), Answer::Groups(groups) => groups;
    members(id: GroupId, after: Option<JobId>) -> Vec<JobId> =
        Op::Members(id, after), Answer::Members(members) => members;
    results(id: GroupId, after: Option<JobId>) -> Option<Vec<MemberResult>> =
        Op::Results(id, after), Answer::Results(results) => results;
    cancel(id: JobId) -> Cancel = Op::Cancel(id), Answer::Cancelled(cancel) => cancel;
    cancel_key(key: String) -> bool = Op::CancelKey(key), Answer::Changed(changed) => changed;
    reschedule(id: JobId, due: Millis) -> bool =
        Op::Reschedule(id, due), Answer::Changed(changed) => changed;
    reschedule_key(key: String, due: Millis) -> bool =
        Op::RescheduleKey(key, due), Answer::Changed(changed) => changed;
    retry(id: JobId, due: Millis) -> bool = Op::Retry(id, due), Answer::Changed(changed) => changed;
    delete(id: JobId) -> bool = Op::Delete(id), Answer::Changed(changed) => changed;
    /// The answers are those of the operations, in their order.
    each(ops: Vec<Op>) -> Vec<Answer> = Op::Each(ops), Answer::Each(answers) => answers;
    put_schedule(new: NewSchedule) -> bool =
        Op::PutSchedule(new), Answer::Changed(changed) => changed;
    drop_schedule(name: String) -> bool =
        Op::DropSchedule(name), Answer::Changed(changed) => changed;
    pause_schedule(name: String, at: Millis) -> bool =
        Op::PauseSchedule(name, at), Answer::Changed(changed) => changed;
    resume_schedule(name: String, expected: Millis, next: Option<Millis>) -> bool =
        Op::ResumeSchedule { name, expected, next }, Answer::Changed(changed) => changed;
    put_progress(id: JobId, fence: Fence, value: Vec<u8>) -> bool =
        Op::PutProgress { id, fence, value }, Answer::Changed(changed) => changed;
    flush() -> () = Op::Flush, Answer::Done => ();
    get(id: JobId) -> Option<JobInfo> = Op::Get(id), Answer::Info(info) => info.map(|job| *job);
    get_key(key: String) -> Option<JobInfo> = Op::GetKey(key), Answer::Info(info) => info.map(|job| *job);
    page(request: PageRequest) -> Page = Op::Page(request), Answer::Page(page) => page;
    claimed() -> Page = Op::Claimed, Answer::Page(page) => page;
    counts() -> Counts = Op::Counts, Answer::Counts(counts) => counts;
    kinds() -> Vec<(String, u64)> = Op::Kinds, Answer::Kinds(kinds) => kinds;
    gauges() -> Vec<KindGauges> = Op::Gauges, Answer::Gauges(gauges) => gauges;
    put_setting(name: String, value: Option<String>) -> bool =
        Op::PutSetting { name, value }, Answer::Changed(changed) => changed;
    replace_setting(name: String, expected: Option<String>, value: Option<String>) -> bool =
        Op::ReplaceSetting { name, expected, value }, Answer::Changed(changed) => changed;
    hold(name: String, until: Millis) -> bool =
        Op::Hold { name, until }, Answer::Changed(changed) => changed;
    tokens(scopes: Vec<String>) -> Vec<Option<Tokens>> =
        Op::Tokens(scopes), Answer::Tokens(tokens) => tokens;
    dead_by_error(most: usize) -> Vec<DeadByError> =
        Op::DeadByError(most), Answer::DeadByError(groups) => groups;
    nodes() -> Vec<NodeInfo> = Op::Nodes, Answer::Nodes(nodes) => nodes;
    settings() -> Vec<(String, String)> = Op::Settings, Answer::Settings(settings) => settings;
    history(kind: Option<String>, from: Millis, to: Millis) -> Vec<HistoryPart> =
        Op::History { kind, from, to }, Answer::History(parts) => parts;
    schedules() -> Vec<StoredSchedule> = Op::Schedules, Answer::Schedules(schedules) => schedules;
}
