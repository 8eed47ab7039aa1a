//! The history as the stores keep it: a few figures by kind and minute, written with the commit that they count.
//!
//! The figures say how often each event happened, and how late and how long runs were. A row has a key and a value,
//! both bytes:
//!
//! | key | value |
//! | --- | --- |
//! | `m`, hour, kind | the minutes of an hour |
//! | `h`, day, kind | the hours of a day |
//! | `i`, kind | the hours and days of which the kind has rows |
//! | `k` | the kinds that have rows |
//! | `w` | the hour in which the store last looked for a kind that needs no rows any more |
//!
//! Ground rules:
//!
//! - An event is in one row: in its minute or, after 48 hours, in its hour. So a sum over all
//!   rows counts nothing twice.
//! - Old rows are folded and removed when a kind gets a row for a new hour. A queue in which nothing happens writes
//!   nothing.
//! - A value that cannot be read counts as far as it can be read. A history never makes a commit fail.
//! - `scripts/history.lua` does the same on a Redis server, with the same numbers and the same bytes, in any order of
//!   the figures.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::values::error::StoreError;
use crate::values::history::{Buckets, HistoryEntry, MOST_KINDS, OTHER};
use crate::values::run_end::Outcome;
use crate::values::time::Millis;

const BUCKETS: usize = Buckets::BOUNDS.len() + 1;

/// The events that are counted. In [`Figures`] the buckets of lateness follow them, and then those of run time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Figure {
    Inserted,
    Completed,
    Retried,
    Snoozed,
    Dead,
    Cancelled,
    Interrupted,
    Expired,
}

impl Figure {
    /// Returns the figure that counts a run which ends so.
    pub(crate) fn of(outcome: Outcome) -> Figure {
        match outcome {
            Outcome::Completed => Figure::Completed,
            Outcome::Retried => Figure::Retried,
            Outcome::Snoozed => Figure::Snoozed,
            Outcome::Dead => Figure::Dead,
            Outcome::Cancelled => Figure::Cancelled,
            Outcome::Interrupted => Figure::Interrupted,
            Outcome::Expired => Figure::Expired,
        }
    }
}

pub(super) const EVENTS: usize = Figure::Expired as usize + 1;
const FIGURES: usize = EVENTS + 2 * BUCKETS;

/// In which buckets a run is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct RunBuckets {
    pub(crate) late: u8,
    pub(crate) took: u8,
}

impl RunBuckets {
    /// The claim has ended without a run.
    pub(crate) const NO_RUN: RunBuckets = RunBuckets { late: u8::MAX, took: u8::MAX };

    pub(crate) fn of(late: Duration, took: Duration) -> RunBuckets {
        let bucket = |duration| Buckets::bucket(duration) as u8;
        RunBuckets { late: bucket(late), took: bucket(took) }
    }
}

/// The figures of a kind and a time.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Figures(pub(super) [u64; FIGURES]);

impl Default for Figures {
    fn default() -> Figures {
        Figures([0; FIGURES])
    }
}

impl Figures {
    pub(crate) fn add(&mut self, figure: Figure) {
        self.0[figure as usize] += 1;
    }

    /// Counts the end of a run. A job that was too old to start had no run, and is in no bucket.
    pub(crate) fn add_run(&mut self, figure: Figure, run: RunBuckets) {
        self.add(figure);
        if run == RunBuckets::NO_RUN {
            return;
        }
        let bucket = |at: u8| usize::from(at).min(BUCKETS - 1);
        self.0[EVENTS + bucket(run.late)] += 1;
        self.0[EVENTS + BUCKETS + bucket(run.took)] += 1;
    }

    pub(crate) fn merge(&mut self, other: &Figures) {
        for (sum, by) in self.0.iter_mut().zip(other.0) {
            *sum = sum.saturating_add(by);
        }
    }

    pub(crate) fn add_to(&self, entry: &mut HistoryEntry) {
        let mut figures = self.0.into_iter();
        let events = [
            &mut entry.inserted,
            &mut entry.completed,
            &mut entry.retried,
            &mut entry.snoozed,
            &mut entry.dead,
            &mut entry.cancelled,
            &mut entry.interrupted,
            &mut entry.expired,
        ];
        let buckets = entry.lateness.iter_mut().chain(&mut entry.run_time);
        for (sum, by) in events.into_iter().chain(buckets).zip(&mut figures) {
            *sum = sum.saturating_add(by);
        }
    }

