//! The promises of rates and holds: never more starts in a period than the rate, also across a restart, and no job left
//! behind.

use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, SystemTime};

use tickwheel_jobs::{
    Builder, Driver, Fail, InsertErrorKind, InvalidInput, Jobs, Limit, LimitScope, OpenError,
    PendingReason, Run, StoreError,
};

use super::limits::{Charge, charge};
use super::{HOUR, LONG, MINUTE, MS, Mail, SECOND};
use crate::support::on_stores;

/// The customer of each run, and when it started.
type Starts = Arc<Mutex<Vec<(String, SystemTime)>>>;

/// Starts jobs on a manual clock that note when each run starts.
fn timed(builder: Builder) -> (Jobs, Driver, Starts) {
    let starts = Starts::default();
    let noted = Arc::clone(&starts);
    let (jobs, driver) = builder
        .handle(move |job: Charge, run: &Run| {
            noted.lock().unwrap().push((job.0, run.due() + run.late()));
            Ok(())
        })
        .handle(|_: Mail, _: &Run| Ok(()))
        .manual()
        .unwrap();
    (jobs, driver, starts)
}

/// Checks that no period of this length has more than `most` of these times.
pub(crate) fn at_most(most: usize, period: Duration, times: &[SystemTime]) {
    for (n, first) in times.iter().enumerate() {
        let in_period = times[n..].iter().take_while(|time| **time < *first + period).count();
        assert!(in_period <= most, "{in_period} of {most} in {period:?}");
    }
}

fn times(starts: &Starts) -> Vec<SystemTime> {
    starts.lock().unwrap().iter().map(|(_, time)| *time).collect()
}

/// P24: The starts of a flow are spread over the period. With a burst, that many come at once after a quiet time.
#[test]
fn starts_keep_the_rate_and_the_burst_of_their_flow() {
    on_stores(|store| {
        let (jobs, driver, starts) = timed(store.open());
        let charges = jobs.kind::<Charge>();
        charges.limit(Limit::none().rate(10, SECOND)).unwrap();
        jobs.insert_batch((0..35).map(|_| (MS, charge("nobody")))).unwrap();
        assert_eq!(driver.advance(MS), 1);
        assert_eq!(driver.advance(450 * MS), 4);
        assert_eq!(driver.advance(4 * SECOND), 30);
        let all = times(&starts);
        at_most(10, SECOND, &all);
        let took = all[34].duration_since(all[0]).unwrap();
        assert!(took < 3_600 * MS, "{took:?}");
        charges.limit(Limit::none().rate(10, SECOND).burst(5)).unwrap();
        starts.lock().unwrap().clear();
        jobs.insert_batch(
            (0..30).map(|n| (MS, charge(if n % 2 == 0 { "acme" } else { "nobody" }))),
        )
        .unwrap();
        assert_eq!(driver.advance(2 * MS), 5);
        assert_eq!(driver.advance(3 * SECOND), 25);
        at_most(14, SECOND, &times(&starts));
        jobs.check().unwrap();
    });
}

/// P24: Each partition has the rate of each by itself, or its own. Jobs without a partition wait for none of them.
#[test]
fn partitions_have_rates_of_their_own() {
    on_stores(|store| {
        let (jobs, driver, starts) = timed(store.open());
        let charges = jobs.kind::<Charge>();
        charges.limit_each(Limit::none().rate(1, SECOND)).unwrap();
        charges.partition("beta").limit(Limit::none().rate(2, SECOND).burst(2)).unwrap();
        for name in ["acme", "beta", "core", "nobody"] {
            jobs.insert_batch((0..4).map(|_| (MS, charge(name)))).unwrap();
        }
        let of = |name: &str| starts.lock().unwrap().iter().filter(|(its, _)| its == name).count();
        let all = || [of("acme"), of("beta"), of("core"), of("nobody")];
        driver.advance(2 * MS);
        assert_eq!(all(), [1, 2, 1, 4]);
        driver.advance(SECOND);
        assert_eq!(all(), [2, 4, 2, 4]);
        driver.advance(SECOND);
        assert_eq!(all(), [3, 4, 3, 4]);
        driver.advance(SECOND);
        assert_eq!(all(), [4, 4, 4, 4]);
        jobs.check().unwrap();
    });
}

