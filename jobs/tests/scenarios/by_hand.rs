//! What is promised of the settings that an operator changes (a hold, the kept jobs, a head start, a pause), and of a
//! job that an operator inserts, for every store.

use std::time::Duration;

use tickwheel_jobs::{
    ChangedByHand, Client, HowChanged, InsertErrorKind, JobByHand, JobId, Keep, LimitScope, NewJob,
    StoreError,
};

use super::{HOUR, MINUTE, MS, Mail, SECOND, asker, manual, run_for};
use crate::support::on_stores;

/// Changes a setting, more for a greater number. Zero is the state without the setting.
type Set = fn(&Client, u32, HowChanged<'_>) -> Result<ChangedByHand<String>, StoreError>;

const SETTINGS: [Set; 3] = [
    |client, n, how| {
        let held = client.hold_by_hand(&LimitScope::Queue, HOUR * n, how)?;
        Ok(held.map(|until| format!("{until:?}")))
    },
    |client, n, how| {
        let kept = client.keep_by_hand("mail", Keep::last(n.into()).age(HOUR), how)?;
        Ok(kept.map(|keep| keep.to_string()))
    },
    |client, n, how| {
        Ok(client.head_start_by_hand("mail", MINUTE * n, how)?.map(|by| format!("{by:?}")))
    },
];

/// A dry run changes nothing. A change whose caller has seen another text changes nothing, and returns the present
/// setting. After the end of the jobs, a dry run is refused as the change is.
#[test]
fn setting_changes_only_from_the_text_that_was_seen() {
    on_stores(|store| {
        let (jobs, _driver) = manual(store.open());
        let (client, other) = (jobs.client(), asker(store, &jobs));
        let (makes, dry) = (HowChanged::default(), HowChanged::new(true, None));
        for set in SETTINGS {
            let seen = set(&client, 1, dry).unwrap();
            assert!(seen.changes && seen.was.is_empty() && seen.now != seen.before, "{seen:?}");
            let made = set(&other, 2, makes).unwrap();
            assert!(made.changes && made.before == seen.before, "{made:?}");
            for dry_run in [false, true] {
                let late = set(&client, 3, HowChanged::new(dry_run, Some(&seen.was))).unwrap();
                assert!(!late.changes && late.was != seen.was, "{late:?}");
                assert!(late.now == made.now && late.before == made.now, "{late:?} {made:?}");
            }
            let is = set(&client, 3, dry).unwrap();
            let right = set(&client, 3, HowChanged::new(false, Some(&is.was))).unwrap();
            assert!(right.changes && right.before == made.now, "{right:?}");
            for changes in [true, false] {
                let gone = set(&client, 0, makes).unwrap();
                assert_eq!((gone.changes, &gone.now), (changes, &seen.before), "{gone:?}");
            }
        }
        jobs.shutdown().unwrap();
        for set in SETTINGS {
            for how in [makes, dry] {
                assert_eq!(set(&client, 1, how), Err(StoreError::Closed));
            }
        }
        assert_eq!(client.pause_by_hand(None, None, true), Err(StoreError::Closed));
    });
}

/// A change says what it has changed: not the end of a hold that is over, and not a head start of less than a
/// millisecond. A pause of a partition needs its kind, and never pauses the queue.
#[test]
fn change_by_hand_says_whether_it_changes() {
    on_stores(|store| {
        let (jobs, driver) = manual(store.open());
        let (client, queue) = (jobs.client(), LimitScope::Queue);
        client.queue().hold(MS).unwrap();
        driver.advance(SECOND);
        let over = client.hold_by_hand(&queue, Duration::ZERO, HowChanged::default()).unwrap();
        assert!(!over.changes && over.now.is_none(), "{over:?}");
        let tiny = Duration::from_micros(500);
        let none = client.head_start_by_hand("mail", tiny, HowChanged::default()).unwrap();
        assert!(!none.changes && none.now.is_zero(), "{none:?}");

        assert!(client.pause_by_hand(None, Some("acme"), true).is_err());
        assert!(!client.queue().is_paused().unwrap());
        for (kind, partition) in [(None, None), (Some("mail"), None), (Some("mail"), Some("acme"))]
        {
            for pauses in [true, false] {
                assert_eq!(client.pause_by_hand(kind, partition, pauses), Ok(true));
                assert_eq!(client.pause_by_hand(kind, partition, pauses), Ok(false));
                let whole = pauses && kind.is_none();
                assert_eq!(asker(store, &jobs).queue().is_paused(), Ok(whole));
            }
        }
    });
}

/// The dry run of an insert is refused if another job has the key, as the insert is. It inserts nothing.
#[test]
fn dry_run_of_an_insert_looks_at_the_key() {
    on_stores(|store| {
        let (jobs, driver) = manual(store.open());
        let id = JobId::named("first");
        jobs.insert_job(NewJob::new(Mail(1)).at(HOUR).key("k").id(id)).unwrap();
        let insert = |change: fn(&mut JobByHand)| {
            let mut job = JobByHand::new("mail", *b"2");
            (job.key, job.dry_run) = (Some("k".to_owned()), true);
            change(&mut job);
            asker(store, &jobs).insert_by_hand(HOUR, job)
        };
        assert_eq!(insert(|_| ()), Err(InsertErrorKind::Occupied));
        assert_eq!(insert(|job| job.dry_run = false), Err(InsertErrorKind::Occupied));
        assert!(insert(|job| job.replaces = true).is_ok());
        assert!(insert(|job| job.key = Some("other".to_owned())).is_ok());
        assert_eq!(insert(|job| job.id = Some(JobId::named("first"))), Ok(id));
        assert_eq!(jobs.pending().map(|job| job.id).collect::<Vec<_>>(), [id]);
        run_for(&driver, HOUR);
        assert!(insert(|_| ()).is_ok());
    });
}
