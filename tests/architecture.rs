//! The order of the `mod` lines is the architecture: first the layers, in `src/lib.rs`, then the modules
//! of each, in its `mod.rs`. Here it is enforced:
//!
//! 1. a module names itself, and modules declared above it;
//! 2. it names things by the module they live in, not through a re-export further up;
//! 3. the pure layer knows no clock, no thread, no lock and no pool;
//! 4. the `mod.rs` of a layer holds `mod` lines and nothing else, but for the pure one, which is one
//!    module.
//!
//! Comments, doc links and literals do not count: what is read is the words of the code. Unit tests
//! do count, but a module that exists for tests alone may name everything.
//!
//! The checker is a few functions from text to text, so it is tested here too, on sources with
//! violations planted in them. Some smaller rules about the files follow at the end.

use std::fs;
use std::path::{Path, PathBuf};

/// The layer that has time passed in, and that one thread at a time uses. It is one module.
const PURE: &str = "structure";

/// What the pure layer must not name, beside the crates `rayon` and `crossbeam*`.
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

// The finder: from words to the paths that they make.

/// The first two words of a path from the root, and the line it stands on.
#[derive(Clone, Debug)]
struct Named<'a> {
    words: Vec<&'a str>,
    line: usize,
}

/// The paths below `root::`, each from the word after it.
fn paths_under<'a>(tokens: &[Token<'a>], root: &str) -> Vec<Named<'a>> {
    let follows = |at: usize| tokens[at].text == root && is(tokens, at + 1, "::");
    let starts = (0..tokens.len()).filter(|&at| follows(at));
    starts.flat_map(|at| leaves(&tokens[at + 2..], &[])).collect()
}

/// The paths that follow as many `super::` as there are, from the root on. `module` is the path of the
/// file's own module.
fn paths_above<'a>(tokens: &[Token<'a>], module: &[&'a str]) -> Vec<Named<'a>> {
    let mut paths = Vec::new();
    // The blocks that are open: the name of the module, if one is.
    let mut blocks: Vec<Option<&str>> = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        match tokens[at].text {
            "{" => {
                let is_module = at >= 2 && tokens[at - 2].text == "mod";
                blocks.push(is_module.then(|| tokens[at - 1].text));
            }
            "}" => drop(blocks.pop()),
            "super" => {
                let mut here = module.to_vec();
                here.extend(blocks.iter().flatten());
                let tree = &tokens[at..];
                paths.extend(leaves(tree, &here));
                at += tree_length(tree);
                continue;
            }
            _ => {}
        }
        at += 1;
    }
    paths
}

/// How many tokens the tree of paths takes that these begin with, up to its last brace.
fn tree_length(tokens: &[Token]) -> usize {
    let path = tokens.chunks(2).take_while(|pair| is(pair, 1, "::")).count() * 2;
    if !is(tokens, path, "{") {
        return path + 1;
    }
    let group: usize = branches(&tokens[path + 1..]).map(|branch| branch.len() + 1).sum();
    path + 1 + group
}

/// Every path of the tree that these tokens begin with, as it goes on from `prefix`; two words of each.
fn leaves<'a>(tokens: &[Token<'a>], prefix: &[&'a str]) -> Vec<Named<'a>> {
    let Some(first) = tokens.first() else { return Vec::new() };
    if first.text == "{" {
        return branches(&tokens[1..]).flat_map(|branch| leaves(branch, prefix)).collect();
    }
    let mut words = prefix.to_vec();
    if first.text == "super" {
        words.pop();
        return leaves(tokens.get(2..).unwrap_or_default(), &words);
    }
    words.push(first.text);
    if words.len() < 2 && is(tokens, 1, "::") {
        return leaves(&tokens[2..], &words);
    }
    words.truncate(2);
    vec![Named { words, line: first.line }]
}

/// What lies between the commas of a group, up to the brace that ends it.
fn branches<'a, 'b>(tokens: &'b [Token<'a>]) -> impl Iterator<Item = &'b [Token<'a>]> {
    let (mut depth, mut end) = (0, tokens.len());
    let mut commas = Vec::new();
    for (at, token) in tokens.iter().enumerate() {
        match token.text {
            "}" if depth == 0 => {
                end = at;
                break;
            }
            "{" => depth += 1,
            "}" => depth -= 1,
            "," if depth == 0 => commas.push(at),
            _ => {}
        }
    }
    let starts = [0].into_iter().chain(commas.clone().into_iter().map(|comma| comma + 1));
    let ends = commas.into_iter().chain([end]);
    starts.zip(ends).map(|(start, end)| &tokens[start..end])
}

