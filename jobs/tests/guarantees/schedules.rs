//! What repeated jobs promise.

use std::sync::{Arc, Mutex};
use std::time::{Duration, UNIX_EPOCH};

use tempfile::TempDir;
use tickwheel_jobs::{Driver, Fail, InvalidInput, Jobs, Missed, NewJob, Run, Schedule, StoreError};

use super::support::*;

/// Returns what opens the jobs of a file, each time in a process of its own.
fn reopened() -> (TempDir, impl Fn() -> (Jobs, Driver)) {
    let (folder, path) = file();
    (folder, move || open(&path).handle(|_: Close, _| Ok(())).manual().unwrap())
}

/// P18: The missed occurrences are those that are more than a second late, whatever the fraction of a second at which a
/// process finds them. They run by their policy, and the others run too.
#[test]
fn missed_occurrences_are_the_same_at_each_fraction_of_a_second() {
    type Make = fn() -> Schedule;
    let schedules: &[(Make, u64)] = &[
        (|| Schedule::every(SECOND), 1_000),
        (|| Schedule::every(2_500 * MS), 2_500),
        (|| Schedule::every(HOUR), 3_600_000),
        #[cfg(feature = "cron")]
        (|| cron::utc_every("* * * * * *"), 1_000),
        #[cfg(feature = "cron")]
        (|| cron::utc_every("*/5 * * * * *"), 5_000),
        #[cfg(feature = "cron")]
        (|| cron::utc_every("0 * * * *"), 3_600_000),
    ];
    let start = UNIX_EPOCH + 500_000 * HOUR;
    for (make, period) in schedules {
        for missed in [Missed::Skip, Missed::Once, Missed::Burst(2)] {
            for late in [0_u64, 1, 2]
                .into_iter()
                .flat_map(|second| [0, 1, 499, 500, 999].map(|fraction| second * 1_000 + fraction))
            {
                let times = Arc::new(Mutex::new(Vec::new()));
                let noted = Arc::clone(&times);
                let handler = move |_: Close, run: &Run| {
                    noted.lock().unwrap().push(run.due());
                    Ok(())
                };
                let (jobs, driver) = Jobs::memory().handle(handler).manual().unwrap();
                driver.set_wall(start);
                jobs.schedule("often", make().missed(missed), close(1)).unwrap();
                let now = start + Duration::from_millis(5 * period + late);
                driver.set_wall(now);
                driver.advance(Duration::ZERO);
                let all = (1..).map(|n| start + Duration::from_millis(n * period));
                let all: Vec<_> = all.take_while(|time| *time <= now).collect();
                let (before, after): (Vec<_>, Vec<_>) =
                    all.into_iter().partition(|time| *time + SECOND < now);
                let most = match missed {
                    Missed::Skip => 0,
                    Missed::Once => 1,
                    _ => 2,
                };
                let kept = &before[before.len() - most..];
                assert_eq!(
                    *times.lock().unwrap(),
                    [kept, &after].concat(),
                    "{period} {missed:?} {late}"
                );
            }
        }
    }
}

/// P18: At most 10,000 missed occurrences run, also if the burst is larger.
#[test]
fn burst_makes_ten_thousand_occurrences_at_most() {
    let (jobs, driver) = Jobs::memory().handle(|_: Close, _| Ok(())).manual().unwrap();
    let schedule = Schedule::every(SECOND).missed(Missed::Burst(20_000));
    jobs.schedule("secondly", schedule, close(1)).unwrap();
    driver.set_wall(driver.wall_now() + 15_000 * SECOND + SECOND / 2);
    // Those that were missed, and one that is less than a second late.
    assert_eq!(driver.advance(MS), 10_001);
    assert_eq!(driver.advance(SECOND), 1);
}

/// P79: A step makes a part of the missed occurrences of many schedules, and the next step goes on. None is lost,
/// and none runs twice.
#[test]
fn missed_occurrences_are_made_in_parts_and_none_is_lost() {
    on_each_store(|builder| {
        let log = Log::default();
        let noted = log.clone();
        let handler = move |job: Close, _: &tickwheel_jobs::Run| {
            noted.add(job.order);
            Ok(())
        };
        let (jobs, driver) = builder.handle(handler).manual().unwrap();
        for n in 0..30 {
            let schedule = Schedule::every(SECOND).missed(Missed::Burst(100));
            jobs.schedule(&format!("schedule {n}"), schedule, close(n)).unwrap();
        }
        let before = jobs.stats().commits;
        driver.set_wall(driver.wall_now() + 1_000 * SECOND + SECOND / 2);
        driver.advance(MS);
        for n in 0..30 {
            let runs = log.get().iter().filter(|order| **order == n).count();
            assert_eq!(runs, 101, "the latest 100 that were missed, and one that is late");
        }
        assert!(jobs.stats().commits - before >= 3, "3,030 occurrences, 1,000 a step");
        jobs.check().unwrap();
    });
}