/// P24: A restart does not begin a rate anew. A job that was given back has used its token.
#[test]
fn rate_goes_on_after_a_restart() {
    on_stores(|store| {
        if !store.keeps {
            return;
        }
        let (jobs, driver, _) = timed(store.open());
        jobs.kind::<Charge>().limit(Limit::none().rate(1, HOUR)).unwrap();
        jobs.kind::<Charge>().limit_each(Limit::none().rate(1, MINUTE)).unwrap();
        jobs.insert_batch((0..3).map(|_| (MS, charge("acme")))).unwrap();
        assert_eq!(driver.advance(SECOND), 1);
        drop((jobs, driver));
        let (jobs, driver, starts) = timed(store.open());
        assert_eq!(driver.advance(30 * MINUTE), 0);
        assert_eq!(driver.advance(31 * MINUTE), 1);
        assert_eq!(starts.lock().unwrap().len(), 1);
        // Another rate holds from the next claim on.
        jobs.kind::<Charge>().limit(Limit::none()).unwrap();
        assert_eq!(driver.advance(MINUTE), 1);
        jobs.check().unwrap();
    });
}

/// P24: A process that starts knows the stored rate before its first claim, on a manual clock and on the real one.
/// Before, it claimed without the rate, gave the claim back when it had read the settings, and the token was lost: of a
/// rate of one an hour no job ran for an hour.
#[test]
fn start_of_a_process_loses_no_token() {
    on_stores(|store| {
        if !store.keeps {
            return;
        }
        for queue in ["manual", "real"] {
            let open = || store.open().queue(queue);
            let client = open().client().unwrap();
            client.kind::<Mail>().limit(Limit::none().rate(1, HOUR)).unwrap();
            client.insert_batch((0..3).map(|_| (Duration::ZERO, Mail(1)))).unwrap();
            drop(client);
            let (starts, started) = mpsc::channel();
            let builder = open().handle(move |_: Mail, _: &Run| Ok(starts.send(())?));
            if queue == "manual" {
                let (jobs, driver) = builder.manual().unwrap();
                assert_eq!(driver.advance(MINUTE), 1);
                jobs.check().unwrap();
            } else {
                let jobs = builder.start().unwrap();
                started.recv_timeout(LONG).unwrap();
                jobs.shutdown().unwrap();
            }
        }
    });
}

/// P23, P24: A rate of the program holds while none is stored for the flow, which is found by the name of its kind. The
/// stored one comes before it, also after a restart.
#[test]
fn rate_of_the_program_holds_until_one_is_stored() {
    on_stores(|store| {
        let rate = Limit::none().rate(1, SECOND).burst(2);
        let open = || timed(store.open().limit_unless_set::<Charge>(rate));
        let (jobs, driver, _) = open();
        jobs.insert_batch((0..20).map(|_| (MS, charge("nobody")))).unwrap();
        assert_eq!(driver.advance(2 * MS), 2);
        assert_eq!(driver.advance(SECOND), 1);
        assert_eq!(jobs.queue().limits().unwrap(), []);
        jobs.kind_named("charge").limit(Limit::none().rate(4, SECOND)).unwrap();
        // The burst is used up, and the first tokens of the new rate make it good.
        assert_eq!(driver.advance(SECOND), 3);
        assert_eq!(driver.advance(SECOND), 4);
        jobs.check().unwrap();
        if store.keeps {
            drop((jobs, driver));
            let (_jobs, driver, _) = open();
            let runs = driver.advance(2 * SECOND);
            assert!((4..=8).contains(&runs), "{runs}");
        }
    });
}

/// P24: Rates that change hands at every claim, as those of two programs do, free no token together. Before a fix, each
/// change freed the whole burst. A slower rate begins with what is used up, also once the quicker one would have made
/// it good.
#[test]
fn rates_that_change_hands_free_no_token() {
    on_stores(|store| {
        let (jobs, driver, starts) = timed(store.open());
        let charges = jobs.kind::<Charge>();
        jobs.insert_batch((0..400).map(|_| (MS, charge("nobody")))).unwrap();
        for n in 0..12 {
            charges.limit(Limit::none().rate(10, SECOND).burst([10, 12][n % 2])).unwrap();
            driver.advance(500 * MS);
        }
        let all = times(&starts);
        at_most(21, SECOND, &all);
        assert!((50..=72).contains(&all.len()), "{}", all.len());
        charges.limit(Limit::none()).unwrap();
        driver.advance(SECOND);
        driver.advance(MINUTE);
        charges.limit(Limit::none().rate(100, SECOND).burst(100)).unwrap();
        jobs.insert_batch((0..110).map(|_| (MS, charge("nobody")))).unwrap();
        assert_eq!(driver.advance(2 * MS), 100);
        charges.limit(Limit::none().rate(10, MINUTE)).unwrap();
        assert_eq!(driver.advance(58 * SECOND), 0);
        assert_eq!(driver.advance(3 * SECOND), 1);
        jobs.check().unwrap();
    });
}