    /// Returns the figures as bytes: for each that is not zero, its number and its value, seven bits a byte.
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (n, figure) in (0..).zip(self.0).filter(|(_, figure)| *figure > 0) {
            bytes.push(n);
            let mut rest = figure;
            while rest >= 0x80 {
                bytes.push(rest as u8 | 0x80);
                rest >>= 7;
            }
            bytes.push(rest as u8);
        }
        bytes
    }

    pub(super) fn from_bytes(mut bytes: &[u8]) -> Figures {
        let mut figures = Figures::default();
        while let [n, rest @ ..] = bytes {
            let (mut figure, mut shift, mut read) = (0_u64, 0, 0);
            for byte in rest {
                read += 1;
                figure |= u64::from(byte & 0x7f).checked_shl(shift).unwrap_or(0);
                shift += 7;
                if byte & 0x80 == 0 {
                    break;
                }
            }
            bytes = &rest[read..];
            if let Some(known) = figures.0.get_mut(usize::from(*n)) {
                *known = known.saturating_add(figure);
            }
        }
        figures
    }
}

/// The figures that a transaction adds, by kind.
#[derive(Default, Debug)]
pub(crate) struct Noted<K> {
    /// The program wants a history.
    pub(crate) is_on: bool,
    by_kind: Vec<(K, Figures)>,
}

impl<K: PartialEq + Clone> Noted<K> {
    pub(crate) fn new(is_on: bool) -> Noted<K> {
        Noted { is_on, by_kind: Vec::new() }
    }

    /// Counts an event of a kind.
    pub(crate) fn note(&mut self, kind: &K, figure: Figure) {
        if self.is_on {
            self.of(kind).add(figure);
        }
    }

    /// Counts the end of a run of a kind.
    pub(crate) fn note_run(&mut self, kind: &K, figure: Figure, run: Option<RunBuckets>) {
        if let Some(run) = run.filter(|_| self.is_on) {
            self.of(kind).add_run(figure, run);
        }
    }

    fn of(&mut self, kind: &K) -> &mut Figures {
        let at = self.by_kind.iter().position(|(known, _)| known == kind);
        let at = at.unwrap_or_else(|| {
            self.by_kind.push((kind.clone(), Figures::default()));
            self.by_kind.len() - 1
        });
        &mut self.by_kind[at].1
    }

    /// Takes out what was noted.
    pub(crate) fn take(&mut self) -> Vec<(K, Figures)> {
        core::mem::take(&mut self.by_kind)
    }
}

/// For how many full hours there are minutes.
pub(crate) const MINUTES_KEPT: u32 = 48;
/// For how many full days there are hours.
pub(crate) const HOURS_KEPT: u32 = 90;

pub(crate) const MINUTE_MS: i64 = 60_000;
const HOUR_MS: i64 = 60 * MINUTE_MS;

/// The rows of a store.
pub(crate) trait Rows {
    fn get(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError>;
    fn put(&mut self, key: Vec<u8>, value: Vec<u8>) -> Result<(), StoreError>;
    fn remove(&mut self, key: &[u8]) -> Result<(), StoreError>;
}

/// A row of figures.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Span {
    /// Has the minutes of this hour.
    Hour(u32),
    /// Has the hours of this day.
    Day(u32),
}

impl Span {
    fn tagged(self) -> [u8; 5] {
        let (tag, at) = match self {
            Span::Hour(at) => (b'm', at),
            Span::Day(at) => (b'h', at),
        };
        let [a, b, c, d] = at.to_be_bytes();
        [tag, a, b, c, d]
    }

    fn key(self, kind: &str) -> Vec<u8> {
        [&self.tagged()[..], kind.as_bytes()].concat()
    }

    fn hour(self) -> u32 {
        match self {
            Span::Hour(hour) => hour,
            Span::Day(day) => day.saturating_mul(24),
        }
    }
}

fn index_key(kind: &str) -> Vec<u8> {
    [b"i", kind.as_bytes()].concat()
}

fn index_of(value: &[u8]) -> BTreeSet<Span> {
    let spans = value.chunks_exact(5).filter_map(|span| {
        let at = u32::from_be_bytes([span[1], span[2], span[3], span[4]]);
        match span[0] {
            b'm' => Some(Span::Hour(at)),
            b'h' => Some(Span::Day(at)),
            _ => None,
        }
    });
    spans.collect()
}

