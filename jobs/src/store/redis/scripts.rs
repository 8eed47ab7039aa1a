//! The scripts, the commands that load them and call them by their hashes, and calls of those that change something,
//! before they are sent.

use redis::{Cmd, Script};

use super::protocol::Operation;

/// The name of a script.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Name {
    Audit,
    Change,
    Claim,
    ClaimLanes,
    Complete,
    CompleteCounted,
    Count,
    Extend,
    Info,
    InsertComing,
    InsertMany,
    Kinds,
    Page,
    Poll,
}

/// Every script, in the order of [`Name`].
pub(super) struct Scripts {
    all: Vec<(Script, String)>,
}

macro_rules! script {
    ($($file:literal),+) => {
        concat!(
            include_str!("scripts/prelude.lua"),
            $(include_str!(concat!("scripts/", $file))),+
        )
    };
}

/// A server makes the functions of a script anew in each call, so each script has the parts that it needs. The two
/// most frequent changes, `Complete` and `InsertMany`, are scripts of their own, and parts of `Change`.
const SOURCES: [&str; 14] = [
    script!(
        "records.lua",
        "kept_lists.lua",
        "fences.lua",
        "partitions.lua",
        "groups.lua",
        "audit.lua"
    ),
    script!(
        "results.lua",
        "records.lua",
        "fences.lua",
        "partitions.lua",
        "places.lua",
        "lane_filing.lua",
        "forget.lua",
        "kept_lists.lua",
        "ended.lua",
        "history.lua",
        "groups.lua",
        "batch.lua",
        "every_end.lua",
        "insert_many.lua",
        "insert_coming.lua",
        "complete.lua",
        "change_jobs.lua",
        "schedules.lua",
        "group_changes.lua",
        "other_ends.lua",
        "follow_ups.lua",
        "apply.lua"
    ),
    script!(
        "no_lanes.lua",
        "claim.lua",
        "candidates.lua",
        "take_candidates.lua",
        "take_plain.lua",
        "write_claim.lua"
    ),
    script!(
        "fences.lua",
        "partitions.lua",
        "places.lua",
        "lane_args.lua",
        "claim.lua",
        "tokens.lua",
        "limits.lua",
        "recount.lua",
        "candidates.lua",
        "take_candidates.lua",
        "turns.lua",
        "take_lanes.lua",
        "write_claim.lua"
    ),
    script!(
        "results.lua",
        "fences.lua",
        "no_places.lua",
        "no_groups.lua",
        "forget.lua",
        "history.lua",
        "batch.lua",
        "every_end.lua",
        "complete.lua",
        "apply.lua"
    ),
    script!(
        "results.lua",
        "fences.lua",
        "places.lua",
        "no_groups.lua",
        "forget.lua",
        "history.lua",
        "batch.lua",
        "every_end.lua",
        "complete.lua",
        "apply.lua"
    ),
    script!("records.lua", "count.lua"),
    script!("results.lua", "extend.lua"),
    script!("records.lua", "fences.lua", "info.lua"),
    script!(
        "results.lua",
        "partitions.lua",
        "places.lua",
        "lane_filing.lua",
        "no_groups.lua",
        "history.lua",
        "batch.lua",
        "insert_many.lua",
        "insert_coming.lua",
        "apply.lua"
    ),
    script!(
        "results.lua",
        "no_groups.lua",
        "history.lua",
        "batch.lua",
        "insert_many.lua",
        "apply.lua"
    ),
    include_str!("scripts/kinds.lua"),
    script!("records.lua", "kept_lists.lua", "page.lua"),
    script!(
        "records.lua",
        "fences.lua",
        "partitions.lua",
        "places.lua",
        "lane_filing.lua",
        "forget.lua",
        "kept_lists.lua",
        "ended.lua",
        "history.lua",
        "groups.lua",
        "heal_lanes.lua",
        "expired_leases.lua"
    ),
];

/// Returns the commands that load and call the script `rights.lua`. The commands to check follow as arguments
/// of the call.
pub(super) fn rights_script() -> (Cmd, Cmd) {
    const SOURCE: &str = include_str!("scripts/rights.lua");
    let (mut load, mut call) = (redis::cmd("SCRIPT"), redis::cmd("EVALSHA"));
    load.arg("LOAD").arg(SOURCE);
    call.arg(Script::new(SOURCE).get_hash()).arg(0);
    (load, call)
}

