//! The check of a queue: reads every job, and compares the keys of the queue with each other.
//!
//! Other processes go on working meanwhile. But each job is checked as of one moment, because one script
//! reads all its places. The sums are of one moment too.

use std::collections::BTreeSet;

use redis::Value;

use super::Redis;
use super::calls::ITEMS;
use super::decode::{Fault, array, bytes, text};
use super::foreign;
use super::protocol::JobSet;
use super::reads::{number_arg, set_arg};
use super::records::{damaged, id_bytes, id_of, read_record};
use super::scripts::Name;
use crate::store::Ending;
use crate::values::error::Violation;
use crate::values::id::JobId;

/// Fields and values of a hash.
type Pairs = Vec<(Vec<u8>, Vec<u8>)>;

impl Redis {
    pub(super) fn audit(&mut self) -> Result<(), Violation> {
        match self.violation() {
            Ok(None) => Ok(()),
            Ok(Some(found)) => Err(Violation(found)),
            Err(fault) => Err(fault.error.into()),
        }
    }

    fn violation(&mut self) -> Result<Option<String>, Fault> {
        if let Some(wrong) = self.key_of_another_type()? {
            return Ok(Some(wrong));
        }
        // Also learns the kinds that are new to this process.
        let ids = match self.all_ids()? {
            Ok(ids) => ids,
            Err(wrong) => return Ok(Some(wrong)),
        };
        if let Some(wrong) = self.foreign_value()? {
            return Ok(Some(wrong));
        }
        for part in ids.chunks(ITEMS) {
            let args: Vec<Vec<u8>> = part.iter().map(|id| id_bytes(*id).to_vec()).collect();
            let reply = self.run(Name::Audit, &args)?;
            if let [id, what, ..] = array(&reply[2])? {
                return Ok(Some(format!("{}: {}", id_of(bytes(id)?)?, text(what)?)));
            }
        }
        let counted = self.counted()?;
        let counts = counted.counts;
        let alive = counts.pending.saturating_add(counts.running);
        let [ended, records, fences] = counted.sizes;
        let of_kinds: u64 =
            counted.kinds.iter().fold(0, |sum: u64, (_, jobs)| sum.saturating_add(*jobs));
        if alive.saturating_add(ended) != records || fences != counts.running {
            return Ok(Some(format!(
                "R9: {counts:?}, and {records} records, {fences} fences, {ended} that have ended"
            )));
        }
        if of_kinds != alive {
            return Ok(Some(format!("R10: {alive} jobs, and {of_kinds} of all kinds")));
        }
        if counted.empty_places != 0 {
            let empty = counted.empty_places;
            return Ok(Some(format!("R21: {empty} more places in lanes than jobs in them")));
        }
        if counted.leaked_places != 0 {
            let leaked = counted.leaked_places;
            return Ok(Some(format!("R24: {leaked} more places of claims than claims")));
        }
        let set_aside = self.keys.unreadable().to_owned();
        if let Some((name, _)) = self.scan(&set_aside)?.first() {
            let what = foreign::what(&self.keys, name);
            return Ok(Some(format!("R14: {what} cannot be read, and was set aside")));
        }
        if let Some(wrong) = self.wrong_group()? {
            return Ok(Some(wrong));
        }
        self.keys_agree()
    }

    /// Returns every id in any key of the queue; or an error that names a field of `jobs` which is none.
    fn all_ids(&mut self) -> Result<Result<Vec<JobId>, String>, Fault> {
        let mut ids = BTreeSet::new();
        let keys = [self.keys.jobs(), self.keys.fences(), self.keys.progress()];
        for key in keys.map(str::to_owned) {
            for (id, _) in self.scan(&key)? {
                match id_of(&id) {
                    Ok(id) => drop(ids.insert(id)),
                    Err(_) => {
                        let id = id.escape_ascii();
                        return Ok(Err(format!("R23: \"{id}\" in {key} makes no sense")));
                    }
                }
            }
        }
        ids.extend(self.claimed_ids()?.into_iter().map(|(id, ..)| id));
        for ending in Ending::ALL {
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
                    vec![set_arg(JobSet::Pending), number_arg(ITEMS), from.0, b"1e18".to_vec()];
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
        Ok(Ok(ids.into_iter().collect()))
    }

    /// Checks that each key leads to a job that has it.
    fn keys_agree(&mut self) -> Result<Option<String>, Fault> {
        let (keys, jobs) = (self.keys.keys().to_owned(), self.keys.jobs().to_owned());
        for (key, id) in self.scan(&keys)? {
            let mut get = redis::cmd("HGET");
            get.arg(&jobs).arg(&id);
            let record = match self.plain(get)? {
                Value::BulkString(record) => read_record(&record).ok().and_then(|it| it.key),
                _ => None,
            };
            if record.as_deref().map(str::as_bytes) == Some(&key) {
                continue;
            }
            // The job may have ended meanwhile.
            let mut get = redis::cmd("HGET");
            get.arg(&keys).arg(&key);
            if matches!(self.plain(get)?, Value::BulkString(now) if now == id) {
                let key = String::from_utf8_lossy(&key).into_owned();
                return Ok(Some(format!(
                    "R11: the key {key:?} in {keys} leads to a job without it"
                )));
            }
        }
        Ok(None)
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
