//! The log of a story, as the checker wants it: calls with their answers, jobs with their runs.

use std::collections::{BTreeMap, BTreeSet};

use tickwheel_jobs::JobId;

use super::record::{
    Answer, End, Event, FileEnd, How, Level, Look, Mode, Progress, Record, Seen, Start, Tag, Verb,
};

/// The time, in microseconds, after which a child has made the occurrences that were missed before it.
const SETTLED_US: u64 = 250_000;

pub(crate) struct History<'a> {
    pub(crate) calls: Vec<Call<'a>>,
    pub(crate) jobs: BTreeMap<Tag, JobHistory>,
    pub(crate) lives: BTreeMap<u32, Life>,
    /// Each look at the file, and where in the log it was.
    pub(crate) looks: Vec<(usize, &'a Look)>,
    pub(crate) failures: Vec<&'a str>,
    /// When a child acted, in the order of time, with the beginning and the end of the log around it. The acts of the
    /// last [`SETTLED_US`] of a child are left out: a child that was killed so early may have started a job and not yet
    /// made the occurrences that were missed.
    pub(crate) signs: Vec<u64>,
    /// The jobs that were inserted without waiting, and that an event named as lost.
    pub(crate) inserts_lost: BTreeSet<JobId>,
    /// What was written by hand, what events said that cannot be read, and what is set aside in the end.
    pub(crate) foreign: BTreeSet<&'a str>,
    pub(crate) unreadable: Vec<&'a str>,
    pub(crate) set_aside: Option<&'a [String]>,
    /// When a right was missing: from, to, and whether a script may have ended in its midst.
    pub(crate) denials: Vec<(u64, u64, bool)>,
    /// When the server was killed, and when it answered again; none of a file.
    pub(crate) away: Vec<(u64, u64)>,
    /// The store is a server, which several children share.
    pub(crate) is_shared: bool,
    pub(crate) end: &'a FileEnd,
}

pub(crate) struct Call<'a> {
    pub(crate) life: u32,
    pub(crate) verb: &'a Verb,
    /// Where in the log it was made.
    pub(crate) place: usize,
    pub(crate) at: u64,
    pub(crate) answer: Option<Answered<'a>>,
}

pub(crate) struct Answered<'a> {
    pub(crate) place: usize,
    pub(crate) at: u64,
    pub(crate) answer: &'a Answer,
}

#[derive(Default)]
pub(crate) struct JobHistory {
    /// The calls that insert it: several, if the id is the caller's.
    pub(crate) inserts: Vec<usize>,
    /// Cancels, resets and gets.
    pub(crate) calls: Vec<usize>,
    pub(crate) starts: Vec<(usize, u32, Start)>,
    pub(crate) ends: Vec<(usize, u32, End)>,
    /// The progress that its runs have set, in the order of the log.
    pub(crate) progress: Vec<Progress>,
    /// Runs that were told to stop: where, in which life, when, and the fence.
    pub(crate) told: Vec<(usize, u32, u64, u64)>,
    /// In the file, at which place of the log.
    pub(crate) seen: Vec<usize>,
    pub(crate) dead: Option<Seen>,
    pub(crate) key: Option<u32>,
}

#[derive(Clone, Default)]
pub(crate) struct Life {
    pub(crate) born: u64,
    pub(crate) ready: Option<(u64, u64)>,
    pub(crate) level: Option<Level>,
    /// It was shut down, and ended by itself.
    pub(crate) closed: bool,
    /// Its jobs were dropped, or shut down while runs were under way.
    pub(crate) dropped: bool,
    /// Where and when the end of its jobs began, and where it was over.
    pub(crate) ending: Option<(usize, u64)>,
    pub(crate) ended: Option<usize>,
    pub(crate) gone: usize,
    pub(crate) gone_at: u64,
    /// When it was stopped, and when it went on.
    pub(crate) stops: Vec<(u64, u64)>,
    /// The places of flushes that were answered.
    flushes: Vec<usize>,
}

