//! A case, which is one measurement, and the peers and suites that measure it.

use harness::Fallible;
use harness::case::{self, Figures};

/// One measurement, in a process of its own.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Case {
    /// `structures`, `threads` or `futures`.
    pub(crate) suite: String,
    /// The work: `pairs`, `drain`, ...
    pub(crate) work: String,
    /// The peer that does it.
    pub(crate) peer: String,
    /// The number of pending timers or of producers, depending on the work.
    pub(crate) size: usize,
    /// How delays are distributed, or which waker is used, where there is a choice; otherwise `-`.
    pub(crate) delays: String,
}

impl Case {
    pub(crate) fn new(suite: &str, work: &str, peer: &str, size: usize, delays: &str) -> Case {
        let [suite, work, peer, delays] = [suite, work, peer, delays].map(str::to_owned);
        Case { suite, work, peer, size, delays }
    }
}

impl case::Case for Case {
    const FIELDS: &'static str = "suite,work,peer,size,delays";

    fn fields(&self) -> Vec<String> {
        let Case { suite, work, peer, size, delays } = self.clone();
        vec![suite, work, peer, size.to_string(), delays]
    }

    fn parse(fields: &[&str]) -> Option<Case> {
        let [suite, work, peer, size, delays] = fields else { return None };
        Some(Case::new(suite, work, peer, size.parse().ok()?, delays))
    }

    fn part(&self) -> &str {
        &self.suite
    }

    /// Whether the two differ in the peer alone.
    fn takes_turns_with(&self, other: &Case) -> bool {
        *self == Case { peer: self.peer.clone(), ..other.clone() }
    }

    fn replaces(&self, older: &Case) -> bool {
        self.suite == older.suite
    }
}

/// A part of the comparison.
pub(crate) struct Suite {
    pub(crate) name: &'static str,
    /// Whether its cases are pinned to one core.
    pub(crate) pinned: bool,
    /// Its cases in the order of the report, each with its number of repetitions. The short form hardly
    /// measures anything.
    pub(crate) cases: fn(short: bool) -> Vec<(Case, usize)>,
    /// Runs one case, in this process.
    pub(crate) measure: fn(&Case, short: bool) -> Fallible<Figures>,
    /// Checks every peer against the rules of a timer. Returns for each its name, and "exact" or its deviation.
    pub(crate) verify: fn() -> Vec<(&'static str, String)>,
}

/// The function behind a peer's name.
pub(crate) struct Peer {
    pub(crate) name: &'static str,
    pub(crate) measure: fn(&Case, short: bool) -> Fallible<Figures>,
    pub(crate) verify: fn() -> String,
}

/// A work, and its sizes in the long form and in the short one.
pub(crate) struct Work {
    pub(crate) name: &'static str,
    pub(crate) delays: &'static str,
    pub(crate) sizes: &'static [usize],
    pub(crate) short: usize,
    pub(crate) rounds: usize,
}

impl Work {
    /// Its cases: for each size, each peer.
    pub(crate) fn cases(&self, suite: &str, peers: &[Peer], short: bool) -> Vec<(Case, usize)> {
        let (sizes, rounds) =
            if short { (std::slice::from_ref(&self.short), 1) } else { (self.sizes, self.rounds) };
        let of_size = |size: &usize| {
            let case = |peer: &Peer| Case::new(suite, self.name, peer.name, *size, self.delays);
            peers.iter().map(|peer| (case(peer), rounds)).collect::<Vec<_>>()
        };
        sizes.iter().flat_map(of_size).collect()
    }
}

/// Lets the peer of a case measure it.
pub(crate) fn measure(peers: &[Peer], case: &Case, short: bool) -> Fallible<Figures> {
    let peer = peers.iter().find(|peer| peer.name == case.peer);
    (peer.ok_or_else(|| format!("no peer is called {:?}", case.peer))?.measure)(case, short)
}

/// Checks whether each peer is exact.
pub(crate) fn verify(peers: &[Peer]) -> Vec<(&'static str, String)> {
    peers.iter().map(|peer| (peer.name, (peer.verify)())).collect()
}
