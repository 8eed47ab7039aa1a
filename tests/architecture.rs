//! The order of the `mod` lines in `src/lib.rs` is the architecture. Here it is enforced:
//!
//! 1. a module names itself, and modules declared above it;
//! 2. it names things by the module they live in, not through a re-export at the root;
//! 3. the pure modules know no clock, no thread, no lock and no pool.
//!
//! Comments, doc links and literals do not count: what is read is the words of the code. Unit tests
//! do count, but a module that exists for tests alone may name everything.
//!
//! The checker is a few functions from text to text, so it is tested here too, on sources with
//! violations planted in them. Some smaller rules about the files follow at the end.

use std::fs;
use std::path::{Path, PathBuf};

/// Modules that have time passed in, and that one thread at a time uses.
const PURE: [&str; 2] = ["table", "hierarchy"];

/// What the pure modules must not name, beside the crates `rayon` and `crossbeam*`.
const IMPURE: [(&str, &str); 4] =
    [("std", "time"), ("std", "thread"), ("std", "sync"), ("core", "sync")];

/// A file has fewer lines than this.
const MAX_LINES: usize = 400;

// The scanner: from a source to its words.

/// A word, a `::`, or a single sign.
#[derive(Clone, Copy)]
struct Token<'a> {
    text: &'a str,
    line: usize,
}

fn tokens(source: &str) -> Vec<Token<'_>> {
    let (mut tokens, mut rest, mut line) = (Vec::new(), source, 1);
    while !rest.is_empty() {
        let skipped = skip(rest);
        let length = skipped.unwrap_or_else(|| token_length(rest));
        let (text, after) = rest.split_at(length);
        if skipped.is_none() {
            tokens.push(Token { text, line });
        }
        line += text.matches('\n').count();
        rest = after;
    }
    tokens
}

fn token_length(rest: &str) -> usize {
    let word = rest.find(|c: char| !is_word(c)).unwrap_or(rest.len());
    match word {
        0 if rest.starts_with("::") => 2,
        0 => rest.chars().next().map_or(0, char::len_utf8),
        word => word,
    }
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// The length of what is no token, if the source begins with that.
fn skip(rest: &str) -> Option<usize> {
    space(rest).or_else(|| comment(rest)).or_else(|| string(rest)).or_else(|| quote(rest))
}

fn space(rest: &str) -> Option<usize> {
    let length = rest.len() - rest.trim_start().len();
    (length > 0).then_some(length)
}

fn comment(rest: &str) -> Option<usize> {
    if rest.starts_with("//") {
        return Some(rest.find('\n').unwrap_or(rest.len()));
    }
    rest.starts_with("/*").then(|| block_comment(rest))
}

/// Block comments nest.
fn block_comment(rest: &str) -> usize {
    let (mut depth, mut at) = (0, 0);
    while at < rest.len() {
        let step = match &rest.as_bytes()[at..] {
            [b'/', b'*', ..] => (1, 2),
            [b'*', b'/', ..] => (-1, 2),
            _ => (0, 1),
        };
        depth += step.0;
        at += step.1;
        if depth == 0 {
            break;
        }
    }
    at
}

/// A string of any kind: plain, of bytes, for C, and each of them raw.
fn string(rest: &str) -> Option<usize> {
    ["", "b", "c", "r", "br", "cr"].iter().find_map(|prefix| {
        let quoted = rest.strip_prefix(prefix)?;
        let length = if prefix.ends_with('r') { raw(quoted) } else { escaped(quoted, '"') };
        Some(prefix.len() + length?)
    })
}

/// From a quote to the next one like it that is not escaped.
fn escaped(quoted: &str, quote: char) -> Option<usize> {
    let body = quoted.strip_prefix(quote)?;
    let mut escape = false;
    let end = body.find(|c| {
        let ends = c == quote && !escape;
        escape = c == '\\' && !escape;
        ends
    });
    Some(end.map_or(quoted.len(), |end| end + 2))
}

/// From `#"` to `"#`, with any number of `#`, also none.
fn raw(quoted: &str) -> Option<usize> {
    let body = quoted.trim_start_matches('#');
    let hashes = &quoted[..quoted.len() - body.len()];
    let end = format!("\"{hashes}");
    let start = hashes.len() + 1;
    let length = body.strip_prefix('"')?.find(&end).map(|at| start + at + end.len());
    Some(length.unwrap_or(quoted.len()))
}

/// A character, or the name of a lifetime.
fn quote(rest: &str) -> Option<usize> {
    let body = rest.strip_prefix('\'')?;
    let mut chars = body.chars();
    let (first, second) = (chars.next()?, chars.next());
    if first == '\\' || second == Some('\'') {
        return escaped(rest, '\'');
    }
    Some(1 + body.find(|c| !is_word(c)).unwrap_or(body.len()))
}

// The finder: from words to the names that paths begin with.

/// The names that follow `root::`, one, or several in braces.
fn names_under<'a>(tokens: &[Token<'a>], root: &str) -> Vec<Token<'a>> {
    let follows = |at: usize| tokens[at].text == root && is(tokens, at + 1, "::");
    let starts = (0..tokens.len()).filter(|&at| follows(at));
    starts.flat_map(|at| heads(&tokens[at + 2..])).collect()
}