/// An advance of any length ends at once if nothing is left to do, also with dead jobs, remembered ids and
/// jobs without a handler. A schedule takes one step for each occurrence.
#[test]
fn driver_passes_all_time_at_once_if_nothing_is_left_to_do() {
    on_manual(|jobs, driver, _| {
        assert_eq!(driver.advance(std::time::Duration::MAX), 0);
        assert_eq!(driver.advance(std::time::Duration::MAX), 0);
        assert_eq!(jobs.insert(SECOND, close(1)).map(|_| driver.advance(SECOND)).unwrap(), 0);
    });
    on_manual(|jobs, driver, _| {
        jobs.insert(HOUR, close(1)).unwrap();
        jobs.insert_job(NewJob::new(close(2)).at(90_000 * HOUR).id(tickwheel_jobs::JobId::new()))
            .unwrap();
        jobs.insert(HOUR, Push { to: "nobody".to_owned() }).unwrap();
        jobs.schedule("each century", 876_000 * HOUR, close(3)).unwrap();
        assert_eq!(driver.advance(std::time::Duration::MAX), 2 + 5);
        assert_eq!(jobs.count().unwrap().pending, 1);
        jobs.check().unwrap();
    });
}

/// P18: An occurrence is made once, also if the rule of the schedule changes and changes back.
#[test]
fn occurrence_is_made_once_though_the_schedule_changes() {
    on_manual(|jobs, driver, _| {
        jobs.schedule("report", 60 * SECOND, close(1)).unwrap();
        assert_eq!(driver.advance(60 * SECOND), 1);
        // Another rule, whose occurrences fall on times of the first.
        jobs.schedule("report", 120 * SECOND, close(1)).unwrap();
        jobs.schedule("report", 60 * SECOND, close(1)).unwrap();
        assert_eq!(driver.advance(120 * SECOND), 2);
    });
}

/// P8: A clock that was years ahead and is right again stops no schedule. The next occurrence comes one period
/// after the last one before the wrong time.
#[test]
fn schedule_goes_on_after_a_clock_that_was_years_ahead() {
    on_manual(|jobs, driver, log| {
        jobs.schedule("hourly", HOUR, close(1)).unwrap();
        assert_eq!(driver.advance(2 * HOUR), 2);
        let next = jobs.schedules().list().unwrap()[0].next;
        let right = driver.wall_now();
        driver.set_wall(right + 30_000 * HOUR + HOUR / 2);
        // The latest of the missed ones, by its policy.
        assert_eq!(driver.advance(60 * SECOND), 1);
        assert!(jobs.schedules().list().unwrap()[0].next > right + 20_000 * HOUR);
        driver.set_wall(right);
        assert_eq!(jobs.schedules().list().unwrap()[0].next, next);
        assert_eq!(driver.advance(24 * HOUR), 24);
        assert_eq!(log.get().len(), 27);
        jobs.check().unwrap();
    });
}

/// P8: The same, if the clock is right again only after a restart, with and without the same `schedule` call.
#[test]
fn schedule_goes_on_after_a_restart_with_a_corrected_clock() {
    for repeats_again in [false, true] {
        let (_folder, open) = reopened();
        let (jobs, driver) = open();
        driver.set_wall(driver.wall_now() + 30_000 * HOUR);
        jobs.schedule("hourly", HOUR, close(1)).unwrap();
        assert_eq!(driver.advance(3 * HOUR), 3);
        let ahead = jobs.schedules().list().unwrap()[0].next;
        jobs.shutdown().unwrap();
        let (jobs, driver) = open();
        if repeats_again {
            jobs.schedule("hourly", HOUR, close(1)).unwrap();
        }
        assert_eq!(driver.advance(24 * HOUR), 24, "{repeats_again}");
        let next = jobs.schedules().list().unwrap()[0].next;
        assert_eq!(ahead.duration_since(next).unwrap().as_millis() % HOUR.as_millis(), 0);
        jobs.check().unwrap();
    }
}

