//! The command `tickwheel-jobs` on a file, beside a running application: this process.

#![expect(clippy::disallowed_methods, reason = "another process is the subject, so time is real")]

#[path = "cli/by_hand.rs"]
mod by_hand;
#[path = "cli/chosen.rs"]
mod chosen;
#[cfg(unix)]
#[path = "cli/hostile.rs"]
mod hostile;
#[path = "cli/made.rs"]
mod made;
#[path = "cli/follow.rs"]
mod follow;
#[path = "cli/queue.rs"]
mod queue;
#[path = "cli/shared.rs"]
mod shared;
#[path = "cli/settings.rs"]
mod settings;
#[path = "cli/top.rs"]
mod top;
#[path = "cli/verbs.rs"]
mod verbs;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tempfile::TempDir;
use tickwheel_jobs::rusqlite::Connection;
use tickwheel_jobs::{Builder, Jobs};

use shared::*;

/// A folder for the file.
struct Folder(TempDir);

type Place = Folder;

fn place() -> Option<Folder> {
    Some(Folder::new())
}

impl Folder {
    fn new() -> Folder {
        Folder(tempfile::tempdir().unwrap())
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn file(&self, name: &str) -> PathBuf {
        self.path().join(name)
    }

    fn store(&self) -> String {
        self.file("jobs.db").to_str().unwrap().to_owned()
    }

    fn builder(&self) -> Builder {
        Jobs::open(self.store()).unwrap()
    }
}

/// P73: A verb that only reads does not wait for a connection that writes.
#[test]
fn reading_verbs_do_not_wait_for_a_writer() {
    let app = application().unwrap();
    let id = app.jobs.insert(HOUR, Close(1)).unwrap().to_string();
    let mut writer = Connection::open(&app.store).unwrap();
    let transaction =
        writer.transaction_with_behavior(tickwheel_jobs::rusqlite::TransactionBehavior::Immediate);
    let transaction = transaction.unwrap();
    // The transaction outlasts the calls, so a verb that waits for it fails after ten seconds.
    assert_eq!(ids(&json(&app.store, &["list", "--json"])), [&*id]);
    assert!(ok(&app.store, &["stats"]).contains("close-order"));
    assert!(ok(&app.store, &["show", &id]).contains(&id));
    transaction.rollback().unwrap();
}

/// A file without jobs is refused by name and stays as it is. An absent file is not made.
#[test]
fn file_that_is_no_store_is_refused_by_name_and_left_alone() {
    let app = application().unwrap();
    let absent = app.place.file("absent.db");
    let refused = call(&absent, &["list"]);
    assert_eq!(refused.code, 2);
    assert!(refused.err.contains("absent.db"), "{}", refused.err);
    assert!(!absent.exists());

    let text = app.place.file("text.db");
    fs::write(&text, "longer than the header of a database, and none. ".repeat(4)).unwrap();
    let empty = app.place.file("empty.db");
    fs::write(&empty, "").unwrap();
    let shop = app.place.file("shop.db");
    let conn = Connection::open(&shop).unwrap();
    conn.execute_batch("CREATE TABLE orders (id INTEGER PRIMARY KEY)").unwrap();
    drop(conn);
    for file in [&text, &empty, &shop] {
        let before = fs::read(file).unwrap();
        let refused = call(file, &["stats"]);
        assert_eq!(refused.code, 2, "{}", refused.out);
        assert!(refused.err.contains(file.to_str().unwrap()), "{}", refused.err);
        assert_eq!(fs::read(file).unwrap(), before, "{}", file.display());
    }
    assert_eq!(call(app.place.path(), &["list"]).code, 2);
}

/// The command makes no queue: a name that the file does not have is an error. If the file has no kind, the error about
/// an unknown kind says that.
#[test]
fn queue_that_is_absent_is_not_made() {
    let folder = Folder::new();
    folder.builder().client().unwrap();
    assert_eq!(call(folder.store(), &["--queue", "mail", "list"]).code, 2);
    let tables = "SELECT count(*) FROM sqlite_schema WHERE name = 'tickwheel_mail__meta'";
    let conn = Connection::open(folder.store()).unwrap();
    assert_eq!(conn.query_row(tables, [], |row| row.get::<_, i64>(0)).unwrap(), 0);
    assert!(call(folder.store(), &["list", "--kind", "push"]).err.contains("there is none"));
}

/// The page of the command names the commands and options of `--help`, and no others.
#[test]
fn page_has_what_help_has() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md");
    let page = fs::read_to_string(page).unwrap();
    let folder = Folder::new();
    let file = folder.file("jobs.db");
    let options = |text: &str| {
        let words = text.split(|c: char| !(c.is_ascii_lowercase() || c == '-'));
        let words = words.map(|word| word.trim_end_matches('-').to_owned());
        words.filter(|word| word.starts_with("--") && word.len() > 2).collect::<Vec<String>>()
    };
    let commands = made::commands();
    let expected = 29 + usize::from(cfg!(feature = "serve"));
    assert!(
        commands.iter().any(|it| it == "run-schedule") && commands.len() == expected,
        "{commands:?}"
    );
    let mut known = vec![options(&ok(&file, &["--help"]))];
    for command in &commands {
        assert!(page.contains(&format!("`{command}")), "`{command}` is not on the page");
        known.push(options(&ok(&file, &[command, "--help"])));
    }
    let known: Vec<String> = known.concat();
    for option in known.iter().filter(|option| !["--help", "--version"].contains(&&***option)) {
        assert!(page.contains(&format!("`{option}")), "{option} is not on the page");
    }
    let install = ["--path", "--features"];
    let of_serve = ["--listen", "--password-file", "--read-only"];
    for option in options(&page) {
        let is_known = known.contains(&option)
            || install.contains(&&*option)
            || !cfg!(feature = "serve") && of_serve.contains(&&*option);
        assert!(is_known, "{option} is on the page, and not in --help");
    }
}
