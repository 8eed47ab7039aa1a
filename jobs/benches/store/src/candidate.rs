//! Which stores are measured, with which settings.

use std::fmt;
use std::str::FromStr;

/// The library, and for SQLite the schema.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Engine {
    /// One tree: `PRIMARY KEY (kind, due, id) WITHOUT ROWID`.
    S1,
    /// Two trees: `id PRIMARY KEY WITHOUT ROWID`, and an index on `(kind, due)`.
    S2,
    /// S1 for the near hour, and a tree keyed by `(kind, hour, id)` for later jobs.
    S3,
    /// S3, but a job that is due after every job of the first tree is appended there.
    S4,
    Redb,
    Fjall,
}

/// What a commit has done when it returns.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Sync {
    /// The commit is on the disk: `FULL`, `Durability::Immediate`, `PersistMode::SyncData`.
    Full,
    /// The commit is with the operating system: `NORMAL`, `PersistMode::Buffer`.
    Normal,
    /// Only to fill a file before it is measured.
    Off,
}

/// A store with its settings. The text form is `engine/sync/page/cache/checkpoint/vacuum`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Candidate {
    pub(crate) engine: Engine,
    pub(crate) sync: Sync,
    /// SQLite's `page_size`, in bytes; 0 elsewhere.
    pub(crate) page_bytes: u32,
    pub(crate) cache_mib: u32,
    /// SQLite's `wal_autocheckpoint`, in pages; 0 elsewhere.
    pub(crate) checkpoint_pages: u32,
    /// SQLite's `auto_vacuum = INCREMENTAL`.
    pub(crate) vacuum: bool,
}

/// The cache that every store gets unless the cache is what is compared.
const CACHE_MIB: u32 = 32;
/// The WAL that every page size gets: 4000 pages of 4 KiB.
const WAL_BYTES: u32 = 4000 * 4096;

impl Candidate {
    pub(crate) fn sqlite(engine: Engine, sync: Sync, page_bytes: u32) -> Self {
        let checkpoint_pages = WAL_BYTES / page_bytes;
        Self { engine, sync, page_bytes, cache_mib: CACHE_MIB, checkpoint_pages, vacuum: false }
    }

    pub(crate) fn other(engine: Engine, sync: Sync, cache_mib: u32) -> Self {
        Self { engine, sync, page_bytes: 0, cache_mib, checkpoint_pages: 0, vacuum: false }
    }

    pub(crate) fn is_sqlite(&self) -> bool {
        matches!(self.engine, Engine::S1 | Engine::S2 | Engine::S3 | Engine::S4)
    }

    /// What tells the file of this candidate from the files of others, before it is measured.
    pub(crate) fn layout(&self) -> String {
        format!("{:?}-{}-{}", self.engine, self.page_bytes, self.vacuum)
    }
}

/// Those whose speed is compared, in (a) and in (b).
pub(crate) fn compared() -> Vec<Candidate> {
    let mut all = Vec::new();
    for sync in [Sync::Full, Sync::Normal] {
        for page_bytes in [1024, 2048, 4096, 8192] {
            all.push(Candidate::sqlite(Engine::S1, sync, page_bytes));
        }
        all.push(Candidate::sqlite(Engine::S2, sync, 4096));
        all.push(Candidate::sqlite(Engine::S3, sync, 4096));
    }
    all.push(Candidate::other(Engine::Redb, Sync::Full, CACHE_MIB));
    // redb's own default.
    all.push(Candidate::other(Engine::Redb, Sync::Full, 1024));
    all.push(Candidate::other(Engine::Fjall, Sync::Full, CACHE_MIB));
    all.push(Candidate::other(Engine::Fjall, Sync::Normal, CACHE_MIB));
    all
}

/// The settings that are compared, in (b): one tree, each commit on the disk.
pub(crate) fn settings() -> Vec<Candidate> {
    let mut all = Vec::new();
    for cache_mib in [8, 32, 64] {
        for checkpoint_pages in [1000, 4000, 16_000] {
            let base = Candidate::sqlite(Engine::S1, Sync::Full, 4096);
            all.push(Candidate { cache_mib, checkpoint_pages, ..base });
        }
    }
    // As many bytes of WAL as 16,000 pages of 4 KiB.
    let small = Candidate::sqlite(Engine::S1, Sync::Full, 1024);
    all.push(Candidate { checkpoint_pages: 64_000, ..small });
    let base = Candidate::sqlite(Engine::S1, Sync::Full, 4096);
    all.push(Candidate { vacuum: true, ..base });
    all
}

/// The schemas of one tree and of two, in (a) and in (b).
pub(crate) fn schemas() -> Vec<Candidate> {
    let mut all = Vec::new();
    for sync in [Sync::Full, Sync::Normal] {
        for engine in [Engine::S1, Engine::S3, Engine::S4] {
            all.push(Candidate::sqlite(engine, sync, 4096));
        }
    }
    all
}

/// The settings that are compared for the schema of two trees, in (b).
pub(crate) fn settings_of_two_trees() -> Vec<Candidate> {
    let mut all = Vec::new();
    for page_bytes in [2048, 4096, 8192] {
        all.push(Candidate::sqlite(Engine::S4, Sync::Full, page_bytes));
    }
    for checkpoint_pages in [1000, 16_000] {
        let base = Candidate::sqlite(Engine::S4, Sync::Full, 4096);
        all.push(Candidate { checkpoint_pages, ..base });
    }
    let base = Candidate::sqlite(Engine::S4, Sync::Full, 4096);
    all.push(Candidate { cache_mib: 8, ..base });
    all
}

/// Those whose files are compared: growth, and reopening after a kill.
pub(crate) fn files() -> Vec<Candidate> {
    vec![
        Candidate::sqlite(Engine::S1, Sync::Full, 4096),
        Candidate::sqlite(Engine::S4, Sync::Full, 4096),
        Candidate::other(Engine::Redb, Sync::Full, CACHE_MIB),
        Candidate::other(Engine::Fjall, Sync::Full, CACHE_MIB),
    ]
}

impl fmt::Display for Candidate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { engine, sync, page_bytes, cache_mib, checkpoint_pages, vacuum } = self;
        write!(f, "{engine:?}/{sync:?}/{page_bytes}/{cache_mib}/{checkpoint_pages}/{vacuum}")
    }
}

impl FromStr for Candidate {
    type Err = Box<dyn std::error::Error>;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let parts: Vec<&str> = text.split('/').collect();
        let [engine, sync, page_bytes, cache_mib, checkpoint_pages, vacuum] = parts[..] else {
            return Err(format!("not a candidate: {text}").into());
        };
        Ok(Self {
            engine: match engine {
                "S1" => Engine::S1,
                "S2" => Engine::S2,
                "S3" => Engine::S3,
                "S4" => Engine::S4,
                "Redb" => Engine::Redb,
                "Fjall" => Engine::Fjall,
                _ => return Err(format!("not an engine: {engine}").into()),
            },
            sync: match sync {
                "Full" => Sync::Full,
                "Normal" => Sync::Normal,
                "Off" => Sync::Off,
                _ => return Err(format!("not a sync: {sync}").into()),
            },
            page_bytes: page_bytes.parse()?,
            cache_mib: cache_mib.parse()?,
            checkpoint_pages: checkpoint_pages.parse()?,
            vacuum: vacuum.parse()?,
        })
    }
}