/// P8: A clock that is set back makes no occurrence run twice, also if it goes back by several periods.
#[test]
fn occurrence_runs_once_though_the_clock_is_set_back() {
    on_manual(|jobs, driver, _| {
        jobs.schedule("minutely", 60 * SECOND, close(1)).unwrap();
        assert_eq!(driver.advance(600 * SECOND), 10);
        for back in [SECOND / 2, 30 * SECOND, 61 * SECOND, 480 * SECOND] {
            driver.set_wall(driver.wall_now() - back);
            assert_eq!(driver.advance(back), 0, "{back:?}");
        }
        assert_eq!(driver.advance(600 * SECOND), 10);
        jobs.check().unwrap();
    });
}

/// A schedule without a name, with a zero period, or with a period that ends after the calendar is refused.
#[test]
fn schedule_with_an_invalid_period_or_name_is_refused() {
    on_manual(|jobs, _, _| {
        let refused = jobs.schedule("never", std::time::Duration::ZERO, close(1));
        assert_eq!(refused, Err(StoreError::Invalid(InvalidInput::ZeroPeriod)));
        let refused = jobs.schedule("never", std::time::Duration::MAX, close(1));
        assert!(matches!(refused, Err(StoreError::Invalid(InvalidInput::NeverOccurs(_)))));
        let refused = jobs.schedule("", SECOND, close(1));
        assert!(matches!(
            refused,
            Err(StoreError::Invalid(InvalidInput::TooLong { what: "name", bytes: 0, .. }))
        ));
    });
}

#[cfg(feature = "cron")]
mod cron {
    use super::*;
    use std::collections::BTreeSet;
    use std::time::SystemTime;

    use jiff::civil::{DateTime, Weekday, date};
    use jiff::tz::TimeZone;
    use jiff::{SignedDuration, Timestamp, ToSpan};
    use tickwheel_jobs::Cron;

    fn utc(text: &str) -> SystemTime {
        let time: Timestamp = text.parse().unwrap();
        SystemTime::from(time)
    }

    pub(super) fn utc_every(expression: &str) -> Schedule {
        Schedule::from(Cron::new(expression, "UTC").unwrap())
    }

    /// Returns when each schedule occurs after a time, and until another one. If they are late, all were missed.
    fn occurrences_of(
        crons: &[Cron],
        from: SystemTime,
        to: SystemTime,
        late: bool,
    ) -> Vec<Vec<String>> {
        let times = Arc::new(Mutex::new(vec![Vec::new(); crons.len()]));
        let noted = Arc::clone(&times);
        let (jobs, driver) = Jobs::memory()
            .handle(move |job: Close, run| {
                let time = Timestamp::try_from(run.due())?;
                noted.lock().unwrap()[job.order as usize].push(time.to_string());
                Ok(())
            })
            .manual()
            .unwrap();
        driver.set_wall(from);
        for (number, cron) in (0..).zip(crons) {
            let schedule = cron.clone().missed(Missed::Burst(9_999));
            jobs.schedule(&format!("nightly {number}"), schedule, close(number)).unwrap();
        }
        if late {
            driver.set_wall(to + 2 * SECOND);
            driver.advance(Duration::ZERO);
        } else {
            driver.advance(to.duration_since(from).unwrap());
        }
        jobs.check().unwrap();
        let times = times.lock().unwrap();
        times.clone()
    }

    /// Hours, minutes and perhaps one day of the week, as an expression names them.
    struct Times {
        expression: &'static str,
        /// No `*` and no step.
        fixed: bool,
        hours: &'static [i8],
        minutes: &'static [i8],
        weekday: Option<Weekday>,
    }

    impl Times {
        fn has(&self, shown: DateTime) -> bool {
            shown.second() == 0
                && self.hours.contains(&shown.hour())
                && self.minutes.contains(&shown.minute())
                && self.weekday.is_none_or(|weekday| weekday == shown.weekday())
        }

        /// Says when the schedule has to occur after the first of these moments, which come every half minute, and
        /// until the last: by the words of `Cron`.
        fn expected(&self, moments: &[(Timestamp, DateTime)]) -> Vec<String> {
            let (first, last) = (moments[0].1, moments[moments.len() - 1].1);
            let mut times = BTreeSet::new();
            if !self.fixed {
                let matching = moments[1..].iter().filter(|(_, shown)| self.has(*shown));
                times.extend(matching.map(|(moment, _)| *moment));
            }
            let days = first.date().series(1.day()).take_while(|day| *day <= last.date());
            for day in days.filter(|_| self.fixed) {
                let times_of_day = self.hours.iter().flat_map(|hour| {
                    self.minutes.iter().map(move |minute| day.at(*hour, *minute, 0, 0))
                });
                for time in times_of_day.filter(|time| self.has(*time) && *time > first) {
                    // The clock shows it for the first time, or has skipped it.
                    times.extend(moments.iter().find(|(_, shown)| *shown >= time).map(|at| at.0));
                }
            }
            times.iter().map(Timestamp::to_string).collect()
        }
    }