/// Returns the hash of a script by its name, for tests that look for its calls.
#[must_use]
pub fn hash_of(name: &str) -> Option<String> {
    let at = match name {
        "change" => Name::Change,
        "claim" => Name::Claim,
        "claim_lanes" => Name::ClaimLanes,
        "complete" => Name::Complete,
        "complete_counted" => Name::CompleteCounted,
        "insert_coming" => Name::InsertComing,
        "insert_many" => Name::InsertMany,
        _ => return None,
    };
    Some(Script::new(SOURCES[at as usize]).get_hash().to_owned())
}

impl Scripts {
    pub(super) fn new() -> Scripts {
        let script = |source: &&str| {
            let script = Script::new(source);
            let hash = script.get_hash().to_owned();
            (script, hash)
        };
        Scripts { all: SOURCES.iter().map(script).collect() }
    }

    /// Returns the beginning of a call, with the keys. The arguments follow.
    pub(super) fn call(&self, name: Name, keys: &[Vec<u8>]) -> Cmd {
        let mut cmd = redis::cmd("EVALSHA");
        cmd.arg(&self.all[name as usize].1).arg(keys.len()).arg(keys);
        cmd
    }

    /// Returns the commands that load every script.
    pub(super) fn loading(&self) -> Vec<Cmd> {
        let load = |source: &&str| {
            let mut cmd = redis::cmd("SCRIPT");
            cmd.arg("LOAD").arg(*source);
            cmd
        };
        SOURCES.iter().map(load).collect()
    }
}

/// The most items of a call.
pub(super) const ITEMS: usize = 256;
/// The most bytes of a call, unless one operation has more.
pub(super) const BYTES: usize = 1 << 20;
/// The bytes of the number of ends with one token, and of the token.
const COUNT: usize = 2;
const TOKEN: usize = 16;

/// A call of a script that changes something.
pub(super) struct ScriptCall {
    pub(super) name: Name,
    /// The operations whose results are in its answer.
    pub(super) parts: Vec<Part>,
    pub(super) args: Vec<Vec<u8>>,
    pub(super) items: usize,
    pub(super) bytes: usize,
    /// Its operations need memory.
    pub(super) grows: bool,
    /// The script does nothing unless the call before has been done.
    pub(super) continues: bool,
    /// The list that the arguments end with.
    list: Option<ItemList>,
    /// How many operations it has. The items of a list are one.
    operations: usize,
}

/// Items of one operation, which a script handles together.
struct ItemList {
    operation: Operation,
    /// The argument that all items share: their kind, or the bounds of their kept jobs.
    common: Option<String>,
    many: usize,
    /// The index of the argument with the number of items.
    at: usize,
}

/// A part of a call's answer: the results of one operation.
#[derive(Clone, Copy)]
pub(super) struct Part {
    /// The index of the operation.
    pub(super) op: usize,
    pub(super) results: usize,
}

impl ScriptCall {
    pub(super) fn new(name: Name, grows: bool) -> ScriptCall {
        ScriptCall {
            name,
            parts: Vec::new(),
            args: Vec::new(),
            items: 0,
            bytes: 0,
            grows,
            continues: false,
            list: None,
            operations: 0,
        }
    }

    /// Returns the smallest script that has the operations of this call. `counted`: a claim of this process was
    /// counted.
    pub(super) fn script(&self, counted: bool) -> Name {
        match &self.list {
            Some(ItemList { operation: Operation::InsertMany, .. }) if self.operations == 1 => {
                Name::InsertMany
            }
            Some(ItemList { operation: Operation::InsertComing, .. }) if self.operations == 1 => {
                Name::InsertComing
            }
            Some(ItemList { operation: Operation::Complete, .. }) if self.operations == 1 => {
                if counted {
                    Name::CompleteCounted
                } else {
                    Name::Complete
                }
            }
            _ => self.name,
        }
    }

    /// Begins an operation.
    pub(super) fn begin(&mut self, operation: Operation) {
        self.list = None;
        self.operations += 1;
        self.push(operation.word());
    }

