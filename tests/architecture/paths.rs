//! The finder: finds the paths in a source.
//!
//! `proc-macro2` splits the source into words, literals and signs, and leaves the comments out. A tree
//! of paths, as a `use` may have, is one path for each of its leaves.

use proc_macro2::{Delimiter, Spacing, Span, TokenStream, TokenTree};

/// A path is cut to these words: the root, a layer, and a module.
const WORDS: usize = 3;

/// A path from its root, and the line of its last word.
#[derive(Clone, Default, PartialEq)]
pub(crate) struct Named {
    pub(crate) words: Vec<String>,
    pub(crate) line: usize,
}

/// Every path of a source. `module` is the path of the file's own module, from which those with
/// `super` lead to `crate`.
pub(crate) fn paths(source: &TokenStream, module: &[&str]) -> Vec<Named> {
    let module: Vec<String> = ["crate"].iter().chain(module).map(ToString::to_string).collect();
    let mut found = Vec::new();
    find(source.clone(), &module, &Named::default(), &mut found);
    found.dedup();
    found
}

/// Finds the paths of a block, or of the branches of a tree, which go on from `stem`.
fn find(block: TokenStream, module: &[String], stem: &Named, found: &mut Vec<Named>) {
    let mut path = stem.clone();
    let end = |path: &mut Named, last: &str, found: &mut Vec<Named>| {
        let mut path = std::mem::take(path);
        // `pub(super)` names a module, and nothing in it.
        if !path.words.is_empty() && path.words != stem.words && last != "super" {
            path.words.truncate(WORDS);
            found.push(path);
        }
    };
    // Whether the next word belongs to the path, the tree before, and the module that a `mod` opens.
    let (mut goes_on, mut before, mut name) = (true, String::new(), None);
    for tree in block {
        let text =
            if matches!(tree, TokenTree::Group(_)) { String::new() } else { tree.to_string() };
        let mut ends = true;
        match tree {
            // The name of a lifetime.
            TokenTree::Ident(_) if before == "'" => {}
            TokenTree::Ident(word) => {
                if !goes_on {
                    end(&mut path, &before, found);
                }
                if text == "super" {
                    if path.words.first().is_none_or(|root| root != "crate") {
                        path.words = module.to_vec();
                    }
                    path.words.pop();
                } else {
                    path.push(&text, word.span());
                }
                name = (before == "mod").then(|| text.clone());
                (goes_on, ends) = (false, false);
            }
            TokenTree::Punct(colon) if text == ":" => {
                goes_on = before == ":";
                ends = !goes_on && colon.spacing() == Spacing::Alone;
            }
            TokenTree::Punct(star) if text == "*" && goes_on && !path.words.is_empty() => {
                path.push("*", star.span());
            }
            TokenTree::Group(tree) if goes_on && tree.delimiter() == Delimiter::Brace => {
                find(tree.stream(), module, &std::mem::take(&mut path), found);
            }
            TokenTree::Group(block) => {
                let inner: Vec<String> = module.iter().cloned().chain(name.take()).collect();
                find(block.stream(), &inner, &Named::default(), found);
            }
            _ => {}
        }
        if ends {
            end(&mut path, &before, found);
            goes_on = text == ",";
            if goes_on {
                path = stem.clone();
            }
        }
        before = text;
    }
    end(&mut path, &before, found);
}

impl Named {
    fn push(&mut self, word: &str, span: Span) {
        if self.words.len() < WORDS || self.line == 0 {
            self.line = span.start().line;
        }
        self.words.push(word.to_owned());
    }
}