/// The first word of a path, or of each path in a group.
fn heads<'a>(tokens: &[Token<'a>]) -> Vec<Token<'a>> {
    if !is(tokens, 0, "{") {
        return tokens.iter().take(1).copied().collect();
    }
    let (mut heads, mut depth, mut at_head) = (Vec::new(), 0, true);
    for token in &tokens[1..] {
        match token.text {
            "}" if depth == 0 => break,
            "{" => depth += 1,
            "}" => depth -= 1,
            "," if depth == 0 => at_head = true,
            _ if at_head => {
                heads.push(*token);
                at_head = false;
            }
            _ => {}
        }
    }
    heads
}

/// The names that follow as many `super::` as lead from a module at this depth to the root.
fn names_above<'a>(tokens: &[Token<'a>], depth: usize) -> Vec<Token<'a>> {
    let (mut names, mut blocks) = (Vec::new(), Vec::new());
    for at in 0..tokens.len() {
        match tokens[at].text {
            "{" => blocks.push(at >= 2 && tokens[at - 2].text == "mod"),
            "}" => drop(blocks.pop()),
            "super" if !(at >= 2 && tokens[at - 2].text == "super") => {
                let inline = blocks.iter().filter(|&&is_module| is_module).count();
                let steps = supers(&tokens[at..]);
                if steps == depth + inline {
                    names.extend(heads(&tokens[at + 2 * steps..]));
                }
            }
            _ => {}
        }
    }
    names
}

/// How many `super::` these tokens begin with.
fn supers(tokens: &[Token]) -> usize {
    tokens.chunks(2).take_while(|pair| is(pair, 0, "super") && is(pair, 1, "::")).count()
}

fn is(tokens: &[Token], at: usize, text: &str) -> bool {
    tokens.get(at).is_some_and(|token| token.text == text)
}

// The checker: from names to violations.

/// A `mod` line of `src/lib.rs`.
struct Module {
    name: String,
    for_tests: bool,
}

fn modules(lib: &str) -> Vec<Module> {
    let tokens = tokens(lib);
    let lines = tokens.split(|token| token.text == ";");
    lines.filter_map(module).collect()
}

fn module(line: &[Token]) -> Option<Module> {
    let [attributes @ .., keyword, name] = line else { return None };
    let for_tests = attributes.iter().any(|token| token.text == "test");
    (keyword.text == "mod").then(|| Module { name: name.text.to_owned(), for_tests })
}

/// Everything in a file that the architecture forbids. The file's path is relative to `src`.
fn violations(modules: &[Module], file: &str, source: &str) -> Vec<String> {
    let path: Vec<&str> = file.trim_end_matches(".rs").split('/').collect();
    let rank = |name: &str| modules.iter().position(|module| module.name == name);
    let Some(own) = rank(path[0]) else {
        return vec![format!("src/{file} belongs to no module in src/lib.rs")];
    };
    if modules[own].for_tests {
        return Vec::new();
    }
    let tokens = tokens(source);
    let depth = path.len() - usize::from(path.last() == Some(&"mod"));
    let mut names = names_under(&tokens, "crate");
    names.extend(names_above(&tokens, depth));
    let upward = names.iter().filter_map(|name| match rank(name.text) {
        Some(rank) if rank <= own => None,
        Some(_) => Some((*name, format!("which is declared below `{}`", path[0]))),
        None => Some((*name, "which is no module: name the one that it lives in".to_owned())),
    });
    let report = |(name, why): (Token, String)| {
        format!("src/{file}:{} names `{}`, {why}", name.line, name.text)
    };
    let mut found: Vec<String> = upward.map(report).collect();
    if PURE.contains(&path[0]) {
        found.extend(impurities(&tokens).into_iter().map(|(line, name)| {
            format!("src/{file}:{line} names `{name}`, and `{}` is pure", path[0])
        }));
    }
    found
}

