//! Logs that are written by hand, as a line of text each, for the tests of the rules.
//!
//! A log is steps with `;` between them. A child has begun before the first one, unless that is `born`. Each record
//! comes a millisecond after the one before.
//!
//! | step | what it adds |
//! | --- | --- |
//! | `insert 1`, `senseless 1`, `keyed 1`, `batch 1 +3`, `expiring 1 =90` | a call: the job 1, or three jobs from 1 on |
//! | `cancel 1`, `get 1`, `reschedule 1 @90`, `cancel-key`, `flush` | a call on a job, or on the only key |
//! | `schedule`, `unschedule`, `flush to 3900` | a call about the schedule; a flush each 100 ms |
//! | `start 1 #2 x1`, `begin 1`, `end 1 #2 failed`, `run 1`, `told 1` | a run: it starts when the job is due, or now; it ends; both; it is told to stop |
//! | `set 1 #2 p5`, `stored 1 #2 p5`, `start 1 p5` | the run sets its progress; the store has answered that it is stored; the run finds this progress |
//! | `tick 100 to 300` | runs of the occurrences at these times |
//! | `schedule alone`, `start alone 100 #2`, `run alone 100` | the schedule without overlap; runs of its occurrence at this time |
//! | `born written`, `gone`, `again`, `ending`, `close`, `closed`, `drop` | a child begins, ends, or both; its jobs end |
//! | `look 1 2/7`, `look changed`, `look wrong`, `dead 1 i5 f1`, `left claim` | what is seen in the file, with keys; what is there in the end |
//! | `up`, `down`, `stop`, `go-on`, `stall 300`, `denied half`, `allowed half` | what happens to the server, a node, a right |
//! | `named 1`, `foreign job 1`, `unreadable job 1`, `aside job 1`, `renamed` | a lost insert is named; what is written by hand, reported, set aside; the last start has another id |
//! | `until 50`, `wait 400` | no record: time passes |
//!
//! `#2` is the fence (1 if it is absent), `x1` the attempt (if it is absent, the fence), `@90` the due time in
//! milliseconds since the beginning ([`DUE`] if it is absent), `@retry` and `@later` are the waits of a failure, from
//! now. `-> gone` is the answer of a call, and `-> nothing` says that it has none.

use tickwheel_jobs::JobId;

use crate::deaths::child::{WITHOUT_OVERLAP, named};
use crate::deaths::record::{
    Answer, Event, FileEnd, How, LATER_MS, Level, Look, Mode, RETRY_MS, Record, Seen, Start, Tag,
    Verb, occurrence,
};

/// A log, and what is left in the end.
pub(crate) struct Log {
    pub(crate) events: Vec<Event>,
    pub(crate) end: FileEnd,
    life: u32,
    /// In milliseconds since 1970.
    now: u64,
    calls: u64,
}

const BEGINNING: u64 = 1_000_000;
/// When a job is due, after the beginning.
const DUE: u64 = 50;
const KEY: u32 = 7;
const SCHEDULE: u32 = 1;
const PERIOD: u64 = 100;

/// The words of steps that are no numbers.
const WORDS: [&str; 22] = [
    "@later", "@retry", "alone", "are", "buffered", "bytes", "changed", "claim", "due", "failed",
    "half", "job", "jobs", "later", "log", "snoozed", "synced", "that", "the", "to", "written",
    "wrong",
];

/// A step: its name, the words behind it, and the answer.
struct Step<'a> {
    name: &'a str,
    words: Vec<&'a str>,
    answer: Option<&'a str>,
}