    /// Begins an item of a list. Appends to the list at the end of the arguments if that has the same operation
    /// and the same `common`. Otherwise begins a list, and returns `true`.
    pub(super) fn item(&mut self, operation: Operation, common: Option<&str>) -> bool {
        let goes_on =
            |list: &ItemList| list.operation == operation && list.common.as_deref() == common;
        let begins = !self.list.as_ref().is_some_and(goes_on);
        if begins {
            self.begin(operation);
            if let Some(common) = common {
                self.push(common);
            }
            let common = common.map(str::to_owned);
            self.list = Some(ItemList { operation, common, many: 0, at: self.args.len() });
            self.push("0");
        }
        if let Some(list) = &mut self.list {
            list.many += 1;
            self.args[list.at] = list.many.to_string().into_bytes();
        }
        begins
    }

    /// Adds the end of a run that completed, as an item of a list. `complete.lua` has the form of the list.
    /// `operation`: that of a member of a group, or of any other job.
    pub(super) fn completed(
        &mut self,
        operation: Operation,
        id: [u8; 16],
        token: [u8; TOKEN],
        buckets: &[u8],
    ) {
        if self.item(operation, None) {
            self.push("");
            self.push("");
        }
        self.push(id);
        self.bytes += COUNT + TOKEN + buckets.len();
        let Some(ItemList { at, .. }) = self.list else { return };
        let groups = &mut self.args[at + 1];
        let same =
            groups.last_chunk::<{ COUNT + TOKEN }>().is_some_and(|group| group[COUNT..] == token);
        if same && let Some([high, low, ..]) = groups.last_chunk_mut::<{ COUNT + TOKEN }>() {
            [*high, *low] = (u16::from_be_bytes([*high, *low]) + 1).to_be_bytes();
        } else {
            groups.extend(1_u16.to_be_bytes());
            groups.extend(token);
        }
        self.args[at + 2].extend(buckets);
    }

    /// Ends the list at the end of the arguments.
    pub(super) fn end_list(&mut self) {
        self.list = None;
    }

    pub(super) fn push(&mut self, arg: impl Into<Vec<u8>>) {
        let arg = arg.into();
        self.bytes += arg.len() + 8;
        self.args.push(arg);
    }

    pub(super) fn takes(&self, name: Name, grows: bool, items: usize, bytes: usize) -> bool {
        let fits = self.items + items <= ITEMS && self.bytes + bytes <= BYTES;
        self.name == name && self.grows == grows && !self.continues && fits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The scripts and the commands that wait for replicas keep the last answers for the same time.
    #[test]
    fn last_answers_are_kept_equally_long_by_scripts_and_client() {
        let kept =
            format!("local SENT_KEPT_MS = '{}'\n", crate::store::redis::round_trips::SENT_KEPT_MS);
        assert!(include_str!("scripts/prelude.lua").contains(&kept));
    }

    /// A job dies after the same number of interruptions in the scripts and in the other stores.
    #[test]
    fn interruptions_that_kill_a_job_are_as_many_in_the_scripts() {
        let most = format!("local MOST_INTERRUPTIONS = {}\n", crate::store::MOST_INTERRUPTIONS);
        assert!(include_str!("scripts/prelude.lua").contains(&most));
    }

    /// Ends of the same claim that follow each other name its token once, and every end has its own buckets.
    #[test]
    fn ends_of_a_claim_name_its_token_once() {
        let mut call = ScriptCall::new(Name::Change, false);
        let ends = [(1, 7), (2, 7), (3, 8), (4, 7)];
        for (id, token) in ends {
            call.completed(Operation::Complete, [id; 16], [token; TOKEN], &[id, token]);
        }
        let group = |count: u8, token: u8| [&[0, count][..], &[token; TOKEN]].concat();
        let groups = [group(2, 7), group(1, 8), group(1, 7)].concat();
        let mut expected = vec![b"complete".to_vec(), b"4".to_vec(), groups];
        expected.push(ends.iter().flat_map(|(id, token)| [*id, *token]).collect());
        expected.extend(ends.iter().map(|(id, _)| vec![*id; 16]));
        assert_eq!(call.args, expected);
        assert_eq!(call.script(false), Name::Complete);
        assert_eq!(call.script(true), Name::CompleteCounted);
    }
}
