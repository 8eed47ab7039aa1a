//! The check of a queue: reads every job, and compares the keys of the queue with each other. And values that another
//! program wrote, and that no script can read: their names in events, and the search for them in the check.
//!
//! Other processes go on working meanwhile. But each job is checked as of one moment, because one script
//! reads all its places. The sums are of one moment too.

use std::collections::BTreeSet;

use redis::Value;

use super::decode::{Fault, ServerReply, array, bytes, text};
use super::keys::{Keys, LAYOUT, Type};
use super::protocol::PageSet;
use super::reads::{number_arg, set_arg};
use super::records::{damaged, id_bytes, id_of, read_deaths, read_record, read_schedule};
use super::scripts::{ITEMS, Name};
use super::{Redis, groups};
use crate::store::group::member_result;
use crate::store::{JobSet, Unreadable};
use crate::values::error::{StoreError, Violation};
use crate::values::id::JobId;
use crate::values::limit::{Limit, Tokens};
use crate::values::node::StoredNode;
use crate::values::setting::{HeadStart, Keep};
use crate::values::stored_limits::LimitScope;
use crate::values::time::Millis;

impl From<Fault> for Violation {
    fn from(fault: Fault) -> Violation {
        fault.error.into()
    }
}

/// Fields and values of a hash.
type Pairs = Vec<(Vec<u8>, Vec<u8>)>;

impl Redis {
    pub(super) fn audit(&mut self) -> Result<(), Violation> {
        if let Some(wrong) = self.key_of_another_type()? {
            return Err(Violation(wrong));
        }
        // Also learns the kinds that are new to this process.
        let ids = self.all_ids()?;
        self.foreign_value()?;
        for part in ids.chunks(ITEMS) {
            let args: Vec<Vec<u8>> = part.iter().map(|id| id_bytes(*id).to_vec()).collect();
            let reply = self.run(Name::Audit, &args)?;
            if let [id, what, ..] = array(&reply[2])? {
                return Err(Violation(format!("{}: {}", id_of(bytes(id)?)?, text(what)?)));
            }
        }
        let counted = self.counted()?;
        let counts = counted.counts;
        let alive = counts.pending.saturating_add(counts.running);
        let [ended, records, fences] = counted.sizes;
        let of_kinds: u64 =
            counted.kinds.iter().fold(0, |sum: u64, (_, jobs)| sum.saturating_add(*jobs));
        if alive.saturating_add(ended) != records || fences != counts.running {
            return Err(Violation(format!(
                "R9: {counts:?}, and {records} records, {fences} fences, {ended} that have ended"
            )));
        }
        if of_kinds != alive {
            return Err(Violation(format!("R10: {alive} jobs, and {of_kinds} of all kinds")));
        }
        if counted.empty_places != 0 {
            let empty = counted.empty_places;
            return Err(Violation(format!("R21: {empty} more places in lanes than jobs in them")));
        }
        if counted.leaked_places != 0 {
            let leaked = counted.leaked_places;
            return Err(Violation(format!("R24: {leaked} more places of claims than claims")));
        }
        let set_aside = self.keys.unreadable().to_owned();
        if let Some((name, _)) = self.scan(&set_aside)?.first() {
            let what = what(&self.keys, name);
            return Err(Violation(format!("R14: {what} cannot be read, and was set aside")));
        }
        self.groups_agree()?;
        self.keys_agree()
    }

