//! What a user may pass by mistake: an error that names it, and nothing lost.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tickwheel_jobs::rusqlite::Connection;
use tickwheel_jobs::{
    InsertErrorKind, InvalidInput, Job, Jobs, Keep, Limit, OpenError, Step, StoreError,
};

use super::support::*;

/// P20: A file that is older than the first release is refused by name, and stays as it is.
#[test]
fn file_of_an_older_version_is_refused_and_left_unchanged() {
    let (_folder, path) = file();
    drop(open(&path));
    let other = Connection::open(&path).unwrap();
    other.execute_batch("UPDATE tickwheel_meta SET value = 1 WHERE name = 'version'").unwrap();
    drop(other);
    let before = std::fs::read(&path).unwrap();
    let refused = Jobs::open(&path).unwrap_err();
    assert!(matches!(&refused, OpenError::Older { version: 1, .. }), "{refused:?}");
    assert!(refused.to_string().contains("jobs.db"), "{refused}");
    assert_eq!(std::fs::read(&path).unwrap(), before);
}

/// The builder refuses settings that are out of range or missing, and names them.
#[test]
fn builder_refuses_invalid_settings() {
    let builder = || Jobs::memory().handle(|_: Close, _| Ok(()));
    assert!(config_error(builder().lease(Duration::ZERO)).contains("lease"));
    assert!(config_error(builder().call_timeout(Duration::ZERO)).contains("call_timeout"));
    assert!(config_error(builder().max_in_flight(0)).contains("in_flight"));
    assert!(config_error(builder().threads(0)).contains("threads(0)"));
    assert!(config_error(builder().queue("")).contains("queue"));
    assert!(config_error(builder().queue("a-b; DROP")).contains("a-b; DROP"));
    assert!(matches!(Jobs::memory().start(), Err(OpenError::NoHandlers)));
    let twice = builder().handle(|_: Close, _| Ok(())).start();
    assert!(matches!(twice, Err(OpenError::SameKind(kind)) if kind == "close-order"));
    assert!(matches!(Jobs::memory().client(), Err(OpenError::Config(_))));
    assert!(matches!(builder().client(), Err(OpenError::Config(_))));
}

/// A call timeout that ends after every clock is no limit.
#[test]
fn call_timeout_of_any_length_is_taken() {
    for timeout in [Duration::MAX, Duration::from_secs(u64::MAX / 4), Duration::from_nanos(1)] {
        on_each_store(|builder| {
            let builder = builder.call_timeout(timeout).handle(|_: Close, _| Ok(()));
            let jobs = builder.start().unwrap();
            let inserted = jobs.insert(HOUR, close(1)).map_err(|refused| refused.kind().clone());
            match inserted {
                Ok(_) => {}
                Err(InsertErrorKind::Store(StoreError::Busy)) => assert_eq!(timeout.as_secs(), 0),
                Err(other) => panic!("{other}"),
            }
            jobs.shutdown().unwrap();
        });
    }
}

#[derive(serde::Deserialize, Debug)]
struct Stubborn;

impl serde::Serialize for Stubborn {
    fn serialize<S: serde::Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
        Err(serde::ser::Error::custom("I would rather not"))
    }
}

impl Job for Stubborn {
    const KIND: &'static str = "stubborn";
}

/// P5: An insert that is refused gives the job back, and stores nothing.
#[test]
fn refused_job_is_given_back() {
    on_manual(|jobs, driver, _| {
        let refused = jobs.insert(SECOND, Stubborn).unwrap_err();
        let encode = InvalidInput::Encode("I would rather not".to_owned());
        assert_eq!(*refused.kind(), InsertErrorKind::Invalid(encode));
        let Stubborn = refused.into_inner();

        let before = UNIX_EPOCH - SECOND;
        let refused = jobs.insert(before, close(1)).unwrap_err();
        assert_eq!(*refused.kind(), InsertErrorKind::Invalid(InvalidInput::Before1970(before)));
        assert_eq!(refused.into_inner(), close(1));
        let far: SystemTime = UNIX_EPOCH + Duration::from_secs(253_402_300_800);
        let refused = jobs.insert(far, close(1)).unwrap_err();
        assert_eq!(*refused.kind(), InsertErrorKind::Invalid(InvalidInput::After9999(far)));
        let refused = jobs.insert(Duration::MAX, close(1)).unwrap_err();
        assert_eq!(
            *refused.kind(),
            InsertErrorKind::Invalid(InvalidInput::DelayTooLong(Duration::MAX))
        );
        for long in [HOUR, Duration::MAX] {
            let jitter = tickwheel_jobs::tickwheel::When::wall(far - MS).jitter(long);
            let refused = jobs.insert(jitter, close(1)).unwrap_err();
            assert_eq!(*refused.kind(), InsertErrorKind::Invalid(InvalidInput::DelayTooLong(long)));
        }
        let last = jobs.insert(far - MS, close(1)).unwrap();
        assert!(jobs.reschedule(last, far).is_err());
        assert!(jobs.reschedule(last, UNIX_EPOCH).unwrap());
        assert_eq!(driver.advance(MS), 1);

        let key = "k".repeat(256);
        for key in ["", key.as_str()] {
            let refused = jobs.keyed(key).insert(SECOND, close(1)).unwrap_err();
            let kind = InsertErrorKind::Invalid(InvalidInput::TooLong {
                what: "key",
                bytes: key.len(),
                most: 255,
            });
            assert_eq!(*refused.kind(), kind);
            assert!(refused.to_string().contains(if key.is_empty() { "empty" } else { "256" }));
        }
        assert_eq!(jobs.count().unwrap().pending, 0);
    });
}

