//! The progress of runs: other processes see it, and the next run of the job finds it.

use super::*;

/// P37: Every process sees the latest progress of a run a second later at most, and none after the job has completed. A
/// run may set progress at any rate: the store writes it once a second.
#[test]
fn progress_is_shown_a_second_later() {
    on_stores(|store| {
        let (go_on, may_go_on) = mpsc::channel::<()>();
        let may_go_on = std::sync::Mutex::new(may_go_on);
        let handler = move |_: Charge, run: &Run| {
            let go_on = may_go_on.lock().unwrap();
            run.set_progress(&"begun")?;
            go_on.recv_timeout(LONG)?;
            for n in 0..1500 {
                run.set_progress(&n)?;
                pause(MS);
            }
            let too_long = run.set_progress(&"x".repeat(4095));
            assert!(
                too_long.unwrap_err().to_string().contains("a progress of 4097 bytes is too long")
            );
            go_on.recv_timeout(LONG)?;
            Ok(())
        };
        let jobs = store.open().handle(handler).start().unwrap();
        jobs.kind::<Charge>().keep_completed(Keep::last(1)).unwrap();
        let asker = asker(store, &jobs);
        let id = jobs.insert(Duration::ZERO, Charge(1)).unwrap();
        let progress = || asker.get(id).unwrap().unwrap().progress;
        let shows = |text: &str| {
            for _ in 0..60_000 {
                if progress().as_deref() == Some(text.as_bytes()) {
                    return;
                }
                pause(MS);
            }
            panic!("{:?}, not {text}", progress());
        };
        shows("\"begun\"");
        let before = jobs.stats().commits;
        go_on.send(()).unwrap();
        shows("1499");
        let commits = jobs.stats().commits - before;
        assert!(commits <= 60, "{commits} commits for 1500 calls");
        let listed: Vec<_> = asker.running().map(|job| job.progress).collect();
        assert_eq!(listed, [Some(b"1499".to_vec())]);
        jobs.check().unwrap();
        go_on.send(()).unwrap();
        assert_eq!(jobs.wait(id, LONG).unwrap().progress, None, "it has ended");
        jobs.check().unwrap();
        jobs.shutdown().unwrap();
    });
}

/// The progress that a run found, and the progress that the run and another process saw.
type Seen = Arc<Mutex<Vec<(Option<u32>, Option<String>)>>>;

/// P37: The next run of a job finds the latest progress of the run before: after a failure, after a snooze, and after a
/// retry of the dead job. The job shows it while it is pending or dead, and not when it has completed. A run that has
/// ended sets nothing. The other properties of the job stay.
#[test]
fn progress_stays_with_its_job() {
    on_stores(|store| {
        let seen = Seen::default();
        let old: Arc<Mutex<Option<Run>>> = Arc::default();
        let (noted, kept) = (Arc::clone(&seen), Arc::clone(&old));
        let handler = move |_: Charge, run: &Run| -> Result<(), Fail> {
            let shown = || run.client().get(run.id()).map(|job| text(&job.unwrap()));
            let before = (run.progress::<u32>()?, shown()?);
            if let Some(old) = &*kept.lock().unwrap() {
                old.set_progress(&"late")?;
                let refused = old.store_progress(&"late").unwrap_err().to_string();
                assert_eq!(refused, "the run has ended before");
            }
            assert_eq!((run.progress::<u32>()?, shown()?), before);
            let runs = noted.lock().unwrap().len() as u32 + 1;
            run.set_progress(&(10 * runs))?;
            let set = shown()?;
            assert_eq!(set, Some(format!("{}", 10 * runs)));
            run.set_progress(&(10 * runs + 1))?;
            assert_eq!(shown()?, set, "it was written twice in a second");
            assert_eq!(run.header("tenant"), Some("acme"));
            noted.lock().unwrap().push(before);
            *kept.lock().unwrap() = Some(run.clone());
            match runs {
                1 => Err(Fail::retry("once more")),
                2 => Err(Fail::snooze(10 * SECOND)),
                3 => Err(Fail::dead("enough")),
                _ => Ok(()),
            }
        };
        let (jobs, driver) =
            store.open().handle_with(Retry::fixed(10 * SECOND), handler).manual().unwrap();
        jobs.kind::<Charge>().keep_completed(Keep::last(1)).unwrap();
        let new = NewJob::new(Charge(1)).header("tenant", "acme").at(2 * SECOND).key("1");
        let id = jobs.insert_job(new).unwrap().id;
        for runs in 1..=4 {
            for _ in 0..60 {
                if seen.lock().unwrap().len() < runs {
                    driver.advance(SECOND);
                }
            }
            assert_eq!(seen.lock().unwrap().len(), runs);
            old.lock().unwrap().as_ref().unwrap().set_progress(&"late").unwrap();
            driver.advance(2 * SECOND);
            let job = asker(store, &jobs).get(id).unwrap().unwrap();
            let left = (runs < 4).then(|| format!("{}1", runs));
            assert_eq!(text(&job), left, "{job:?}");
            assert_eq!(job.headers.len(), 1);
            jobs.check().unwrap();
            if runs == 3 {
                assert_eq!(job.state, JobState::Dead);
                let listed = jobs.dead().next_page().unwrap();
                assert_eq!(text(&listed[0]), left);
                assert!(jobs.retry(id).unwrap());
            }
        }
        let of = |n: u32| (Some(n), Some(n.to_string()));
        assert_eq!(*seen.lock().unwrap(), [(None, None), of(11), of(21), of(31)]);
        let page = jobs.ended().next_page().unwrap();
        assert_eq!((page.len(), text(&page[0])), (1, None), "its last run has set 41");
        jobs.check().unwrap();
    });
}