/// P24: On the real clock, the claims keep the rate of the queue, and all jobs run.
#[test]
fn claims_keep_a_rate_on_the_real_clock() {
    on_stores(|store| {
        let (claimed, claims) = mpsc::channel();
        let handler = move |_: Charge, run: &Run| -> Result<(), Fail> {
            let job = run.client().get(run.id())?.ok_or("it is gone")?;
            Ok(claimed.send(job.claimed.ok_or("it is not claimed")?)?)
        };
        let jobs = store.open().threads(4).handle(handler).start().unwrap();
        jobs.queue().limit(Limit::none().rate(20, 200 * MS)).unwrap();
        jobs.insert_batch((0..60).map(|n| (Duration::ZERO, charge(["acme", "nobody"][n % 2]))))
            .unwrap();
        let mut times: Vec<SystemTime> =
            (0..60).map(|_| claims.recv_timeout(LONG).unwrap()).collect();
        times.sort_unstable();
        // The time of a claim is stored in whole milliseconds.
        at_most(20, 199 * MS, &times);
        assert!(times[59].duration_since(times[0]).unwrap() >= 500 * MS);
        jobs.shutdown().unwrap();
    });
}

/// P24: While a scope is held, none of its jobs starts, and others do. Of two holds the later end counts. A hold
/// survives a restart, and ends by itself or with a hold of zero.
#[test]
fn held_scope_starts_nothing() {
    on_stores(|store| {
        let (mut jobs, mut driver, mut starts) = timed(store.open());
        let acme = jobs.kind::<Charge>().partition("acme");
        acme.hold(10 * SECOND).unwrap();
        acme.hold(SECOND).unwrap();
        let insert = |jobs: &Jobs| {
            jobs.insert_batch(["acme", "beta", "nobody"].map(|name| (MS, charge(name)))).unwrap();
        };
        insert(&jobs);
        assert_eq!(driver.advance(2 * SECOND), 2);
        if store.keeps {
            drop((jobs, driver));
            (jobs, driver, starts) = timed(store.open());
            assert_eq!(driver.advance(SECOND), 0);
        }
        assert!(starts.lock().unwrap().iter().all(|(name, _)| name != "acme"));
        assert_eq!(driver.advance(10 * SECOND), 1);
        // The flow, by the name of the kind.
        jobs.kind_named("charge").hold(HOUR).unwrap();
        insert(&jobs);
        jobs.insert(MS, Mail(1)).unwrap();
        assert_eq!(driver.advance(MINUTE), 1);
        jobs.kind::<Charge>().hold(Duration::ZERO).unwrap();
        assert_eq!(driver.advance(MS), 3);
        jobs.queue().hold(SECOND).unwrap();
        insert(&jobs);
        jobs.insert(MS, Mail(1)).unwrap();
        assert_eq!(driver.advance(900 * MS), 0);
        assert_eq!(driver.advance(SECOND), 4);
        assert_eq!(jobs.queue().limits().unwrap(), []);
        jobs.check().unwrap();
    });
}

/// P38: `limits` and `why_pending` tell when the next job of a scope may start, and until when it is held.
#[test]
fn next_start_and_hold_are_told() {
    on_stores(|store| {
        let (jobs, driver, _) = timed(store.open());
        let charges = jobs.kind::<Charge>();
        charges.limit(Limit::none().rate(1, MINUTE)).unwrap();
        charges.partition("acme").hold(HOUR).unwrap();
        let ids: Vec<_> =
            ["nobody", "beta", "acme"].map(|name| jobs.insert(MS, charge(name)).unwrap()).into();
        let begin = driver.wall_now();
        assert_eq!(driver.advance(10 * MS), 1);
        let limits = jobs.queue().limits().unwrap();
        let scopes: Vec<&LimitScope> = limits.iter().map(|info| &info.scope).collect();
        let stripe = LimitScope::Flow("stripe".to_owned());
        let acme =
            LimitScope::Partition { kind: "charge".to_owned(), partition: "acme".to_owned() };
        assert_eq!(scopes, [&stripe, &acme]);
        let next = limits[0].next_start.unwrap().duration_since(begin).unwrap();
        assert!((MINUTE..=MINUTE + 10 * MS).contains(&next), "{next:?}");
        assert_eq!((limits[0].held_until, limits[1].next_start), (None, None));
        let held = limits[1].held_until.unwrap().duration_since(begin).unwrap();
        assert!((59 * MINUTE..=HOUR).contains(&held), "{held:?}");
        let waiting: Vec<_> = ids.iter().filter(|id| jobs.get(**id).unwrap().is_some()).collect();
        let reasons = jobs.why_pending(*waiting[1]).unwrap();
        let told: Vec<&LimitScope> = reasons
            .iter()
            .map(|reason| match reason {
                PendingReason::Limit(info) => &info.scope,
                other => panic!("{other}"),
            })
            .collect();
        assert_eq!(told, [&stripe, &acme]);
        let text = reasons[0].to_string();
        assert!(text.starts_with("by its rate, the flow stripe starts the next job at "), "{text}");
        let text = reasons[1].to_string();
        assert!(text.starts_with("its partition acme is held until "), "{text}");
        // After the minute the next one starts, and then nothing waits but for the hold.
        assert_eq!(driver.advance(MINUTE), 1);
        assert_eq!(driver.advance(2 * MINUTE), 0);
        assert_eq!(jobs.queue().limits().unwrap()[0].next_start, None);
        assert_eq!(driver.advance(HOUR), 1);
    });
}