/// P5: Each verb of a key, a kind and a partition refuses a name that no store takes.
#[test]
fn each_verb_refuses_a_name_that_is_empty_or_too_long() {
    on_manual(|jobs, _, _| {
        for name in [String::new(), "n".repeat(256)] {
            let (keyed, kind) = (jobs.keyed(&name), jobs.kind_named(&name));
            let partition = jobs.kind::<Close>().partition(&name);
            let bytes = name.len();
            let wrong = |answer: Result<(), StoreError>, verb: &str| {
                let is_right = matches!(
                    answer,
                    Err(StoreError::Invalid(InvalidInput::TooLong { bytes: its, most: 255, .. })) if its == bytes
                );
                assert!(is_right, "{verb}: {answer:?}");
            };
            wrong(keyed.get().map(drop), "get");
            wrong(keyed.cancel().map(drop), "cancel");
            wrong(keyed.reschedule(HOUR).map(drop), "reschedule");
            wrong(keyed.remaining().map(drop), "remaining");
            wrong(kind.pause(), "pause");
            wrong(kind.resume(), "resume");
            wrong(kind.is_paused().map(drop), "is_paused");
            wrong(kind.hold(SECOND), "hold");
            wrong(kind.limit(Limit::running(1)), "limit");
            wrong(kind.limit_each(Limit::running(1)), "limit_each");
            wrong(kind.head_start(SECOND), "head_start");
            wrong(kind.keep_completed(Keep::last(1)), "keep_completed");
            wrong(kind.history(Step::Hour, UNIX_EPOCH..UNIX_EPOCH + HOUR).map(drop), "history");
            wrong(partition.limit(Limit::running(1)), "limit of a partition");
            wrong(partition.hold(SECOND), "hold of a partition");
            wrong(partition.pause(), "pause of a partition");
            wrong(partition.resume(), "resume of a partition");
        }
        for long in [Duration::MAX, 90_000_000 * HOUR] {
            let refused = Err(StoreError::Invalid(InvalidInput::DelayTooLong(long)));
            assert_eq!(jobs.queue().hold(long), refused);
            assert_eq!(jobs.kind::<Close>().hold(long), refused);
            assert_eq!(jobs.kind::<Close>().partition("acme").hold(long), refused);
        }
        assert_eq!(jobs.queue().limits().unwrap(), []);
    });
}

#[derive(serde::Serialize, serde::Deserialize)]
struct Nest(Vec<Nest>);

impl Job for Nest {
    const KIND: &'static str = "nest";
}

fn nest(levels: usize) -> Nest {
    (1..levels).fold(Nest(Vec::new()), |inner, _| Nest(vec![inner]))
}

#[derive(serde::Serialize, serde::Deserialize)]
struct Number(f64);

impl Job for Number {
    const KIND: &'static str = "number";
}

/// P19: A payload that is nested too deep to be decoded is refused at the insert. A number that JSON does not have
/// makes the job dead at its due time.
#[test]
fn payload_that_json_cannot_hold_is_refused_or_dead() {
    let levels = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let seen = std::sync::Arc::clone(&levels);
    let (jobs, driver) = Jobs::memory()
        .handle(move |mut nest: Nest, _| {
            seen.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            while let Some(inner) = nest.0.pop() {
                nest = inner;
                seen.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            }
            Ok(())
        })
        .handle(|_: Number, _| Ok(()))
        .manual()
        .unwrap();
    jobs.insert(SECOND, nest(127)).unwrap();
    let refused = jobs.insert(SECOND, nest(128)).unwrap_err();
    assert!(
        matches!(refused.kind(), InsertErrorKind::Invalid(InvalidInput::Encode(_))),
        "{refused}"
    );
    assert!(refused.to_string().contains("127 levels"), "{refused}");
    let number = jobs.insert(SECOND, Number(f64::NAN)).unwrap();
    driver.advance(SECOND);
    assert_eq!(levels.load(std::sync::atomic::Ordering::Relaxed), 127);
    let dead = jobs.get(number).unwrap().unwrap();
    assert_eq!(dead.state, tickwheel_jobs::JobState::Dead);
    assert_eq!(dead.payload, b"null");
    assert!(dead.error.unwrap().contains("does not decode"));
}

/// A new file has the journal mode, the vacuum mode and the application id that the store sets. The database of an
/// application can hold the jobs as well, and keeps its `user_version`.
#[test]
fn pragmas_of_the_file_are_set() {
    let shop = "CREATE TABLE orders (id); PRAGMA user_version = 7";
    let own = [("auto_vacuum", 2), ("application_id", 0x5457_4a31), ("user_version", 0)];
    for (before, numbers) in [("", &own[..]), (shop, &[("user_version", 7)])] {
        let (_folder, path) = file();
        if !before.is_empty() {
            Connection::open(&path).unwrap().execute_batch(before).unwrap();
        }
        let jobs = open(&path).handle(|_: Close, _| Ok(())).start().unwrap();
        let conn = Connection::open(&path).unwrap();
        let mode: String = conn.pragma_query_value(None, "journal_mode", |row| row.get(0)).unwrap();
        assert_eq!(mode, "wal");
        for (name, number) in numbers {
            let found: i64 = conn.pragma_query_value(None, name, |row| row.get(0)).unwrap();
            assert_eq!(found, *number, "{name}");
        }
        jobs.shutdown().unwrap();
    }
}
