//! The checker: finds the violations of the architecture in the paths of a file.

use crate::paths::{paths_above, paths_under};
use crate::scanner::{Token, tokens};

/// The layer that receives the time as an argument, and that one thread at a time uses. It is one
/// module.
pub(crate) const PURE: &str = "structure";

/// The modules that the pure layer must not name, beside the crates `rayon` and `crossbeam*`.
const IMPURE: [(&str, &str); 4] =
    [("std", "time"), ("std", "thread"), ("std", "sync"), ("core", "sync")];

/// A module: `layer::name`, or the pure layer.
#[derive(Debug)]
pub(crate) struct Module {
    pub(crate) path: String,
    pub(crate) for_tests: bool,
}

/// Every module in its order: `lib` declares the layers, `of_layer` returns the `mod.rs` of each.
pub(crate) fn modules(lib: &str, of_layer: impl Fn(&str) -> String) -> Vec<Module> {
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

/// Returns the violations in a file. The file's path is relative to `src`.
pub(crate) fn violations(modules: &[Module], file: &str, source: &str) -> Vec<String> {
    let mut path: Vec<&str> = file.trim_end_matches(".rs").split('/').collect();
    if path.last() == Some(&"mod") {
        path.pop();
    }
    let own = module_of(&path[..path.len().min(2)]);
    // The `mod.rs` of a layer may hold a trait. It counts as a module with the name of the layer.
    let position = |path: &str| modules.iter().position(|module| module.path == path);
    let rank = |path: &str| {
        let of_layer = || path.split("::").next().filter(|layer| *layer != path);
        position(path).or_else(|| of_layer().and_then(position))
    };
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

/// Returns whether a source declares modules, and does nothing else.
pub(crate) fn only_declares(source: &str) -> bool {
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

/// Returns the names that the pure layer must not use, each with its line.
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