    const ALL: &[i8] =
        &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23];

    const TIMES: &[Times] = {
        const fn times(
            expression: &'static str,
            fixed: bool,
            hours: &'static [i8],
            minutes: &'static [i8],
        ) -> Times {
            Times { expression, fixed, hours, minutes, weekday: None }
        }
        const SUNDAY: Option<Weekday> = Some(Weekday::Sunday);
        &[
            times("30 2 * * *", true, &[2], &[30]),
            times("0 2,14 * * *", true, &[2, 14], &[0]),
            times("0 0,23 * * *", true, &[0, 23], &[0]),
            times("30 0-5 * * *", true, &[0, 1, 2, 3, 4, 5], &[30]),
            times("0,15,45 0-2,3,22-23 * * *", true, &[0, 1, 2, 3, 22, 23], &[0, 15, 45]),
            times("5 0-23 * * *", true, ALL, &[5]),
            Times { weekday: SUNDAY, ..times("15 0-3 * * sun", true, &[0, 1, 2, 3], &[15]) },
            times("5 * * * *", false, ALL, &[5]),
            times("*/15 * * * *", false, ALL, &[0, 15, 30, 45]),
            times("*/20 1-3 * * *", false, &[1, 2, 3], &[0, 20, 40]),
            times("40 0-6/2 * * *", false, &[0, 2, 4, 6], &[40]),
            times("10 2,*/12 * * *", false, &[0, 2, 12], &[10]),
            Times { weekday: SUNDAY, ..times("0 */1 * * sun", false, ALL, &[0]) },
        ]
    };

    /// P8: A time in digits, also in a list or a range, happens once a day: when the gap ends if the clock skips it,
    /// and the first time if the clock shows it twice. With a `*` or a step each time that the clock shows counts. So
    /// it is if each occurrence comes in its turn, and if all were missed, over the changes of a year in many zones.
    #[test]
    fn cron_keeps_its_words_over_the_changes_of_many_zones() {
        for (zone, year) in [
            ("Europe/Berlin", 2026),
            ("Europe/London", 2025),
            ("America/New_York", 2025),
            ("America/Havana", 2025),       // the gap begins at midnight
            ("Asia/Beirut", 2025),          // there too, and the hour before midnight comes twice
            ("Africa/Cairo", 2025),         // on a Friday
            ("America/Santiago", 2025),     // at midnight, in the south
            ("America/Nuuk", 2025),         // the gap is the hour before midnight
            ("America/Scoresbysund", 2024), // not together with a zone that it joins
            ("Atlantic/Azores", 2025),
            ("Australia/Lord_Howe", 2025), // by half an hour
            ("Antarctica/Troll", 2025),    // by two hours
            ("Africa/Casablanca", 2025),   // about Ramadan
            ("Australia/Sydney", 2025),
            ("Pacific/Auckland", 2025),
            ("Pacific/Chatham", 2025), // at 02:45
            ("Africa/Monrovia", 1972), // by 44 minutes and 30 seconds
            ("Pacific/Apia", 2011),    // leaves out a day
        ] {
            let tz = TimeZone::get(zone).unwrap();
            let start = date(year, 1, 1).to_zoned(TimeZone::UTC).unwrap().timestamp();
            let end = start + SignedDuration::from_hours(365 * 24);
            let changes = tz.following(start).map(|change| change.timestamp());
            let changes: Vec<_> = changes.take_while(|change| *change < end).collect();
            assert!(!changes.is_empty(), "{zone}");
            for change in changes {
                let from = change.as_second() / 60 * 60 - 15 * 3600;
                let moments: Vec<_> = (0..30 * 120)
                    .map(|step| Timestamp::from_second(from + 30 * step).unwrap())
                    .map(|moment| (moment, tz.to_datetime(moment)))
                    .collect();
                let (from, to) = (moments[0].0, moments[moments.len() - 1].0);
                let cron = |times: &Times| Cron::new(times.expression, zone).unwrap();
                let crons: Vec<Cron> = TIMES.iter().map(cron).collect();
                let expected: Vec<_> = TIMES.iter().map(|times| times.expected(&moments)).collect();
                for late in [false, true] {
                    let found = occurrences_of(&crons, from.into(), to.into(), late);
                    for (number, times) in TIMES.iter().enumerate() {
                        let name = format!("{zone} {} {change} {late}", times.expression);
                        assert_eq!(found[number], expected[number], "{name}");
                    }
                }
            }
        }
    }

    /// P8: A zone that the system's data do not have comes from the program's own, and UTC needs no data.
    #[test]
    fn cron_knows_the_zones_without_data_of_the_system() {
        let folder = tempfile::tempdir().unwrap();
        // The only zone of the system.
        std::fs::write(folder.path().join("Nowhere"), b"TZif2 and no more").unwrap();
        let child = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "schedules::cron::child_without_data_of_the_system", "--ignored"])
            .env("TZDIR", folder.path())
            .output()
            .unwrap();
        let out = String::from_utf8_lossy(&child.stdout);
        assert!(child.status.success() && out.contains("1 passed"), "{out}");
    }

    /// A child of the test above.
    #[test]
    #[ignore = "a process of its own runs it, without the data of the system"]
    fn child_without_data_of_the_system() {
        assert!(TimeZone::get("Europe/Berlin").is_err(), "the system's data are hidden");
        for (zone, seven) in [
            ("UTC", "2026-07-01T07:00:00Z"),
            ("Europe/Berlin", "2026-07-01T05:00:00Z"),
            ("US/Eastern", "2026-07-01T11:00:00Z"),
        ] {
            let cron = Cron::new("0 7 * * *", zone).unwrap();
            let (from, to) = (utc("2026-07-01T00:00:00Z"), utc("2026-07-01T12:00:00Z"));
            assert_eq!(occurrences_of(&[cron], from, to, false), [[seven]], "{zone}");
        }
    }

    /// P8: A day that a zone left out does not end the schedule: the searches for the next occurrence and for the
    /// latest missed one go on after it. A fixed time of that day comes when the gap ends.
    #[test]
    fn cron_goes_on_after_a_day_that_its_zone_left_out() {
        // In Apia 2011-12-29 was followed by 2011-12-31, when 10:00 UTC came.
        let before = "2011-12-28T12:00:00Z";
        for (expression, occurrences) in [
            ("0 0 * * *", ["2011-12-29T10:00:00Z", "2011-12-30T10:00:00Z", "2011-12-31T10:00:00Z"]),
            ("0 7 * * *", ["2011-12-28T17:00:00Z", "2011-12-29T17:00:00Z", "2011-12-30T10:00:00Z"]),
            (
                "0 23 * * *",
                ["2011-12-29T09:00:00Z", "2011-12-30T09:00:00Z", "2011-12-30T10:00:00Z"],
            ),
            (
                "0 12 30 * *",
                ["2011-12-30T10:00:00Z", "2012-01-29T22:00:00Z", "2012-03-29T22:00:00Z"],
            ),
            (
                "*/30 12 30 12 *",
                ["2012-12-29T22:00:00Z", "2012-12-29T22:30:00Z", "2013-12-29T22:00:00Z"],
            ),
        ] {
            let (jobs, driver) = Jobs::memory().handle(|_: Close, _| Ok(())).manual().unwrap();
            driver.set_wall(utc(before));
            let apia = Cron::new(expression, "Pacific/Apia").unwrap().missed(Missed::Burst(99));
            jobs.schedule("daily", apia, close(1)).unwrap();
            for time in occurrences {
                let next = jobs.schedules().list().unwrap();
                assert_eq!(next.first().map(|next| next.next), Some(utc(time)), "{expression}");
                driver.set_wall(utc(time));
                assert_eq!(driver.advance(MS), 1, "{expression} at {time}");
            }
            // All of them were missed.
            jobs.schedules().remove("daily").unwrap();
            driver.set_wall(utc(before));
            let apia = Cron::new(expression, "Pacific/Apia").unwrap().missed(Missed::Burst(99));
            jobs.schedule("late", apia, close(1)).unwrap();
            driver.set_wall(utc(occurrences[2]) + 5 * SECOND);
            assert_eq!(driver.advance(MS), 3, "{expression}");
        }
    }

    /// An error of a cron expression names the column. An unknown zone and a day that never comes are refused
    /// too.
    #[test]
    fn cron_error_names_the_column() {
        let column = |expression: &str| match Cron::new(expression, "UTC") {
            Err(InvalidInput::Cron { column, .. }) => column,
            other => panic!("{expression:?}: {other:?}"),
        };
        assert_eq!(column("0 25 * * *"), 3);
        assert_eq!(column("0  7 *  13 *"), 9);
        assert_eq!(column("x 7 * * mon-fri"), 1);
        for (expression, wrong) in [
            (", * * * *", 1),
            ("0 1,,2 * * *", 3),
            ("0 7 1, * *", 5),
            ("0 7 * * +", 9),
            ("0 7 * * ,mon", 9),
            ("0 0 7 * * * ,", 13),
        ] {
            assert_eq!(column(expression), wrong, "{expression}");
        }
        let long = format!("0 7 * * mon{}", ",mon".repeat(300));
        assert_eq!(column(&long), 1);
        assert_eq!(column("0 7 *"), 6);
        assert_eq!(column(""), 1);
        let zone = Cron::new("0 7 * * *", "Europe/Atlantis").unwrap_err();
        assert_eq!(zone, InvalidInput::Zone("Europe/Atlantis".to_owned()));
        let february = Cron::new("0 0 30 2 *", "UTC").unwrap();
        let refused = Jobs::memory().handle(|_: Close, _| Ok(())).manual().unwrap().0;
        let refused = refused.schedule("never", february, close(1));
        assert!(matches!(refused, Err(StoreError::Invalid(InvalidInput::NeverOccurs(_)))));
    }

    /// P8: A cron schedule too goes on after a clock that was years ahead, at once or after a restart.
    #[test]
    fn cron_goes_on_after_a_clock_that_was_years_ahead() {
        let (_folder, open) = reopened();
        let (jobs, driver) = open();
        driver.set_wall(utc("2020-01-01T12:00:00Z"));
        jobs.schedule("nightly", Cron::new("30 2 * * *", "UTC").unwrap(), close(1)).unwrap();
        driver.set_wall(utc("2040-01-01T12:00:00Z"));
        assert_eq!(driver.advance(SECOND), 1);
        driver.set_wall(utc("2020-01-01T12:00:00Z"));
        assert_eq!(jobs.schedules().list().unwrap()[0].next, utc("2020-01-02T02:30:00Z"));
        assert_eq!(driver.advance(48 * HOUR), 2);
        driver.set_wall(utc("2040-02-01T12:00:00Z"));
        assert_eq!(driver.advance(SECOND), 1);
        jobs.shutdown().unwrap();
        let (jobs, driver) = open();
        driver.set_wall(utc("2020-01-03T12:00:00Z"));
        assert_eq!(driver.advance(48 * HOUR), 2);
        jobs.check().unwrap();
    }
}