fn index_value(index: &BTreeSet<Span>) -> Vec<u8> {
    index.iter().flat_map(|span| span.tagged()).collect()
}

/// Returns the kinds of the row `k`, each behind its length.
fn kinds_of(mut value: &[u8]) -> Vec<String> {
    let mut kinds = Vec::new();
    while let [length, rest @ ..] = value {
        let Some((kind, rest)) = rest.split_at_checked(usize::from(*length)) else { break };
        kinds.push(String::from_utf8_lossy(kind).into_owned());
        value = rest;
    }
    kinds
}

fn kinds_value(kinds: &[String]) -> Vec<u8> {
    let named = |kind: &String| [&[kind.len() as u8], kind.as_bytes()].concat();
    kinds.iter().flat_map(named).collect()
}

/// Returns the parts of a row: the number of each in its hour or day, and its figures.
fn parts_of(mut value: &[u8]) -> Vec<(u8, &[u8])> {
    let mut parts = Vec::new();
    while let [slot, length, rest @ ..] = value {
        let Some((figures, rest)) = rest.split_at_checked(usize::from(*length)) else { break };
        parts.push((*slot, figures));
        value = rest;
    }
    parts
}

/// Adds figures to a part of a row. A new part goes to the front: so the part of the present is found first.
fn with(value: &[u8], slot: u8, added: &Figures) -> Vec<u8> {
    let mut parts = parts_of(value);
    let mut figures = added.clone();
    let at = parts.iter().position(|(known, _)| *known == slot);
    if let Some(at) = at {
        figures.merge(&Figures::from_bytes(parts[at].1));
    } else {
        parts.insert(0, (slot, &[]));
    }
    let figures = figures.to_bytes();
    parts[at.unwrap_or(0)].1 = &figures;
    let mut row = Vec::with_capacity(value.len() + 16);
    for (slot, figures) in parts {
        // 38 figures below 2^35 have 228 bytes.
        row.extend([slot, figures.len().min(255) as u8]);
        row.extend(&figures[..figures.len().min(255)]);
    }
    row
}

/// Adds the figures of a transaction.
pub(crate) fn add(
    rows: &mut impl Rows,
    kind: &str,
    now: Millis,
    figures: &Figures,
) -> Result<(), StoreError> {
    let minute = now.get().max(0) / MINUTE_MS;
    let hour = u32::try_from(minute / 60).unwrap_or(u32::MAX);
    let slot = (minute % 60) as u8;
    let mut key = Span::Hour(hour).key(kind);
    let mut value = rows.get(&key)?;
    if value.is_none() && !begin_hour(rows, kind, hour)? {
        key = Span::Hour(hour).key(OTHER);
        value = rows.get(&key)?;
        if value.is_none() {
            begin_hour(rows, OTHER, hour)?;
        }
    }
    rows.put(key, with(&value.unwrap_or_default(), slot, figures))
}

/// Notes that a kind gets a row for an hour, and folds its old rows. Returns `false` if the kind gets none, because
/// too many others have some.
fn begin_hour(rows: &mut impl Rows, kind: &str, hour: u32) -> Result<bool, StoreError> {
    let key = index_key(kind);
    let mut index = match rows.get(&key)? {
        Some(value) => index_of(&value),
        None => {
            let mut kinds = kinds_of(&rows.get(b"k")?.unwrap_or_default());
            if kind != OTHER && kinds.len() >= MOST_KINDS && !make_room(rows, &mut kinds, hour)? {
                return Ok(false);
            }
            kinds.push(kind.to_owned());
            rows.put(b"k".to_vec(), kinds_value(&kinds))?;
            BTreeSet::new()
        }
    };
    index.insert(Span::Hour(hour));
    for span in index.clone() {
        let Span::Hour(old) = span else { continue };
        if old.saturating_add(MINUTES_KEPT) < hour {
            let key = span.key(kind);
            let mut sum = Figures::default();
            for (_, figures) in parts_of(&rows.get(&key)?.unwrap_or_default()) {
                sum.merge(&Figures::from_bytes(figures));
            }
            let day = Span::Day(old / 24);
            let hours = rows.get(&day.key(kind))?.unwrap_or_default();
            rows.put(day.key(kind), with(&hours, (old % 24) as u8, &sum))?;
            rows.remove(&key)?;
            index.remove(&span);
            index.insert(day);
        }
    }
    for span in index.clone() {
        if matches!(span, Span::Day(day) if day.saturating_add(HOURS_KEPT + 1) < hour / 24) {
            rows.remove(&span.key(kind))?;
            index.remove(&span);
        }
    }
    rows.put(key, index_value(&index))?;
    Ok(true)
}

