//! The programs of the pages that need a file run, each in a folder of its own: as a reader runs them.
//!
//! Ground rules:
//!
//! - The doctests compile every snippet of the pages, and run those that need no file. A doctest runs in the folder
//!   of the crate, where a file must not be left, so a snippet with a file is `no_run` there.
//! - Each file in `tests/pages` is such a snippet, letter by letter. After a change of a page,
//!   `TICKWHEEL_UPDATE_PAGES=1 cargo test -p tickwheel-jobs --test pages` writes them anew.
//! - A program leaves its file behind, and runs again on it.
//! - A program that runs until a signal comes gets a signal.
//! - A program that needs a server runs in `tests/redis/pages.rs`. Its file is compared here.

use std::error::Error;
use std::fs;
use std::path::Path;
use std::process::Command;

/// A program of a page.
struct Program {
    /// The name of its file in `tests/pages`.
    name: &'static str,
    /// The page, and the heading above the program.
    page: &'static str,
    heading: &'static str,
    main: fn() -> Result<(), Box<dyn Error>>,
}

macro_rules! programs {
    ($($name:ident: $page:literal, $heading:literal;)*) => {
        $(#[allow(dead_code, clippy::all, reason = "as the page has it")]
        mod $name {
            include!(concat!("pages/", stringify!($name), ".rs"));

            pub(super) const MAIN: fn() -> Result<(), Box<dyn std::error::Error>> = main;
        })*

        const PROGRAMS: &[Program] = &[$(Program {
            name: stringify!($name),
            page: $page,
            heading: $heading,
            main: $name::MAIN,
        }),*];
    };
}

programs! {
    readme: "README.md", "## Use it";
    twice: "docs/recipes-failures.md", "## Handlers that may run twice";
    client: "docs/recipes-first-steps.md", "## A process that only inserts";
    backup: "docs/recipes-operation.md", "## Backups";
    deploy: "docs/recipes-operation.md", "## Upgrades and rolling deploys";
    queues: "docs/recipes-operation.md", "## Two queues in one file";
    deployment: "docs/deployment.md", "## A program that stops when it is asked";
}

/// The program that runs until a signal comes.
const UNTIL_A_SIGNAL: &str = "deployment";

/// The programs that need a server: the names of their files, the pages, and the headings.
const ON_A_SERVER: &[(&str, &str, &str)] =
    &[("machines", "docs/recipes-operation.md", "## Several machines on Redis")];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Returns the snippets of a page that the doctests do not run, each with the heading above it.
fn snippets(page: &str) -> Vec<(String, String)> {
    let text = fs::read_to_string(root().join(page)).unwrap();
    let mut snippets: Vec<(String, String)> = Vec::new();
    let mut heading = "";
    let mut is_inside = false;
    for line in text.lines() {
        if line == "```" {
            is_inside = false;
        } else if is_inside {
            let (_, snippet) = snippets.last_mut().unwrap();
            snippet.push_str(line);
            snippet.push('\n');
        } else if line == "```rust,no_run" {
            is_inside = true;
            snippets.push((heading.to_owned(), String::new()));
        } else if line.starts_with("## ") {
            heading = line;
        }
    }
    snippets
}

/// The files are the snippets of the pages, and no snippet that does not run elsewhere is missing.
#[test]
fn programs_are_those_of_the_pages() {
    let here = PROGRAMS.iter().map(|program| (program.name, program.page, program.heading));
    let programs: Vec<_> = here.chain(ON_A_SERVER.iter().copied()).collect();
    let mut pages: Vec<&str> = programs.iter().map(|(_, page, _)| *page).collect();
    pages.dedup();
    for page in pages {
        let snippets = snippets(page);
        let programs = programs.iter().filter(|(_, of, _)| *of == page);
        assert_eq!(snippets.len(), programs.clone().count(), "{page}: a program is missing here");
        for (name, _, heading) in programs {
            let shown = snippets.iter().find(|(above, _)| above == heading);
            let (_, shown) =
                shown.unwrap_or_else(|| panic!("{page} has no program below {heading}"));
            let file = root().join(format!("tests/pages/{name}.rs"));
            if std::env::var_os("TICKWHEEL_UPDATE_PAGES").is_some() {
                fs::write(&file, shown).unwrap();
            }
            let ours = fs::read_to_string(&file).unwrap();
            assert_eq!(
                &ours,
                shown,
                "{}: write it anew, as the head of this file says",
                file.display()
            );
        }
    }
}

/// Each program runs, and runs again on the file that it left.
#[test]
fn programs_of_the_pages_run_twice() {
    for Program { name, .. } in PROGRAMS.iter().filter(|program| program.name != UNTIL_A_SIGNAL) {
        let folder = tempfile::tempdir().unwrap();
        for _ in 0..2 {
            let ended = child(name, folder.path()).output().unwrap();
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            let (out, err) = (text(&ended.stdout), text(&ended.stderr));
            assert!(ended.status.success(), "{name}: {out}{err}");
            assert!(folder.path().join("shop.db").exists(), "{name}: {out}");
        }
    }
}

/// The program ends well after SIGTERM, while a run is under way. Its job is not lost and has not failed. It runs after
/// the next start.
#[test]
#[cfg(unix)]
fn program_of_a_page_ends_when_it_is_asked() {
    use nix::sys::signal::{Signal, kill};
    use std::io::{BufRead, BufReader};
    use std::process::Stdio;
    use std::time::Duration;
    use tickwheel_jobs::{Job, JobState, Jobs};

    #[derive(serde::Serialize, serde::Deserialize)]
    struct Export {
        table: String,
    }
    impl Job for Export {
        const KIND: &'static str = "export";
    }
    let folder = tempfile::tempdir().unwrap();
    let client = Jobs::open(folder.path().join("shop.db")).unwrap().client().unwrap();
    let id = client.insert(Duration::ZERO, Export { table: "users".to_owned() }).unwrap();
    for _ in 0..2 {
        let mut child = child(UNTIL_A_SIGNAL, folder.path());
        let mut child = child.stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        assert!(lines.any(|line| line.ends_with("users, page 1")));
        kill(nix::unistd::Pid::from_raw(child.id() as i32), Signal::SIGTERM).unwrap();
        assert!(child.wait().unwrap().success());
        let job = client.get(id).unwrap().unwrap();
        assert_eq!((job.state, job.failures), (JobState::Pending, 0));
    }
    client.check().unwrap();
}

/// Returns a child that runs a program in a folder.
fn child(name: &str, folder: &Path) -> Command {
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", "program_in_the_folder", "--ignored", "--nocapture"]);
    child.env(PROGRAM, name).current_dir(folder);
    child
}

/// The environment variable with the name of the program that a child runs.
const PROGRAM: &str = "TICKWHEEL_PAGES_PROGRAM";

/// A child of `programs_of_the_pages_run_twice`.
#[test]
#[ignore = "a process of its own runs it, in a folder of its own"]
fn program_in_the_folder() {
    let Ok(name) = std::env::var(PROGRAM) else { return };
    let program = PROGRAMS.iter().find(|program| program.name == name);
    (program.unwrap().main)().unwrap();
}
