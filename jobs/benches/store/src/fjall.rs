//! fjall: a log-structured tree.

use std::path::Path;

use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode};

use crate::Fallible;
use crate::candidate::{Candidate, Sync};
use crate::store::Store;
use crate::workload::{Job, due_of, key, value};

pub(crate) struct Fjall {
    database: Database,
    jobs: Keyspace,
    persist: PersistMode,
}

impl Fjall {
    pub(crate) fn open(candidate: &Candidate, directory: &Path) -> Fallible<Self> {
        let database = Database::builder(directory.join("jobs.fjall"))
            .cache_size(u64::from(candidate.cache_mib) * 1024 * 1024)
            .open()?;
        let jobs = database.keyspace("job", KeyspaceCreateOptions::default)?;
        let persist = match candidate.sync {
            Sync::Full => PersistMode::SyncData,
            Sync::Normal | Sync::Off => PersistMode::Buffer,
        };
        Ok(Self { database, jobs, persist })
    }
}

impl Store for Fjall {
    fn insert(&mut self, jobs: &[Job]) -> Fallible<()> {
        let mut batch = self.database.batch().durability(Some(self.persist));
        for job in jobs {
            batch.insert(&self.jobs, key(job.due, &job.id), value(job));
        }
        Ok(batch.commit()?)
    }

    fn take(&mut self, cursor: u64, count: usize) -> Fallible<u64> {
        let mut batch = self.database.batch().durability(Some(self.persist));
        let mut last = None;
        for row in self.jobs.range(key(cursor, &[0; 16])..).take(count) {
            let (key, value) = row.into_inner()?;
            std::hint::black_box(&value);
            last = Some(due_of(&key)?);
            batch.remove(&self.jobs, key);
        }
        batch.commit()?;
        last.ok_or_else(|| "no job is left".into())
    }

    fn first(&mut self) -> Fallible<u64> {
        let (key, value) = self.jobs.iter().next().ok_or("no job is left")?.into_inner()?;
        std::hint::black_box(value);
        due_of(&key)
    }

    fn settle(&mut self) -> Fallible<()> {
        self.jobs.rotate_memtable_and_wait()?;
        Ok(self.database.persist(PersistMode::SyncAll)?)
    }
}