impl<'a> History<'a> {
    pub(crate) fn new(log: &'a [Event], end: &'a FileEnd) -> History<'a> {
        let mut history = History {
            calls: Vec::new(),
            jobs: BTreeMap::new(),
            lives: BTreeMap::new(),
            looks: Vec::new(),
            failures: Vec::new(),
            signs: Vec::new(),
            inserts_lost: BTreeSet::new(),
            foreign: BTreeSet::new(),
            unreadable: Vec::new(),
            set_aside: None,
            denials: Vec::new(),
            away: Vec::new(),
            is_shared: false,
            end,
        };
        let (mut numbers, mut acts) = (BTreeMap::new(), BTreeMap::new());
        for (place, event) in log.iter().enumerate() {
            history.take(place, event, &mut numbers, &mut acts);
        }
        for acts in acts.into_values() {
            let last = acts.iter().copied().max().unwrap_or(0);
            history.signs.extend(acts.into_iter().filter(|at| at + SETTLED_US <= last));
        }
        history.signs.extend(log.first().into_iter().chain(log.last()).map(|event| event.stamp));
        history.signs.sort_unstable();
        for seen in &end.jobs {
            let job = history.jobs.entry(seen.tag).or_default();
            job.seen.push(log.len());
            job.dead = seen.dead.then(|| seen.clone());
        }
        history
    }

    /// `acts`: when each child acted.
    fn take(
        &mut self,
        place: usize,
        event: &'a Event,
        numbers: &mut BTreeMap<u64, usize>,
        acts: &mut BTreeMap<u32, Vec<u64>>,
    ) {
        if let Record::Server { is_up } = event.record {
            self.is_shared = true;
            turn(&mut self.away, !is_up, event.stamp);
            return;
        }
        let life = self.lives.entry(event.life).or_default();
        match &event.record {
            Record::Born => life.born = event.stamp,
            Record::Ready { at, level } => {
                life.ready = Some((*at, event.stamp));
                life.level = Some(*level);
            }
            Record::Call { n, at, verb } => {
                numbers.insert(*n, self.calls.len());
                self.note_call(verb);
                let life = event.life;
                self.calls.push(Call { life, verb, place, at: *at, answer: None });
            }
            Record::Answer { n, at, answer } => {
                let Some(call) = numbers.get(n).and_then(|&call| self.calls.get_mut(call)) else {
                    return;
                };
                if *call.verb == Verb::Flush && *answer == Answer::Done(true) {
                    life.flushes.push(call.place);
                }
                call.answer = Some(Answered { place, at: *at, answer });
                // Jobs that end refuse calls, and make no occurrences any more.
                if !call.is_refused() {
                    acts.entry(event.life).or_default().push(*at);
                }
            }
            Record::Start(start) => {
                acts.entry(event.life).or_default().push(start.at);
                let job = self.jobs.entry(start.tag).or_default();
                job.starts.push((place, event.life, *start));
            }
            Record::End { at, tag, fence, how } => {
                let end = End { at: *at, fence: *fence, how: *how };
                let job = self.jobs.entry(*tag).or_default();
                job.ends.push((place, event.life, end));
            }
            Record::Progress { tag, fence, n, is_stored, .. } => {
                let (fence, n, is_stored) = (*fence, *n, *is_stored);
                let job = self.jobs.entry(*tag).or_default();
                job.progress.push(Progress { place, fence, n, is_stored });
            }
            Record::Failed { text } => self.failures.push(text),
            Record::Ending { at } => life.ending = Some((place, *at)),
            Record::Closed => (life.closed, life.ended) = (true, Some(place)),
            Record::Dropped => (life.dropped, life.ended) = (true, Some(place)),
            Record::Told { at, tag, fence } => {
                let job = self.jobs.entry(*tag).or_default();
                job.told.push((place, event.life, *at, *fence));
            }
            Record::InsertsLost { ids } => self.inserts_lost.extend(ids),
            Record::Unreadable { what } => self.unreadable.push(what),
            Record::Foreign { what } => drop(self.foreign.insert(what)),
            Record::SetAside { what } => self.set_aside = Some(what),
            Record::Rights { is_denied: true, half_done } => {
                self.denials.push((event.stamp, u64::MAX, *half_done));
            }
            Record::Rights { .. } => {
                if let Some((_, to, _)) = self.denials.last_mut() {
                    *to = event.stamp;
                }
            }
            Record::Stalled { from, to } => life.stops.push((*from, *to)),
            Record::Gone { .. } => (life.gone, life.gone_at) = (place, event.stamp),
            Record::Stopped { is_stopped } => turn(&mut life.stops, *is_stopped, event.stamp),
            Record::Looked(look) => {
                self.looks.push((place, look));
                for seen in &look.jobs {
                    self.jobs.entry(seen.tag).or_default().seen.push(place);
                }
            }
            Record::Dying { .. } | Record::Server { .. } => {}
        }
    }

    fn note_call(&mut self, verb: &Verb) {
        let n = self.calls.len();
        for tag in verb.inserts().map(|(tags, _)| tags).unwrap_or_default() {
            self.jobs.entry(tag).or_default().inserts.push(n);
        }
        match *verb {
            Verb::Keyed { key, tag, .. } => self.jobs.entry(tag).or_default().key = Some(key),
            Verb::Cancel { tag } | Verb::Reschedule { tag, .. } | Verb::Get { tag } => {
                self.jobs.entry(tag).or_default().calls.push(n);
            }
            _ => {}
        }
    }

    /// Says whether the insert was answered, and the answer holds through the end of the process.
    pub(crate) fn was_said(&self, call: &Call<'_>) -> bool {
        let Some(answered) = call.answer.as_ref().filter(|answered| answered.is_ids()) else {
            return false;
        };
        let life = &self.lives[&call.life];
        let is_cancelled = |ids: &[JobId]| ids.iter().any(|id| self.inserts_lost.contains(id));
        life.level != Some(Level::Buffered)
            || (life.closed || life.dropped && !self.is_shared)
                && !matches!(answered.answer, Answer::Ids(ids) if is_cancelled(ids))
            || life.flushes.iter().any(|&flush| flush > answered.place)
    }

    /// Returns each place at which the job was said to be stored, and the level.
    fn all_said(&self, job: &JobHistory) -> impl Iterator<Item = (usize, Option<Level>)> {
        let inserts = job.inserts.iter().map(|&n| &self.calls[n]);
        let said = inserts.filter(|call| self.was_said(call));
        said.filter_map(|call| Some((call.answer.as_ref()?.place, self.lives[&call.life].level)))
    }

    /// Returns the first place at which the job was said to be stored.
    pub(crate) fn said(&self, job: &JobHistory) -> Option<usize> {
        self.all_said(job).map(|(place, _)| place).min()
    }

    /// Returns the level at which the job was said to be stored, before this place.
    pub(crate) fn said_before(&self, job: &JobHistory, before: usize) -> Option<Level> {
        self.all_said(job).find(|(place, _)| *place < before).and_then(|(_, level)| level)
    }

    /// Returns what is known of each call on the job.
    pub(crate) fn calls_on<'b>(
        &'b self,
        job: &'b JobHistory,
    ) -> impl Iterator<Item = &'b Call<'a>> + 'b {
        job.calls.iter().map(|&n| &self.calls[n])
    }

    /// Returns the place of the first call that inserts the job.
    pub(crate) fn first_insert(&self, job: &JobHistory) -> usize {
        job.inserts.iter().map(|&n| self.calls[n].place).min().unwrap_or(0)
    }

    /// Says whether the job is one that its handler cannot decode.
    pub(crate) fn is_senseless(&self, job: &JobHistory) -> bool {
        job.inserts.iter().any(|&n| matches!(self.calls[n].verb, Verb::Senseless { .. }))
    }

    /// Returns the expiry of the job, in milliseconds since 1970.
    pub(crate) fn expires(&self, job: &JobHistory) -> Option<u64> {
        job.inserts.iter().find_map(|&n| match self.calls[n].verb {
            Verb::Expiring { expires, .. } => Some(*expires),
            _ => None,
        })
    }

    /// Says whether something may have removed the job that was asked for before this place.
    pub(crate) fn may_be_removed(&self, tag: Tag, job: &JobHistory, before: usize) -> bool {
        let cancel = |call: &Call<'_>| {
            call.is_cancel()
                && call.place < before
                && !call.is_answered(&Answer::Gone)
                && !call.is_refused()
        };
        let first = self.first_insert(job);
        let by_key = |call: &Call<'_>| {
            let after = call.place > first && call.place < before;
            after
                && match call.verb {
                    Verb::CancelKey { key } => {
                        Some(*key) == job.key
                            && !call.is_answered(&Answer::Done(false))
                            && !call.is_refused()
                    }
                    Verb::Keyed { key, tag: other, mode, .. } => {
                        Some(*key) == job.key
                            && *other != tag
                            && *mode != Mode::Absent
                            && !call.is_refused()
                    }
                    _ => false,
                }
        };
        self.calls_on(job).any(cancel) || job.key.is_some() && self.calls.iter().any(by_key)
    }

    /// Says whether the job has ever been in the file.
    pub(crate) fn existed(&self, job: &JobHistory) -> bool {
        let found = [Answer::Cancelled, Answer::Running, Answer::Pending, Answer::Dead];
        let found = |call: &Call<'_>| found.iter().any(|answer| call.is_answered(answer));
        !job.starts.is_empty() || !job.seen.is_empty() || self.calls_on(job).any(found)
    }

    /// Returns the times that the job may have been given by inserts.
    pub(crate) fn dues(&self, job: &JobHistory) -> Vec<u64> {
        let due = |&n: &usize| self.calls[n].verb.inserts().map(|(_, due)| due);
        job.inserts.iter().filter_map(due).collect()
    }

    /// Returns how many children ended between two places without a shutdown.
    pub(crate) fn kills_between(&self, from: usize, to: usize) -> usize {
        let killed =
            |life: &&Life| !life.closed && life.gone_at != 0 && (from..to).contains(&life.gone);
        self.lives.values().filter(killed).count()
    }
}