/// What a pure module must not name, and where it does.
fn impurities(tokens: &[Token]) -> Vec<(usize, String)> {
    let in_std = IMPURE.iter().flat_map(|&(root, name)| {
        let under = names_under(tokens, root).into_iter();
        under.filter(move |found| found.text == name).map(move |found| (root, found))
    });
    let in_std = in_std.map(|(root, found)| (found.line, format!("{root}::{}", found.text)));
    let foreign = |token: &&Token| token.text == "rayon" || token.text.starts_with("crossbeam");
    let foreign = tokens.iter().filter(foreign).map(|token| (token.line, token.text.to_owned()));
    in_std.chain(foreign).collect()
}

// The files.

fn read(path: impl AsRef<Path>) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Every source file: its path in `src`, and what it says.
fn sources() -> Vec<(String, String)> {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    collect(&src, &mut files);
    files.sort();
    let relative = |path: &PathBuf| {
        let path = path.strip_prefix(&src).expect("found below src");
        path.iter().map(|part| part.to_string_lossy()).collect::<Vec<_>>().join("/")
    };
    files.iter().map(|path| (relative(path), read(path))).collect()
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder that can be listed") {
        let path = entry.expect("an entry that can be read").path();
        if path.is_dir() {
            collect(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
}

fn assert_none(found: Vec<String>) {
    assert!(found.is_empty(), "\n{}\n", found.join("\n"));
}

#[test]
fn every_module_names_only_modules_above_it() {
    let modules = modules(&read("src/lib.rs"));
    for pure in PURE {
        assert!(modules.iter().any(|module| module.name == pure), "there is no module `{pure}`");
    }
    let files = sources().into_iter().filter(|(file, _)| file != "lib.rs");
    assert_none(files.flat_map(|(file, source)| violations(&modules, &file, &source)).collect());
}

// The checker, on planted violations.

const LIB: &str = "
    #![forbid(unsafe_code)]
    mod low;
    /// Pure.
    mod table;
    mod high; // mod comment;
    #[cfg(all(test, loom))]
    mod models;
    pub use high::High;
";

fn found(file: &str, source: &str) -> Vec<String> {
    violations(&modules(LIB), file, source)
}

#[test]
fn the_modules_are_read_in_their_order() {
    let modules = modules(LIB);
    let named: Vec<(&str, bool)> = modules.iter().map(|m| (&*m.name, m.for_tests)).collect();
    assert_eq!(named, [("low", false), ("table", false), ("high", false), ("models", true)]);
}

#[test]
fn an_upward_path_is_found_wherever_it_stands() {
    let message = "src/low.rs:2 names `high`, which is declared below `low`";
    for source in [
        "\nuse crate::high::High;",
        "\nuse crate::{low, high};",
        "use crate::{low::{a, b},\n high::High};",
        "\nuse {core::fmt, crate::high};",
        "\npub use crate :: high;",
        "\nfn f(x: crate::high::High) {}",
        "fn f() {\nlet x = crate::high::f('\"', \"}\"); }",
        "\nuse super::high;",
        "\nuse super::{low, high};",
        "mod tests {\nuse super::super::high; }",
        "/* a /* nested */ comment */ fn f<'a>() {}\nuse crate::high;",
        "const A: &str = r#\"\\\"#; const B: char = '\\'';\nuse crate::high;",
    ] {
        assert_eq!(found("low.rs", source), [message], "in {source:?}");
    }
}

#[test]
fn a_submodule_belongs_to_its_module() {
    let message = "src/low/part.rs:1 names `high`, which is declared below `low`";
    assert_eq!(found("low/part.rs", "use crate::high;"), [message]);
    assert_eq!(found("low/part.rs", "use super::super::high;"), [message]);
    assert_none(found("low/part.rs", "use super::high; use crate::low::high;"));
    assert_eq!(found("low/mod.rs", "use super::high;").len(), 1);
    assert_eq!(found("low/tests/mod.rs", "use super::super::high;").len(), 1);
    assert_none(found("low/tests/model.rs", "use super::super::high;"));
}

#[test]
fn a_re_export_at_the_root_is_found() {
    let message = "src/high.rs:1 names `High`, which is no module: name the one that it lives in";
    assert_eq!(found("high.rs", "use crate::High;"), [message]);
    assert_eq!(found("high.rs", "fn f() -> crate::High {}"), [message]);
    assert_eq!(found("high.rs", "use super::High;"), [message]);
    assert_eq!(found("high.rs", "use crate::*;").len(), 1);
    assert_eq!(found("high.rs", "use crate::{table, High, Low};").len(), 2);
}

#[test]
fn what_is_impure_is_found_in_a_pure_module() {
    for (source, name) in [
        ("use std::time::Instant;", "std::time"),
        ("use std::{fmt, thread};", "std::thread"),
        ("fn f(x: std::sync::Arc<u8>) {}", "std::sync"),
        ("use core::sync::atomic::AtomicU64;", "core::sync"),
        ("fn f() { rayon::spawn(|| ()); }", "rayon"),
        ("use crossbeam_channel::Sender;", "crossbeam_channel"),
    ] {
        for file in ["table.rs", "table/part.rs"] {
            let message = format!("src/{file}:1 names `{name}`, and `table` is pure");
            assert_eq!(found(file, source), [message]);
        }
        assert_none(found("low.rs", source));
    }
    assert_none(found("table.rs", "use core::time::Duration; use std::{fmt::Debug, vec};"));
}

#[test]
fn a_clean_source_is_left_alone() {
    assert_none(found("high.rs", "use crate::low::{high, Low}; use crate::{high::x, table};"));
    assert_none(found("table.rs", "pub(crate) fn f() { self::high(); } pub(super) struct S;"));
    assert_none(found("low.rs", "fn f() { high::f(); } mod tests { use super::*; }"));
    assert_none(found("models.rs", "use crate::{high, High}; use std::thread;"));
}

#[test]
fn comments_doc_links_and_literals_do_not_count() {
    for source in [
        "//! [`High`](crate::High), by crate::high",
        "/// See [`crate::high::High`], std::time and rayon.\nfn f() {}",
        "/* crate::high /* std::sync */ crate::High */",
        "const TEXT: &str = \"a \\\" crate::high std::thread\";",
        "const TEXT: &str = r##\"\"# crate::high rayon\"##;",
        "const TEXT: &[u8] = b\"crate::high\"; const C: &CStr = c\"crate::high\";",
        "#[doc = \"crate::High\"] fn f<'crossbeam>(c: char) { c == '\"' || c == '\\\\' }",
    ] {
        assert_none(found("table.rs", source));
    }
}

#[test]
fn a_file_of_no_module_is_found() {
    assert_eq!(found("stray.rs", ""), ["src/stray.rs belongs to no module in src/lib.rs"]);
}

// Smaller rules.

#[test]
fn every_file_can_be_read_in_one_go() {
    let too_long = sources().into_iter().filter_map(|(file, source)| {
        let lines = source.lines().count();
        (lines >= MAX_LINES).then(|| format!("src/{file} has {lines} lines: divide it"))
    });
    assert_none(too_long.collect());
}

#[test]
fn nothing_is_unsafe() {
    let forbidden = "#![forbid(unsafe_code)]";
    let mut sources = sources();
    let lib = sources.iter_mut().find(|(file, _)| file == "lib.rs").expect("there is a lib.rs");
    assert!(lib.1.contains(forbidden), "src/lib.rs does not say {forbidden}");
    lib.1 = lib.1.replacen(forbidden, "", 1);
    let unsafe_files = sources.into_iter().filter(|(_, source)| source.contains("unsafe"));
    assert_none(unsafe_files.map(|(file, _)| format!("src/{file} says `unsafe`")).collect());
}

#[test]
fn clippy_refuses_clocks_and_sleep() {
    let rules = read("clippy.toml");
    for method in ["std::time::Instant::now", "std::time::SystemTime::now", "std::thread::sleep"] {
        let rule = format!("path = \"{method}\"");
        assert!(rules.contains(&rule), "clippy.toml no longer disallows `{method}`");
    }
}

#[test]
fn the_map_has_a_row_for_every_file_and_no_other() {
    let map = read("docs/architecture.md");
    let rows = map.lines().filter_map(|line| line.strip_prefix("| `src/")?.split_once('`'));
    let mut rows: Vec<&str> = rows.map(|(file, _)| file).collect();
    rows.sort_unstable();
    let files = sources();
    let files: Vec<&str> = files.iter().map(|(file, _)| &**file).collect();
    assert_eq!(rows, files, "left: the rows of docs/architecture.md, right: the files in src");
}