fn is(tokens: &[Token], at: usize, text: &str) -> bool {
    tokens.get(at).is_some_and(|token| token.text == text)
}

// The checker: from paths to violations.

/// A module: `layer::name`, or the pure layer.
#[derive(Debug)]
struct Module {
    path: String,
    for_tests: bool,
}

/// Every module in its order: `lib` declares the layers, `of_layer` says what the `mod.rs` of each does.
fn modules(lib: &str, of_layer: impl Fn(&str) -> String) -> Vec<Module> {
    let mut modules = Vec::new();
    for layer in declared(lib) {
        if layer.path == PURE {
            modules.push(layer);
            continue;
        }
        modules.extend(declared(&of_layer(&layer.path)).into_iter().map(|module| Module {
            path: format!("{}::{}", layer.path, module.path),
            for_tests: module.for_tests,
        }));
    }
    modules
}

/// The `mod` lines of a source.
fn declared(source: &str) -> Vec<Module> {
    let tokens = tokens(source);
    let lines = tokens.split(|token| token.text == ";");
    lines.filter_map(module).collect()
}

fn module(line: &[Token]) -> Option<Module> {
    let [attributes @ .., keyword, name] = line else { return None };
    let for_tests = attributes.iter().any(|token| token.text == "test");
    (keyword.text == "mod").then(|| Module { path: name.text.to_owned(), for_tests })
}

/// The module that a path leads to.
fn module_of(words: &[&str]) -> String {
    match words {
        [PURE, ..] => PURE.to_owned(),
        words => words.join("::"),
    }
}

/// Everything in a file that the architecture forbids. The file's path is relative to `src`.
fn violations(modules: &[Module], file: &str, source: &str) -> Vec<String> {
    let mut path: Vec<&str> = file.trim_end_matches(".rs").split('/').collect();
    if path.last() == Some(&"mod") {
        path.pop();
    }
    let own = module_of(&path[..path.len().min(2)]);
    let rank = |path: &str| modules.iter().position(|module| module.path == path);
    let Some(own_rank) = rank(&own) else {
        return vec![format!("src/{file} belongs to no module that a mod line declares")];
    };
    if modules[own_rank].for_tests {
        return Vec::new();
    }
    let tokens = tokens(source);
    let mut named = paths_under(&tokens, "crate");
    named.extend(paths_above(&tokens, &path));
    let upward = named.iter().filter_map(|name| {
        let path = module_of(&name.words);
        match rank(&path) {
            Some(rank) if rank <= own_rank => None,
            Some(_) => Some((name.line, path, format!("which is declared below `{own}`"))),
            None => {
                let why = "which is no module: name the one that it lives in".to_owned();
                Some((name.line, path, why))
            }
        }
    });
    let report = |(line, name, why): (usize, String, String)| {
        format!("src/{file}:{line} names `{name}`, {why}")
    };
    let mut found: Vec<String> = upward.map(report).collect();
    if own == PURE {
        found.extend(
            impurities(&tokens).into_iter().map(|(line, name)| {
                format!("src/{file}:{line} names `{name}`, and `{PURE}` is pure")
            }),
        );
    }
    found
}

/// Whether a source declares modules, and does nothing else.
fn only_declares(source: &str) -> bool {
    let tokens = tokens(source);
    tokens.split(|token| token.text == ";").all(|line| {
        let mut words: Vec<&str> = line.iter().map(|token| token.text).collect();
        if words.starts_with(&["#"]) {
            let end = words.iter().rposition(|&word| word == "]").map_or(0, |end| end + 1);
            words.drain(..end);
        }
        matches!(words[..], [] | ["mod", _] | ["pub", "(", "crate", ")", "mod", _])
    })
}

