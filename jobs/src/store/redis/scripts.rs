//! The scripts, the commands that load them and call them by their hashes, and calls of those that change something,
//! before they are sent.

use redis::{Cmd, Script};

/// The text and the hash of every script, in the order of [`Name`].
pub(super) struct Scripts {
    all: Vec<(String, String)>,
}

/// The name and the text of a part.
pub(super) type PartText = (&'static str, &'static str);

/// A script: the prelude, names that stay nil, and parts in their order.
struct Source {
    name: &'static str,
    /// The names that this script does not define. A part lists in its head the names that may be missing.
    without: &'static str,
    parts: &'static [PartText],
}

macro_rules! scripts {
    ($($name:ident: $($part:literal)+ $(, without $without:literal)?;)+) => {
        /// The name of a script.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub(super) enum Name {
            $($name),+
        }

        const SOURCES: &[Source] = &[$(Source {
            name: stringify!($name),
            without: concat!($($without)?),
            parts: &[$(($part, include_str!(concat!("scripts/", $part, ".lua")))),+],
        }),+];
    };
}

// A server makes the functions of a script anew in each call, so each script has the parts that it needs. The two most
// frequent changes, `Complete` and `InsertMany`, are scripts of their own, and parts of `Change`; each has a second
// form for counted claims or for jobs with a partition, which needs more functions.
scripts! {
    Audit: "records" "kept_lists" "fences" "lanes" "audit";
    Change: "results" "records" "fences" "lanes" "lane_filing" "history" "groups" "batch" "ends"
        "kept_lists" "progress" "ended" "insert_many" "complete" "change_jobs" "settings" "other_ends" "apply";
    Claim: "claim" "candidates" "write_claim";
    ClaimLanes: "fences" "lanes" "claim" "limits" "candidates" "turns" "take_lanes" "write_claim";
    Complete: "results" "fences" "history" "batch" "ends" "complete" "apply",
        without "grouped, read, free_places";
    CompleteCounted: "results" "fences" "lanes" "history" "batch" "ends" "complete" "apply",
        without "grouped, read";
    Count: "records" "kept_lists" "count";
    Extend: "results" "extend";
    Info: "records" "fences" "info";
    InsertComing: "results" "lanes" "lane_filing" "history" "batch" "insert_many" "apply",
        without "grouped";
    InsertMany: "results" "history" "batch" "insert_many" "apply", without "grouped, filing";
    Kinds: "kinds";
    Page: "records" "kept_lists" "page";
    Poll: "results" "records" "fences" "lanes" "lane_filing" "history" "groups" "ends"
        "kept_lists" "progress" "ended" "heal_lanes" "expired_leases";
}

const PRELUDE: &str = include_str!("scripts/prelude.lua");

impl Source {
    fn text(&self) -> String {
        let parts: String = self.parts.iter().map(|(_, text)| *text).collect();
        match (self.name, self.without) {
            // It has no prelude: a caller need not know every kind.
            ("Kinds", _) => parts,
            (_, "") => format!("{PRELUDE}{parts}"),
            (_, without) => format!("{PRELUDE}local {without}\n{parts}"),
        }
    }
}

/// Returns the parts of a script, with their names.
#[cfg(test)]
pub(super) fn parts_of(name: Name) -> &'static [PartText] {
    SOURCES[name as usize].parts
}

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
    let name = name.replace('_', "");
    let source = SOURCES.iter().find(|source| source.name.eq_ignore_ascii_case(&name))?;
    Some(Script::new(&source.text()).get_hash().to_owned())
}

