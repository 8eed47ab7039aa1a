//! redb. Each commit is `Durability::Immediate`: the other level, `None`, loses commits when the
//! process is killed, and is comparable to no level of the others.

use std::path::Path;

use redb::{Database, ReadableDatabase, ReadableTable, TableDefinition};

use crate::Fallible;
use crate::candidate::Candidate;
use crate::store::Store;
use crate::workload::{Job, Key, due_of, key, value};

const TABLE: TableDefinition<&Key, &[u8]> = TableDefinition::new("job");

pub(crate) struct Redb {
    database: Database,
    taken: Vec<Key>,
}

impl Redb {
    pub(crate) fn open(candidate: &Candidate, directory: &Path) -> Fallible<Self> {
        let database = Database::builder()
            .set_cache_size(candidate.cache_mib as usize * 1024 * 1024)
            .create(directory.join("jobs.redb"))?;
        Ok(Self { database, taken: Vec::new() })
    }
}

impl Store for Redb {
    fn insert(&mut self, jobs: &[Job]) -> Fallible<()> {
        let transaction = self.database.begin_write()?;
        {
            let mut table = transaction.open_table(TABLE)?;
            for job in jobs {
                table.insert(&key(job.due, &job.id), value(job).as_slice())?;
            }
        }
        Ok(transaction.commit()?)
    }

    fn take(&mut self, cursor: u64, count: usize) -> Fallible<u64> {
        let transaction = self.database.begin_write()?;
        let last = {
            let mut table = transaction.open_table(TABLE)?;
            self.taken.clear();
            for row in table.range::<&Key>(&key(cursor, &[0; 16])..)?.take(count) {
                let (key, value) = row?;
                std::hint::black_box(value.value());
                self.taken.push(*key.value());
            }
            for key in &self.taken {
                table.remove(key)?;
            }
            due_of(self.taken.last().ok_or("no job is left")?)?
        };
        transaction.commit()?;
        Ok(last)
    }

    fn first(&mut self) -> Fallible<u64> {
        let table = self.database.begin_read()?.open_table(TABLE)?;
        let (key, value) = table.first()?.ok_or("no job is left")?;
        std::hint::black_box(value.value());
        due_of(key.value())
    }
}