/// Returns the name under which a kind has a history.
#[cfg(feature = "sqlite-unbundled")]
pub(crate) fn listed_as<'a>(rows: &mut impl Rows, kind: &'a str) -> Result<&'a str, StoreError> {
    if rows.get(&index_key(kind))?.is_some() {
        return Ok(kind);
    }
    let kinds = kinds_of(&rows.get(b"k")?.unwrap_or_default());
    Ok(if kinds.len() < MOST_KINDS { kind } else { OTHER })
}

/// Removes the rows of a kind that has none of the last 90 days. Looks for one once an hour.
fn make_room(rows: &mut impl Rows, kinds: &mut Vec<String>, hour: u32) -> Result<bool, StoreError> {
    let this_hour = hour.to_be_bytes().to_vec();
    if rows.get(b"w")?.as_ref() == Some(&this_hour) {
        return Ok(false);
    }
    for (n, kind) in kinds.iter().enumerate() {
        let index = index_of(&rows.get(&index_key(kind))?.unwrap_or_default());
        let latest = index.iter().map(|span| span.hour()).max().unwrap_or(0);
        if latest / 24 + HOURS_KEPT + 1 < hour / 24 {
            for span in index {
                rows.remove(&span.key(kind))?;
            }
            rows.remove(&index_key(kind))?;
            kinds.remove(n);
            return Ok(true);
        }
    }
    rows.put(b"w".to_vec(), this_hour)?;
    Ok(false)
}

/// Part of a history, as a store answers: when it begins, whether it is an hour and not a minute, and its figures.
pub(crate) type HistoryPart = (Millis, bool, Figures);

