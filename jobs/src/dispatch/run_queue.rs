//! Claimed jobs that wait for their due time, for the rest of their batch and for a thread, in the order in which they
//! start.
//!
//! Ground rules:
//!
//! - Jobs that are due start in the order of rank, then of id. Without head starts that is the order of due time, and
//!   one heap is enough.
//! - Jobs with a partition start in the order of their turns: each stands where its `LaneTurn` says, and not at its own
//!   due time.
//! - While a job with a head start waits, the jobs that are due move to a heap of their own. So a job that is not due
//!   yet neither starts early nor stands before a job that is due, even if its rank is lower.
//! - The end of the wait of a batch is an entry too: it is due like a job, and has the head start of its kind. It comes
//!   behind the jobs that are due in the same millisecond, which may belong to the batch.
//! - If the clock was set back, a job in the heap of due jobs may not be due any more. Then the jobs move back. The
//!   place of a turn may be in the future then, and would hold a job that is due: such a turn moves to the present.
//! - A kind with a handler of batches collects one batch at a time. The batch is complete once it has as many jobs as
//!   its size says, or once its first job has waited for the time that its size says.
//! - The entry of the end of that wait has a number. A batch that was complete earlier leaves its entry behind: the
//!   number is another one by then, and the entry does nothing.
//! - A job that was cancelled or given back while it waited is in no batch, and does not count for its size. It is
//!   dropped outside the lock, because the last user of its span calls the user's subscriber.

use core::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use foldhash::{HashMap, HashSet};
use tickwheel::Scheduler;

use super::handlers::BatchSize;
use super::machine::Start;
use crate::values::id::JobId;
use crate::values::panics::locked;
use crate::values::setting::{HeadStart, Rank};
use crate::values::time::Millis;

/// Claimed jobs that have not started, and the wheel that starts them.
pub(crate) struct RunQueue {
    waiting: Mutex<Waiting>,
    /// None on a manual clock: the driver starts the jobs.
    pub(super) wheel: Option<Scheduler>,
}

#[derive(Default)]
struct Waiting {
    /// In the order of due time.
    by_due: BinaryHeap<Ordered>,
    /// Jobs that were due, in the order of rank. Empty if no job with a head start has waited.
    by_rank: BinaryHeap<Ordered>,
    /// How many of all these entries have a head start.
    with_head_start: usize,
    /// The latest place of a turn that is later than the due time of its job. The clock has read that time.
    latest_turn: Option<Millis>,
}

/// A clock that steps back by less than this may have been read by two threads at once.
const READ_AT_ONCE: Duration = Duration::from_millis(5);

/// An entry of the queue.
pub(super) enum Entry {
    Job(Start),
    /// The first job of a batch has waited long enough.
    WaitOver(WaitOver),
}

/// An entry, in the order of `rank`.
struct Ordered {
    rank: Rank,
    entry: Entry,
}

impl RunQueue {
    pub(crate) fn new(wheel: Option<Scheduler>) -> RunQueue {
        RunQueue { waiting: Mutex::default(), wheel }
    }

    pub(super) fn push(&self, starts: Vec<Start>) {
        let mut waiting = locked(&self.waiting);
        let with_head_start =
            starts.iter().filter(|start| !start.state.head_start.is_none()).count();
        waiting.with_head_start += with_head_start;
        let turns = starts.iter().filter_map(|start| Some((start.turn?.due, start.state.due)));
        let latest = turns.filter(|(turn, due)| turn > due).map(|(turn, _)| turn).max();
        waiting.latest_turn = waiting.latest_turn.max(latest);
        waiting.by_due.extend(starts.into_iter().map(|start| Ordered::by_due(Entry::Job(start))));
    }

    pub(super) fn push_wait(&self, over: WaitOver) {
        let entry = Entry::WaitOver(over);
        let mut waiting = locked(&self.waiting);
        waiting.with_head_start += usize::from(entry.has_head_start());
        waiting.by_due.push(Ordered::by_due(entry));
    }

    /// Takes the first entry that is due. If none is, returns the earliest due time, or `None` if there is no entry.
    pub(super) fn take_due(&self, now: Millis) -> Result<Entry, Option<Millis>> {
        locked(&self.waiting).take_due(now)
    }