impl<'a> Step<'a> {
    fn read(text: &'a str) -> Step<'a> {
        let (step, answer) = match text.split_once(" -> ") {
            Some((step, answer)) => (step, Some(answer)),
            None => (text, None),
        };
        let mut words = step.split_whitespace();
        let name = words.next().expect("a step has a name");
        let words: Vec<&str> = words.collect();
        for word in &words {
            let mut numbers =
                word.trim_start_matches(['#', 'x', '@', '+', '=', 'i', 'f', 'p']).split('/');
            let is_number = numbers.all(|number| number.parse::<u64>().is_ok());
            assert!(is_number || WORDS.contains(word), "no step has the word {word:?}: {text}");
        }
        Step { name, words, answer }
    }

    /// Returns the number behind this sign.
    fn number(&self, sign: char) -> Option<u64> {
        self.words.iter().find_map(|word| word.strip_prefix(sign)?.parse().ok())
    }

    fn has(&self, word: &str) -> bool {
        self.words.contains(&word)
    }

    /// Returns the last number.
    fn last(&self) -> u64 {
        self.words.iter().rev().find_map(|word| word.parse().ok()).unwrap_or(0)
    }

    fn level(&self) -> Level {
        match self.words.first() {
            Some(&"buffered") => Level::Buffered,
            Some(&"written") => Level::Written,
            _ => Level::Synced,
        }
    }

    fn how(&self) -> How {
        match self.words.last() {
            Some(&"failed") => How::Failed,
            Some(&"later") => How::Later,
            Some(&"snoozed") => How::Snoozed,
            _ => How::Done,
        }
    }

    fn look(&self) -> Look {
        let seen = |word: &&str| {
            let (tag, key) =
                word.split_once('/').map_or((*word, None), |(tag, key)| (tag, Some(key)));
            tag.parse().ok().map(|tag| seen(tag, key))
        };
        Look {
            violation: self.has("wrong").then(|| "F5: keys of no job".to_owned()),
            same: !self.has("changed"),
            jobs: self.words.iter().filter_map(seen).collect(),
        }
    }
}

impl Log {
    pub(crate) fn read(text: &str) -> Log {
        let (events, end) = (Vec::new(), FileEnd::default());
        let mut log = Log { events, end, life: 0, now: BEGINNING, calls: 0 };
        if !text.starts_with("born") {
            log.step("born");
        }
        text.split(';').map(str::trim).for_each(|step| log.step(step));
        log
    }

    fn at(&self) -> u64 {
        (self.now + 1) * 1000
    }

    fn add(&mut self, record: Record) {
        self.now += 1;
        self.events.push(Event { stamp: self.now * 1000, life: self.life, record });
    }

    /// A step that is made of others, or that adds no record.
    fn step(&mut self, text: &str) {
        let step = Step::read(text);
        let (first, last) = (step.words.iter().find_map(|word| word.parse().ok()), step.last());
        let mut first = first.unwrap_or(0);
        if step.has("alone") {
            first = occurrence(WITHOUT_OVERLAP, BEGINNING + first);
        }
        match step.name {
            "born" => {
                self.life += 1;
                self.add(Record::Born);
                self.add(Record::Ready { at: self.at(), level: step.level() });
            }
            "again" => ["gone", "born"].iter().for_each(|step| self.step(step)),
            "closed" => ["close", "gone"].iter().for_each(|step| self.step(step)),
            "flush" if step.has("to") => {
                for time in (PERIOD..=last).step_by(PERIOD as usize) {
                    self.step(&format!("until {time}"));
                    self.step("flush");
                }
            }
            "tick" => {
                for time in (first..=last).step_by(PERIOD as usize) {
                    let tag = occurrence(SCHEDULE, BEGINNING + time);
                    self.step(&format!("run {tag} @{time}"));
                }
            }
            "run" => {
                self.step(&text.replacen("run", "start", 1));
                self.step(&text.replacen("run", "end", 1));
            }
            "until" => self.now = self.now.max(BEGINNING + first),
            "wait" => self.now += first,
            "dead" => {
                let count = |sign| step.number(sign).unwrap_or(0) as u32;
                let (failures, interruptions) = (count('f'), count('i'));
                self.end.jobs.push(Seen {
                    dead: true,
                    failures,
                    interruptions,
                    ..seen(first, None)
                });
            }
            "left" => match step.words[0] {
                "bytes" => self.end.bytes = 50 << 20,
                "log" => self.end.log_bytes = 1,
                table => self.end.rows.push((table.to_owned(), 1)),
            },
            "renamed" => {
                let starts =
                    self.events.iter_mut().rev().find_map(|event| match &mut event.record {
                        Record::Start(start) => Some(start),
                        _ => None,
                    });
                starts.expect("a run has started").id = JobId::named("another");
            }
            _ if self.call(&step, first) => {}
            _ => {
                assert!(step.answer.is_none(), "only a call has an answer: {text}");
                let record = self.record(&step, first);
                self.add(record);
            }
        }
    }

    /// Returns the due time of a step.
    fn due(&self, step: &Step<'_>) -> u64 {
        match step.number('@') {
            Some(ms) => BEGINNING + ms,
            None if step.has("@retry") => self.now + RETRY_MS,
            None if step.has("@later") => self.now + LATER_MS,
            None if step.has("alone") => BEGINNING + step.last(),
            None => BEGINNING + DUE,
        }
    }

