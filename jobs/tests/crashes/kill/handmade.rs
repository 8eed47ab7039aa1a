//! Logs that are written by hand, for the tests of the rules.

use std::collections::BTreeSet;

use super::checker::check;
use super::child::named;
use super::record::{
    Answer, Event, FileEnd, How, Level, Look, Mode, Record, Seen, Start, Tag, Verb,
};

/// A log that is written by hand. Each record comes a millisecond after the one before.
pub(crate) struct Log {
    pub(crate) events: Vec<Event>,
    pub(crate) end: FileEnd,
    life: u32,
    /// In milliseconds since 1970.
    pub(crate) now: u64,
    calls: u64,
}

pub(crate) const BEGINNING: u64 = 1_000_000;

impl Log {
    /// A log in which a child has begun.
    pub(crate) fn new(level: Level) -> Log {
        let mut log =
            Log { events: Vec::new(), end: FileEnd::default(), life: 0, now: BEGINNING, calls: 0 };
        log.born(level);
        log
    }

    pub(crate) fn add(&mut self, record: Record) {
        self.now += 1;
        self.events.push(Event { stamp: self.now * 1000, life: self.life, record });
    }

    pub(crate) fn at(&self) -> u64 {
        (self.now + 1) * 1000
    }

    pub(crate) fn born(&mut self, level: Level) {
        self.life += 1;
        self.add(Record::Born);
        self.add(Record::Ready { at: self.at(), level });
    }

    pub(crate) fn killed(&mut self) {
        self.add(Record::Gone { by: "signal: 9".to_owned() });
    }

    /// The child is killed, and another one begins.
    pub(crate) fn again(&mut self) {
        self.killed();
        self.born(Level::Synced);
    }

    pub(crate) fn closed(&mut self) {
        self.add(Record::Closed);
        self.add(Record::Gone { by: "exit status: 0".to_owned() });
    }

    pub(crate) fn call(&mut self, verb: Verb) {
        self.calls += 1;
        self.add(Record::Call { n: self.calls, at: self.at(), verb });
    }

    pub(crate) fn answer(&mut self, answer: Answer) {
        self.add(Record::Answer { n: self.calls, at: self.at(), answer });
    }

    pub(crate) fn asked(&mut self, verb: Verb, answer: Answer) {
        self.call(verb);
        self.answer(answer);
    }

    pub(crate) fn insert(&mut self, tag: Tag, due: u64) {
        self.asked(Verb::Insert { tag, due }, ids(tag, 1));
    }

    pub(crate) fn keyed(&mut self, tag: Tag, due: u64) {
        self.asked(Verb::Keyed { key: 7, tag, due, mode: Mode::Replace }, ids(tag, 1));
    }

    pub(crate) fn start(&mut self, tag: Tag, due: u64, fence: u64) {
        self.now = self.now.max(due);
        self.start_now(tag, due, fence, fence as u32);
    }

    pub(crate) fn start_now(&mut self, tag: Tag, due: u64, fence: u64, attempt: u32) {
        let late = self.at().saturating_sub(due * 1000);
        let (at, id) = (self.at(), named(tag));
        self.add(Record::Start(Start { at, tag, id, fence, attempt, due, late }));
    }

    pub(crate) fn ended(&mut self, tag: Tag, fence: u64, how: How) {
        self.add(Record::End { at: self.at(), tag, fence, how });
    }

    pub(crate) fn run(&mut self, tag: Tag, due: u64, fence: u64) {
        self.start(tag, due, fence);
        self.ended(tag, fence, How::Done);
    }

    pub(crate) fn looked(&mut self, jobs: Vec<Seen>) {
        self.add(Record::Looked(Look { violation: None, same: true, jobs }));
    }

    pub(crate) fn has_dropped(&self) -> bool {
        self.events.iter().any(|event| matches!(event.record, Record::Dropped))
    }

    /// Returns the rules that do not hold.
    pub(crate) fn broken(&self) -> BTreeSet<&'static str> {
        check(&self.events, &self.end).into_iter().map(|found| found.rule).collect()
    }
}

pub(crate) fn ids(first: Tag, count: u64) -> Answer {
    Answer::Ids((first..first + count).map(named).collect())
}

pub(crate) fn seen(tag: Tag, key: Option<&str>) -> Seen {
    Seen {
        tag,
        id: named(tag),
        due: BEGINNING,
        dead: false,
        key: key.map(str::to_owned),
        failures: 0,
        interruptions: 0,
    }
}

pub(crate) fn dead(tag: Tag, interruptions: u32) -> Seen {
    Seen { dead: true, interruptions, ..seen(tag, None) }
}

pub(crate) const DUE: u64 = BEGINNING + 50;