    /// Returns every id in any key of the queue. The error may name a field of `jobs` which is none.
    fn all_ids(&mut self) -> Result<Vec<JobId>, Violation> {
        let mut ids = BTreeSet::new();
        let keys = [self.keys.jobs(), self.keys.fence(), self.keys.progress()];
        for key in keys.map(str::to_owned) {
            for (id, _) in self.scan(&key)? {
                match id_of(&id) {
                    Ok(id) => drop(ids.insert(id)),
                    Err(_) => {
                        let id = id.escape_ascii();
                        return Err(Violation(format!("R23: \"{id}\" in {key} makes no sense")));
                    }
                }
            }
        }
        ids.extend(self.claimed_ids()?.into_iter().map(|(id, ..)| id));
        for ending in JobSet::Ended(None).lists() {
            let mut after = None;
            loop {
                let page = self.ended_ids(ending, "", after, ITEMS)?;
                ids.extend(page.iter().map(|(_, id)| *id));
                after = page.last().copied().filter(|_| page.len() == ITEMS);
                if after.is_none() {
                    break;
                }
            }
        }
        let kinds: Vec<Vec<u8>> =
            self.counted()?.kinds.into_iter().map(|(kind, _)| kind.into_bytes()).collect();
        for kind in kinds {
            let mut from = (b"0".to_vec(), Vec::new());
            loop {
                let mut args =
                    vec![set_arg(PageSet::Pending), number_arg(ITEMS), from.0, b"1e18".to_vec()];
                args.extend([from.1, kind.clone()]);
                let reply = self.run(Name::Page, &args)?;
                // The reply has a page for each number of interruptions. Sorted together, their first `ITEMS`
                // entries are the next ones in order.
                let mut found = Vec::new();
                for pair in array(&reply[2])?.chunks(2) {
                    let [id, due] = pair else { continue };
                    let time: i64 = text(due)?.parse().map_err(|_| damaged("is no time"))?;
                    ids.insert(id_of(bytes(id)?)?);
                    found.push((time, bytes(id)?.to_vec()));
                }
                found.sort_unstable();
                let Some((due, id)) = found.into_iter().nth(ITEMS - 1) else { break };
                from = (due.to_string().into_bytes(), id);
            }
        }
        Ok(ids.into_iter().collect())
    }

    /// Checks that each key leads to a job that has it.
    fn keys_agree(&mut self) -> Result<(), Violation> {
        let keys = self.keys.keys().to_owned();
        for (key, id) in self.scan(&keys)? {
            let record = match self.ask("HGET", Keys::jobs, &id)? {
                Value::BulkString(record) => read_record(&record).ok().and_then(|it| it.key),
                _ => None,
            };
            if record.as_deref().map(str::as_bytes) == Some(&key) {
                continue;
            }
            // The job may have ended meanwhile.
            if self.ask("HGET", Keys::keys, &key)? == Value::BulkString(id) {
                let key = String::from_utf8_lossy(&key).into_owned();
                return Err(Violation(format!(
                    "R11: the key {key:?} in {keys} leads to a job without it"
                )));
            }
        }
        Ok(())
    }

    pub(super) fn scan(&mut self, key: &str) -> Result<Pairs, Fault> {
        let mut found = Vec::new();
        let mut cursor = "0".to_owned();
        loop {
            let mut scan = redis::cmd("HSCAN");
            scan.arg(key).arg(&cursor).arg("COUNT").arg(ITEMS);
            let answer = self.plain(scan)?;
            let [next, pairs] = array(&answer)? else { break };
            for pair in array(pairs)?.chunks(2) {
                if let [field, value] = pair {
                    found.push((bytes(field)?.to_vec(), bytes(value)?.to_vec()));
                }
            }
            cursor = text(next)?;
            if cursor == "0" {
                break;
            }
        }
        Ok(found)
    }
}

/// The least score of no job: `BAND` times six in `scripts/prelude.lua`.
const PAST_ALL_SCORES: f64 = 6e15;
/// Numbers from here on are not exact in a script.
const PAST_ALL_NUMBERS: u64 = 1 << 53;

/// Returns a report for each value that a script has set aside, from their names: see `values.set_aside` in
/// `scripts/prelude.lua`.
pub(super) fn set_aside(keys: &Keys, names: &Value) -> Vec<Unreadable> {
    let names = array(names).unwrap_or_default().iter().filter_map(|name| bytes(name).ok());
    let error = StoreError::Damaged("it makes no sense, and was set aside".to_owned());
    names.map(|name| Unreadable { what: what(keys, name), error: error.clone() }).collect()
}

/// Returns a report for each value that the changes of a batch have set aside.
pub(super) fn named_in(replies: &[ServerReply], keys: &Keys) -> Vec<Unreadable> {
    let names = replies.iter().filter_map(|reply| match reply {
        ServerReply::Done(fields) => fields.get(3),
        _ => None,
    });
    names.flat_map(|names| set_aside(keys, names)).collect()
}