impl Scripts {
    pub(super) fn new() -> Scripts {
        let script = |source: &Source| {
            let text = source.text();
            let hash = Script::new(&text).get_hash().to_owned();
            (text, hash)
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
        let load = |(text, _): &(String, String)| {
            let mut cmd = redis::cmd("SCRIPT");
            cmd.arg("LOAD").arg(text);
            cmd
        };
        self.all.iter().map(load).collect()
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
    word: &'static str,
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
        let alone = self.list.as_ref().filter(|_| self.operations == 1);
        match alone.map(|list| list.word) {
            Some("insert_many") => Name::InsertMany,
            Some("insert_coming") => Name::InsertComing,
            Some("complete") if counted => Name::CompleteCounted,
            Some("complete") => Name::Complete,
            _ => self.name,
        }
    }

    /// Begins an operation.
    pub(super) fn begin(&mut self, word: &str) {
        self.list = None;
        self.operations += 1;
        self.push(word);
    }

    /// Begins an item of a list. Appends to the list at the end of the arguments if that has the same operation
    /// and the same `common`. Otherwise begins a list, and returns `true`.
    pub(super) fn item(&mut self, word: &'static str, common: Option<&str>) -> bool {
        let goes_on = |list: &ItemList| list.word == word && list.common.as_deref() == common;
        let begins = !self.list.as_ref().is_some_and(goes_on);
        if begins {
            self.begin(word);
            if let Some(common) = common {
                self.push(common);
            }
            let common = common.map(str::to_owned);
            self.list = Some(ItemList { word, common, many: 0, at: self.args.len() });
            self.push("0");
        }
        if let Some(list) = &mut self.list {
            list.many += 1;
            self.args[list.at] = list.many.to_string().into_bytes();
        }
        begins
    }

    /// Adds the end of a run that completed, as an item of a list. `complete.lua` has the form of the list.
    /// `word`: that of a member of a group, or of any other job.
    pub(super) fn completed(
        &mut self,
        word: &'static str,
        id: [u8; 16],
        token: [u8; TOKEN],
        buckets: &[u8],
    ) {
        if self.item(word, None) {
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
    use std::collections::{BTreeMap, BTreeSet};

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

    /// The names that Lua and the server define for every script.
    const LUA: &str = "string table math redis struct cjson tonumber tostring type pairs ipairs \
                       unpack next select pcall KEYS ARGV and break do else elseif end false for \
                       function if in local nil not or repeat return then true until while";

    fn is_of_name(letter: char) -> bool {
        letter.is_ascii_alphanumeric() || letter == '_'
    }

    /// Returns the names, numbers and signs of a part, without comments, texts and spaces.
    fn tokens(text: &str) -> Vec<&str> {
        let (mut tokens, mut rest) = (Vec::new(), text);
        while let Some(first) = rest.chars().next() {
            let until = |end: &dyn Fn(char) -> bool| rest.find(end).unwrap_or(rest.len());
            let length = match first {
                '\'' => rest[1..].find('\'').map_or(rest.len(), |quote| quote + 2),
                '.' => until(&|letter| letter != '.'),
                _ if rest.starts_with("--") => until(&|letter| letter == '\n'),
                _ if is_of_name(first) => until(&|letter| !is_of_name(letter)),
                _ => first.len_utf8(),
            };
            let (token, behind) = rest.split_at(length);
            if !token.starts_with("--") && !first.is_whitespace() && first != '\'' {
                tokens.push(token);
            }
            rest = behind;
        }
        tokens
    }

    /// Returns the names that a part uses and does not declare.
    fn foreign_names(text: &str) -> BTreeSet<&str> {
        let tokens = tokens(text);
        let (mut used, mut declared) = (BTreeSet::new(), BTreeSet::new());
        for (n, token) in tokens.iter().enumerate() {
            let (before, behind) = (n.checked_sub(1).map(|n| tokens[n]), &tokens[n + 1..]);
            let is_field = before == Some(".")
                || matches!((before, behind), (Some("{" | ","), ["=", value, ..]) if *value != "=");
            if !is_field && !token.starts_with(|letter: char| !letter.is_alphabetic()) {
                used.insert(*token);
            }
            match (*token, behind) {
                ("local", ["function", name, ..]) => drop(declared.insert(*name)),
                ("local", names) => {
                    let more = names.chunks(2).take_while(|two| two.get(1) == Some(&",")).count();
                    declared.extend(names.iter().step_by(2).take(more + 1));
                }
                ("for", names) => {
                    declared.extend(names.iter().take_while(|name| !["=", "in"].contains(name)));
                }
                ("function", _) => {
                    let names = behind.iter().skip_while(|token| **token != "(");
                    declared.extend(names.take_while(|token| **token != ")"));
                }
                _ => {}
            }
        }
        used.difference(&declared).copied().collect()
    }

    /// Returns the names that a part defines outside its functions. Later parts may use those that its head lists.
    fn declared_at_the_top(text: &str) -> BTreeSet<&str> {
        let lines = text.lines().filter_map(|line| line.strip_prefix("local "));
        let names = lines.flat_map(|line| {
            let names = line.strip_prefix("function ").unwrap_or(line);
            names.split(['(', '=']).next().unwrap_or_default().split(", ")
        });
        names.map(str::trim).collect()
    }

    /// Returns a list in the head of a part.
    fn listed<'a>(text: &'a str, label: &str) -> Vec<&'a str> {
        let head = text.split_once(&format!("\n-- {label}: ")).map_or("", |(_, list)| list);
        let list = head.split_once(".\n").map_or("", |(list, _)| list);
        let names = list.split([',', '\n']).map(|name| name.trim_start_matches(['-', ' ']));
        names.filter(|name| !name.is_empty()).collect()
    }

    /// Each name in a part is its own, or of Lua or the prelude, or one that a part before it gives, as the heads say.
    /// So no part uses a name that its script lacks, unless the head says that it may be missing.
    #[test]
    fn parts_need_and_give_what_their_heads_say() {
        let always: BTreeSet<&str> =
            LUA.split_whitespace().chain(declared_at_the_top(PRELUDE)).collect();
        for source in SOURCES.iter().filter(|source| source.name != "Kinds") {
            let mut given: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
            let mut may_lack = BTreeSet::new();
            for (part, text) in source.parts {
                let used = foreign_names(text);
                let mut left = used.difference(&always).copied().collect::<BTreeSet<_>>();
                for need in listed(text, "Needs") {
                    let names = given.get(need);
                    let names = names.unwrap_or_else(|| panic!("{part} needs {need} before it"));
                    assert!(!names.is_disjoint(&used), "{part} needs nothing of {need}");
                    left.retain(|name| !names.contains(name));
                }
                for name in listed(text, "May lack") {
                    assert!(left.remove(name), "{part} does not use {name}");
                    may_lack.insert(name);
                }
                assert!(left.is_empty(), "{part} uses {left:?}, and its head does not say so");
                let gives: BTreeSet<&str> = listed(text, "Gives").into_iter().collect();
                let declared = declared_at_the_top(text);
                assert!(gives.is_subset(&declared), "{part} gives {gives:?}, and has {declared:?}");
                given.insert(part, gives);
            }
            let all: BTreeSet<&str> = given.values().flatten().copied().collect();
            let lacks: BTreeSet<&str> = may_lack.difference(&all).copied().collect();
            let without: BTreeSet<&str> =
                source.without.split(", ").filter(|name| !name.is_empty()).collect();
            assert_eq!(lacks, without, "what {} lacks", source.name);
        }
    }

    /// Ends of the same claim that follow each other name its token once, and every end has its own buckets.
    #[test]
    fn ends_of_a_claim_name_its_token_once() {
        let mut call = ScriptCall::new(Name::Change, false);
        let ends = [(1, 7), (2, 7), (3, 8), (4, 7)];
        for (id, token) in ends {
            call.completed("complete", [id; 16], [token; TOKEN], &[id, token]);
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