/// What the pure layer must not name, and where it does.
fn impurities(tokens: &[Token]) -> Vec<(usize, String)> {
    let in_std = IMPURE.iter().flat_map(|&(root, name)| {
        let under = paths_under(tokens, root).into_iter();
        under.filter(move |found| found.words[0] == name).map(move |found| (root, found))
    });
    let in_std = in_std.map(|(root, found)| (found.line, format!("{root}::{}", found.words[0])));
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

/// The modules of this crate.
fn own_modules() -> Vec<Module> {
    modules(&read("src/lib.rs"), |layer| read(format!("src/{layer}/mod.rs")))
}

/// The files that hold code: all but the front page and the `mod.rs` of the layers.
fn files_with_code() -> impl Iterator<Item = (String, String)> {
    sources().into_iter().filter(|(file, _)| file != "lib.rs" && !is_layer(file))
}

/// Whether a file is the `mod.rs` of a layer that is not one module.
fn is_layer(file: &str) -> bool {
    let parts: Vec<&str> = file.split('/').collect();
    matches!(parts[..], [layer, "mod.rs"] if layer != PURE)
}

#[test]
fn every_module_names_only_modules_above_it() {
    let modules = own_modules();
    assert!(modules.iter().any(|module| module.path == PURE), "there is no layer `{PURE}`");
    assert!(modules.len() > 20, "the layers were not read: {modules:?}");
    assert_none(
        files_with_code().flat_map(|(file, source)| violations(&modules, &file, &source)).collect(),
    );
}

#[test]
fn a_layer_declares_modules_and_holds_no_code() {
    let layers = sources().into_iter().filter(|(file, _)| is_layer(file));
    let other = layers.filter(|(_, source)| !only_declares(source));
    assert_none(other.map(|(file, _)| format!("src/{file} holds more than `mod` lines")).collect());
}

// The checker, on planted violations.

const LIB: &str = "
    #![forbid(unsafe_code)]
    mod low;
    /// Pure.
    mod structure;
    mod high; // mod comment;
    pub use high::top::High;
";

fn planted() -> Vec<Module> {
    modules(LIB, |layer| match layer {
        "low" => "pub(crate) mod ground; pub(crate) mod floor;".to_owned(),
        "high" => "mod roof; mod top; #[cfg(all(test, loom))] mod models;".to_owned(),
        other => panic!("{other} has no list"),
    })
}

fn found(file: &str, source: &str) -> Vec<String> {
    violations(&planted(), file, source)
}

#[test]
fn the_modules_are_read_in_their_order() {
    let modules = planted();
    let named: Vec<(&str, bool)> = modules.iter().map(|m| (&*m.path, m.for_tests)).collect();
    let expected = [
        ("low::ground", false),
        ("low::floor", false),
        ("structure", false),
        ("high::roof", false),
        ("high::top", false),
        ("high::models", true),
    ];
    assert_eq!(named, expected);
}

#[test]
fn an_upward_path_is_found_wherever_it_stands() {
    let message = "src/low/floor.rs:2 names `high::top`, which is declared below `low::floor`";
    for source in [
        "\nuse crate::high::top::High;",
        "\nuse crate::{low::ground, high::top};",
        "use crate::{low::{ground::a, floor::b},\n high::top::High};",
        "use crate::high::{\ntop::{A, B}};",
        "\nuse {core::fmt, crate::high::top};",
        "\npub use crate :: high :: top;",
        "\nfn f(x: crate::high::top::High) {}",
        "fn f() {\nlet x = crate::high::top::f('\"', \"}\"); }",
        "\nuse super::super::high::top;",
        "\nuse super::{ground, super::high::top};",
        "mod tests {\nuse super::super::super::high::top; }",
        "/* a /* nested */ comment */ fn f<'a>() {}\nuse crate::high::top;",
        "const A: &str = r#\"\\\"#; const B: char = '\\'';\nuse crate::high::top;",
    ] {
        assert_eq!(found("low/floor.rs", source), [message], "in {source:?}");
    }
}

#[test]
fn a_module_names_its_own_layer_upwards_only() {
    let message = "src/low/ground.rs:1 names `low::floor`, which is declared below `low::ground`";
    assert_eq!(found("low/ground.rs", "use crate::low::floor;"), [message]);
    assert_eq!(found("low/ground.rs", "use super::floor::f;"), [message]);
    assert_none(found("low/floor.rs", "use super::ground; use crate::low::ground::f;"));
}

#[test]
fn a_submodule_belongs_to_its_module() {
    let message = "src/low/floor/part.rs:1 names `high::top`, which is declared below `low::floor`";
    assert_eq!(found("low/floor/part.rs", "use crate::high::top;"), [message]);
    assert_eq!(found("low/floor/part.rs", "use super::super::super::high::top;"), [message]);
    assert_none(found("low/floor/part.rs", "use super::high; use super::other::x;"));
    assert_eq!(found("low/floor/mod.rs", "use super::super::high::top;").len(), 1);
    assert_eq!(found("structure/ring.rs", "use super::super::high::top;").len(), 1);
    assert_none(found("structure/ring.rs", "use super::slots::Slots; use crate::structure::Key;"));
}

#[test]
fn a_re_export_further_up_is_found() {
    let message =
        "src/high/top.rs:1 names `High`, which is no module: name the one that it lives in";
    assert_eq!(found("high/top.rs", "use crate::High;"), [message]);
    assert_eq!(found("high/top.rs", "fn f() -> crate::High {}"), [message]);
    assert_eq!(found("high/top.rs", "use super::super::High;"), [message]);
    assert_eq!(found("high/top.rs", "use crate::*;").len(), 1);
    assert_eq!(found("high/top.rs", "use crate::{structure, High, Low};").len(), 2);
    let message =
        "src/high/top.rs:1 names `low::Low`, which is no module: name the one that it lives in";
    assert_eq!(found("high/top.rs", "use crate::low::Low;"), [message]);
    assert_eq!(found("high/top.rs", "use crate::low::*;").len(), 1);
}

#[test]
fn what_is_impure_is_found_in_the_pure_layer() {
    for (source, name) in [
        ("use std::time::Instant;", "std::time"),
        ("use std::{fmt, thread};", "std::thread"),
        ("fn f(x: std::sync::Arc<u8>) {}", "std::sync"),
        ("use core::sync::atomic::AtomicU64;", "core::sync"),
        ("fn f() { rayon::spawn(|| ()); }", "rayon"),
        ("use crossbeam_channel::Sender;", "crossbeam_channel"),
    ] {
        for file in ["structure/mod.rs", "structure/part.rs"] {
            let message = format!("src/{file}:1 names `{name}`, and `structure` is pure");
            assert_eq!(found(file, source), [message]);
        }
        assert_none(found("low/floor.rs", source));
    }
    let clean = "use core::time::Duration; use std::{fmt::Debug, vec};";
    assert_none(found("structure/part.rs", clean));
}

#[test]
fn code_in_a_layer_is_found() {
    assert!(only_declares("//! Low.\npub(crate) mod a;\n#[cfg(all(test, loom))]\nmod b;\n"));
    for code in ["mod a { fn f() {} }", "mod a; use a::A;", "mod a; fn f() {}", "pub use a::A;"] {
        assert!(!only_declares(code), "{code}");
    }
}

#[test]
fn a_clean_source_is_left_alone() {
    let clean = "use crate::low::{ground::high, floor::Low}; use crate::{high::top::x, structure};";
    assert_none(found("high/top.rs", clean));
    assert_none(found(
        "structure/a.rs",
        "pub(crate) fn f() { self::high(); } pub(super) struct S;",
    ));
    assert_none(found("low/floor.rs", "fn f() { high::f(); } mod tests { use super::*; }"));
    assert_none(found("high/models.rs", "use crate::{high, High}; use std::thread;"));
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
        assert_none(found("structure/a.rs", source));
    }
}