/// Returns the name of a value in messages for the operator: `job` with its id, or its key and its field or member.
pub(super) fn what(keys: &Keys, name: &[u8]) -> String {
    let prefix = keys.prefix();
    let at = name.iter().position(|byte| *byte == b':').filter(|_| !name.starts_with(b"due:"));
    // A kind may have colons, and so has the name of its due set.
    let Some((key, field)) = at.map(|at| (&name[..at], &name[at + 1..])) else {
        return format!("{prefix}{}", name.escape_ascii());
    };
    match (key, id_of(field)) {
        (b"jobs", Ok(id)) => format!("job {id}"),
        _ => format!("\"{}\" in {prefix}{}", field.escape_ascii(), key.escape_ascii()),
    }
}

/// Returns the text behind `parts` parts that have their lengths before them.
fn behind(text: &[u8], parts: usize) -> Option<&[u8]> {
    (0..parts).try_fold(text, |text, _| text.get(1 + usize::from(*text.first()?)..))
}

fn time(text: &[u8]) -> Option<u64> {
    let time = u64::from_be_bytes(*text.first_chunk()?);
    (time <= Millis::MAX.get() as u64).then_some(time)
}

fn number(text: &[u8]) -> Option<i64> {
    let number: i64 = str::from_utf8(text).ok()?.parse().ok()?;
    (number.unsigned_abs() < PAST_ALL_NUMBERS).then_some(number)
}

/// Says whether a text is digits that a script can read.
fn is_count(text: &[u8]) -> bool {
    number(text).is_some_and(|number| number >= 0)
}

/// Says whether a text is a list of jobs that have ended.
fn is_list(member: &[u8]) -> bool {
    let Some((b'1'..=b'3' | b'w', rest)) = member.split_first() else { return false };
    let rest = behind(rest, 1).filter(|rest| time(rest).is_some()).unwrap_or_default();
    rest.len() > 12 && (rest.len() - 12).is_multiple_of(16)
}

/// Says whether the bytes are the pass of a lane.
fn is_pass(pass: &[u8]) -> bool {
    let pass = pass.first_chunk().map(|pass| u64::from_be_bytes(*pass));
    pass.is_some_and(|pass| (1..PAST_ALL_NUMBERS).contains(&pass))
}

/// Says whether the parts of a row of the history, each a slot and some bytes with their length before them, fill it.
fn is_row(mut row: &[u8]) -> bool {
    while let Some((_, rest)) = row.split_first() {
        let Some(rest) = behind(rest, 1) else { return false };
        row = rest;
    }
    true
}

fn is_note(note: &[u8]) -> bool {
    let name = time(note).and_then(|_| note.get(8..)).unwrap_or_default();
    name.first() == Some(&0) || behind(name, 2).is_some_and(<[u8]>::is_empty)
}

fn is_in_lanes(field: &[u8], value: &[u8]) -> bool {
    let text = str::from_utf8(value).unwrap_or_default();
    match field {
        [0, b'w'] => true,
        [0, b'h'] => is_count(value.strip_suffix(b"+").unwrap_or(value)),
        [0, b's' | b'p' | b'q' | b'c'] => {
            value.len() < 20 && !value.is_empty() && value.iter().all(u8::is_ascii_digit)
        }
        [0, b't', ..] => Tokens::from_text(text).is_some(),
        _ if behind(field, 1).is_some_and(<[u8]>::is_empty) => {
            let words: Vec<&str> = text.split(' ').collect();
            let is_weight = |words: &[&str]| match words {
                [weight, round, lag] => {
                    weight.parse().is_ok_and(|weight: u16| weight <= 1000)
                        && round.parse().is_ok_and(|round: u64| round < 1 << 42)
                        && lag.parse().is_ok_and(|lag: f64| lag.abs() < 1e6)
                }
                _ => false,
            };
            words.chunks(3).all(is_weight)
        }
        _ => {
            let is_lane = behind(field, 2).is_some_and(<[u8]>::is_empty);
            let is_state = match value.get(8..) {
                Some(b"" | b"p") => is_pass(value),
                Some([b't', until @ ..]) if until.len() == 8 => {
                    is_pass(value) && time(until).is_some()
                }
                Some([b'd', until @ ..]) if until.len() == 8 => time(until).is_some(),
                _ => false,
            };
            is_lane && is_state
        }
    }
}