    pub(super) fn next_due(&self) -> Option<Millis> {
        let waiting = locked(&self.waiting);
        waiting.by_rank.iter().chain(waiting.by_due.peek()).map(Ordered::due).min()
    }

    /// Adds the ids of the jobs that have not started and were not withdrawn.
    pub(super) fn add_waiting(&self, ids: &mut HashSet<JobId>) {
        let waiting = locked(&self.waiting);
        let jobs = waiting.by_due.iter().chain(&waiting.by_rank);
        let states = jobs.filter_map(|job| match &job.entry {
            Entry::Job(start) => Some(&start.state),
            Entry::WaitOver(_) => None,
        });
        ids.extend(states.filter(|state| state.is_waiting()).map(|state| state.id));
    }
}

impl Waiting {
    fn take_due(&mut self, now: Millis) -> Result<Entry, Option<Millis>> {
        if self.latest_turn.is_some_and(|latest| now.plus(READ_AT_ONCE) < latest) {
            self.move_turns_to(now);
        }
        if self.with_head_start == 0 && self.by_rank.is_empty() {
            return take_first(&mut self.by_due, now);
        }
        if self.by_rank.peek().is_some_and(|first| first.due() > now) {
            self.by_due.extend(self.by_rank.drain().map(|job| Ordered::by_due(job.entry)));
        }
        while let Ok(entry) = take_first(&mut self.by_due, now) {
            self.by_rank.push(Ordered::by_rank(entry));
        }
        match self.by_rank.pop() {
            None => Err(self.by_due.peek().map(Ordered::due)),
            Some(Ordered { entry, .. }) => {
                self.with_head_start -= usize::from(entry.has_head_start());
                Ok(entry)
            }
        }
    }

    /// Follows a clock that was set back.
    fn move_turns_to(&mut self, now: Millis) {
        self.latest_turn = Some(now);
        let mut all: Vec<Ordered> = self.by_due.drain().chain(self.by_rank.drain()).collect();
        for ordered in &mut all {
            if let Entry::Job(Start { state, turn: Some(turn), .. }) = &mut ordered.entry {
                turn.due = turn.due.min(now).max(state.due);
            }
        }
        self.by_due.extend(all.into_iter().map(|ordered| Ordered::by_due(ordered.entry)));
    }
}

/// Takes the first entry if it is due. Otherwise returns its due time, or `None` if there is no entry.
fn take_first(entries: &mut BinaryHeap<Ordered>, now: Millis) -> Result<Entry, Option<Millis>> {
    match entries.peek().map(Ordered::due) {
        Some(due) if due <= now => entries.pop().map(|ordered| ordered.entry).ok_or(None),
        due => Err(due),
    }
}

/// The place of an entry among those of one rank.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum QueuePlace {
    Id(JobId),
    Turn(u64),
    Last,
}

impl Entry {
    /// Returns the time that orders the entry. The job is due at that time.
    fn due(&self) -> Millis {
        match self {
            Entry::Job(start) => start.turn.map_or(start.state.due, |turn| turn.due),
            Entry::WaitOver(over) => over.due,
        }
    }

    fn head_start(&self) -> HeadStart {
        match self {
            Entry::Job(start) => start.state.head_start,
            Entry::WaitOver(over) => over.head_start,
        }
    }

    fn has_head_start(&self) -> bool {
        !self.head_start().is_none()
    }

    fn place(&self) -> QueuePlace {
        match self {
            Entry::Job(Start { turn: Some(turn), .. }) => QueuePlace::Turn(turn.number),
            Entry::Job(start) => QueuePlace::Id(start.state.id),
            Entry::WaitOver(_) => QueuePlace::Last,
        }
    }
}

impl Ordered {
    fn by_due(entry: Entry) -> Ordered {
        Ordered { rank: HeadStart::NONE.rank(entry.due()), entry }
    }

    fn by_rank(entry: Entry) -> Ordered {
        Ordered { rank: entry.head_start().rank(entry.due()), entry }
    }

    fn due(&self) -> Millis {
        self.entry.due()
    }

    /// The first entry is the greatest.
    fn key(&self) -> Reverse<(Rank, QueuePlace)> {
        Reverse((self.rank, self.entry.place()))
    }
}

impl PartialEq for Ordered {
    fn eq(&self, other: &Ordered) -> bool {
        self.key() == other.key()
    }
}