/// P18: `Schedules::run` makes a job that is due now, another one with each call. The schedule goes on as before.
#[test]
fn run_of_a_schedule_makes_an_occurrence_now_and_the_schedule_goes_on() {
    on_manual(|jobs, driver, log| {
        jobs.schedule("hourly", HOUR, close(1)).unwrap();
        let before = jobs.schedules().list().unwrap();
        let made: Vec<_> =
            (0..2).map(|_| jobs.schedules().run("hourly").unwrap().expect("it is there")).collect();
        assert_ne!(made[0], made[1]);
        assert_eq!(jobs.get(made[0]).unwrap().unwrap().key, None);
        assert_eq!(jobs.schedules().list().unwrap(), before);
        assert_eq!(driver.advance(SECOND), 2);
        assert_eq!(driver.advance(HOUR - SECOND), 1);
        assert_eq!(log.get(), [1, 1, 1]);
        assert_eq!(jobs.schedules().run("daily").unwrap(), None);
    });
}

/// `Run::next` makes follow-ups of inserts. `Schedules::run` is none: its occurrence stays, although the run fails.
#[test]
fn run_of_a_schedule_does_not_wait_for_the_end_of_a_run() {
    let handler = |job: Close, run: &Run| match job.order {
        7 => Err(Fail::dead(format!("made {}", run.next().schedules().run("hourly")?.is_some()))),
        _ => Ok(()),
    };
    let (jobs, driver) = Jobs::memory().handle(handler).manual().unwrap();
    jobs.schedule("hourly", HOUR, close(1)).unwrap();
    jobs.insert(MS, close(7)).unwrap();
    assert_eq!(driver.advance(SECOND), 2);
    assert_eq!(jobs.dead().next().unwrap().errors[0].error, "made true");
}