    /// Adds a call and its answer, if the step is a call.
    fn call(&mut self, step: &Step<'_>, tag: Tag) -> bool {
        let (due, count) = (self.due(step), step.number('+').unwrap_or(1));
        let ids = Answer::Ids((tag..tag + count).map(named).collect());
        let (name, key) = (if step.has("alone") { WITHOUT_OVERLAP } else { SCHEDULE }, KEY);
        let (verb, usual) = match step.name {
            "insert" => (Verb::Insert { tag, due }, ids),
            "senseless" => (Verb::Senseless { tag, due }, ids),
            "expiring" => {
                let expires = BEGINNING + step.number('=').expect("an expiry");
                (Verb::Expiring { tag, due, expires }, ids)
            }
            "batch" => (Verb::Batch { first: tag, count, due }, ids),
            "keyed" => (Verb::Keyed { key, tag, due, mode: Mode::Replace }, ids),
            "cancel" => (Verb::Cancel { tag }, Answer::Cancelled),
            "cancel-key" => (Verb::CancelKey { key }, Answer::Done(true)),
            "reschedule" => (Verb::Reschedule { tag, due }, Answer::Done(true)),
            "get" => (Verb::Get { tag }, Answer::Pending),
            "schedule" => (Verb::Schedule { name, period: PERIOD }, Answer::Done(true)),
            "unschedule" => (Verb::Unschedule { name }, Answer::Done(true)),
            "flush" => (Verb::Flush, Answer::Done(true)),
            _ => return false,
        };
        self.calls += 1;
        let n = self.calls;
        self.add(Record::Call { n, at: self.at(), verb });
        let answer = match step.answer {
            None => usual,
            Some("nothing") => return true,
            Some("refused") => Answer::Refused("the jobs are shut down".to_owned()),
            Some("gone") => Answer::Gone,
            Some("running") => Answer::Running,
            Some("unknown") => Answer::Unknown,
            Some(other) => panic!("no answer is called {other}"),
        };
        self.add(Record::Answer { n, at: self.at(), answer });
        true
    }

    /// Returns the record of a step that has one.
    fn record(&mut self, step: &Step<'_>, tag: Tag) -> Record {
        let (fence, half_done) = (step.number('#').unwrap_or(1), step.has("half"));
        let (due, what) = (self.due(step), step.words.join(" "));
        match step.name {
            "start" => self.now = self.now.max(due),
            "stall" => self.now += tag,
            _ => {}
        }
        let at = self.at();
        match step.name {
            "start" | "begin" => {
                let attempt = step.number('x').unwrap_or(fence) as u32;
                let late = at.saturating_sub(due * 1000);
                let (id, left) = (named(tag), step.number('p'));
                Record::Start(Start { at, tag, id, fence, attempt, due, late, left })
            }
            "set" | "stored" => {
                let (n, is_stored) = (step.number('p').unwrap_or(0), step.name == "stored");
                Record::Progress { at, tag, fence, n, is_stored }
            }
            "end" => Record::End { at, tag, fence, how: step.how() },
            "told" => Record::Told { at, tag, fence },
            "gone" => Record::Gone { by: "signal: 9".to_owned() },
            "ending" => Record::Ending { at },
            "close" => Record::Closed,
            "drop" => Record::Dropped,
            "look" => Record::Looked(step.look()),
            "up" | "down" => Record::Server { is_up: step.name == "up" },
            "stop" | "go-on" => Record::Stopped { is_stopped: step.name == "stop" },
            "stall" => Record::Stalled { from: at - tag * 1000, to: at },
            "denied" | "allowed" => Record::Rights { is_denied: step.name == "denied", half_done },
            "named" => Record::InsertsLost { ids: vec![named(tag)] },
            "foreign" => Record::Foreign { what },
            "unreadable" => Record::Unreadable { what },
            "aside" => Record::SetAside {
                what: Some(what).filter(|it| !it.is_empty()).into_iter().collect(),
            },
            other => panic!("no step is called {other}"),
        }
    }
}

fn seen(tag: Tag, key: Option<&str>) -> Seen {
    let (id, due, key) = (named(tag), BEGINNING, key.map(str::to_owned));
    Seen { tag, id, due, dead: false, key, failures: 0, interruptions: 0 }
}
