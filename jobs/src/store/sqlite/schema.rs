//! The tables.
//!
//! | table | a row is | grows with |
//! | --- | --- | --- |
//! | `job` | a job that is not dead, in the order of kind, due time, id | pending jobs |
//! | `later` | such a job of a later hour, in the order of kind, hour, id | pending jobs |
//! | `moved` | the place of a job whose id does not lead to it | jobs that were rescheduled, retried, or named by the caller |
//! | `key` | a key and the id of its pending or claimed job | jobs with keys |
//! | `claim` | the ids of jobs that were claimed together, until all of them have ended; the number of the row tells when | jobs in flight |
//! | `cancel_requested` | a claimed job whose cancel was requested | such requests, until the run ends |
//! | `progress` | a claimed job, and the progress that its run has set | such jobs, until the run ends |
//! | `ended` | a job that is dead, or cancelled and waited for; or an id that the caller chose and whose job has ended, or the id of a callback that is to come | such jobs and ids, until they are purged |
//! | `kept` | a completed job that is kept | such jobs, until they are trimmed or purged |
//! | `kept_list` | the kept jobs of a kind that ended together, and until when they are kept (`kept.rs`) | commits that ended such jobs |
//! | `dead_by_error` | a kind, the first line of an error, and the number of dead jobs with both | such groups |
//! | `kind` | the number of a kind, its name, its counts, and the latest minute of its history | kinds |
//! | `node` | a process that runs the jobs, and when it was last seen (`values/node.rs`) | processes of a day |
//! | `setting` | a setting of the queue: its name and its value (`values/setting.rs`) | settings |
//! | `history` | what happened in an hour or a day, by kind (`store/history.rs`) | kinds, for 48 hours and for 90 days |
//! | `schedule` | a schedule, and its next occurrence | schedules |
//! | `outbox` | a job that a statement of the application has stored (`statement.rs`) | such jobs, until the next transaction of this store |
//! | `lane` | a job with a partition that is due, in the order of kind, due time, id (`lane_table.rs`) | such jobs |
//! | `grp` | a group, with its counts (`groups.rs`) | groups, until they have ended, are purged, and no dead job names them |
//! | `member` | a group, and a member of it that is pending or claimed; or a callback of another group that is to come | such members |
//! | `callback` | a group, and the job that its end inserts | groups that have not ended |
//! | `tokens` | the tokens of a scope with a rate: the name of its limit, and a text (`values/rate.rs`) | scopes with a rate that was used lately |
//! | `meta` | the version of the tables; how often a process started to run the jobs; a count of flushes; the last hour that is in `job`; a number that identifies the file | nothing |
//!
//! Each job that is written at a random place of a B-tree costs a page. So a job of a later hour goes to
//! `later`, where the jobs of an hour lie in the order of their ids, which ascend: one place to write for
//! each hour, not for each job. `later_jobs.rs` moves an hour to `job`, sorted, before the hour begins. A
//! job that is due after all other jobs of its kind in `job` goes to the end of `job` at once: if every
//! delay is the same, no job is ever moved. There is no index of ids (see `values/id.rs`).
//!
//! The table `lane` and its indexes are made with the first job that has a partition, the table `tokens` with the first
//! token, those of kept jobs with the first job that is kept, and those of groups with the first group. So a file without
//! partitions, rates, kept jobs or groups has none of them, and no statement asks for them.
//!
//! The column `extra` holds the settings that few jobs have (`values/extra.rs`). It is NULL for all others.

/// The version of the tables that this code writes and reads.
pub(crate) const VERSION: i64 = 5;

/// The application id of a file that this code makes: "TWJ1".
pub(crate) const APPLICATION_ID: i64 = 0x5457_4a31;

/// The size of a page of a file that this code makes, in bytes.
pub(crate) const PAGE_BYTES: i64 = 4096;