#[test]
fn a_file_of_no_module_is_found() {
    let message = "belongs to no module that a mod line declares";
    assert_eq!(found("stray.rs", ""), [format!("src/stray.rs {message}")]);
    assert_eq!(found("low/stray.rs", ""), [format!("src/low/stray.rs {message}")]);
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

/// The first sentence of a file's head, without the targets of its links.
fn first_sentence(source: &str) -> String {
    let head: Vec<&str> = source
        .lines()
        .skip_while(|line| line.starts_with("//") && !line.starts_with("//!"))
        .map_while(|line| line.strip_prefix("//!"))
        .map(str::trim)
        .take_while(|line| !line.is_empty())
        .collect();
    let head = head.join(" ");
    let end = head.find(". ").map_or(head.len(), |end| end + 1);
    let mut sentence = head[..end].replace("[`", "`").replace("`]", "`");
    while let Some((before, after)) = sentence.split_once("`(crate::") {
        let rest = after.split_once(')').map_or("", |(_, rest)| rest);
        sentence = format!("{before}`{rest}");
    }
    sentence
}

#[test]
fn the_map_says_of_every_file_what_its_head_says() {
    let map = read("docs/architecture.md");
    let rows: Vec<&str> = map.lines().filter(|line| line.starts_with("| `src/")).collect();
    let row = |(file, source): (String, String)| {
        format!("| `src/{file}` | {} |", first_sentence(&source))
    };
    let mut expected: Vec<String> = sources().into_iter().map(row).collect();
    expected.sort_by_key(|row| row.replace("/mod.rs", "/"));
    let expected = expected.join("\n");
    assert!(rows == expected.lines().collect::<Vec<_>>(), "the map should be:\n{expected}");
}

#[test]
fn a_first_sentence_is_read_without_its_links() {
    let head = "//! Points ([`Tick`](crate::Tick)), and\n//! [`Scale`]. More.\n//!\n//! Rules.";
    assert_eq!(first_sentence(head), "Points (`Tick`), and `Scale`.");
    assert_eq!(first_sentence("//! One line"), "One line");
}
