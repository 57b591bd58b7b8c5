//! The lexicon has each word once, in alphabetical order.

use std::fs;

use super::markdown::root;

#[test]
fn the_lexicon_is_in_order_and_has_each_word_once() {
    let text = fs::read_to_string(root().join("docs/lexicon.md")).unwrap();
    let words: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("| **")?.split("**").next()).collect();
    assert!(words.len() > 30, "{words:?}");
    for pair in words.windows(2) {
        assert!(pair[0].to_lowercase() < pair[1].to_lowercase(), "{} stands before {}", pair[0], pair[1]);
    }
}