/// P23, P24: A limit, a rate or a partition that could not hold is refused with an error that says why, and changes
/// nothing. A job with such a partition is given back.
#[test]
fn limits_that_cannot_hold_are_refused() {
    let (rate, year) = (|jobs, per| Limit::none().rate(jobs, per), 365 * 24 * HOUR);
    on_stores(|store| {
        let (jobs, _driver, _) = timed(store.open());
        let charges = jobs.kind::<Charge>();
        let acme = charges.partition("acme");
        let cases = [
            (Limit::running(0), InvalidInput::ZeroLimit),
            (Limit::running(1).weight(0), InvalidInput::Weight(0)),
            (Limit::running(1).weight(1001), InvalidInput::Weight(1001)),
            (rate(0, SECOND), InvalidInput::ZeroLimit),
            (rate(1, Duration::ZERO), InvalidInput::RatePeriod(Duration::ZERO)),
            (rate(1, 2 * year), InvalidInput::RatePeriod(2 * year)),
            (rate(1, Duration::MAX), InvalidInput::RatePeriod(Duration::from_millis(u64::MAX))),
            (Limit::running(1).burst(2), InvalidInput::BurstWithoutRate),
            (rate(1, SECOND).burst(0), InvalidInput::Burst(0)),
            (rate(1, SECOND).burst(1_000_001), InvalidInput::Burst(1_000_001)),
            (rate(1, year).burst(1_000_000), InvalidInput::Burst(1_000_000)),
        ];
        for (limit, error) in cases {
            let refused = Err(StoreError::Invalid(error));
            assert_eq!(acme.limit(limit), refused, "{limit:?} of a partition");
            if limit.turn_weight().is_none() {
                assert_eq!(charges.limit(limit), refused, "{limit:?} of a flow");
                assert_eq!(charges.limit_each(limit), refused, "{limit:?} of each");
                assert_eq!(jobs.queue().limit(limit), refused, "{limit:?} of the queue");
            }
        }
        let weight = Limit::running(1).weight(2);
        for refused in [jobs.queue().limit(weight), charges.limit(weight)] {
            assert_eq!(refused, Err(InvalidInput::WeightWithoutPartition.into()));
        }
        for (name, bytes) in [(String::new(), 0), ("a".repeat(300), 300)] {
            let error = InvalidInput::TooLong { what: "partition", bytes, most: 255 };
            assert_eq!(charges.partition(&name).hold(SECOND), Err(error.clone().into()));
            let refused = jobs.insert(Duration::ZERO, charge(&name)).unwrap_err();
            assert_eq!(*refused.kind(), InsertErrorKind::Invalid(error));
            assert_eq!(refused.into_inner().0, name);
        }
        assert_eq!(jobs.queue().limits().unwrap(), []);
        for most in [
            rate(1, year),
            rate(u32::MAX, Duration::from_nanos(1)),
            rate(1, SECOND).burst(1_000_000),
        ] {
            assert_eq!(acme.limit(most), Ok(()), "{most:?}");
        }
        jobs.check().unwrap();
    });
    let wrong = Jobs::memory().handle(|_: Charge, _: &Run| Ok(()));
    let wrong = wrong.limit_unless_set::<Charge>(Limit::running(0)).start();
    assert!(matches!(wrong, Err(OpenError::Config(_))));
}