impl Eq for Ordered {}

impl PartialOrd for Ordered {
    fn partial_cmp(&self, other: &Ordered) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Ordered {
    fn cmp(&self, other: &Ordered) -> Ordering {
        self.key().cmp(&other.key())
    }
}

/// The batches that are being collected, by kind.
#[derive(Default)]
pub(crate) struct Batches {
    kinds: Mutex<HashMap<Arc<str>, CollectedBatch>>,
}

#[derive(Default)]
struct CollectedBatch {
    starts: Vec<Start>,
    /// Of the batches of this kind.
    number: u64,
    until: Millis,
}

/// The end of the wait of a batch.
#[derive(Clone, Debug)]
pub(super) struct WaitOver {
    pub(super) kind: Arc<str>,
    number: u64,
    pub(super) due: Millis,
    /// That of its first job.
    pub(super) head_start: HeadStart,
}

/// The state of a batch after a job was added to it.
pub(super) enum Added {
    Complete(Vec<Start>),
    /// The job is the first of its batch, which is complete at the end of this wait.
    First(WaitOver),
    /// The batch waits for more jobs.
    Waits,
}

impl Batches {
    pub(super) fn add(&self, start: Start, size: BatchSize, now: Millis) -> Added {
        let kind = Arc::clone(&start.state.kind);
        let (added, withdrawn) = locked(&self.kinds).entry(kind).or_default().add(start, size, now);
        drop(withdrawn);
        added
    }

    /// Takes the batch whose wait is over, unless it was complete before.
    pub(super) fn take(&self, over: &WaitOver) -> Vec<Start> {
        match locked(&self.kinds).get_mut(&over.kind).filter(|batch| batch.number == over.number) {
            Some(batch) => batch.take(),
            None => Vec::new(),
        }
    }

    /// Adds the ids of the jobs that wait and were not withdrawn.
    pub(super) fn add_waiting(&self, ids: &mut HashSet<JobId>) {
        let kinds = locked(&self.kinds);
        let states = kinds.values().flat_map(|batch| &batch.starts).map(|start| &start.state);
        ids.extend(states.filter(|state| state.is_waiting()).map(|state| state.id));
    }
}

impl CollectedBatch {
    /// Adds a job. Also returns the jobs that have left the batch.
    fn add(&mut self, start: Start, size: BatchSize, now: Millis) -> (Added, Vec<Start>) {
        let (kind, head_start) = (Arc::clone(&start.state.kind), start.state.head_start);
        self.starts.push(start);
        let mut withdrawn = Vec::new();
        if self.starts.len() >= size.most {
            withdrawn.extend(self.starts.extract_if(.., |start| !start.state.is_waiting()));
        }
        if self.starts.len() >= size.most {
            return (Added::Complete(self.take()), withdrawn);
        }
        let until = now.plus(size.wait);
        // If the wait ends later than that, it began before the clock was set back.
        if self.starts.len() > 1 && self.until <= until {
            return (Added::Waits, withdrawn);
        }
        self.number += 1;
        self.until = until;
        let over = WaitOver { kind, number: self.number, due: until, head_start };
        (Added::First(over), withdrawn)
    }

