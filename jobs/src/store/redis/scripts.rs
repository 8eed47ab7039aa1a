//! The scripts, and the commands that load them and call them by their hashes.

use redis::{Cmd, Script};

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
        "filing.lua",
        "forget.lua",
        "kept_lists.lua",
        "ended.lua",
        "history.lua",
        "groups.lua",
        "batch.lua",
        "claim_ends.lua",
        "insert_many.lua",
        "insert_coming.lua",
        "complete.lua",
        "change.lua",
        "schedules.lua",
        "group_changes.lua",
        "ends.lua",
        "then.lua",
        "apply.lua"
    ),
    script!(
        "no_lanes.lua",
        "claim.lua",
        "candidates.lua",
        "take.lua",
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
        "take.lua",
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
        "claim_ends.lua",
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
        "claim_ends.lua",
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
        "filing.lua",
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
        "filing.lua",
        "forget.lua",
        "kept_lists.lua",
        "ended.lua",
        "history.lua",
        "groups.lua",
        "look.lua",
        "poll.lua"
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

#[cfg(test)]
mod tests {
    /// The scripts and the commands that wait for replicas keep the last answers for the same time.
    #[test]
    fn last_answers_are_kept_equally_long_by_scripts_and_client() {
        let kept =
            format!("local SENT_KEPT_MS = '{}'\n", crate::store::redis::replicas::SENT_KEPT_MS);
        assert!(include_str!("scripts/prelude.lua").contains(&kept));
    }

    /// A job dies after the same number of interruptions in the scripts and in the other stores.
    #[test]
    fn interruptions_that_kill_a_job_are_as_many_in_the_scripts() {
        let most = format!("local MOST_INTERRUPTIONS = {}\n", crate::store::MOST_INTERRUPTIONS);
        assert!(include_str!("scripts/prelude.lua").contains(&most));
    }
}