fn is_setting(name: &[u8], value: &[u8]) -> bool {
    let (Ok(name), Ok(text)) = (str::from_utf8(name), str::from_utf8(value)) else { return false };
    let (word, rest) = name.split_once(':').unwrap_or((name, ""));
    match word {
        "keep" => Keep::from_text(text).is_some(),
        "head" => HeadStart::from_text(text).is_some(),
        "limit" | "limit-flow" | "limit-each" | "limit-part" => {
            LimitScope::of_setting(name).is_some() && Limit::from_text(text).is_some()
        }
        "hold" | "hold-flow" | "hold-part" => is_count(value),
        "flow" => !rest.is_empty() && (1..256).contains(&text.len()),
        // A later version may have other settings.
        _ => true,
    }
}

fn is_fence(fence: &[u8]) -> bool {
    let lengths =
        fence.get(46..48).map(|lengths| usize::from(lengths[0]) + usize::from(lengths[1]));
    let Some(rest) = lengths.and_then(|lengths| fence.get(50 + lengths..)) else { return false };
    // The mark of a counted claim: its scope follows.
    let is_counted = fence.get(32).is_some_and(|mark| *mark < 45 || *mark == b'K');
    (!is_counted || behind(rest, 3).is_some()) && fence.get(16..).and_then(time).is_some()
}

/// Says whether a key has this as its field and value, or as its member and score.
fn is_ours(name: &str, field: &[u8], value: &[u8]) -> bool {
    let is_id = field.len() == 16;
    let score = || str::from_utf8(value).ok().and_then(|score| score.parse::<f64>().ok());
    let is_score = |past: f64| {
        score().is_some_and(|score| (0.0..past).contains(&score) && score.fract() == 0.0)
    };
    let text = |text: &[u8]| str::from_utf8(text).is_ok_and(|text| (1..256).contains(&text.len()));
    match name {
        "progress" | "cancel_requested" => is_id,
        "run" | "due" => is_id && is_score(PAST_ALL_SCORES),
        "fence" => is_id && is_fence(value),
        "keys" => text(field) && value.len() == 16,
        "ended" => is_score(PAST_ALL_SCORES) && (is_id || is_list(field)),
        "over" => is_list(field),
        "dead_by_error" => {
            behind(field, 1).is_some() && is_score(PAST_ALL_SCORES) && score() != Some(0.0)
        }
        "counters" if field.starts_with(b"died:") => {
            behind(&field[5..], 1).is_some() && read_deaths(value).is_some()
        }
        "counters" => {
            let names = ["retrying:", "kept:", "kept_bytes:"];
            names.iter().any(|name| field.starts_with(name.as_bytes())) && is_count(value)
        }
        "schedules" => text(field) && read_schedule(String::new(), value).is_ok(),
        "kinds" => text(field) && is_count(value),
        "meta" => match field {
            b"results" => value.len() == 16,
            b"layout" => value == LAYOUT.to_string().as_bytes(),
            field => {
                let is_known = [&b"claims"[..], b"schedules"].contains(&field);
                (is_known || field.starts_with(b"after:")) && is_count(value)
            }
        },
        "settings" | "flow" => is_setting(field, value),
        "nodes" => {
            let row = str::from_utf8(value).ok().and_then(|row| row.split_once(' '));
            row.is_some_and(|(seen, node)| {
                is_count(seen.as_bytes()) && StoredNode::info(node, Millis::ZERO).is_some()
            })
        }
        "history" => match field {
            b"w" => value.len() == 4,
            b"k" => {
                (0..value.len()).try_fold(value, |rest, _| match rest {
                    [] => Some(rest),
                    rest => behind(rest, 1),
                }) == Some(&[])
            }
            [b'i', ..] => value.len().is_multiple_of(5),
            [b'm' | b'h', ..] => is_row(value),
            _ => false,
        },
        "wait" => behind(field, 2).is_some_and(|rest| rest.len() == 24 && time(rest).is_some()),
        "turn" => match field {
            [0, note @ ..] => is_note(note),
            place => behind(place, 1).is_some_and(|rest| {
                let lane = rest.get(8..).and_then(|rest| behind(rest, 1));
                is_pass(rest) && lane.is_some_and(<[u8]>::is_empty)
            }),
        },
        "lanes" => is_in_lanes(field, value),
        "held" => behind(field, 3).is_some_and(|id| id.len() == 16),
        "groups" => match field {
            [_, rest @ .., b'c'] if rest.len() == 15 => {
                let record = time(value).and_then(|_| behind(value.get(8..)?, 1));
                record.is_some_and(|record| read_record(record).is_ok())
            }
            _ => is_id && groups::is_row(value),
        },
        "members" => match field {
            [b'o', both @ ..] => both.len() == 32,
            [b'r', both @ ..] => {
                both.get(32..).is_some_and(|row| member_result(JobId::default(), row).is_some())
            }
            [b'g' | b'e', rest @ ..] => rest.len() == 24 && time(rest).is_some(),
            _ => false,
        },
        _ => true,
    }
}

