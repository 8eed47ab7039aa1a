//! The contenders, as data.

use std::path::Path;

use harness::queues::OURS;
use harness::{queues, versions};

/// The folder of the source, in which the contenders lie.
pub(crate) const HOME: &str = env!("CARGO_MANIFEST_DIR");

/// The persistence of the server, the same for all.
pub(crate) const EVERYSEC: &str = "everysec";
/// The only level there is.
pub(crate) const LEVELS: &[&str] = &[EVERYSEC];

pub(crate) type Contender = queues::Contender<Handling>;

/// How a contender is handled.
pub(crate) struct Handling {
    pub(crate) kind: Kind,
    /// The share of the jobs that this contender is given in rows in which only the number of jobs
    /// matters. A slow contender would take minutes with all of them.
    pub(crate) share: f64,
    /// The time that it has to insert jobs that are due at a fixed time, as a multiple of the row's time.
    pub(crate) patience: f64,
}

/// How a contender is built and started.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Rust,
    Node,
    /// It keeps its jobs in PostgreSQL, and is only in the row `partitions`.
    NodeOnPostgres,
    Python,
}

pub(crate) const CONTENDERS: &[Contender] = &[
    contender(OURS, "tickwheel-jobs", Kind::Rust),
    contender("bullmq-official", "bullmq-official", Kind::Rust),
    contender("apalis", "apalis-redis", Kind::Rust),
    contender("bullmq", "bullmq", Kind::Node),
    Contender {
        own: Handling { kind: Kind::Python, share: 0.05, patience: 7.0 },
        ..contender("arq", "arq", Kind::Python)
    },
    contender("graphile", "graphile-worker", Kind::NodeOnPostgres),
];

/// The contenders that keep their jobs on a Redis server.
pub(crate) const ON_REDIS: &[&str] = &[OURS, "bullmq-official", "apalis", "bullmq", "arq"];
/// The contenders whose jobs may have a partition that runs one job at once.
pub(crate) const WITH_PARTITIONS: &[&str] = &[OURS, "graphile"];
/// The contenders that can limit how many jobs of a queue start in a time.
pub(crate) const WITH_LIMITS: &[&str] = &[OURS, "bullmq-official", "bullmq"];

const fn contender(name: &'static str, package: &'static str, kind: Kind) -> Contender {
    Contender { name, package, levels: LEVELS, own: Handling { kind, share: 1.0, patience: 1.0 } }
}

/// The version that a contender was built with.
pub(crate) fn version_of(contender: &Contender) -> Option<String> {
    let (folder, package) = (Path::new(HOME).join(contender.name), contender.package);
    match contender.own.kind {
        Kind::Rust => versions::locked(&folder, package),
        Kind::Node | Kind::NodeOnPostgres => {
            versions::pinned(&folder.join("package.json"), &format!("\"{package}\": \""), '"')
        }
        Kind::Python => {
            versions::pinned(&folder.join("requirements.txt"), &format!("{package}=="), '\n')
        }
    }
}