/// Begins a span of time, or ends the last one.
fn turn(spans: &mut Vec<(u64, u64)>, begins: bool, at: u64) {
    match spans.last_mut() {
        _ if begins => spans.push((at, u64::MAX)),
        Some((_, to)) => *to = at,
        None => {}
    }
}

impl JobHistory {
    /// Returns the end of the run that started so.
    pub(crate) fn end_of(&self, start: &Start) -> Option<&(usize, u32, End)> {
        self.ends.iter().find(|(.., end)| end.fence == start.fence)
    }

    /// Says whether a run of it has ended well.
    pub(crate) fn is_done(&self) -> bool {
        self.ends.iter().any(|(.., end)| end.how == How::Done)
    }

    /// Returns when the run that started so was told to stop.
    pub(crate) fn told_at(&self, start: &Start) -> Option<u64> {
        self.told.iter().find(|(.., fence)| *fence == start.fence).map(|(_, _, at, _)| *at)
    }
}

impl Life {
    /// Says whether its jobs ended without waiting for every run, or it was killed when they were about to end.
    pub(crate) fn gives_up(&self) -> bool {
        self.ending.is_some() && !self.closed
    }
}

impl Call<'_> {
    pub(crate) fn is_cancel(&self) -> bool {
        matches!(self.verb, Verb::Cancel { .. })
    }

    pub(crate) fn is_answered(&self, with: &Answer) -> bool {
        self.answer.as_ref().is_some_and(|answered| answered.answer == with)
    }

    /// The call was answered, and has left nothing behind.
    pub(crate) fn is_refused(&self) -> bool {
        let refused = |answer: &Answer| matches!(answer, Answer::Refused(_) | Answer::Occupied);
        self.answer.as_ref().is_some_and(|answered| refused(answered.answer))
    }
}

impl Answered<'_> {
    pub(crate) fn is_ids(&self) -> bool {
        matches!(self.answer, Answer::Ids(_))
    }
}
