//! Answers that are written in portions.
//!
//! An answer about a large mesh is megabytes long. It is written row by row, as fast as the reader takes it, from a view of
//! the router that all readers share. So a question costs no more memory than one portion.

use std::collections::VecDeque;

use super::state::State;

/// Rows looked at for one portion, with those that are not shown.
const ROWS_MAX: usize = 1024;

/// The row with a number; `None`: it is not shown.
pub type Render = Box<dyn Fn(&State, usize) -> Option<String>>;

/// A part of an answer.
pub enum Piece {
    /// Fixed text.
    Text(String),
    /// So many rows. Between two that follow each other, in this piece or the one before, stands the separator.
    Rows(usize, &'static str, Render),
}

/// What is still to be written.
#[derive(Default)]
pub struct Answer {
    pieces: VecDeque<Piece>,
    /// The next row of the first piece.
    next: usize,
    /// Whether the last thing written was a row.
    after_row: bool,
}

impl Answer {
    /// All of these, one after the other.
    pub fn new(pieces: impl IntoIterator<Item = Piece>) -> Self {
        Self {
            pieces: pieces.into_iter().collect(),
            ..Self::default()
        }
    }

    /// A text and nothing else.
    pub fn text(text: impl Into<String>) -> Self {
        Self::new([Piece::Text(text.into())])
    }

    /// Whether all is written.
    pub fn is_finished(&self) -> bool {
        self.pieces.is_empty()
    }

    /// The next so many octets and the rest of a row.
    pub fn portion(&mut self, state: &State, octets: usize) -> String {
        let mut out = String::new();
        let mut rows = 0;
        while out.len() < octets && rows < ROWS_MAX {
            match self.pieces.front() {
                None => break,
                Some(Piece::Text(text)) => {
                    out.push_str(text);
                    self.after_row = false;
                    self.pieces.pop_front();
                }
                Some(Piece::Rows(count, ..)) if self.next >= *count => {
                    self.next = 0;
                    self.pieces.pop_front();
                }
                Some(Piece::Rows(_, separator, render)) => {
                    if let Some(row) = render(state, self.next) {
                        out.push_str(if self.after_row { separator } else { "" });
                        out.push_str(&row);
                        self.after_row = true;
                    }
                    self.next += 1;
                    rows += 1;
                }
            }
        }
        out
    }
}