    fn take(&mut self) -> Vec<Start> {
        self.number += 1;
        core::mem::take(&mut self.starts)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use super::*;
    use crate::dispatch::machine::LaneTurn;
    use crate::dispatch::run_state::{RunState, Slot};
    use crate::store::{Claimed, Fence, Tries};

    fn start(id: u128, due: i64, head_start: u64) -> Start {
        let claimed = Claimed {
            id: JobId::from_u128(id),
            kind: Arc::from("task"),
            due: Millis::clamped(due),
            tries: Tries::default(),
            key: None,
            payload: Vec::new(),
            extra: None,
            fence: Fence::new(0, 0),
        };
        let head_start = HeadStart::new(Duration::from_millis(head_start)).unwrap();
        Start {
            state: Arc::new(RunState::new(&claimed, Slot::Thread, None, head_start)),
            payload: Vec::new(),
            turn: None,
        }
    }

    fn queue(starts: Vec<Start>) -> RunQueue {
        let queue = RunQueue::new(None);
        queue.push(starts);
        queue
    }

    fn id(taken: Result<Entry, Option<Millis>>) -> Option<u128> {
        match taken.ok()? {
            Entry::Job(start) => Some(start.state.id.to_u128()),
            Entry::WaitOver(_) => None,
        }
    }

    /// Takes every job that is due, and returns their ids.
    fn take_all(queue: &RunQueue, now: i64) -> Vec<u128> {
        std::iter::from_fn(|| id(queue.take_due(Millis::clamped(now)))).collect()
    }

    /// P27: Of the due jobs, one with a head start passes those that became due within it before. A job that is not due
    /// stays, however long its head start, and holds back none that is due.
    #[test]
    fn due_jobs_start_by_rank_and_none_starts_early() {
        let starts = || vec![start(1, 10, 0), start(2, 40, 0), start(3, 60, 30), start(4, 90, 80)];
        let urgent = queue(starts());
        assert_eq!(take_all(&urgent, 89), [1, 3, 2]);
        assert_eq!((take_all(&urgent, 89), urgent.next_due()), (vec![], Some(Millis::clamped(90))));
        assert_eq!(take_all(&urgent, 90), [4]);
        assert_eq!(take_all(&queue(starts()), 90), [1, 4, 3, 2]);
        assert_eq!((urgent.next_due(), urgent.take_due(Millis::MAX).err()), (None, Some(None)));
    }

    /// P27: A job that comes later is ordered with those that wait, also after the last job with a head start was
    /// taken.
    #[test]
    fn job_that_comes_later_is_ordered_with_the_others() {
        let queue = queue(vec![start(1, 20, 0), start(2, 30, 0), start(3, 40, 40)]);
        assert_eq!(id(queue.take_due(Millis::clamped(50))), Some(3));
        queue.push(vec![start(4, 10, 0), start(5, 25, 0)]);
        assert_eq!(take_all(&queue, 50), [4, 1, 5, 2]);
    }

    /// P26: Jobs with a partition start in the order of their turns, each between the jobs that became due before and
    /// after.
    #[test]
    fn jobs_with_a_partition_start_in_the_order_of_their_turns() {
        let in_turn = |id, due, number| {
            let turn = Some(LaneTurn { due: Millis::clamped(due), number });
            Start { turn, ..start(id, 1, 0) }
        };
        let starts = [in_turn(9, 20, 1), in_turn(2, 20, 2), in_turn(1, 30, 3), start(5, 10, 0)];
        let queue = queue(starts.into_iter().chain([start(7, 25, 0)]).collect());
        assert_eq!(take_all(&queue, 50), [5, 9, 2, 7, 1]);
    }

    /// P8: If the clock is set back, a job that is due does not wait for the old time of its turn.
    #[test]
    fn clock_set_back_moves_the_turns() {
        let in_turn = |id, due, number| {
            let turn = Some(LaneTurn { due: Millis::clamped(100), number });
            Start { turn, ..start(id, due, 0) }
        };
        let queue = queue(vec![start(3, 99, 0), in_turn(1, 100, 1), in_turn(2, 10, 2)]);
        assert_eq!(take_all(&queue, 99), [3]);
        assert_eq!(take_all(&queue, 60), [2]);
        assert_eq!(take_all(&queue, 100), [1]);
        // The same with a head start, after which the jobs that were due stand in another heap.
        queue.push(vec![start(4, 50, 0), start(5, 99, 60), in_turn(6, 10, 3)]);
        assert_eq!(take_all(&queue, 60), [4, 6]);
        assert_eq!(take_all(&queue, 100), [5]);
    }

    /// P27: If the clock is set back, a job that was due waits until it is due again.
    #[test]
    fn clock_set_back_delays_the_jobs_that_were_due() {
        let queue = queue(vec![start(1, 20, 0), start(2, 60, 50), start(3, 70, 0)]);
        // All are due, and move to the other heap; then the clock is set back.
        queue.push(vec![start(4, 5, 0)]);
        assert_eq!(id(queue.take_due(Millis::clamped(80))), Some(4));
        assert_eq!(take_all(&queue, 30), [1]);
        assert_eq!(queue.take_due(Millis::clamped(30)).err(), Some(Some(Millis::clamped(60))));
        assert_eq!(take_all(&queue, 80), [2, 3]);
    }
}
