//! Reads the groups of a queue, and checks them. `scripts/groups.lua` writes them.

use redis::Value;

use super::Redis;
use super::decode::{Fault, array, bytes, number};
use super::keys::Keys;
use super::records::{damaged, id_bytes, id_of, record};
use super::scripts::ITEMS;
use crate::store::{NewJob, Tally};
use crate::values::error::Violation;
use crate::values::group::{GroupId, GroupInfo};
use crate::values::id::JobId;
use crate::values::job::group_of;
use crate::values::time::Millis;

const SEALED: u8 = 1;
const CANCELLED: u8 = 2;
const WAITS: u8 = 4;
const HAS_CALLBACK: u8 = 8;
const KEEPS: u8 = 16;

/// Behind all members of `members` that begin with a group and have an id behind it.
const LAST: [u8; 17] = [0xff; 17];

pub(super) fn group_bytes(id: GroupId) -> [u8; 16] {
    id.to_u128().to_be_bytes()
}

/// Returns three arguments for the callback of a new group: its id, what the script keeps of it, and the group of which
/// it is a member.
pub(super) fn callback_args(callback: Option<&NewJob>) -> [Vec<u8>; 3] {
    let Some(job) = callback else { return Default::default() };
    let mut stored = job.due.get().to_be_bytes().to_vec();
    stored.push(job.kind.len() as u8);
    stored.extend(job.kind.as_bytes());
    stored.extend(record(job));
    let outer = group_of(job.extra.as_deref());
    let outer = outer.map_or(Vec::new(), |outer| group_bytes(outer).to_vec());
    [id_bytes(job.id).to_vec(), stored, outer]
}

/// Returns the place of an open member of a group (`o`), or the beginning of all such places, or of its results (`r`).
fn place(bound: &str, letter: u8, group: GroupId, rest: &[u8]) -> Vec<u8> {
    [bound.as_bytes(), &[letter], &group_bytes(group), rest].concat()
}

/// Says whether this is the row of a group.
pub(super) fn is_row(row: &[u8]) -> bool {
    [41, 57].contains(&row.len()) && read(row).is_some()
}

fn read(row: &[u8]) -> Option<(Tally, Option<JobId>)> {
    let (marks, rest) = row.split_first()?;
    let (made, rest) = rest.split_first_chunk::<8>()?;
    let (ended, mut rest) = rest.split_first_chunk::<8>()?;
    let mut counts = [0; 6];
    for count in &mut counts {
        let (number, behind) = rest.split_first_chunk::<4>()?;
        (*count, rest) = (u64::from(u32::from_be_bytes(*number)), behind);
    }
    let [total, completed, dead, cancelled, expired, dead_left] = counts;
    let ended = Millis::clamped(i64::from_be_bytes(*ended));
    let tally = Tally {
        made: Millis::clamped(i64::from_be_bytes(*made)),
        ended: (ended > Millis::ZERO).then_some(ended),
        total,
        completed,
        dead,
        cancelled,
        expired,
        dead_left,
        is_sealed: marks & SEALED != 0,
        is_cancelled: marks & CANCELLED != 0,
        waits_for_the_dead: marks & WAITS != 0,
        keeps_results: marks & KEEPS != 0,
    };
    let callback = if marks & HAS_CALLBACK == 0 { None } else { Some(id_of(rest).ok()?) };
    Some((tally, callback))
}

/// Returns the row that this field has, if there is such a group.
fn row_of(field: &Value) -> Result<Option<(Tally, Option<JobId>)>, Fault> {
    match field {
        Value::BulkString(row) => Ok(Some(read(row).ok_or_else(|| damaged("is no group"))?)),
        _ => Ok(None),
    }
}

impl Redis {
    fn group_row(&mut self, id: GroupId) -> Result<Option<(Tally, Option<JobId>)>, Fault> {
        row_of(&self.ask("HGET", Keys::groups, &group_bytes(id))?)
    }

    pub(super) fn group(&mut self, id: GroupId) -> Result<Option<GroupInfo>, Fault> {
        Ok(self.group_row(id)?.map(|(tally, callback)| tally.info(id, callback)))
    }

    /// Returns the groups that were made last.
    pub(super) fn latest_groups(&mut self, most: usize) -> Result<Vec<GroupInfo>, Fault> {
        // Before a text that another program wrote: the first two bytes of a time are zeros.
        let range = ("(g\0\x01", "[g", "LIMIT", 0, most);
        let places = self.ask("ZREVRANGEBYLEX", Keys::members, range)?;
        let places = array(&places)?.iter().filter_map(|place| bytes(place).ok());
        let ids: Vec<[u8; 16]> = places
            .filter(|place| place.len() == 25)
            .filter_map(|place| place.last_chunk().copied())
            .collect();
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let fields: Vec<&[u8]> = ids.iter().map(|id| &id[..]).collect();
        let rows = self.ask("HMGET", Keys::groups, fields)?;
        let mut groups = Vec::new();
        for (id, row) in ids.into_iter().zip(array(&rows)?) {
            // It may have been purged meanwhile.
            if let Ok(Some((tally, callback))) = row_of(row) {
                let id = GroupId::from_u128(u128::from_be_bytes(id));
                groups.push(tally.info(id, callback));
            }
        }
        Ok(groups)
    }

