//! A file system that is really full: a tmpfs of four megabytes, where the tests may mount one.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use tickwheel_jobs::{InsertErrorKind, Jobs, StoreError};

use crate::disk::task::{Plan, Task};

/// A mounted file system, until it is dropped.
struct Small(PathBuf);

impl Small {
    fn mount(at: &Path) -> Option<Small> {
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=4m", "tmpfs"])
            .arg(at)
            .output()
            .is_ok_and(|output| output.status.success());
        mounted.then(|| Small(at.to_owned()))
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).output();
    }
}

/// P5: A full file system refuses jobs and loses none that it took. It takes jobs again once there is room.
#[test]
fn full_disk_refuses_jobs_and_takes_them_once_there_is_room() {
    let folder = tempfile::tempdir().expect("there is room");
    let Some(small) = Small::mount(folder.path()) else {
        eprintln!("skipped: a tmpfs cannot be mounted here");
        return;
    };
    let path = small.0.join("jobs.db");
    let open = || {
        let builder = Jobs::open(&path).expect("the file is in order");
        builder.handle(|_: Task, _: &_| Ok(())).manual().expect("the jobs start")
    };
    let (jobs, driver) = open();
    let filler = small.0.join("filler");
    std::fs::write(&filler, vec![1; 1 << 20]).expect("there is room");
    let hour = Duration::from_secs(3600);
    let (mut stored, mut refused) = (Vec::new(), 0);
    for n in 0..2_000 {
        match jobs.insert(hour, Task { padding: "x".repeat(8_000), ..Task::new(n, Plan::Succeed) })
        {
            Ok(id) => stored.push(id),
            Err(error) => {
                assert_eq!(*error.kind(), InsertErrorKind::Store(StoreError::Full));
                assert_eq!(error.into_inner().n, n);
                refused += 1;
                if refused == 20 {
                    break;
                }
            }
        }
    }
    assert!(refused == 20 && stored.len() > 50, "{} stored, {refused} refused", stored.len());
    jobs.check().expect("the store is in order");
    for id in &stored {
        assert!(jobs.get(*id).expect("a full disk can be read").is_some(), "{id} is lost");
    }
    assert_eq!(jobs.count().expect("a full disk can be read").pending, stored.len() as u64);
    std::fs::remove_file(&filler).expect("the filler is there");
    let task = Task::new(3_000, Plan::Succeed);
    stored.push(jobs.insert(hour, task).expect("there is room again"));
    drop((jobs, driver));
    let (jobs, driver) = open();
    jobs.check().expect("the store is in order");
    assert_eq!(jobs.count().expect("it is read").pending, stored.len() as u64);
    // The clock of this driver began later, so less than two hours are left until the jobs are due.
    assert_eq!(driver.advance(2 * hour), stored.len());
    jobs.check().expect("the store is in order");
    jobs.shutdown().expect("there is room");
}