impl Redis {
    /// Returns a sentence that names the first key of another type.
    pub(super) fn key_of_another_type(&mut self) -> Result<Option<String>, Fault> {
        let keys = self.keys.with_types(&self.kinds);
        let size = |(_, of, key): &(_, Type, Vec<u8>)| {
            let mut size = redis::cmd(match of {
                Type::Hash => "HLEN",
                Type::Set => "SCARD",
                Type::SortedSet => "ZCARD",
            });
            size.arg(key);
            size
        };
        let sizes: Vec<redis::Cmd> = keys.iter().map(size).collect();
        let (answers, ..) = self.connection.send(&sizes)?;
        let is_wrong = |answer: &Value| match answer {
            Value::ServerError(error) => is_wrong_type(error),
            _ => false,
        };
        let wrong = keys.into_iter().zip(answers).find(|(_, answer)| is_wrong(answer));
        Ok(wrong.map(|((_, of, key), _)| {
            let of = match of {
                Type::Hash => "hash",
                Type::Set => "set",
                Type::SortedSet => "sorted set",
            };
            format!("{} is no {of}", key.escape_ascii())
        }))
    }

    /// Names the key in an error of the server that a key has another type.
    pub(super) fn name_the_key(&mut self, fault: Fault) -> Fault {
        let StoreError::Other(text) = &fault.error else { return fault };
        if !text.contains("WRONGTYPE") {
            return fault;
        }
        match self.key_of_another_type() {
            Ok(Some(key)) => Fault { error: StoreError::Other(format!("{key}: {text}")), ..fault },
            _ => fault,
        }
    }

    /// Names the first value that no script can read. The fields of `jobs` are left out.
    fn foreign_value(&mut self) -> Result<(), Violation> {
        for (name, of, key) in self.keys.with_types(&self.kinds) {
            if ["sent", "jobs", "unreadable"].contains(&name) {
                continue;
            }
            let mut from = 0;
            loop {
                let page = match of {
                    Type::Hash => self.scan(&String::from_utf8_lossy(&key))?,
                    Type::Set => {
                        let mut members = redis::cmd("SRANDMEMBER");
                        members.arg(&key).arg(1_000_000);
                        let found = self.plain(members)?;
                        let found = array(&found)?.iter().filter_map(|it| bytes(it).ok());
                        found.map(|member| (member.to_vec(), Vec::new())).collect()
                    }
                    Type::SortedSet => {
                        let mut range = redis::cmd("ZRANGE");
                        range.arg(&key).arg(from).arg(from + ITEMS - 1).arg("WITHSCORES");
                        let found = self.plain(range)?;
                        let pair = |pair: &[Value]| match pair {
                            [member, score] => {
                                Some((bytes(member).ok()?.to_vec(), bytes(score).ok()?.to_vec()))
                            }
                            _ => None,
                        };
                        array(&found)?.chunks(2).filter_map(pair).collect()
                    }
                };
                from += ITEMS;
                if let Some((field, _)) =
                    page.iter().find(|(field, value)| !is_ours(name, field, value))
                {
                    let (field, key) = (field.escape_ascii(), key.escape_ascii());
                    return Err(Violation(format!("R23: \"{field}\" in {key} makes no sense")));
                }
                if of != Type::SortedSet || page.len() < ITEMS {
                    break;
                }
            }
        }
        Ok(())
    }
}

/// Says whether the server has refused a command because a key has another type. Before Redis 7, the code of a command
/// in a script stands in the text.
fn is_wrong_type(error: &redis::ServerError) -> bool {
    error.code() == "WRONGTYPE" || error.details().is_some_and(|it| it.contains("WRONGTYPE"))
}