    /// Returns the first open members of a group behind this id.
    pub(super) fn members(
        &mut self,
        id: GroupId,
        after: Option<JobId>,
    ) -> Result<Vec<JobId>, Fault> {
        let from = match after {
            Some(after) => place("(", b'o', id, &id_bytes(after)),
            None => place("[", b'o', id, &[]),
        };
        let range = (from, place("(", b'o', id, &LAST), "LIMIT", 0, ITEMS);
        let places = self.ask("ZRANGEBYLEX", Keys::members, range)?;
        let mut members = Vec::new();
        for place in array(&places)? {
            members.extend(id_of(bytes(place)?.get(17..).unwrap_or_default()).ok());
        }
        Ok(members)
    }

    /// Counts the open members (`o`) or the results (`r`) of a group.
    fn count_of(&mut self, letter: u8, id: GroupId) -> Result<u64, Fault> {
        let range = (place("[", letter, id, &[]), place("(", letter, id, &LAST));
        let many = self.ask("ZLEXCOUNT", Keys::members, range)?;
        Ok(u64::try_from(number(&many)?).unwrap_or(0))
    }

    /// Says whether the group is among those that are forgotten after their time.
    fn is_to_be_forgotten(&mut self, id: GroupId, ended: Millis) -> Result<bool, Fault> {
        let at = [&b"e"[..], &ended.get().to_be_bytes(), &group_bytes(id)].concat();
        Ok(self.ask("ZSCORE", Keys::members, at)? != Value::Nil)
    }

    /// Compares the counts of each group with its members, and says what is wrong (G1). Other processes go on
    /// meanwhile: so a group counts as wrong only if its row is the same before and after.
    pub(super) fn groups_agree(&mut self) -> Result<(), Violation> {
        let key = self.keys.groups().to_owned();
        let rows = self.scan(&key)?;
        let ids: Vec<GroupId> = rows
            .iter()
            .filter_map(|(field, _)| {
                Some(u128::from_be_bytes(<[u8; 16]>::try_from(&**field).ok()?))
            })
            .map(GroupId::from_u128)
            .collect();
        for id in ids {
            let before = self.group_row(id)?;
            let (open, results) = (self.count_of(b'o', id)?, self.count_of(b'r', id)?);
            let ended = before.and_then(|(tally, _)| tally.ended);
            let is_left = ended.map(|ended| self.is_to_be_forgotten(id, ended)).transpose()?;
            let is_left = is_left == Some(false);
            let Some((tally, _)) = self.group_row(id)?.filter(|row| before == Some(*row)) else {
                continue;
            };
            let sum = open + tally.have_ended();
            let dead = if tally.ended.is_none() { tally.dead } else { tally.dead_left };
            if tally.total != sum || tally.is_over() || tally.dead_left != dead {
                return Err(Violation(format!("G1: {id} has {open} open members, and {tally:?}")));
            }
            if tally.keeps_results && results > tally.have_ended() {
                return Err(Violation(format!("G1: {id} has {results} results, and {tally:?}")));
            }
            if is_left && tally.dead_left == 0 && results == 0 && !tally.keeps_results {
                return Err(Violation(format!("G1: {id} is never forgotten: {tally:?}")));
            }
            let mut last = None;
            loop {
                let page = self.members(id, last)?;
                last = page.last().copied();
                if last.is_none() {
                    break;
                }
                for member in page {
                    if self.is_left(id, member)? {
                        return Err(Violation(format!("G1: {member} of {id} is gone")));
                    }
                }
            }
        }
        Ok(())
    }

    /// Says whether a member is among the open ones, and neither a job nor a callback that is to come.
    fn is_left(&mut self, id: GroupId, member: JobId) -> Result<bool, Fault> {
        let is_to_come = self.ask("ZSCORE", Keys::ended, &id_bytes(member))?;
        let exists = self.ask("HEXISTS", Keys::jobs, &id_bytes(member))?;
        if is_to_come != Value::Nil || number(&exists)? == 1 {
            return Ok(false);
        }
        let at = place("", b'o', id, &id_bytes(member));
        Ok(self.ask("ZSCORE", Keys::members, at)? != Value::Nil)
    }
}