/// Returns the progress of a job.
fn text(job: &JobInfo) -> Option<String> {
    job.progress.clone().map(|json| String::from_utf8(json).unwrap())
}

/// P37: A run stores its progress. Another process sees it at once, and the run after a failure finds it. Neither has
/// to wait until the second is over in which the run has set it before.
#[test]
fn stored_progress_is_there_at_once() {
    on_stores(|store| {
        let (ask, asked) = mpsc::channel();
        let (go_on, may_go_on) = mpsc::channel::<()>();
        let may_go_on = Mutex::new(may_go_on);
        let handler = move |_: Charge, run: &Run| -> Result<(), Fail> {
            if let Some(row) = run.progress::<u32>()? {
                ask.send(row)?;
                return Ok(());
            }
            for row in 1..=3_u32 {
                run.set_progress(&"another")?;
                run.store_progress(&row)?;
                ask.send(row)?;
                may_go_on.lock().unwrap().recv_timeout(LONG)?;
            }
            Err(Fail::after(Duration::ZERO, "once more"))
        };
        let jobs = store.open().handle(handler).start().unwrap();
        let asker = asker(store, &jobs);
        let id = jobs.insert(Duration::ZERO, Charge(1)).unwrap();
        for row in 1..=3 {
            assert_eq!(asked.recv_timeout(LONG).unwrap(), row);
            assert_eq!(text(&asker.get(id).unwrap().unwrap()), Some(row.to_string()));
            go_on.send(()).unwrap();
        }
        assert_eq!(asked.recv_timeout(LONG).unwrap(), 3);
        jobs.shutdown().unwrap();
    });
}

/// P37: A run stores its progress while a shutdown waits for the run. It may do so before and after it is asked to stop.
#[test]
fn run_that_a_shutdown_waits_for_stores_its_progress() {
    on_stores(|store| {
        let (begin, begun) = mpsc::channel();
        let (end, ended) = mpsc::channel();
        let handler = move |_: Charge, run: &Run| -> Result<(), Fail> {
            let mut row = 1;
            run.store_progress(&row)?;
            begin.send(())?;
            while !run.is_cancelled() {
                row += 1;
                end.send(run.store_progress(&row))?;
            }
            end.send(run.store_progress(&"told"))?;
            Err(Fail::dead("as planned"))
        };
        let jobs = store.open().handle(handler).start().unwrap();
        let id = jobs.insert(Duration::ZERO, Charge(1)).unwrap();
        begun.recv_timeout(LONG).unwrap();
        jobs.shutdown().unwrap();
        let mut calls = 0;
        for stored in ended {
            stored.unwrap();
            calls += 1;
        }
        assert!(calls > 0);
        if store.keeps {
            let dead = store.open().client().unwrap().get(id).unwrap().unwrap();
            assert_eq!((dead.error.as_deref(), text(&dead)), {
                (Some("as planned"), Some("\"told\"".to_owned()))
            });
        }
    });
}

/// P37: A shutdown that does not wait for a run stores the progress of the run. The run does not count.
#[test]
fn run_that_a_shutdown_leaves_goes_on_from_its_progress() {
    on_stores(|store| {
        if !store.keeps {
            return;
        }
        let (begin, begun) = mpsc::channel();
        let (end, ends) = mpsc::channel::<()>();
        let ends = Mutex::new(ends);
        let handler = move |_: Charge, run: &Run| -> Result<(), Fail> {
            for row in 1..=500_u32 {
                run.set_progress(&row)?;
            }
            begin.send(())?;
            let _ = ends.lock().unwrap().recv_timeout(LONG);
            Ok(())
        };
        let jobs = store.open().handle(handler).start().unwrap();
        jobs.insert_job(NewJob::new(Charge(1)).header("tenant", "acme").key("1")).unwrap();
        begun.recv_timeout(LONG).unwrap();
        assert!(jobs.shutdown_timeout(Duration::ZERO).is_err());
        let (find, found) = mpsc::channel();
        let handler = move |_: Charge, run: &Run| -> Result<(), Fail> {
            find.send((run.progress::<u32>()?, run.attempt(), run.headers().count()))?;
            Ok(())
        };
        let jobs = store.open().handle(handler).start().unwrap();
        assert_eq!(found.recv_timeout(LONG).unwrap(), (Some(500), 1, 1));
        drop(end);
        jobs.check().unwrap();
        jobs.shutdown().unwrap();
    });
}

/// P37: A progress of another type is a failure with a reason. The job is dead, and keeps its progress.
#[test]
fn progress_of_another_type_fails_the_run() {
    on_stores(|store| {
        let handler = |_: Charge, run: &Run| -> Result<(), Fail> {
            let from: Option<u32> = run.progress()?;
            assert_eq!(from, None);
            run.set_progress(&("row", 7))?;
            Err(Fail::after(Duration::ZERO, "once more"))
        };
        let (jobs, driver) = store.open().handle(handler).manual().unwrap();
        let id = jobs.insert(Duration::ZERO, Charge(1)).unwrap();
        for _ in 0..3 {
            driver.advance(SECOND);
        }
        let dead = jobs.get(id).unwrap().unwrap();
        assert_eq!((dead.state, text(&dead)), (JobState::Dead, Some("[\"row\",7]".to_owned())));
        assert!(dead.error.unwrap().starts_with("the progress does not decode: invalid type"));
        assert!(jobs.delete(id).unwrap());
        jobs.check().unwrap();
    });
}