pub(super) const TABLES: &str = "
CREATE TABLE {p}meta (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE {p}kind (n INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, jobs INTEGER NOT NULL,
    retrying INTEGER NOT NULL, dead INTEGER NOT NULL, kept INTEGER NOT NULL, kept_bytes INTEGER NOT NULL,
    minute BLOB
);
CREATE TABLE {p}job (
    kind INTEGER NOT NULL, due INTEGER NOT NULL, id BLOB NOT NULL,
    failures INTEGER NOT NULL, interruptions INTEGER NOT NULL, attempts INTEGER NOT NULL,
    callers_id INTEGER NOT NULL,
    part TEXT, key TEXT, errors TEXT, extra BLOB, payload BLOB NOT NULL,
    PRIMARY KEY (kind, due, id)
) WITHOUT ROWID;
CREATE TABLE {p}later (
    kind INTEGER NOT NULL, hour INTEGER NOT NULL, id BLOB NOT NULL, due INTEGER NOT NULL,
    failures INTEGER NOT NULL, interruptions INTEGER NOT NULL, attempts INTEGER NOT NULL,
    callers_id INTEGER NOT NULL,
    part TEXT, key TEXT, errors TEXT, extra BLOB, payload BLOB NOT NULL,
    PRIMARY KEY (kind, hour, id)
) WITHOUT ROWID;
CREATE TABLE {p}moved (
    id BLOB PRIMARY KEY, kind INTEGER NOT NULL, due INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE {p}key (name TEXT PRIMARY KEY, id BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE {p}claim (n INTEGER PRIMARY KEY, ids BLOB NOT NULL);
CREATE TABLE {p}cancel_requested (id BLOB PRIMARY KEY) WITHOUT ROWID;
CREATE TABLE {p}progress (id BLOB PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE {p}ended (
    id BLOB PRIMARY KEY, ending INTEGER NOT NULL, until INTEGER NOT NULL, at INTEGER NOT NULL,
    kind INTEGER, due INTEGER, took INTEGER,
    failures INTEGER, interruptions INTEGER, attempts INTEGER, callers_id INTEGER,
    part TEXT, key TEXT, errors TEXT, extra BLOB, result BLOB, payload BLOB
) WITHOUT ROWID;
CREATE INDEX {p}ended_until ON {p}ended (until);
CREATE INDEX {p}ended_at ON {p}ended (ending, at, id) WHERE ending > 1;
CREATE INDEX {p}ended_kind ON {p}ended (ending, kind, at, id) WHERE ending > 0;
CREATE TABLE {p}dead_by_error (
    kind INTEGER NOT NULL, error TEXT NOT NULL, jobs INTEGER NOT NULL,
    PRIMARY KEY (kind, error)
) WITHOUT ROWID;
CREATE INDEX {p}dead_by_error_jobs ON {p}dead_by_error (jobs);
CREATE TABLE {p}node (id TEXT PRIMARY KEY, seen INTEGER NOT NULL, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE {p}setting (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE {p}history (key BLOB NOT NULL UNIQUE, value BLOB NOT NULL);
CREATE TABLE {p}schedule (
    name TEXT PRIMARY KEY, kind INTEGER NOT NULL, rule TEXT NOT NULL, missed INTEGER NOT NULL,
    next INTEGER NOT NULL, payload BLOB NOT NULL
) WITHOUT ROWID;
CREATE TABLE {p}outbox (
    n INTEGER PRIMARY KEY, made_for_this_file INTEGER NOT NULL,
    job BLOB NOT NULL CHECK (typeof(job) = 'blob' AND substr(job, 1, 4) IS X'54574a31')
);
INSERT INTO {p}meta VALUES
    ('version', 5), ('starts', 0), ('flushes', 0), ('hour', -1), ('file', random());
";

/// The table of completed jobs that are kept, and the lists that have their order.
pub(super) const KEPT: &str = "
CREATE TABLE {p}kept (
    id BLOB PRIMARY KEY, kind INTEGER NOT NULL, at INTEGER NOT NULL, due INTEGER NOT NULL, took INTEGER NOT NULL,
    failures INTEGER NOT NULL, interruptions INTEGER NOT NULL, attempts INTEGER NOT NULL,
    callers_id INTEGER NOT NULL,
    part TEXT, key TEXT, errors TEXT, extra BLOB, result BLOB, payload BLOB NOT NULL
) WITHOUT ROWID;
CREATE TABLE {p}kept_list (
    kind INTEGER NOT NULL, at INTEGER NOT NULL, n INTEGER NOT NULL, until INTEGER NOT NULL, jobs BLOB NOT NULL,
    PRIMARY KEY (kind, at, n)
) WITHOUT ROWID;
CREATE INDEX {p}kept_until ON {p}kept_list (until);
";

/// The table of tokens.
pub(super) const TOKENS: &str = "
CREATE TABLE {p}tokens (scope TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
";

/// The table of lanes, the index by which a lane is read, and that of the jobs which go there.
pub(super) const LANES: &str = "
CREATE TABLE {p}lane (
    kind INTEGER NOT NULL, due INTEGER NOT NULL, id BLOB NOT NULL,
    failures INTEGER NOT NULL, interruptions INTEGER NOT NULL, attempts INTEGER NOT NULL,
    callers_id INTEGER NOT NULL,
    part TEXT NOT NULL, key TEXT, errors TEXT, extra BLOB, payload BLOB NOT NULL,
    PRIMARY KEY (kind, due, id)
) WITHOUT ROWID;
CREATE INDEX {p}lane_next ON {p}lane (kind, part, due, id);
CREATE INDEX {p}job_part ON {p}job (kind, due, id) WHERE part IS NOT NULL;
";

/// The tables of groups. One index lists the groups, and one finds those to purge.
pub(super) const GROUPS: &str = "
CREATE TABLE {p}grp (
    id BLOB PRIMARY KEY, made INTEGER NOT NULL, ended INTEGER, flags INTEGER NOT NULL,
    total INTEGER NOT NULL, completed INTEGER NOT NULL, dead INTEGER NOT NULL, cancelled INTEGER NOT NULL,
    dead_left INTEGER NOT NULL, callback BLOB
) WITHOUT ROWID;
CREATE INDEX {p}grp_made ON {p}grp (made, id);
CREATE TABLE {p}member (grp BLOB NOT NULL, id BLOB NOT NULL, PRIMARY KEY (grp, id)) WITHOUT ROWID;
CREATE TABLE {p}callback (grp BLOB PRIMARY KEY, id BLOB NOT NULL, job BLOB NOT NULL) WITHOUT ROWID;
CREATE INDEX {p}grp_ended ON {p}grp (ended) WHERE ended IS NOT NULL AND dead_left = 0;
";