/// Reads what began in a time, of one kind or of all. `get`: returns the values of some keys.
pub(crate) fn read<E>(
    kind: Option<&str>,
    (from, to): (Millis, Millis),
    mut get: impl FnMut(&[Vec<u8>]) -> Result<Vec<Option<Vec<u8>>>, E>,
) -> Result<Vec<HistoryPart>, E> {
    let kinds = match kind {
        Some(kind) => vec![kind.to_owned()],
        None => {
            let mut found = get(&[b"k".to_vec()])?;
            kinds_of(&found.pop().flatten().unwrap_or_default())
        }
    };
    let keys: Vec<Vec<u8>> = kinds.iter().map(|kind| index_key(kind)).collect();
    let mut wanted = Vec::new();
    for (kind, value) in kinds.iter().zip(get(&keys)?) {
        for span in index_of(&value.unwrap_or_default()) {
            let begin = i64::from(span.hour()) * HOUR_MS;
            let length = if matches!(span, Span::Day(_)) { 24 * HOUR_MS } else { HOUR_MS };
            if begin < to.get() && begin + length > from.get() {
                wanted.push((span, span.key(kind)));
            }
        }
    }
    let mut sums: BTreeMap<(i64, bool), Figures> = BTreeMap::new();
    for some in wanted.chunks(256) {
        let keys: Vec<Vec<u8>> = some.iter().map(|(_, key)| key.clone()).collect();
        for ((span, _), value) in some.iter().zip(get(&keys)?) {
            let (is_hour, part_ms) = match span {
                Span::Hour(_) => (false, MINUTE_MS),
                Span::Day(_) => (true, HOUR_MS),
            };
            for (slot, figures) in parts_of(&value.unwrap_or_default()) {
                let begin = i64::from(span.hour()) * HOUR_MS + i64::from(slot) * part_ms;
                if (from.get()..to.get()).contains(&begin) {
                    let sum = sums.entry((begin, is_hour)).or_default();
                    sum.merge(&Figures::from_bytes(figures));
                }
            }
        }
    }
    let part = |((begin, is_hour), figures)| (Millis::clamped(begin), is_hour, figures);
    Ok(sums.into_iter().map(part).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::history::{EVENTS, Figure};

    type Table = BTreeMap<Vec<u8>, Vec<u8>>;

    fn one(figure: Figure) -> Figures {
        let mut figures = Figures::default();
        figures.add(figure);
        figures
    }

    fn at_hour(hour: i64) -> Millis {
        Millis::clamped(hour * HOUR_MS)
    }

    fn sum(rows: &Table, kind: Option<&str>) -> u64 {
        let get = |keys: &[Vec<u8>]| Ok(keys.iter().map(|key| rows.get(key).cloned()).collect());
        let ever = (Millis::ZERO, Millis::MAX);
        let Ok(parts) = read::<core::convert::Infallible>(kind, ever, get);
        parts.iter().map(|(.., figures)| figures.0[Figure::Inserted as usize]).sum()
    }

    /// P34: At most 200 kinds have rows of their own, and what happens to further ones counts as `other`. A kind to
    /// which nothing has happened for 90 days makes room.
    #[test]
    fn kinds_behind_the_first_200_share_one_history() {
        let mut rows = Table::new();
        let start = 24 * 20_000;
        let kind = |n: usize| format!("kind {n}");
        for n in 0..MOST_KINDS + 3 {
            add(&mut rows, &kind(n), at_hour(start), &one(Figure::Inserted)).unwrap();
        }
        assert_eq!(sum(&rows, Some(&kind(MOST_KINDS - 1))), 1);
        assert_eq!(sum(&rows, Some(&kind(MOST_KINDS))), 0);
        assert_eq!((sum(&rows, Some(OTHER)), sum(&rows, None)), (3, MOST_KINDS as u64 + 3));
        let later = start + 24 * i64::from(HOURS_KEPT + 3);
        add(&mut rows, "new", at_hour(later), &one(Figure::Inserted)).unwrap();
        assert_eq!((sum(&rows, Some("new")), sum(&rows, Some(&kind(0)))), (1, 0));
        assert_eq!(sum(&rows, Some(OTHER)), 3);
    }

    /// P34: Two hundred kinds to which everything happens in every minute cost 32 MiB at most, with 100 bytes for what
    /// the server needs for each field.
    #[test]
    fn rows_of_200_busy_kinds_have_32_mebibytes_at_most() {
        let mut rows = Table::new();
        let mut busy = Figures::default();
        for figure in [Figure::Inserted, Figure::Completed, Figure::Retried] {
            busy.0[figure as usize] = 9000;
        }
        for bucket in [0, 1, 2, 6, 7, 8] {
            busy.0[EVENTS + bucket] = 3000;
        }
        let minute = |minute: i64| Millis::clamped(24 * 20_000 * HOUR_MS + minute * MINUTE_MS);
        let days = i64::from(HOURS_KEPT) + 1;
        for n in 0..days * 24 {
            add(&mut rows, "a kind", minute(n * 60), &busy).unwrap();
        }
        for n in days * 24 * 60..(days * 24 + i64::from(MINUTES_KEPT)) * 60 {
            add(&mut rows, "a kind", minute(n), &busy).unwrap();
        }
        let bytes: usize = rows.iter().map(|(key, value)| key.len() + value.len() + 100).sum();
        // The numbers of `docs/recipes-operation.md`.
        let longest = |tag: u8| {
            let of_tag = rows.iter().filter(|(key, _)| key[0] == tag);
            of_tag.map(|(_, value)| value.len()).max()
        };
        assert!(longest(b'm') <= Some(1900) && longest(b'h') <= Some(800), "{:?}", longest(b'm'));
        assert!(bytes * MOST_KINDS <= 32 << 20, "{bytes} bytes a kind");
    }

    /// P34: Values that cannot be read break nothing: what follows is counted.
    #[test]
    fn value_that_cannot_be_read_fails_no_commit() {
        let mut rows = Table::new();
        let added = one(Figure::Inserted);
        add(&mut rows, "a", at_hour(480_000), &added).unwrap();
        for key in rows.keys().cloned().collect::<Vec<_>>() {
            for garbage in [&[][..], &[7], &[255; 3], &[9, 200, 1], &[0, 4, 99, 255, 255, 255]] {
                let mut rows = rows.clone();
                rows.insert(key.clone(), garbage.to_vec());
                for hour in [480_000, 480_001, 480_200] {
                    add(&mut rows, "a", at_hour(hour), &added).unwrap();
                }
                assert!(sum(&rows, Some("a")) >= 2, "{key:?} is {garbage:?}");
            }
        }
    }
}
